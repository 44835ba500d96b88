"""Text of ``--help`` and ``--help-all``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from treadle.cli.status import EXIT_STATUS
from treadle.options.rows import REQUIRED, Row
from treadle.options.verbs import GROUPS, VERBS, table
from treadle.render.table import wrapped

Rows = Sequence[tuple[str, str]]
"""Names and their descriptions."""
_ABOUT = "Compute optimal, verified collective-communication schedules for any network."
_ALGORITHMS = "Algorithms ('treadle algorithms NAME' has the options that only some accept)"
_NAME_WIDTH = 24
PROGRAM_OPTIONS = (
    ("--version", "Show the version and exit."),
    ("--install-completion", "Install shell completion."),
    ("--show-completion", "Print the completion script."),
    ("--help", "Show this message and exit."),
)


def program_help(prefix: str = "") -> str:
    """Return the commands by task, or those of the group whose name is `prefix`."""
    found: dict[str, dict[str, str]] = {}
    for name, verb in VERBS.items():
        group, _, rest = name.partition(" ")
        if prefix and name.startswith(prefix):
            found.setdefault("Commands", {})[rest] = verb.summary
        elif not prefix and name not in found.get(verb.group, {}):
            found.setdefault(verb.group, {}).setdefault(group, GROUPS.get(group, verb.summary))
    most = max(len(name) for rows in found.values() for name in rows)
    sections: list[tuple[str, Rows]] = [
        (title, [(name.ljust(most), text) for name, text in rows.items()]) for title, rows in found.items()
    ]
    sections.append(("Options", PROGRAM_OPTIONS[-1:] if prefix else PROGRAM_OPTIONS))
    about = GROUPS[prefix.strip()] if prefix else _ABOUT
    text = _text(f"treadle {prefix}[OPTIONS] COMMAND [ARGS]...", about, sections)
    return text if prefix else "\n".join([text, *wrapped(f"Exit status: {EXIT_STATUS}.", _width()), ""])


def command_help(path: str, verb: str, *, in_full: bool) -> str:
    """Return the arguments and options of a command, in full also the rare ones."""
    usage, sections = command_sections(verb, path, in_full=in_full or verb == "topology import")
    return _text(usage, VERBS[verb].summary, sections)


def command_sections(verb: str, path: str, *, in_full: bool) -> tuple[str, list[tuple[str, Rows]]]:
    """Return the usage of a command, and the sections of its help."""
    rows = [row for row in table(verb).rows.values() if not row.in_python]
    places = [(_argument(row), row.help) for row in rows if row.is_argument]
    options = [
        (_option(row), _option_text(row)) for row in rows if not row.is_argument and in_full >= row.rare
    ]
    options.append(PROGRAM_OPTIONS[-1])
    if any(row.rare for row in rows):
        options.append(("--help-all", "Show all options and exit."))
    sections: list[tuple[str, Rows]] = [("Arguments", places), ("Options", options)]
    if verb in ("solve", "compare"):
        sections.append((_ALGORITHMS, _algorithms()))
    inner = [(name.split()[1], one.summary) for name, one in VERBS.items() if name.startswith(f"{verb} ")]
    return " ".join([path, "[OPTIONS]", *(place for place, _ in places)]), [*sections, ("Commands", inner)]


def _algorithms() -> Rows:
    """Return the names of Treadle's own algorithms, a row for each form of schedule."""
    from treadle import planning  # loads all schedulers

    names: dict[str, list[str]] = {}
    for one in planning.schedulers(plug_ins=False):
        names.setdefault(one.form.value, []).append(one.name)
    return [(form, ", ".join(found)) for form, found in names.items()]


def option_help(row: Row) -> str:
    """Return the description of an option in `treadle algorithms NAME`."""
    return f"{_option(row)}: {row.help}"


def _text(usage: str, about: str, sections: Sequence[tuple[str, Rows]]) -> str:
    width = _width()
    lines = [*wrapped(f"Usage: {usage}", width, indent=2), "", *wrapped(f"  {about}", width, indent=2)]
    for title, rows in sections:
        if rows:
            lines += ["", f"{title}:", *_listed(rows, width)]
    return "\n".join([*lines, ""])


def _width() -> int:
    return max(min(shutil.get_terminal_size().columns, 80) - 1, 50)


def _listed(rows: Rows, width: int) -> list[str]:
    """Return two columns, names and descriptions; a long name has a line of its own."""
    column = 4 + min(_NAME_WIDTH, max(len(name) for name, _ in rows))
    lines: list[str] = []
    for name, text in rows:
        if len(name) + 4 > column:
            lines += [f"  {name}", *wrapped(" " * column + text, width, indent=column)]
        else:
            lines += wrapped(f"  {name}".ljust(column) + text, width, indent=column)
    return [line.rstrip() for line in lines]


def _argument(row: Row) -> str:
    name = row.placeholder + ("..." if row.is_list else "")
    return name if row.default is REQUIRED else f"[{name}]"


def _option(row: Row) -> str:
    flags = [*([row.short] if row.short else []), f"{row.flag}/{row.off}" if row.off else row.flag]
    if row.is_flag:
        return ", ".join(flags)
    return f"{', '.join(flags)} {row.metavar or '|'.join(map(str, row.known()))}"


def _option_text(row: Row) -> str:
    has_value = isinstance(row.default, str | int | float) and not isinstance(row.default, bool)
    return f"{row.help} [default: {row.default}]" if has_value and row.default and not row.parse else row.help
