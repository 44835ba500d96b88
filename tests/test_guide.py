"""The user guide's commands run, in the order in which they stand, in a folder of their own."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from treadle.cli.main import main

HAS_CP_SAT = importlib.util.find_spec("ortools") is not None


def commands(text: str) -> list[list[str]]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for language, block in blocks if not language for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("treadle ")]


def needs_cp_sat(command: list[str]) -> bool:
    return command[0] == "pareto" or command[-2:] == ["--algorithm", "exact"]


def test_commands_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = commands((repository / "docs" / "guide.md").read_text(encoding="utf-8"))
    assert len(found) > 20
    monkeypatch.chdir(tmp_path)
    for command in found:
        if HAS_CP_SAT or not needs_cp_sat(command):
            assert main(command) == 0, command
            assert capsys.readouterr().err == ""
