"""Runs programs with the compiled interpreter over libfabric's tagged messages (dissertation, 3.7)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Unpack

from treadle.errors import ScheduleError
from treadle.program.group_lists import ProgramGroups
from treadle.program.program import Program
from treadle.runtime.measured_sizes import SweepRow
from treadle.runtime.mpi_build import build_libfabric_interpreter
from treadle.runtime.mpi_c import Launch, measure_interpreted
from treadle.runtime.run_options import RunKeywords, RunOptions


def measure_libfabric(
    program: Program | ProgramGroups,
    sizes: Sequence[int],
    *,
    on_row: Callable[[SweepRow], None] | None = None,
    **keywords: Unpack[RunKeywords],
) -> list[SweepRow]:
    """Start a process for each rank on this host, which send by libfabric's provider tcp; check, time them.

    Parameters
    ----------
    sizes : sequence of int
        Bytes of the larger per-rank buffer.
    on_row : callable, optional
        Called with every row as it is ready. A time is the median of the slowest process's.
    **keywords
        The fields of `RunOptions`: float32 or int32, sums only, and no reference: libfabric has no
        collectives.

    Raises
    ------
    ScheduleError
        If the program cannot be executed, or the interpreter fails.
    MissingDependencyError
        Without libfabric and its headers, or a C compiler.
    """
    options = RunOptions(**keywords)
    if options.with_reference:
        raise ScheduleError(
            "reference: libfabric has no collectives to compare with; runtime mpi-c has MPI's"
        )
    return measure_interpreted(program, sizes, libfabric_launch, options, on_row)


def libfabric_launch(n_ranks: int) -> Launch:
    """The interpreter starts its ranks itself; its first process outlives them all."""
    words = (str(build_libfabric_interpreter()),)
    return Launch("libfabric", words, {**os.environ, "TREADLE_RANKS": str(n_ranks)})
