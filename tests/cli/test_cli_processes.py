"""The command line as processes: under mpirun, interrupted, into a closed pipe."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from child_processes import finished, started
from engines import missing_engines, mpirun
from treadle.cli.main import main

TREADLE = [sys.executable, "-m", "treadle"]


def under_mpirun(processes: int, plan: Path, *options: str) -> subprocess.CompletedProcess[str]:
    launcher = mpirun()
    assert launcher is not None
    command = [launcher, "-n", str(processes), "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    return finished(
        [*command, *TREADLE, "run", plan, "--runtime", "mpi", *options],
        environment={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    )


@pytest.mark.skipif("MPI" in missing_engines(), reason=missing_engines().get("MPI", ""))
def test_run_under_mpirun_prints_once(tmp_path: Path) -> None:
    plan = tmp_path / "ring.plan"
    assert main(["solve", "complete:2", "allreduce", "-o", str(plan), "-q"]) == 0
    done = under_mpirun(2, plan, "--size", "1000B,4K", "--iterations", "1", "--json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values["runtime"] == "mpi"
    assert values["wrong"] == 0
    assert len(values["rows"]) == 2


@pytest.mark.skipif("MPI" in missing_engines(), reason=missing_engines().get("MPI", ""))
def test_a_wrong_number_of_processes_is_said_once(tmp_path: Path) -> None:
    plan = tmp_path / "ring.plan"
    assert main(["solve", "ring:3", "allreduce", "-o", str(plan), "-q"]) == 0
    done = under_mpirun(2, plan, "--size", "1K")
    assert done.returncode == 2
    assert done.stderr.count("treadle: ") == 1
    assert "expected 3 processes" in done.stderr


def shown_on(terminal: int, *, limit_s: float = 90.0) -> bytes:
    """What a terminal shows next; nothing once its other end has been closed."""
    assert select.select([terminal], [], [], limit_s)[0], f"nothing on the terminal for {limit_s} s"
    with contextlib.suppress(OSError):  # Linux's way to say that the other end was closed
        return os.read(terminal, 1000)
    return b""


def test_interrupt_leaves_no_file(tmp_path: Path) -> None:
    """On a terminal progress shows; Ctrl-C then ends the compiled core, and nothing is written."""
    plan = tmp_path / "late.plan"
    terminal, stderr = pty.openpty()
    command = [*TREADLE, "solve", "torus:64,64", "allgather", "--exact", "-o", plan]
    with started(command, stderr=stderr) as process:
        os.close(stderr)
        shown = shown_on(terminal)
        while b"%" not in shown:  # the core is at work
            shown += shown_on(terminal)
        process.send_signal(signal.SIGINT)
        while more := shown_on(terminal):
            shown += more
        os.close(terminal)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, (out, shown)
    assert shown.endswith(b"treadle: interrupted; nothing was written\r\n")
    assert b"Traceback" not in shown
    assert not list(tmp_path.iterdir())
