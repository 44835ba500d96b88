"""The README's Python runs, and so do its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tools.size import tracked

from treadle.api.bound import bound
from treadle.cli.main import main
from treadle.render.rows import lines
from treadle.render.solving import bound_result_rows


def blocks(repository: Path, language: str) -> list[str]:
    text = (repository / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def test_python_example_runs(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [example] = blocks(repository, "python")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert capsys.readouterr().out == "1040000000000/3\nTrue 13 2\n8 2\n"
    assert str(names["xml"]).startswith("<algo ")


def test_commands_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [
        shlex.split(line, comments=True)
        for block in blocks(repository, "")
        for line in block.splitlines()
        if line.startswith("treadle ")
    ]
    assert len(commands) >= 9
    monkeypatch.chdir(tmp_path)
    for command in commands:
        assert main(command[1:]) == 0, command
        assert capsys.readouterr().err == ""


def test_the_first_example_is_what_it_prints(repository: Path) -> None:
    command, _, shown = blocks(repository, "text")[0].partition("\n")
    assert command == "$ treadle bound dgx_h100:1 allreduce"
    assert shown == "\n".join(lines(list(bound_result_rows(bound("dgx_h100:1", "allreduce"))), 80)) + "\n"


def test_first_two_commands_are_make_targets(repository: Path) -> None:
    first = next(block for block in blocks(repository, ""))
    assert first.split("\n")[:2] == ["make demo", "make test"]
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo:", makefile, flags=re.MULTILINE)
    assert re.search(r"^test:", makefile, flags=re.MULTILINE)


def test_links_lead_somewhere(repository: Path) -> None:
    """Those to pages that the build makes are checked in the site."""
    pages = (path for path in tracked(repository, "docs") if path.suffix == ".md")
    for path in (repository / "README.md", repository / "ARCHITECTURE.md", *pages):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            if not re.search(r"://|tables/|algorithms.md$|json.rst$", target):
                assert (path.parent / target).exists(), f"{path}: {target}"
