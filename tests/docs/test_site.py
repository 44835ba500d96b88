"""The documentation site: every page has its place, and its check of addresses sees what it should."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from tools.records import RECORDS
from tools.site_check import faults
from tools.size import tracked

from places import ROOT

DOCS = ROOT / "docs"
MADE = (
    *("reference/commands/index", "reference/algorithms", "reference/api/index", "reference/json"),
    *("reference/tables/formats", "reference/tables/fabric-files"),
    *("reference/tables/causes", "reference/tables/models"),
)
"""Pages that the build writes."""


def entries(page: Path) -> list[str]:
    """Pages below one, as paths from docs/ without their endings."""
    text = "\n" + page.read_text(encoding="utf-8")
    found = []
    for options_and_names in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        for name in options_and_names.splitlines():
            if name and not name.startswith(":"):
                paths = [path.with_suffix("") for path in page.parent.glob(f"{name}.md")]
                found += [path.resolve().relative_to(DOCS).as_posix() for path in paths] or [
                    (page.parent / name).relative_to(DOCS).as_posix()
                ]
    return found


def test_every_page_stands_in_one_list_of_pages() -> None:
    pages = {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in tracked(ROOT, "docs")}
    pages = {name: path for name, path in pages.items() if path.suffix == ".md"}
    records = (path.stem for path in RECORDS.glob("*.json") if not path.name.endswith(".data.json"))
    made = {*MADE, *(f"results/tables/{name}" for name in (*records, "gallery", "reproduce", "reproduced"))}
    listed = Counter(name for path in pages.values() for name in entries(path))
    assert not {name for name, count in listed.items() if count > 1}
    assert set(listed) == {*pages, *made} - {"index"}


PAGE = '<html><head>{head}</head><body><h1 id="top">A</h1>{body}</body></html>'


@pytest.mark.parametrize(
    ("head", "body", "word"),
    [
        ('<script src="https://cdn.example/a.js"></script>', "", "loads https://cdn"),
        ('<link rel="stylesheet" href="//cdn.example/a.css">', "", "loads //cdn"),
        ("<style>@import '//fonts.example/x.css';</style>", "", "style asks for //fonts"),
        ("", '<img src="http://elsewhere.example/x.png">', "loads http://elsewhere"),
        ("", '<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ("", '<a href="other.html#none">x</a>', "no such anchor"),
        ("", '<a href="#nothing">x</a>', "no such anchor"),
    ],
)
def test_the_check_of_the_site_finds(head: str, body: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(PAGE.format(head=head, body=body))
    (tmp_path / "other.html").write_text(PAGE.format(head="", body=""))
    (found,) = faults(tmp_path)
    assert word in found


def test_a_site_that_is_whole_has_no_faults(tmp_path: Path) -> None:
    body = '<a href="https://example.org">x</a><a href="other.html#top">y</a><img src="a.svg">'
    (tmp_path / "index.html").write_text(PAGE.format(head='<script src="a.js"></script>', body=body))
    (tmp_path / "other.html").write_text(PAGE.format(head="", body=""))
    for name in ("a.svg", "a.js"):
        (tmp_path / name).write_text("")
    assert faults(tmp_path) == []
    assert faults(tmp_path / "empty")
    (tmp_path / "a.svg").write_bytes(b" " * 15_000_001)
    assert "MB" in faults(tmp_path)[0]
