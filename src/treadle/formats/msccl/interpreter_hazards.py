"""Finds pairs of steps that access the same memory in no defined order.

Most pairs are settled by a wait that names the earlier step's thread block. For the others, vector clocks are
computed over the thread blocks of these pairs only: first with the rank's own waits, then with messages too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from treadle.arrays import Int32Array
from treadle.errors import FormatError
from treadle.formats.msccl.interpreter_order import Edges
from treadle.formats.msccl.reader import Algorithm

_CLOCK_BYTES = 2**27
"""Most memory of the clocks of all steps."""
MAX_WORK = 10**9
"""Largest product of steps and thread blocks in pairs: about a minute."""

Pair = tuple[int, int]
"""An earlier step, in the order of execution, and a later one of the same rank."""


def find_unordered(algorithm: Algorithm, edges: Edges, order: Sequence[int], pairs: list[Pair]) -> list[Pair]:
    """Return the pairs in which the first step need not be complete when the second begins.

    `order` has all steps and respects `edges`; the steps of a pair are in two thread blocks of one rank.
    FormatError if the file is too large to decide this.
    """
    left = _open_within_ranks(algorithm, edges, order, pairs)
    columns = sorted({algorithm.steps[one].block for one, _ in left})
    if len(columns) * len(order) > MAX_WORK:
        raise FormatError(
            f"{len(order)} steps with conflicts in {len(columns)} thread blocks: too large to verify"
        )
    return _unsettled(algorithm, edges.after, order, left, columns)


def _open_within_ranks(
    algorithm: Algorithm, edges: Edges, order: Sequence[int], pairs: list[Pair]
) -> list[Pair]:
    """Return the pairs that the waits of their own rank, one after another, leave open."""
    by_rank: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_rank[algorithm.steps[pair[0]].rank].append(pair)
    own: dict[int, list[int]] = {rank: [] for rank in by_rank}
    for number in order if by_rank else ():
        rank = algorithm.steps[number].rank
        if rank in own:
            own[rank].append(number)
    left: set[Pair] = set()
    for rank, found in by_rank.items():
        columns = sorted({algorithm.steps[one].block for one, _ in found})
        # Too much work for the clocks of one rank: leave the pairs to the search over all ranks.
        if len(columns) * len(own[rank]) > MAX_WORK:
            left.update(found)
            continue
        inner = {
            number: [other for other in edges.after[number] if algorithm.steps[other].rank == rank]
            for number in own[rank]
        }
        left.update(_unsettled(algorithm, inner, own[rank], found, columns))
    return [pair for pair in pairs if pair in left]


def _unsettled(
    algorithm: Algorithm,
    after: Sequence[list[int]] | dict[int, list[int]],
    order: Sequence[int],
    pairs: list[Pair],
    columns: list[int],
) -> list[Pair]:
    """Return the pairs without those whose first step, in one of these thread blocks, precedes the second.

    Clocks are computed for as many thread blocks at a time as fit into memory.
    """
    batch = min(512, max(1, _CLOCK_BYTES // (4 * max(1, len(order)))))
    for start in range(0, len(columns), batch):
        column = {block: number for number, block in enumerate(columns[start : start + batch])}
        earlier_of: dict[int, list[int]] = defaultdict(list)
        for one, other in pairs:
            if algorithm.steps[one].block in column:
                earlier_of[other].append(one)
        settled: set[Pair] = set()
        clocks: dict[int, Int32Array] = {}
        nothing = np.full(len(column), -1, dtype=np.int32)
        for number in order:
            clock = clocks.pop(number, nothing)
            step = algorithm.steps[number]
            for one in earlier_of.get(number, ()):
                earlier = algorithm.steps[one]
                if clock[column[earlier.block]] >= earlier.place:
                    settled.add((one, number))
            if step.block in column:
                clock = clock.copy()
                clock[column[step.block]] = step.place
            if clock is nothing:
                continue
            for successor in after[number]:
                # Clocks are shared and never changed, so that a long line of steps keeps only one.
                known = clocks.get(successor)
                clocks[successor] = clock if known is None else np.maximum(known, clock)
        pairs = [pair for pair in pairs if pair not in settled]
    return pairs
