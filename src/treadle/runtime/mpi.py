"""Executes a program over MPI: every process is one rank, every send an MPI message (extra ``mpi``)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from itertools import pairwise
from typing import Any, Unpack
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from treadle.errors import MemoryLimitError, MissingDependencyError, ScheduleError, TreadleError
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.program import Buffer, Program
from treadle.runtime.data import (
    ElementType,
    Pattern,
    Reduction,
    finish_average,
    numpy_dtype,
    poison,
)
from treadle.runtime.measured_sizes import SweepRow, group_pattern, row_of
from treadle.runtime.memory import Layout, allocate, count_wrong, fill_input
from treadle.runtime.rank_script import ActionKind, PreparedRank
from treadle.runtime.run_options import RunKeywords, RunOptions
from treadle.schedules.collective import CollectiveKind

SLICE_BYTES = 2**20
"""Default largest message: below, the cost of a message in Python shows; above, trees pipeline less."""

PIECE_BYTES = 2**14
"""Longest message that is packed with others: copying more costs as much as a message."""

PACKED_BYTES = 2**16
"""Longest message packed of several."""

SPARE_BYTES = 2**24
"""Most bytes of spare memory for receives that are posted before their turn and reduced later."""

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


class RankExecution:
    """One rank's part of a program with buffers of one size, ready to run any number of times.

    Parameters
    ----------
    mpi : module
        mpi4py.MPI.
    communicator : mpi4py.MPI.Comm
        Its ranks are the program's.
    count : int
        Elements of the larger per-rank buffer; any number from 0 on.

    Raises
    ------
    ScheduleError
        If the program needs more tags than MPI has.
    """

    def __init__(
        self,
        prepared: PreparedRank,
        mpi: Any,
        communicator: Any,
        count: int,
        *,
        element: ElementType,
        reduction: Reduction = Reduction.SUM,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        dtype = numpy_dtype(element)
        self.prepared, self.mpi, self.communicator = prepared, mpi, communicator
        self.element, self.reduction = element, reduction
        script = prepared.script(
            count,
            element_bytes=dtype.itemsize,
            slice_bytes=slice_bytes,
            spare_bytes=SPARE_BYTES,
            eager_bytes=0,  # MPI copies short messages itself
            piece_bytes=PIECE_BYTES,
            packed_bytes=PACKED_BYTES,
        )
        limit = mpi.COMM_WORLD.Get_attr(mpi.TAG_UB)
        largest = max((action.tag for action in script.actions), default=0)
        if limit is not None and largest > limit:
            raise ScheduleError(
                f"MPI allows tags up to {limit}, this program at this size needs {largest}; "
                f"use a larger slice size"
            )
        self.layout = Layout(prepared.program, count)
        self.memory = allocate(self.layout, prepared.rank, dtype)
        areas = [self.memory.arrays[buffer] for buffer in Buffer]
        areas += [np.empty(n, dtype=dtype) for n in (script.spare_elements, script.packed_elements)]
        self._actions: list[tuple[Any, ...]] = [
            (*action[:4], *(areas[span.area][span.start : span.end] for span in action[4:]))
            for action in script.actions
        ]

    def run(self) -> None:
        """Execute once, from INPUT to OUTPUT; all ranks must call it. In place, INPUT is consumed."""
        combine, kept = self.reduction.ufunc, list[NDArray[Any]]()
        requests: dict[int, Any] = {}
        for kind, handle, peer, tag, source, arrived, target in self._actions:
            if kind == ActionKind.WAIT:
                requests.pop(handle).Wait()
            elif kind == ActionKind.REDUCE:
                combine(source, arrived, out=target)
            elif kind == ActionKind.COPY:
                np.copyto(target, source)
            elif kind == ActionKind.RECEIVE:
                requests[handle] = self.communicator.Irecv(self._bytes(target), peer, tag)
            else:
                data = source
                if kind == ActionKind.SEND_COPY:
                    data = source.copy()
                    kept.append(data)
                requests[handle] = self.communicator.Isend(self._bytes(data), peer, tag)
        if self.prepared.program.kind.reduces and self.reduction is Reduction.AVG:
            finish_average(self.memory.arrays[Buffer.OUTPUT], self.prepared.program.n_ranks)

    def _bytes(self, view: NDArray[Any]) -> list[Any]:
        # as bytes, so that types that MPI does not know go through
        return [view.view(np.uint8), self.mpi.BYTE]


def measure_mpi(
    program: Program | ProgramGroups,
    sizes: Iterable[int],
    *,
    on_row: Callable[[SweepRow], None] | None = None,
    **keywords: Unpack[RunKeywords],
) -> list[SweepRow]:
    """Run a program over MPI at every size, check every element, and time it; called by all processes.

    Parameters
    ----------
    program : Program or ProgramGroups
        The same in every process. The ranks of each group have a communicator of their own, and all groups
        start immediately.
    sizes, on_row
        As `treadle.runtime.measured_sizes.measure`; `on_row` is called at rank 0 only.
    **keywords
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
    options = RunOptions(**keywords)
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
        count = size // options.element.n_bytes
        pattern = group_pattern(prepared.program, count, options, group)
        make = partial(
            RankExecution,
            *(prepared, mpi, own, count),
            element=options.element,
            reduction=options.reduction,
            slice_bytes=options.slices_of(SLICE_BYTES),
        )
        execution = _make_everywhere(make, world, count * options.element.n_bytes)
        with _abort_on_failure(world):
            wrong_here, times, reference = _measure_size(execution, world, pattern, options)
            wrong = [0] * len(groups.programs)
            for other, found in world.allgather((group, wrong_here)):
                wrong[other] += found
            if world.Get_rank() == 0:
                row = row_of(options, groups.programs[0], count, times, wrong, reference)
                rows.append(row)
                if on_row is not None:
                    on_row(row)
    if own is not world:
        own.Free()
    return rows


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


def _measure_size(
    own: RankExecution, world: Any, pattern: Pattern, options: RunOptions
) -> tuple[int, list[float], list[float]]:
    """Wrong elements here after a run on fresh buffers, and seconds of the timed runs and of MPI's own."""
    rank, program = own.prepared.rank, own.prepared.program

    def timed(call: Callable[[], object]) -> float:
        """Seconds of the slowest process in a call, the same everywhere."""
        world.Barrier()
        start = own.mpi.Wtime()
        with np.errstate(all="ignore"):  # a wrong program may combine poison
            call()
        return float(world.allreduce(own.mpi.Wtime() - start, op=own.mpi.MAX))

    for buffer in (Buffer.SCRATCH, Buffer.OUTPUT):
        poison(own.memory.arrays[buffer])
    fill_input(rank, own.memory, pattern)
    first_s = timed(own.run)
    wrong = count_wrong(own.layout, rank, own.memory, pattern)
    iterations, warmup = options.runs_after(first_s)
    library = _reference(own, pattern) if options.with_reference else None
    if library is not None:
        library()  # the first call, which no time counts
    times: list[float] = []
    reference: list[float] = []
    for _ in range(warmup + iterations):  # in turn, so that both meet the same load of the machine
        if program.in_place:
            fill_input(rank, own.memory, pattern)
        times.append(timed(own.run))
        if library is not None:
            reference.append(timed(library))
    return wrong, times[warmup:], reference[warmup:]


def _reference(run: RankExecution, pattern: Pattern) -> Callable[[], object] | None:
    """MPI's own collective on data of the same shape; None where MPI has none such."""
    program, rank, count = run.prepared.program, run.prepared.rank, run.layout.count
    mpi, world = run.mpi, run.communicator
    types = {ElementType.FLOAT32: mpi.FLOAT, ElementType.INT32: mpi.INT32_T, ElementType.INT64: mpi.INT64_T}
    operations = {Reduction.SUM: mpi.SUM, Reduction.MAX: mpi.MAX, Reduction.MIN: mpi.MIN}
    if run.element not in types or (program.kind.reduces and run.reduction not in operations):
        return None
    kind, operation = types[run.element], operations.get(run.reduction, mpi.SUM)
    dtype = numpy_dtype(run.element)
    bounds = [program.element(int(chunk), count) for chunk in program.shard_offset]
    shards = [high - low for low, high in pairwise(bounds)]
    if program.kind is CollectiveKind.ALLTOALL:
        n = program.n_ranks
        sent, received = (
            [np.ones(sum(counts), dtype=dtype), counts, kind]
            for counts in (shards[rank * n : rank * n + n], shards[rank::n])
        )
        return partial(world.Alltoallv, sent, received)
    whole = np.zeros(count, dtype=dtype)
    pattern.fill(rank, whole, start=0)
    part, other = [np.ones(shards[rank], dtype=dtype), kind], np.ones_like(whole)
    return {
        CollectiveKind.ALLGATHER: partial(world.Allgatherv, part, [other, shards, bounds[:-1], kind]),
        CollectiveKind.REDUCE_SCATTER: partial(world.Reduce_scatter, [whole, kind], part, shards, operation),
        CollectiveKind.ALLREDUCE: partial(world.Allreduce, [whole, kind], [other, kind], operation),
        CollectiveKind.BROADCAST: partial(world.Bcast, [other, kind], program.root),
        CollectiveKind.REDUCE: partial(world.Reduce, [whole, kind], [other, kind], operation, program.root),
    }[program.kind]
