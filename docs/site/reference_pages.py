"""Generated pages: the reference, from parser, docstrings and JSON's schema, and the papers' tables."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from pages_api import api_pages
from pages_commands import command_pages
from pages_json import json_page


def _write(app: Sphinx) -> None:
    """Write what changed, take away what is gone: pages that are as they were are not read again."""
    room, record = Path(app.srcdir), Path(app.srcdir).parent / "tests" / "golden" / "reproduced.md"
    pages = {
        **{f"reference/commands/{name}.rst": text for name, text in command_pages().items()},
        **{f"reference/api/{name}.rst": text for name, text in api_pages().items()},
        "reference/json.rst": json_page(),
        "results/reproduced.md": record.read_text(encoding="utf-8"),
    }
    for name, text in pages.items():
        path = room / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in [*room.glob("reference/commands/*.rst"), *room.glob("reference/api/*.rst")]:
        if path.relative_to(room).as_posix() not in pages:
            path.unlink()


def setup(app: Sphinx) -> None:
    """Write the pages before any is looked for."""
    app.connect("builder-inited", _write)
