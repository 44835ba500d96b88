"""The MPI runtime, in real processes."""

import builtins
import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from child_processes import finished, search_path
from samples.program_cases import random_case
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.program.trees.forest_program import lower
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.mpi import RankExecution, load_mpi
from treadle.runtime.rank_script import PreparedRank
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind

WORKER = Path(__file__).resolve().parents[1] / "mpi_worker.py"


def mpirun() -> str:
    """Open MPI's mpirun beside the interpreter or on the PATH; without one, skips with the reason."""
    pytest.importorskip("mpi4py", reason="MPI: mpi4py is not installed; pip install 'treadle[mpi]'")
    beside = Path(sys.executable).parent / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        pytest.skip("MPI: no mpirun on the PATH or beside the interpreter; pip install 'treadle[mpi]'")
    version = finished([found, "--version"])
    if "Open MPI" not in version.stdout:
        pytest.skip(f"MPI: {found} is not Open MPI's, whose options the test uses")
    return found


def run_worker(worker: Path, n: int) -> Any:
    """What a worker's first process printed as JSON."""
    options = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    environment = {
        **os.environ,
        "PYTHONPATH": search_path(),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = finished(
        # mpi4py's runner aborts all processes when one fails
        [mpirun(), "-n", n, *options, sys.executable, "-m", "mpi4py", worker],
        environment=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_mpi_processes_move_the_right_data() -> None:
    n = 4
    report = run_worker(WORKER, n)
    assert len(report["wrong"]) == 5 * 2 * 2 + len(ElementType) * len(Reduction)
    assert {label: wrong for label, wrong in report["wrong"].items() if wrong != [0] * 5} == {}
    assert report["mutant"] > 0
    assert report["swap"] == 0
    assert report["left"] == 0
    assert set(report["groups"]["wrong"]) == {kind.value for kind in SPANNING_KINDS}
    assert all(wrong == [0] * 5 for wrong in report["groups"]["wrong"].values())
    assert report["groups"]["worst_group"] == [1]
    assert report["library_s"] > 0
    assert len(report["others"]) == n
    assert all(f"rank {n - 1} has another program than rank 0" in other for other in report["others"])
    # every process says the same, so that none is left waiting
    assert (
        report["problems"]
        == [
            f"MPI world: expected {n + 1} processes, one for each rank, found {n}; "
            f"start with: mpirun -n {n + 1} treadle run PLAN --runtime mpi"
        ]
        * n
    )


def test_missing_mpi_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name, *rest):
        if name == "mpi4py":
            raise ImportError("No module named 'mpi4py'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"mpi4py.*pip install 'treadle\[mpi\]'"):
        load_mpi()


def test_a_program_with_more_messages_than_tags_is_refused() -> None:
    """Before anything is sent: messages of one tag would be taken for one another."""
    program = lower(*random_case(1, CollectiveKind.ALLGATHER))
    prepared = PreparedRank(program, 0)

    def mpi_with(limit: int | None) -> SimpleNamespace:
        return SimpleNamespace(TAG_UB=0, COMM_WORLD=SimpleNamespace(Get_attr=lambda key: limit))

    for limit in (2**15, None):
        RankExecution(prepared, mpi_with(limit), None, 2**14, element=ElementType.FLOAT32, slice_bytes=2**12)
    with pytest.raises(ScheduleError, match=r"tags up to 0, .* needs [1-9]\d*; use a larger slice size"):
        RankExecution(prepared, mpi_with(0), None, 2**14, element=ElementType.FLOAT32, slice_bytes=2**12)
