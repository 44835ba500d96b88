"""The page on files of other tools: its commands run, their output and its table are as it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from treadle.cli.main import main


def blocks(repository: Path) -> list[tuple[str, str]]:
    """Languages and texts of the page's blocks, in order."""
    text = (repository / "docs" / "how-to" / "import.md").read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_pages_commands_run_and_print_what_it_shows(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    printed, shown = "", 0
    for language, block in blocks(repository):
        if language == "text":
            Path("box.txt").write_text(block)
        elif language == "sh":
            printed = ""
            for line in block.splitlines():
                assert main(shlex.split(line)[1:]) == 0, line
                printed += capsys.readouterr().out
        elif language == "output":
            lines = block.splitlines()
            assert [line for line in lines if line not in printed.splitlines()] == []
            shown += len(lines)
        else:
            exec(compile(block, "import.md", "exec"), {})
            out = "16 compute, 26 switches, 96 links> 8 x h100\n"
            assert capsys.readouterr().out.endswith(out)
    assert shown > 5
    assert Path("two.plan").is_file()
