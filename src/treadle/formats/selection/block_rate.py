"""Instances of a schedule such that no thread block has to carry more than one carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from treadle.errors import ScheduleError
from treadle.formats.file_options import AUTO_CHUNKS
from treadle.formats.request import FileRequest, Given
from treadle.formats.selection.chunk_counts import Grid, facts_of
from treadle.formats.selection.supported_sizes import Selector, supported_call_sizes
from treadle.program.passes import replicate
from treadle.program.program import Program

BLOCK_BYTES_PER_S = 20_000_000_000
"""Bytes per second of a thread block: a channel of NCCL on the slowest of its presets."""

MOST_INSTANCES = 32
_MOST_OPERATIONS = 2**15
"""Most operations of a program that instances make; larger files load slowly."""
_LATENCY_BYTES = 2**16
"""A block that moves no more takes as long as a few messages: more blocks do not help."""
_LEFT_BYTES = 2**13
"""Sizes up to this may be left to the runtime's own algorithms."""


@dataclass(frozen=True)
class SpreadFile:
    """A runtime file, the program in it, and the load of its busiest thread block.

    Parameters
    ----------
    grid : Grid
    text : str
    instances : int
        Copies of the schedule side by side in the file.
    share : Fraction
        Part of the collective's larger per-rank buffer that the busiest block moves.
    carried_algbw : Fraction, optional
        Algbw (bytes/s) at which the busiest block moves `BLOCK_BYTES_PER_S`; None where the plan's is less.
    """

    grid: Grid
    text: str
    instances: int
    share: Fraction
    carried_algbw: Fraction | None


def spread_over_blocks(
    request: FileRequest,
    written: tuple[Grid, str],
    selector: Selector,
    emit: Callable[[Program], str],
    shares: Callable[[str], Fraction],
    asked: Callable[[str], Given],
    *,
    least: int = 1,
) -> SpreadFile:
    """Choose the number of instances, unless it or the chunks were given.

    Parameters
    ----------
    request : FileRequest
    written : tuple of Grid and str
        The file with the instances that were given, or one.
    selector : Selector
        Of the runtime: more instances may not support fewer sizes above 8 KB.
    emit : callable
        From a program to a file; ScheduleError where it does not fit the runtime.
    shares : callable
        from a runtime file to the part of the buffer that its busiest block moves.
    asked : callable
        from a runtime file to the operations that it leaves to switches.
    least : int
        Instances that are tried in any case.
    """
    grid, text = written

    def supported_rate(program: Program) -> int:
        facts = facts_of(program, request.entry.min_bytes, request.max_bytes)
        return sum(size > _LEFT_BYTES for size in supported_call_sizes(facts, selector))

    def wanted_of(text: str, program: Program) -> Fraction:
        """The plan's algbw, or what is left of it where ranks do what the plan leaves to switches."""
        return request.rate_without_switches(program, asked(text)) or request.plan.algbw

    def spread(grid: Grid, text: str, instances: int) -> SpreadFile:
        share, wanted = shares(text), wanted_of(text, grid.program)
        is_small = request.protocol == "LL" or 0 < request.max_bytes * share <= _LATENCY_BYTES
        is_short = share * wanted > BLOCK_BYTES_PER_S and not is_small
        return SpreadFile(grid, text, instances, share, BLOCK_BYTES_PER_S / share if is_short else None)

    best = spread(grid, text, request.options.instances or 1)
    if request.options.instances is not None or request.options.chunks != AUTO_CHUNKS:
        return best
    wanted = request.plan.algbw if best.carried_algbw is not None else 0
    needed = ceil(best.share * wanted / BLOCK_BYTES_PER_S)
    instances = 1 << (max(needed, least) - 1).bit_length()
    whole, least_served = wanted_of(text, grid.program), supported_rate(grid.program)

    def file_with(instances: int) -> SpreadFile | None:
        """The file with so many instances; None where it does not fit, or leaves switches less."""
        if grid.program.n_operations * instances > _MOST_OPERATIONS:
            return None
        program = replicate(grid.program, instances)
        if supported_rate(program) < least_served:
            return None
        try:
            text = emit(program)
            if wanted_of(text, program) != whole:
                return None
        except ScheduleError:  # beyond the runtime's tables
            return None
        more = replace(grid, program=program, plan_chunks=grid.plan_chunks * instances)
        return spread(more, text, instances)

    is_fitting = False
    while 1 < instances <= MOST_INSTANCES:
        made = file_with(instances)
        if made is None and is_fitting:
            break
        if made is None:
            instances //= 2
            continue
        is_fitting = True
        if made.share < best.share:
            best = made
        if made.carried_algbw is None or instances < needed:
            break
        instances *= 2
    return best
