"""The commands of the page on comparisons run, in the order in which they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.formats.schedule_source import schedule_sources


def test_commands_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (repository / "docs" / "compare.md").read_text(encoding="utf-8")
    block = re.findall(r"^```\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)[0]
    shown = ""
    for line in block.splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
        shown = capsys.readouterr().out
    assert "dgx_a100(2) by ring.xml" in shown


def test_every_kind_of_file_is_listed(repository: Path) -> None:
    page = (repository / "docs" / "compare.md").read_text(encoding="utf-8")
    for record in schedule_sources():
        assert f"| `{record.name}`: " in page
