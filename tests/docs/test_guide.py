"""The user guide's commands run, in the order in which they stand, in a folder of their own."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest

from child_processes import finished, search_path
from engines import missing_engines
from treadle.cli.main import main
from treadle.planning import solve
from treadle.runtime.mpi_build import find_mpi
from treadle.runtime.mpi_c import launch_environment
from treadle.schedules.plan_files.archive import save_plan

HAS_CP_SAT = importlib.util.find_spec("ortools") is not None


def commands(text: str) -> list[list[str]]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for language, block in blocks if not language for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("treadle ")]


def needs_cp_sat(command: list[str]) -> bool:
    return command[0] == "pareto" or command[-2:] == ["--algorithm", "exact"]


def needs(command: list[str]) -> str:
    """The engine without which a command cannot run."""
    if "mpi-c" in command:
        return "MPI"
    return "testbed" if command[0] == "testbed" and "--dry-run" not in command else ""


def test_commands_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = commands((repository / "docs" / "how-to" / "guide.md").read_text(encoding="utf-8"))
    assert len(found) > 20
    monkeypatch.chdir(tmp_path)
    missing = missing_engines()
    for command in found:
        if (HAS_CP_SAT or not needs_cp_sat(command)) and needs(command) not in missing:
            assert main(command) == 0, command
            assert capsys.readouterr().err == ""


def test_commands_of_launchers_run(repository: Path, tmp_path: Path) -> None:
    text = (repository / "docs" / "how-to" / "guide.md").read_text(encoding="utf-8")
    missing = missing_engines()
    save_plan(tmp_path / "ring.plan", solve("ring(4)", "allreduce").plan)
    [program] = [
        block for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "dist." in block
    ]
    (tmp_path / "total.py").write_text(program, encoding="utf-8")
    treadle = [sys.executable, "-m", "treadle"]
    for line, engine, wanted, times in (
        ("mpirun", "MPI", "every element is right", 1),
        ("torchrun", "torch", "4.0", 4),  # ends of lines of several processes may change places
    ):
        [command] = [
            shlex.split(one, comments=True) for one in text.splitlines() if one.startswith(line + " ")
        ]
        if engine in missing:
            continue
        start = str(find_mpi().mpirun) if engine == "MPI" else "torch.distributed.run"
        words = [start] if engine == "MPI" else [sys.executable, "-m", start]
        for word in command[1:]:
            words += treadle if word == "treadle" else [word]
        done = finished(
            words,
            cwd=tmp_path,
            environment={
                **launch_environment(),
                "PYTHONPATH": search_path(),
                "GLOO_SOCKET_IFNAME": "lo",
                "OMP_NUM_THREADS": "1",
            },
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.count(wanted) == times, done.stdout
