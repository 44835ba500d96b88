"""The page on jobs: its file is read, its commands run, and what it shows is what they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from treadle.cli.main import main


def blocks(repository: Path, language: str) -> list[str]:
    page = (repository / "docs" / "how-to" / "jobs.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_page_shows_what_its_commands_print(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (jobs,) = blocks(repository, "toml")
    (commands,) = re.findall(
        r"```\n(treadle .*?)```", (repository / "docs" / "how-to" / "jobs.md").read_text(), re.DOTALL
    )
    (shown,) = blocks(repository, "text")
    (program,) = blocks(repository, "python")
    Path("jobs.toml").write_text(jobs, encoding="utf-8")
    for command in commands.strip().splitlines():
        assert main(shlex.split(command)[1:]) == 0
        printed = capsys.readouterr().out
        if command.startswith("treadle bound"):
            lines = [" ".join(line.split()) for line in printed.splitlines()]
            assert [line for line in shown.splitlines() if " ".join(line.split()) not in lines] == []
    exec(compile(program, "docs/how-to/jobs.md", "exec"), {})
    assert Path("plans", "jobs.json").is_file()
    assert "('gradients[0]', 47.05" in capsys.readouterr().out
