"""The page on failures: its commands run in the order in which they stand, and give what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from places import ROOT
from treadle.cli.main import main


def test_the_commands_give_what_the_page_shows(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (repository / "docs" / "how-to" / "failures.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    out, shown = "", 0
    for kind, text in blocks:
        if kind == "":
            for line in text.splitlines():
                assert main(shlex.split(line)[1:]) == 0, line
                out, err = capsys.readouterr()
                assert err == ""
            continue
        for line in text.splitlines():
            if line != "...":
                assert _without_seconds(line) in [_without_seconds(one) for one in out.splitlines()]
                shown += 1
    assert shown > 10
    (line,) = re.findall("`(treadle draw .*?)`", page)
    assert main(shlex.split(line)[1:]) == 0
    picture = ROOT / "docs/images/drawn/repaired-cut.svg"
    assert Path(picture.name).read_bytes() == picture.read_bytes()


def _without_seconds(line: str) -> str:
    """A row of the table without the CPU seconds that it took."""
    return re.sub(r"(%\s+)\d+\.\d\d(\s+)(?=\d{4}-)", r"\1x\2", line)
