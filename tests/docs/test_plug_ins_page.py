"""The page on schedulers of one's own: its script runs, and its package is found."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from child_processes import finished, search_path


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "how-to" / "plug-ins.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def run(folder: Path, *words: str) -> str:
    """What a fresh interpreter prints; nothing goes wrong."""
    path = os.pathsep.join([str(folder), search_path()])
    done = finished([sys.executable, *words], environment={**os.environ, "PYTHONPATH": path}, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_script_runs_and_takes_ten_lines(page: str, tmp_path: Path) -> None:
    scheduler, use = blocks(page, "python")
    assert len([line for line in scheduler.splitlines() if line and "import" not in line]) <= 10
    (tmp_path / "script.py").write_text(scheduler + use)
    assert run(tmp_path, "script.py").splitlines() == ["star True 67%", "['ring', 'star']"]


def test_the_package_is_found(page: str, tmp_path: Path) -> None:
    (package,) = blocks(page, "toml")
    (commands,) = blocks(page, "")
    told = tomllib.loads(package)["project"]
    entries = told["entry-points"]["treadle.schedulers"]
    (module,) = entries.values()
    (tmp_path / f"{module}.py").write_text(blocks(page, "python")[0])
    info = tmp_path / f"{told['name'].replace('-', '_')}-{told['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n"
    )
    lines = [f"{name} = {home}" for name, home in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[treadle.schedulers]", *lines, ""]))
    lines = [shlex.split(line)[1:] for line in commands.splitlines()]
    program = f"from treadle.cli.main import main\nfor words in {lines}: print('\\0', main(words))"
    shown = run(tmp_path, "-c", program).split("\0")
    assert [text.splitlines()[0] for text in shown[1:]] == [" 0"] * len(lines)
    assert "origin   star-schedules 1.0" in shown[0]
    assert "verified" in shown[2]
    assert re.search(r"^(star +[0-9.]+ |[a-z] .*\bstar$)", shown[3], flags=re.MULTILINE)
