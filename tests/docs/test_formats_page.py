"""The commands of the page on formats run, in the order in which they stand, and its figures hold."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from treadle.cli.main import main


def page(repository: Path) -> str:
    return (repository / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")


def test_commands_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("google.protobuf", reason="Chakra: protobuf is not installed")
    monkeypatch.chdir(tmp_path)
    block = re.findall(r"^```\n(.*?)^```$", page(repository), flags=re.MULTILINE | re.DOTALL)[0]
    shown = []
    for line in block.splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
        shown.append(capsys.readouterr().out)
    assert "335 messages, 719 steps" in shown[1]
    assert "256 messages, 815 steps" in shown[2]
    assert "335 messages become 256" in page(repository)
    assert "815 steps instead of 719" in page(repository)
