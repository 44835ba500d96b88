"""Links of pages to the repository's files outside docs/: to the page that shows them, or as a name.

A code host follows `../ARCHITECTURE.md`; the site has no such page, but shows the file under project/.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

SHOWN = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "docs/adr": "adr/index.md",
}
"""Where the site shows files of the repository, relative to docs/."""


def mended(text: str, page: Path, docs: Path) -> str:
    """The page's text with links that leave docs/ led to the site's own pages, or taken out."""

    def one(found: re.Match[str]) -> str:
        words, target, fragment = found.groups()
        path = (page.parent / target).resolve()
        if "://" in target or not path.exists():
            return found[0]
        name = path.relative_to(docs.parent).as_posix()
        if name in SHOWN:
            return f"[{words}]({os.path.relpath(docs / SHOWN[name], page.parent)}{fragment or ''})"
        return found[0] if path.is_relative_to(docs) else f"{words} (`{name}`)"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)", one, text)


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(name))
    content[0] = mended(content[0], page, Path(app.srcdir))


def setup(app: Sphinx) -> None:
    """Mend every page as it is read."""
    app.connect("source-read", _read)
