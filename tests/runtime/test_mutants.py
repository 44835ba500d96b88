"""Wrong programs and texts under Open MPI and SimGrid: none passes for right, none waits for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from child_processes import finished, search_path
from engines import missing_engines
from matrix_columns import TESTS
from samples import text_mutants
from samples.program_mutants import FAULTS, mutants, size_in_elements
from treadle import planning
from treadle.errors import ScheduleError
from treadle.program.program import Program
from treadle.runtime.measured_sizes import measure
from treadle.runtime.mpi_build import find_mpi
from treadle.runtime.mpi_c import (
    launch_environment,
    local_launch,
    measure_mpi_c,
)
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan

STATIC = ("dropped send", "swapped sends", "duplicated send")
"""What is refused before any process starts; the others move wrong data."""

needs_mpi = pytest.mark.skipif("MPI" in missing_engines(), reason=missing_engines().get("MPI", ""))


def ring() -> tuple[Plan, Program, int]:
    """An allreduce in which all messages have one size, its program, and a size in bytes."""
    plan = planning.solve("ring(4)", "allreduce", algorithm="ring").plan
    program = planning.program_of(plan, 0)
    return plan, program, 4 * size_in_elements(program)


@pytest.mark.parametrize("fault", FAULTS)
def test_in_process(fault: str) -> None:
    _, program, size = ring()
    wrong = mutants(program)[fault]
    if fault in STATIC:
        with pytest.raises(ScheduleError, match=r"expected as many of each|meets"):
            measure(wrong, [size], iterations=1)
    else:
        assert measure(wrong, [size], iterations=1, warmup=0)[0].wrong > 0


@needs_mpi
@pytest.mark.parametrize("fault", FAULTS)
def test_compiled_interpreter(fault: str) -> None:
    _, program, size = ring()
    wrong = mutants(program)[fault]
    if fault in STATIC:
        with pytest.raises(ScheduleError, match=r"expected as many of each|meets"):
            measure_mpi_c(wrong, [size], iterations=1)
    else:
        assert measure_mpi_c(wrong, [size], iterations=1)[0].wrong > 0


def launched(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Four processes of Python under mpirun."""
    return finished(
        [*local_launch(find_mpi(), 4), sys.executable, "-m", "mpi4py", *words],
        environment={**launch_environment(), "PYTHONPATH": search_path()},
    )


def texts(folder: Path) -> dict[str, Path]:
    """Right texts and wrong ones, by format and fault."""
    plan, _, _ = ring()
    found = {}
    for target, faults in text_mutants.FAULTS.items():
        right = planning.lower(plan, to=target).text
        for fault in ("right", *faults):
            path = found[f"{target} {fault}"] = folder / f"{target} {fault}"
            text = right if fault == "right" else text_mutants.mutant(right, target, fault)
            path.write_text(text, encoding="utf-8")
    return found


@needs_mpi
def test_mpi4py_and_texts(tmp_path: Path) -> None:
    plan, _, size = ring()
    save_plan(tmp_path / "ring.plan", plan)
    ends = {name: path for name, path in texts(tmp_path).items() if "dropped" not in name}
    worker = str(TESTS / "mutants_worker.py")
    done = launched([worker, str(tmp_path / "ring.plan"), str(size), *map(str, ends.values())])
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert set(found) == {*ends, "mpi right", *(f"mpi {fault}" for fault in FAULTS)}
    for name, outcome in found.items():
        assert (outcome == 0) == name.endswith(" right"), (name, outcome)
    for fault in FAULTS:
        assert isinstance(found[f"mpi {fault}"], str) == (fault in STATIC)
