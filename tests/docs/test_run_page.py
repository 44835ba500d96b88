"""The page on running plans: what it starts by mpirun and its program for torchrun run as they stand."""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from pathlib import Path

import pytest

from child_processes import finished, search_path
from engines import missing_engines
from harness.forked_ranks import forked_ranks
from places import ROOT
from treadle.planning import solve
from treadle.runtime.mpi_build import find_mpi
from treadle.runtime.mpi_c import launch_environment
from treadle.schedules.plan_files.archive import save_plan

PAGE = (ROOT / "docs/how-to/run.md").read_text(encoding="utf-8")


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    """The folder with the page's plan."""
    save_plan(tmp_path / "ring.plan", solve("ring(4)", "allreduce").plan)
    return tmp_path


@pytest.mark.skipif("MPI" in missing_engines(), reason=missing_engines().get("MPI", ""))
def test_the_command_of_mpirun_runs(plans: Path) -> None:
    [command] = re.findall(r"^mpirun (.+)$", PAGE, re.M)
    before, after = command.split("treadle", 1)
    words = [find_mpi().mpirun, *shlex.split(before), sys.executable, "-m", "treadle", *shlex.split(after)]
    done = finished(words, cwd=plans, environment={**launch_environment(), "PYTHONPATH": search_path()})
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("every element is correct") == 1, done.stdout


@pytest.mark.skipif("torch" in missing_engines(), reason=missing_engines().get("torch", ""))
def test_the_program_of_torchrun_runs(plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ranks with the variables that torchrun sets."""
    [n_ranks] = map(int, re.findall(r"`torchrun --nproc-per-node (\d+) total.py`", PAGE))
    [program] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    rank = "import os, sys\nos.environ['RANK'] = os.environ['LOCAL_RANK'] = sys.argv[1]\n"
    (plans / "total.py").write_text(rank + program, encoding="utf-8")
    monkeypatch.chdir(plans)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    told = {"WORLD_SIZE": str(n_ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    here = {"PYTHONPATH": search_path(), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = forked_ranks(
        plans / "total.py", [[rank] for rank in range(n_ranks)], {**os.environ, **told, **here}
    )
    assert [(one.returncode, one.stdout) for one in done] == [(0, "4.0\n")] * n_ranks, done
