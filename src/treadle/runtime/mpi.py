"""Executes a program over MPI: every process is one rank, every send an MPI message (extra ``mpi``)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from typing import Any, Unpack
from zlib import crc32

import numpy as np

from treadle.errors import MemoryLimitError, MissingDependencyError, ScheduleError, TreadleError
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.program import Buffer, Program
from treadle.runtime.data import (
    ElementType,
    Pattern,
    Reduction,
    numpy_dtype,
    poison,
)
from treadle.runtime.measured_sizes import SweepRow, group_pattern, make_row, worst_of
from treadle.runtime.memory import count_wrong, fill_input
from treadle.runtime.mpi_rank import SLICE_BYTES, PreparedRank, RankExecution
from treadle.runtime.run_options import RunKeywords, RunOptions
from treadle.schedules.collective import CollectiveKind

_OUT_OF_MEMORY = "out of memory"


def load_mpi() -> Any:
    """The module mpi4py.MPI, which starts MPI.

    Raises
    ------
    MissingDependencyError
        If mpi4py is absent or finds no MPI library.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else "not installed"
        raise MissingDependencyError(
            f"the MPI runtime needs mpi4py and an MPI library ({reason}): pip install 'treadle[mpi]'"
        ) from None
    return MPI


def check_world(program: Program | ProgramGroups, n_processes: int) -> None:
    """Raise ScheduleError unless there is one process for each rank of the program, or of all groups'."""
    if n_processes != program.n_ranks:
        raise ScheduleError(
            f"MPI world: expected {program.n_ranks} processes, one for each rank, found {n_processes}; "
            f"start with: mpirun -n {program.n_ranks} treadle run PLAN --runtime mpi"
        )


def measure_mpi(
    program: Program | ProgramGroups,
    sizes: Iterable[int],
    *,
    on_row: Callable[[SweepRow], None] | None = None,
    **options: Unpack[RunKeywords],
) -> list[SweepRow]:
    """Run a program over MPI at every size, check every element, and time it; called by all processes.

    Parameters
    ----------
    program : Program or ProgramGroups
        The same in every process. The ranks of each group have a communicator of their own, and all groups
        start at once.
    sizes, on_row
        As `treadle.runtime.measured_sizes.measure`; `on_row` is called at rank 0 only.
    **options
        The fields of `RunOptions`.

    Returns
    -------
    list of SweepRow
        At rank 0; empty at the others. A time is the slowest process's, `wrong` counts all processes.

    Raises
    ------
    MissingDependencyError
        Without mpi4py.
    ScheduleError
        In every process: if the world has another size than the program, the program cannot be executed,
        or a process lacks the memory.
    """
    asked = RunOptions(**options)
    mpi = load_mpi()
    world = mpi.COMM_WORLD
    groups = as_groups(program)
    check_world(groups, world.Get_size())
    _check_same_program(groups, world)
    group, place = groups.position_of(world.Get_rank())
    own = world if len(groups.programs) == 1 else world.Split(group, place)
    prepared = PreparedRank(groups.programs[group], place)
    rows: list[SweepRow] = []
    for size in sizes:
        count = size // asked.element.n_bytes
        pattern = group_pattern(groups.programs[group], count, asked, group)
        make = partial(
            RankExecution,
            *(prepared, mpi, own, count),
            element=asked.element,
            reduction=asked.reduction,
            slice_bytes=asked.slices_of(SLICE_BYTES),
        )
        made = _make_everywhere(make, world, count * asked.element.n_bytes)
        run = _Run(groups, group, made, world)
        with _abort_on_failure(world):
            row = _measure_size(run, pattern, asked)
            if world.Get_rank() == 0:
                rows.append(row)
                if on_row is not None:
                    on_row(row)
    if own is not world:
        own.Free()
    return rows


@dataclass(frozen=True)
class _Run:
    """This process's part at one size, and all processes of all groups."""

    groups: ProgramGroups
    group: int
    own: RankExecution
    world: Any

    def wrong_by_group(self, wrong: int) -> list[int]:
        """Wrong elements of each group, from those of this process; the same everywhere."""
        total = [0] * len(self.groups.programs)
        for group, found in self.world.allgather((self.group, wrong)):
            total[group] += found
        return total


def _check_same_program(groups: ProgramGroups, world: Any) -> None:
    digest = crc32(repr(groups.groups).encode())
    for program in groups.programs:
        for field in fields(program):
            value = getattr(program, field.name)
            digest = crc32(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode(), digest)
    digests = world.allgather(digest)
    for rank, other in enumerate(digests):
        if other != digests[0]:
            raise ScheduleError(
                f"MPI world: rank {rank} has another program than rank 0; give all the same plan file"
            )


@contextmanager
def _abort_on_failure(world: Any) -> Iterator[None]:
    """End all processes when this one fails: the others would wait for its messages for ever."""
    try:
        yield
    except Exception as error:
        sys.stderr.write(f"treadle: rank {world.Get_rank()} failed: {error!r}\n")
        world.Abort(1)
        raise


def _measure_size(run: _Run, pattern: Pattern, asked: RunOptions) -> SweepRow:
    wrong, first_s = _checked_run(run, pattern)
    timed, untimed = asked.runs_after(first_s)
    library = _reference(run.own, pattern) if asked.with_reference else None
    times: list[float] = []
    reference: list[float] = []
    for number in range(-untimed, timed):  # in turn, so that both meet the same load of the machine
        seconds = _timed_run(run, pattern)
        library_seconds = None if library is None else _timed(run, library)
        if number >= 0:
            times.append(seconds)
            reference += [] if library_seconds is None else [library_seconds]
    return make_row(
        run.groups.programs[0],
        run.own.layout.count,
        times,
        sum(wrong),
        element=run.own.element,
        reduction=run.own.reduction,
        reference_time_s=float(np.median(reference)) if reference else None,
        worst_group=worst_of(wrong),
    )


def _make_everywhere(make: Callable[[], RankExecution], world: Any, n_bytes: int) -> RankExecution:
    """Allocate in every process, or fail in every process: one that went on alone would wait for ever."""
    made, problem = None, ""
    try:
        made = make()
    except (MemoryError, TreadleError) as error:
        problem = _OUT_OF_MEMORY if isinstance(error, MemoryError) else str(error)
    for rank, other in enumerate(world.allgather(problem)):
        if other:
            kind = MemoryLimitError if other == _OUT_OF_MEMORY else ScheduleError
            raise kind(f"rank {rank}: {n_bytes} bytes: {other}")
    assert made is not None
    return made


def _checked_run(run: _Run, pattern: Pattern) -> tuple[list[int], float]:
    """Wrong elements of each group after one run on fresh buffers, and its seconds."""
    own = run.own
    for buffer in (Buffer.SCRATCH, Buffer.OUTPUT):
        poison(own.memory.arrays[buffer])
    seconds = _timed_run(run, pattern, refill=True)
    return run.wrong_by_group(count_wrong(own.layout, own.prepared.rank, own.memory, pattern)), seconds


def _timed_run(run: _Run, pattern: Pattern, *, refill: bool = False) -> float:
    """Seconds of the slowest process, the same everywhere."""
    own = run.own
    if refill or own.prepared.program.in_place:
        fill_input(own.prepared.rank, own.memory, pattern)
    with np.errstate(all="ignore"):  # a wrong program may combine poison
        return _timed(run, own.run)


def _timed(run: _Run, call: Callable[[], None]) -> float:
    """Seconds of the slowest process in a call, the same everywhere."""
    run.world.Barrier()
    start = run.own.mpi.Wtime()
    call()
    return float(run.world.allreduce(run.own.mpi.Wtime() - start, op=run.own.mpi.MAX))


def _reference(run: RankExecution, pattern: Pattern) -> Callable[[], None] | None:
    """MPI's own collective on data of the same shape, called once; None where MPI has none such."""
    program, rank, count = run.prepared.program, run.prepared.rank, run.layout.count
    mpi, world = run.mpi, run.communicator
    types = {ElementType.FLOAT32: mpi.FLOAT, ElementType.INT32: mpi.INT32_T, ElementType.INT64: mpi.INT64_T}
    operations = {Reduction.SUM: mpi.SUM, Reduction.MAX: mpi.MAX, Reduction.MIN: mpi.MIN}
    reduces = program.kind.reduces
    if run.element not in types or (reduces and run.reduction not in operations):
        return None
    kind, operation = types[run.element], operations.get(run.reduction, mpi.SUM)
    bounds = [program.element(int(chunk), count) for chunk in program.shard_offset]
    shards = [high - low for low, high in pairwise(bounds)]
    if program.kind is CollectiveKind.ALLTOALL:
        n = program.n_ranks
        sent, received = shards[rank * n : rank * n + n], shards[rank::n]
        ends = [
            [np.ones(sum(counts), dtype=numpy_dtype(run.element)), counts, kind]
            for counts in (sent, received)
        ]
        return _called(lambda: world.Alltoallv(*ends))
    whole = np.zeros(count, dtype=numpy_dtype(run.element))
    pattern.fill(rank, whole, start=0)
    part, other = np.ones(shards[rank], dtype=whole.dtype), np.ones_like(whole)
    calls: dict[CollectiveKind, Callable[[], None]] = {
        CollectiveKind.ALLGATHER: lambda: world.Allgatherv([part, kind], [other, shards, bounds[:-1], kind]),
        CollectiveKind.REDUCE_SCATTER: lambda: world.Reduce_scatter(
            [whole, kind], [part, kind], shards, operation
        ),
        CollectiveKind.ALLREDUCE: lambda: world.Allreduce([whole, kind], [other, kind], operation),
        CollectiveKind.BROADCAST: lambda: world.Bcast([other, kind], program.root),
        CollectiveKind.REDUCE: lambda: world.Reduce([whole, kind], [other, kind], operation, program.root),
    }
    return _called(calls[program.kind])


def _called(call: Callable[[], None]) -> Callable[[], None]:
    """The call, after a first one that no time counts."""
    call()
    return call
