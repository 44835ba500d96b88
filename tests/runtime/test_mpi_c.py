"""The compiled interpreter, in real processes: right data, wrong programs, hostile files, lost processes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from child_processes import finished
from samples.runtime_programs import random_program
from shortcuts.asking_switches import asked, asking_boxes
from treadle.cli.main import main
from treadle.errors import FormatError, MissingDependencyError
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind, Program
from treadle.runtime import mpi_build
from treadle.runtime.data import ElementType
from treadle.runtime.mpi_build import MpiInstallation, build_interpreter, find_mpi
from treadle.runtime.mpi_c import (
    interpreter_arguments,
    launch_environment,
    local_launch,
    measure_mpi_c,
    run_interpreter,
    written_program,
)
from treadle.schedules.collective import CollectiveKind, on_all_ranks


@pytest.fixture(scope="module")
def mpi() -> MpiInstallation:
    try:
        found = find_mpi()
        build_interpreter(found)
    except MissingDependencyError as error:
        pytest.skip(f"MPI: {error}")
    version = finished([found.mpirun, "--version"])
    if "Open MPI" not in version.stdout:
        pytest.skip(f"MPI: {found.mpirun} is not Open MPI's, whose options are used")
    return found


@pytest.mark.parametrize(
    ("kind", "in_place", "element"),
    [
        (CollectiveKind.ALLREDUCE, False, ElementType.FLOAT32),
        (CollectiveKind.ALLREDUCE, True, ElementType.INT32),
        (CollectiveKind.ALLGATHER, True, ElementType.FLOAT32),
        (CollectiveKind.REDUCE_SCATTER, True, ElementType.FLOAT32),
        (CollectiveKind.BROADCAST, False, ElementType.INT32),
        (CollectiveKind.REDUCE, False, ElementType.FLOAT32),
    ],
)
@pytest.mark.usefixtures("mpi")
def test_every_element_is_right_at_every_size(
    kind: CollectiveKind, in_place: bool, element: ElementType
) -> None:
    program = random_program(kind, 4, seed=7, trees_per_root=2, in_place=in_place)
    rows = measure_mpi_c(
        program,
        [0, 4, 20, 4096, 100_004],
        element=element,
        iterations=2,
        slice_bytes=1024,
        with_reference=True,
    )
    assert [row.wrong for row in rows] == [0] * 5
    assert [row.size_bytes for row in rows] == [0, 4, 20, 4096, 100_004]
    assert all(row.reference_time_s is not None for row in rows)


@pytest.mark.usefixtures("mpi")
@pytest.mark.parametrize("exchanged", [(2,), (1, 2)])
def test_copies_and_sums_of_switches_move_the_same_data(exchanged: tuple[int, ...]) -> None:
    fabric = asking_boxes(2, 4)
    schedule = asked(fabric, factors=(4, 2), exchanged=exchanged, chunks=2)
    program = lower(fabric, on_all_ranks(fabric, CollectiveKind.ALLREDUCE), schedule)
    rows = measure_mpi_c(program, [0, 4, 28, 4 * 997], element=ElementType.INT32, iterations=1)
    assert [row.wrong for row in rows] == [0] * 4


def interpreted(mpi: MpiInstallation, program: Program, sizes: list[int], **options: int) -> list[Any]:
    """What the interpreter prints, with bare rounds."""
    with written_program(program) as path:
        arguments = interpreter_arguments(path, sizes, iterations=2, with_rounds=True, **options)
        command = [*local_launch(mpi, program.n_ranks), str(build_interpreter(mpi)), *arguments]
        return run_interpreter(command, environment=launch_environment(), n_sizes=len(sizes), limit_s=60)


@pytest.mark.parametrize(
    ("kind", "in_place", "piece", "bundle"),
    [
        (CollectiveKind.ALLREDUCE, True, 2**14, 2**16),
        (CollectiveKind.ALLREDUCE, False, 64, 2**16),
        (CollectiveKind.REDUCE_SCATTER, False, 2**14, 128),
        (CollectiveKind.ALLGATHER, False, 0, 4),
    ],
)
def test_messages_travel_together_and_every_element_is_right(
    kind: CollectiveKind, in_place: bool, piece: int, bundle: int, mpi: MpiInstallation
) -> None:
    """Bundles of all messages of a level, of short ones, bundles that fill up, and none."""
    program = random_program(kind, 4, seed=11, trees_per_root=5, in_place=in_place)
    sizes = [0, 4, 100, 4096, 20_000]
    rows = interpreted(mpi, program, sizes, piece_bytes=piece, bundle_bytes=bundle)
    assert [row.wrong for row in rows] == [0] * len(sizes)
    assert all(len(row.times_s) == len(row.rounds_times_s) for row in rows)


@pytest.mark.usefixtures("mpi")
def test_a_sum_that_is_left_out_is_seen() -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1, trees_per_root=1)
    kinds = program.operation_kind.copy()
    victim = int(np.flatnonzero(kinds == OperationKind.RECEIVE_REDUCE)[0])
    kinds[victim] = OperationKind.RECEIVE
    (row,) = measure_mpi_c(replace(program, operation_kind=kinds), [4096], iterations=1)
    assert 0 < row.wrong < 3 * 1024


def test_without_a_compiler_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "mpicc"
    broken.write_text("#!/bin/sh\necho 'cc: not found' >&2\nexit 1\n", encoding="ascii")
    broken.chmod(0o755)
    with pytest.raises(MissingDependencyError, match="cc: not found; is a C compiler installed"):
        build_interpreter(MpiInstallation(broken, broken), directory=tmp_path / "bin")
    assert list((tmp_path / "bin").iterdir()) == []
    broken.write_text("#!/bin/sh\necho 'error writing x.s: No space left on device' >&2\nexit 1\n")
    with pytest.raises(FormatError, match="No space left on device; free some space, or set TMPDIR"):
        build_interpreter(MpiInstallation(broken, broken), directory=tmp_path / "bin")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FormatError, match="cannot be built: Not a directory"):
        build_interpreter(MpiInstallation(broken, broken), directory=tmp_path / "file" / "bin")
    monkeypatch.setattr(mpi_build.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(MissingDependencyError, match=r"pip install 'treadle\[mpi\]'"):
        find_mpi()


@pytest.mark.usefixtures("mpi")
def test_the_command_starts_the_processes_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring(3)", "allreduce", "-q", "-o", plan]) == 0
    capsys.readouterr()
    assert main(["run", plan, "--runtime", "mpi-c", "--size", "1K,4K", "--reference", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["runtime"], result["wrong"]) == ("mpi-c", 0)
    assert [row["size_bytes"] for row in result["rows"]] == [1024, 4096]
    assert all(row["reference_time_s"] > 0 for row in result["rows"])
    assert main(["run", plan, "--runtime", "mpi-c", "--dtype", "float16"]) == 2
    assert "adds float32 or int32" in capsys.readouterr().err
