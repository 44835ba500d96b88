"""Runs that start at one time for all ranks of a host."""

from __future__ import annotations

import time

import pytest

from samples.runtime_programs import random_program
from treadle.errors import MissingDependencyError
from treadle.runtime.mpi_build import build_interpreter, find_mpi
from treadle.runtime.mpi_c import (
    interpreter_arguments,
    launch_environment,
    local_launch,
    run_interpreter,
    written_program,
)
from treadle.schedules.collective import CollectiveKind


def test_runs_that_start_at_one_time_are_timed_from_there() -> None:
    """A start lies so long after the ranks have met, and is not before what a run is timed from."""
    try:
        mpi = find_mpi()
        interpreter = build_interpreter(mpi)
    except MissingDependencyError as error:
        pytest.skip(f"MPI: {error}")
    pause_s, runs = 0.05, 3
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=2)
    with written_program(program) as path:
        arguments = interpreter_arguments(path, [4096], iterations=runs, warmup=0, start_s=pause_s)
        command = [*local_launch(mpi, 3), str(interpreter), *arguments]
        begin = time.monotonic()
        (row,) = run_interpreter(command, environment=launch_environment(), n_sizes=1, limit_s=60)
        taken = time.monotonic() - begin
    assert (row.wrong, len(row.times_s)) == (0, runs)
    assert min(row.times_s) > 0
    assert sum(row.times_s) + (runs + 1) * pause_s < taken  # the checked run has a start of its own
