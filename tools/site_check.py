"""Whether the built site asks for anything of elsewhere, and how large it is.

    python -m tools.site_check build/site

Links that a reader may follow are fine; what a browser loads by itself (scripts, styles, fonts, pictures,
frames) must lie in the site. Files and anchors that links name must be there.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

MOST_MEGABYTES = 15
LOADED = {
    "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src",
    "embed": "src", "object": "data", "link": "href",
}  # fmt: skip
"""Elements whose attribute a browser follows without being asked."""
STYLE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")
"""Addresses of elsewhere in style sheets."""


class _Page(HTMLParser):
    """What a page loads, what it links, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        found = {name: value or "" for name, value in attrs}
        self.anchors.update(found[name] for name in ("id", "name") if name in found)
        if LOADED.get(tag) in found:
            self.loaded.append(found[LOADED[tag]])
        if tag == "a" and "href" in found:
            self.linked.append(found["href"])


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def faults(site: Path) -> list[str]:
    """What is wrong with a site, a line each: addresses of elsewhere, links to nothing, too many bytes."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site}: no pages"]
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name}: loads {address}" for address in page.loaded if urlsplit(address).netloc]
        if path.parent.name == "reports":
            continue  # a page of its own, whose anchors are its state
        for address in [*page.loaded, *page.linked]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name}: {address} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {address} has no such anchor")
    for path in [*site.rglob("*.css"), *site.rglob("*.html")]:
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(site)}: style asks for {address}" for address in STYLE.findall(text)]
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    if size > MOST_MEGABYTES * 10**6:
        found.append(f"{site}: {size / 10**6:.1f} MB, at most {MOST_MEGABYTES} are allowed")
    return found


def main() -> int:
    """Print the faults; 1 if there are any."""
    site = Path(sys.argv[1]).resolve()
    found = faults(site)
    for line in found:
        print(line)
    if not found:
        size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
        pages = len(list(site.rglob("*.html")))
        print(f"{site}: {pages} pages, {size / 10**6:.1f} MB, nothing loaded from elsewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
