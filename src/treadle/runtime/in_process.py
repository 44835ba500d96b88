"""Executes a program on real numpy buffers of all ranks in this process."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, positions_of
from treadle.errors import MemoryLimitError, ScheduleError
from treadle.program.program import Buffer, OperationKind, Program
from treadle.runtime.data import ElementType, Reduction, finish_average, numpy_dtype
from treadle.runtime.memory import Layout, RankMemory, allocate, is_same_memory, slices_for
from treadle.runtime.order import check_executable, is_awaited

SLICE_BYTES = 2**18
"""Default largest slice of a chunk: the slices that a tree's operations touch then stay in the L2 cache."""

THREAD_BYTES = 2**21
"""Least bytes of the buffer in a slice for which a thread of its own pays."""

# target, source of a copy, or the two operands of a reduction
_Action = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]


class PreparedProgram:
    """A program that has been checked and put into a serial order; the same for every size.

    Raises
    ------
    ScheduleError
        If messages do not match, a range does not exist, or the program deadlocks.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.partner, self.order = check_executable(program)
        self.staged = _staged_sends(program, self.partner, self.order)


class Execution:
    """A prepared program with buffers of one size, ready to run any number of times.

    Parameters
    ----------
    count : int
        Elements of the larger per-rank buffer; any number from 0 on.
    slice_bytes : int
        Chunks larger than this are run in slices, one slice through the entire program after another.
    storage : sequence of N RankMemory, optional
        Memory of an execution of the same program and element type at this size or a larger one.
    threads : int, optional
        Slices run in parallel on this many threads: they touch no common element, and numpy releases the
        interpreter while it copies and adds. Default: one for each core, where the slices are large enough
        (`THREAD_BYTES`).

    Attributes
    ----------
    memories : list of RankMemory
        Fill INPUT before `run`; OUTPUT holds the result after.
    """

    def __init__(
        self,
        prepared: PreparedProgram,
        count: int,
        *,
        element: ElementType,
        reduction: Reduction = Reduction.SUM,
        slice_bytes: int = SLICE_BYTES,
        storage: Sequence[RankMemory] | None = None,
        threads: int | None = None,
    ) -> None:
        if count < 0:
            raise ScheduleError(f"count {count}: expected 0 elements or more")
        program, dtype = prepared.program, numpy_dtype(element)
        n_slices = slices_for(program, count, element_bytes=dtype.itemsize, slice_bytes=slice_bytes)
        self.layout = Layout(program, count, n_slices)
        _check_memory(self.layout, dtype.itemsize)
        self.memories = [
            allocate(self.layout, rank, dtype, storage=None if storage is None else storage[rank])
            for rank in range(program.n_ranks)
        ]
        self._averages = program.kind.reduces and reduction is Reduction.AVG
        self._combine = reduction.ufunc
        self._slices = _compile(prepared, self.layout, self.memories)
        cores = len(os.sched_getaffinity(0)) if threads is None else threads
        pays = threads is not None or count * dtype.itemsize >= n_slices * THREAD_BYTES
        self.threads = max(1, min(cores, n_slices)) if pays else 1

    def run(self) -> None:
        """Execute once, from INPUT to OUTPUT; in place, INPUT is consumed."""
        if self.threads == 1:
            for actions in self._slices:
                self._run_slice(actions)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                # each in a copy of this context, which holds numpy's error state
                running = [
                    pool.submit(copy_context().run, self._run_slice, actions) for actions in self._slices
                ]
                for done in running:
                    done.result()
        if self._averages:
            for memory in self.memories:
                finish_average(memory.arrays[Buffer.OUTPUT], len(self.memories))

    def _run_slice(self, actions: Sequence[_Action]) -> None:
        copy, combine = np.copyto, self._combine
        for target, one, other in actions:
            if other is None:
                copy(target, one)
            else:
                combine(one, other, out=target)


def _check_memory(layout: Layout, element_bytes: int) -> None:
    """Raise MemoryLimitError where the buffers of all ranks exceed the machine's memory."""
    program = layout.program
    elements = 0
    for rank in range(program.n_ranks):
        sizes = {buffer: layout.length(rank, buffer) for buffer in Buffer}
        if not program.uses_scratch(rank):
            sizes[Buffer.SCRATCH] = 0
        if program.in_place:
            sizes[min(Buffer.INPUT, Buffer.OUTPUT, key=lambda buffer: sizes[buffer])] = 0
        elements += sum(sizes.values())
    needed, present = elements * element_bytes, physical_memory_bytes()
    if needed > present:
        raise MemoryLimitError(
            f"size {layout.count * element_bytes} bytes: the buffers of {program.n_ranks} ranks need "
            f"{needed / 2**30:.1f} GB, this machine has {present / 2**30:.1f} GB; use a smaller size"
        )


def physical_memory_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _staged_sends(program: Program, partner: Int64Array, order: Int64Array) -> set[int]:
    """Sends whose data must be set aside, because the rank overwrites it before the receive reads it.

    A receive reads the sender's memory itself. Only an operation that waits for a send may overwrite what it
    sends, so sends that nothing waits for never need this.
    """
    position = positions_of(len(order), order)
    candidates = np.flatnonzero((program.operation_kind == OperationKind.SEND) & is_awaited(program))
    candidates = candidates[position[partner[candidates]] > position[candidates] + 1]
    if not candidates.size:
        return set()
    rank = program.operation_rank
    writers = order[program.operation_kind[order] != OperationKind.SEND]
    writers = writers[np.argsort(rank[writers], kind="stable")]
    ends = np.searchsorted(rank[writers], np.arange(program.n_ranks + 1)).tolist()
    of_rank = [writers[low:high] for low, high in pairwise(ends)]
    places = [position[own].tolist() for own in of_rank]
    staged: set[int] = set()
    for send in candidates.tolist():
        own = places[rank[send]]
        low, high = bisect_right(own, position[send]), bisect_left(own, position[partner[send]])
        between = of_rank[rank[send]][low:high]
        source, past = Buffer(program.source[send]), program.first[send] + program.count[send]
        same = [buffer for buffer in Buffer if is_same_memory(program, source, buffer)]
        overlaps = (program.first[between] < past) & (
            program.first[send] < program.first[between] + program.count[between]
        )
        if np.any(overlaps & np.isin(program.target[between], same)):
            staged.add(send)
    return staged


def _compile(
    prepared: PreparedProgram, layout: Layout, memories: Sequence[RankMemory]
) -> list[list[_Action]]:
    """The copies and reductions of each slice in order, as views."""
    program = prepared.program
    kinds, sources = program.operation_kind.tolist(), program.source.tolist()
    targets, ranks = program.target.tolist(), program.operation_rank.tolist()
    partner, order = prepared.partner.tolist(), prepared.order.tolist()
    buffers = list(Buffer)
    slices: list[list[_Action]] = []
    for piece in range(layout.n_slices):
        actions: list[_Action] = []
        slices.append(actions)
        aside: dict[tuple[int, int], NDArray[Any]] = {}
        for operation in order:
            kind, memory = kinds[operation], memories[ranks[operation]]
            source, target = buffers[sources[operation]], buffers[targets[operation]]
            for start, end in layout.ranges(operation, piece):
                if kind == OperationKind.SEND:
                    if operation in prepared.staged:
                        data = memory.view(source, start, end)
                        aside[operation, start] = np.empty_like(data)
                        actions.append((aside[operation, start], data, None))
                    continue
                result = memory.view(target, start, end)
                if kind == OperationKind.COPY:
                    if not is_same_memory(program, source, target):
                        actions.append((result, memory.view(source, start, end), None))
                    continue
                send = partner[operation]
                data = aside.get((send, start))
                if data is None:
                    data = memories[ranks[send]].view(buffers[sources[send]], start, end)
                if kind == OperationKind.RECEIVE:
                    actions.append((result, data, None))
                else:
                    actions.append((result, memory.view(source, start, end), data))
    return slices
