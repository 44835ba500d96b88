"""Runs a program over a range of sizes: times and checks in the columns of nccl-tests."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Unpack

import numpy as np

from treadle.brief import brief
from treadle.errors import FormatError
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.program import Buffer, Program
from treadle.runtime.data import ElementType, Pattern, Reduction, make_pattern, poison
from treadle.runtime.in_process import SLICE_BYTES, Execution, PreparedProgram
from treadle.runtime.memory import count_wrong, fill_input
from treadle.runtime.run_options import RunKeywords, RunOptions
from treadle.schedules.collective import busbw_factor

MAX_SIZE_BYTES = 2**50
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?B)?", re.IGNORECASE)
_DASHED = re.compile(r"[0-9.]+ *[A-Za-z]+ *- *[0-9.]+ *[A-Za-z]+")
_POWER_OF_1024 = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@brief("size_bytes", "algbw_bytes_per_s", "busbw_bytes_per_s", "time_s", "wrong", "iterations")
@dataclass(frozen=True)
class SweepRow:
    """One line of the table.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer.
    count : int
        Elements as nccl-tests counts them: of the largest shard for allgather, reduce-scatter and all-to-all,
        of the buffer for the others.
    element : ElementType
    reduction : Reduction or None
        None where nothing is reduced.
    root : int
        -1 where there is none.
    time_s : float
        Median of the iterations, seconds.
    iterations : int
        How many were timed.
    algbw_bytes_per_s, busbw_bytes_per_s : float
        As measured on this host; they say nothing about the modelled fabric.
    wrong : int
        Elements of all ranks that differ from the collective's definition.
    reference_time_s : float, optional
        The same collective by the runtime's own library (MPI), where it was measured.
    worst_group : int, optional
        For concurrent groups: the one with the most wrong elements; None if all are right.
    protocol : str, optional
        Of the device runtime.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allreduce").plan
    >>> treadle.run(plan, ["1K"]).rows[0].count
    256
    """

    size_bytes: int
    count: int
    element: ElementType
    reduction: Reduction | None
    root: int
    time_s: float
    iterations: int
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    wrong: int
    reference_time_s: float | None = None
    worst_group: int | None = None
    protocol: str | None = None


def parse_size(text: str) -> int:
    """Bytes of a size with a unit: ``64M``, ``64MB``, ``1.5KiB``, ``12B``; powers of 1024.

    Raises
    ------
    FormatError
        For anything else, a bare number, or a size that is not an integer in bytes.

    Examples
    --------
    >>> parse_size("64KB")
    65536
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or not (match[2] or match[3]) or len(match[1]) > 20:
        raise FormatError(f"expected a size with a unit, such as 512B, 1K or 64MB, found {text!r}")
    number: str = match[1]
    whole, _, decimals = number.partition(".")
    scale: int = 10 ** len(decimals)
    factor = 1 << (10 * _POWER_OF_1024[match[2].upper()])
    size, rest = divmod(int(whole + decimals) * factor, scale)
    if rest or size > MAX_SIZE_BYTES:
        raise FormatError(f"size {text!r}: expected an integer number of bytes up to 1024TB")
    return size


def parse_sizes(text: str) -> list[int]:
    """Sizes in bytes: one (``1M``), a range by factors of two (``1K..64M``), or several after commas.

    Raises
    ------
    FormatError
        If a part is not a size, or a range is empty or starts at 0.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.parse_sizes("1K..4K,1M")
    [1024, 2048, 4096, 1048576]
    """
    sizes: list[int] = []
    for part in text.split(","):
        low, dots, high = part.partition("..")
        if dots and not (low.strip() and high.strip(" .")):
            raise FormatError(f"size range {part.strip()!r}: expected two sizes, as in 1K..1GB")
        if not dots and _DASHED.fullmatch(part.strip()):
            meant = part.strip().replace("-", "..")
            raise FormatError(f"size range {part.strip()!r}: expected two dots, as in {meant}")
        first = parse_size(low)
        last = parse_size(high) if dots else first
        if dots and not 0 < first <= last:
            raise FormatError(f"size range {part.strip()!r}: expected 0 < first <= last")
        sizes.append(first)
        while sizes[-1] * 2 <= last and dots:
            sizes.append(sizes[-1] * 2)
    return sizes


def measure(
    program: Program | ProgramGroups,
    sizes: Iterable[int],
    *,
    on_row: Callable[[SweepRow], None] | None = None,
    **keywords: Unpack[RunKeywords],
) -> list[SweepRow]:
    """Run a program in this process at every size, check every element, and time it.

    Parameters
    ----------
    program : Program or ProgramGroups
        Of several groups: each has data of its own, and one runs after the other, as ranks do.
    sizes : iterable of int
        Bytes of the larger per-rank buffer, rounded down to whole elements.
    on_row : callable, optional
        Called with every row as it is ready.
    **keywords
        The fields of `RunOptions`.

    Returns
    -------
    list of SweepRow

    Raises
    ------
    ScheduleError
        If the program cannot be executed.
    """
    options = RunOptions(**keywords)
    element = options.element
    prepared = [PreparedProgram(one) for one in as_groups(program).programs]
    counts = [size // element.n_bytes for size in sizes]
    # the first touch of fresh memory costs more than the copies, so that all sizes share the largest's
    largest = max(counts, default=0)
    storage = [
        Execution(one, largest, element=element, slice_bytes=MAX_SIZE_BYTES).memories for one in prepared
    ]
    rows: list[SweepRow] = []
    for count in counts:
        groups = []
        for group, (one, memories) in enumerate(zip(prepared, storage, strict=True)):
            execution = Execution(
                one,
                count,
                element=element,
                reduction=options.reduction,
                slice_bytes=options.slices_of(SLICE_BYTES),
                storage=memories,
            )
            groups.append((execution, group_pattern(one.program, count, options, group)))
        checked = [_checked_run(execution, pattern) for execution, pattern in groups]
        wrong = [found for found, _ in checked]
        timed, untimed = options.runs_after(sum(seconds for _, seconds in checked))
        times = [_timed_runs(groups) for _ in range(untimed + timed)][untimed:]
        row = row_of(options, prepared[0].program, count, times, wrong)
        rows.append(row)
        if on_row is not None:
            on_row(row)
    return rows


def group_pattern(program: Program, count: int, options: RunOptions, group: int, launch: int = 0) -> Pattern:
    """Inputs of one group's ranks: others for every group and launch."""
    return make_pattern(
        program.n_ranks,
        count,
        element=options.element,
        reduction=options.reduction,
        reduces=program.kind.reduces,
        seed=options.seed + 1000 * launch + group,
    )


def worst_of(wrong: Sequence[int]) -> int | None:
    """The first group with the most wrong elements; None where there is one group, or none is wrong."""
    return wrong.index(max(wrong)) if len(wrong) > 1 and any(wrong) else None


def row_of(
    options: RunOptions,
    program: Program,
    count: int,
    times: Sequence[float],
    wrong: Sequence[int],
    reference: Sequence[float] = (),
) -> SweepRow:
    """The table's line for times and reference times in seconds, and wrong elements of each group."""
    return make_row(
        program,
        count,
        times,
        sum(wrong),
        element=options.element,
        reduction=options.reduction,
        reference_time_s=statistics.median(reference) if reference else None,
        worst_group=worst_of(wrong),
    )


def make_row(
    program: Program,
    count: int,
    times: Sequence[float],
    wrong: int,
    *,
    element: ElementType,
    reduction: Reduction,
    reference_time_s: float | None = None,
    worst_group: int | None = None,
) -> SweepRow:
    """The table's line for `count` elements and the given times in seconds; `program` is of any group."""
    time_s = statistics.median(times)
    size_bytes = count * element.n_bytes
    algbw = size_bytes / time_s if time_s > 0 else 0.0
    shown = count
    if not (program.kind.is_rooted or (program.kind.reduces and program.kind.broadcasts)):
        bounds = [program.element(int(chunk), count) for chunk in program.shard_offset]
        shown = max(high - low for low, high in pairwise(bounds))
    return SweepRow(
        size_bytes=size_bytes,
        count=shown,
        element=element,
        reduction=reduction if program.kind.reduces else None,
        root=program.root,
        time_s=time_s,
        iterations=len(times),
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * float(busbw_factor(program.kind, program.n_ranks)),
        wrong=wrong,
        reference_time_s=reference_time_s,
        worst_group=worst_group,
    )


def _checked_run(execution: Execution, pattern: Pattern) -> tuple[int, float]:
    """Wrong elements over all ranks after one run on fresh buffers, and its seconds."""
    for memory in execution.memories:
        for buffer in (Buffer.SCRATCH, Buffer.OUTPUT):
            poison(memory.arrays[buffer])
    seconds = _timed_run(execution, pattern, refill=True)
    wrong = sum(
        count_wrong(execution.layout, rank, memory, pattern) for rank, memory in enumerate(execution.memories)
    )
    return wrong, seconds


def _timed_runs(groups: Sequence[tuple[Execution, Pattern]]) -> float:
    """Seconds of all groups, one after the other."""
    return sum(_timed_run(execution, pattern) for execution, pattern in groups)


def _timed_run(execution: Execution, pattern: Pattern, *, refill: bool = False) -> float:
    # in place the last run has overwritten the input, and sums of sums would overflow
    if refill or execution.layout.program.in_place:
        for rank, memory in enumerate(execution.memories):
            fill_input(rank, memory, pattern)
    start = perf_counter()
    with np.errstate(all="ignore"):  # a wrong program may combine poison
        execution.run()
    return perf_counter() - start
