"""A rank is killed in mid-collective: the others end with an error in bounded time, and nothing is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from child_processes import search_path, started
from engines import missing_engines
from treadle import planning
from treadle.runtime.mpi_build import build_interpreter, find_mpi
from treadle.runtime.mpi_c import launch_environment, local_launch
from treadle.schedules.plan_files.archive import save_plan

MARK = "TREADLE_TEST_KILLED_RANKS"
BOUND_S = 30.0

pytestmark = pytest.mark.skipif("MPI" in missing_engines(), reason=missing_engines().get("MPI", ""))


def marked(value: str) -> dict[int, list[str]]:
    """Processes, dead ones apart, that were started with our mark in the environment, and their words."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={value}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(words):
            found[int(folder.name)] = words
    return found


def sockets(folder: Path) -> list[str]:
    """Sockets of the file system that lie in a folder."""
    lines = Path("/proc/net/unix").read_text(encoding="ascii").splitlines()
    return [line for line in lines if str(folder) in line]


def waits_for(condition: Callable[[], bool], seconds: float = BOUND_S) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """A folder for all temporary files; at the end it is empty, and no process that was given it lives."""
    folder = tmp_path / "t"
    folder.mkdir()
    yield folder
    assert not marked(str(folder))
    assert not sockets(folder)
    assert list(folder.iterdir()) == []


def shared_files(process: int) -> set[Path]:
    """Files of shared memory that a process has mapped."""
    try:
        lines = Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    paths = {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}
    return {Path(path) for path in paths if path.startswith("/dev/shm/")}


def ranks(folder: Path, runtime: str) -> list[int]:
    """Processes of the collective, without launchers."""

    def is_rank(words: list[str]) -> bool:
        if runtime == "mpi-c":
            return Path(words[0]).name.startswith("interpreter-")
        return words[:1] == [sys.executable]

    return sorted(process for process, words in marked(str(folder)).items() if is_rank(words))


def seconds_used(process: int) -> float:
    """CPU seconds of a process, 0 where it has gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("runtime", ["mpi", "mpi-c"])
def test_the_others_end_and_leave_nothing(runtime: str, temporary: Path, tmp_path: Path) -> None:
    plan = tmp_path / "ring.plan"
    save_plan(plan, planning.solve("ring(4)", "allreduce").plan)
    build_interpreter(find_mpi())
    sizes = ",".join(["4M"] * 60)  # each for a second
    command = [sys.executable, "-m", "treadle", "run", str(plan), "--runtime", runtime, "--size", sizes]
    if runtime == "mpi":
        command = [*local_launch(find_mpi(), 4), *command]
    environment = {
        **launch_environment(),
        "PYTHONPATH": search_path(),
        "TMPDIR": str(temporary),
        MARK: str(temporary),
    }
    with started([*command, "--iterations", "1000000"], env=environment) as process:
        assert waits_for(lambda: len(ranks(temporary, runtime)) == 4)
        running = ranks(temporary, runtime)
        # segments for messages are there once MPI has running; half a second later the loop is under way
        assert waits_for(lambda: all(shared_files(rank) for rank in running))
        used = {rank: seconds_used(rank) for rank in running}
        assert waits_for(lambda: all(seconds_used(rank) > used[rank] + 0.5 for rank in running))
        shared = set().union(*(shared_files(rank) for rank in running))
        begin = time.monotonic()
        os.kill(running[1], signal.SIGKILL)
        _, problems = process.communicate(timeout=BOUND_S)
        assert time.monotonic() - begin < BOUND_S
    assert process.returncode > 0
    assert "process rank 1 with PID" in problems
    assert "exited on" in problems
    assert "signal 9 (Killed)" in problems
    if runtime == "mpi-c":
        assert len(problems.splitlines()) == 1
        assert problems.startswith("treadle: MPI: ")
    assert waits_for(lambda: not marked(str(temporary)))
    assert [path for path in shared if path.exists()] == []
