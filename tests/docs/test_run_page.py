"""The page on running plans: what it starts by mpirun and torchrun runs as it stands."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from child_processes import finished, search_path
from engines import missing_engines
from places import ROOT
from treadle.planning import solve
from treadle.runtime.mpi_build import find_mpi
from treadle.runtime.mpi_c import launch_environment
from treadle.schedules.plan_files.archive import save_plan

PAGE = (ROOT / "docs/how-to/run.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("pattern", "engine", "wanted", "times"),
    [
        (r"^(mpirun .+)$", "MPI", "every element is right", 1),
        (r"`(torchrun .+)`", "torch", "4.0", 4),  # ends of lines of several processes may change places
    ],
)
def test_commands_of_launchers_run(
    pattern: str, engine: str, wanted: str, times: int, tmp_path: Path
) -> None:
    if engine in missing_engines():
        pytest.skip(missing_engines()[engine])
    save_plan(tmp_path / "ring.plan", solve("ring(4)", "allreduce").plan)
    [program] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (tmp_path / "total.py").write_text(program, encoding="utf-8")
    [command] = [shlex.split(line, comments=True) for line in re.findall(pattern, PAGE, re.M)]
    words = [sys.executable, "-m", "torch.distributed.run"]
    if engine == "MPI":
        words = [str(find_mpi().mpirun)]
    for word in command[1:]:
        words += [sys.executable, "-m", "treadle"] if word == "treadle" else [word]
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
