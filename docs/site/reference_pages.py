"""Generated pages: the reference, from parser, docstrings and JSON's schema; results, from kept records."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from pages_algorithms import algorithms_page
from pages_api import api_pages
from pages_commands import command_pages
from pages_json import json_page
from pages_results import result_pages
from pages_tables import table_pages


def _write(app: Sphinx) -> None:
    """Write what changed, take away what is gone: pages that are as they were are not read again."""
    room = Path(app.srcdir)
    pages = {
        **{f"reference/commands/{name}.rst": text for name, text in command_pages().items()},
        **{f"reference/api/{name}.rst": text for name, text in api_pages().items()},
        "reference/algorithms.md": algorithms_page(),
        **{f"reference/tables/{name}.md": text for name, text in table_pages().items()},
        "reference/json.rst": json_page(),
        **{f"results/tables/{name}.md": text for name, text in result_pages().items()},
    }
    for name, text in pages.items():
        path = room / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    made = ("reference/commands/*.rst", "reference/api/*.rst", "reference/tables/*.md", "results/tables/*.md")
    for path in [path for pattern in made for path in room.glob(pattern)]:
        if path.relative_to(room).as_posix() not in pages:
            path.unlink()


def setup(app: Sphinx) -> None:
    """Write the pages before any is looked for."""
    app.connect("builder-inited", _write)
