"""One file of HTML from values: it loads nothing, and no string of the values is executed.

Values are a JSON text in a block that browsers do not run; the script puts them on the page as text only. The
policy in the page's head forbids everything but this style and this script, identified by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from importlib.resources import files
from string import Template

from treadle.viz.painting import CUT, HOPS, LOADS, PLAIN, TASKS
from treadle.viz.svg import GROUNDS, INKS

_STYLES = (PLAIN, *LOADS, CUT, *HOPS, *TASKS)


@dataclass(frozen=True)
class _Subject:
    """Scripts in the order in which they run, as one function, and what is chosen at first."""

    scripts: tuple[str, ...]
    state: Mapping[str, str | int]


class PageKind(Enum):
    """Subject of a report."""

    PLAN = _Subject(
        ("fabric.js", "charts.js", "cells.js", "plan.js"),
        {"show": "", "root": 0, "target": 1, "scene": 0, "frame": -1, "line": 0, "chart": "time"},
    )
    DESIGN = _Subject(
        ("tables.js", "charts.js", "cells.js", "design.js"), {"chart": "ratio", "node": -1, "point": -1}
    )
    STEP = _Subject(("tables.js", "bars.js", "lanes.js", "steps.js"), {"row": 0, "from": 0, "to": 1_000_000})


def page(values: Mapping[str, object], kind: PageKind = PageKind.PLAN) -> str:
    """Return the file's content.

    Parameters
    ----------
    values : mapping
        What JSON can hold; ``title`` a str. Other keys are those that the scripts of its kind read.
    kind : PageKind
    """
    assets = files("treadle.drawing") / "assets"
    style = _variables() + (assets / "page.css").read_text(encoding="utf-8")
    scripts = ("dom.js", "state.js", "head.js", *kind.value.scripts)
    state = json.dumps({**kind.value.state, "theme": ""})
    script = f"(()=>{{'use strict';\nconst first = {state};\n" + "".join(
        (assets / name).read_text(encoding="utf-8") for name in scripts
    )
    script += "})();"
    data = json.dumps(values, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return Template((assets / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(str(values["title"])),
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        f"base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        data=data,
    )


def table(
    identity: str,
    title: str,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[object]],
    *,
    panel: str | None = "table",
    note: str | None = None,
    picks: str | None = None,
    left_out: str | None = None,
) -> dict[str, object]:
    """Make a table of a report; each column has a name and a form. None is left out."""
    values = {
        **{"panel": panel, "id": identity, "title": title, "note": note},
        **{"columns": list(map(list, columns)), "rows": rows, "picks": picks, "leftOut": left_out},
    }
    return {key: value for key, value in values.items() if value is not None}


def text_columns(*names: str) -> list[tuple[str, str]]:
    """Make string columns for `table`."""
    return [(name, "text") for name in names]


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _variables() -> str:
    """Return the colours of drawings, as in files of `draw`, as variables of both themes."""
    light, dark = _theme("light"), _theme("dark")
    names = [style.name for style in _STYLES]
    widths = "".join(f".{style.name}{{stroke-width:{style.width}}}" for style in _STYLES)
    strokes = "".join(f".{name}{{stroke:var(--{name})}}.f{name}{{fill:var(--{name})}}" for name in names)
    strokes += "".join(f".on-{style.name}{{fill:var(--on-{style.name})}}" for style in TASKS)
    return (
        f":root{{{light}}}@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}{widths}{strokes}\n"
    )


def _theme(name: str) -> str:
    ground, box, rank, switch = GROUNDS[name]
    ink, quiet = INKS[name]
    colours = {"page": ground, "box": box, "rank": rank, "switch": switch, "ink": ink, "quiet": quiet}
    colours |= {style.name: style.colour(name) for style in _STYLES}
    colours |= {f"on-{style.name}": style.label_colour(name) for style in TASKS}
    return f"color-scheme:{name};" + ";".join(f"--{key}:{colour}" for key, colour in colours.items())
