"""Pairs of steps that touch the same memory: which of them does nothing put in order?

Most pairs are settled by a wait that names the earlier step's thread block. For the rest, vector clocks are
formed over the thread blocks that are asked about and no others: first with the rank's own waits, then with
messages between ranks too.
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
"""Most memory of the clocks of all steps together."""
MAX_WORK = 10**9
"""Largest product of steps and thread blocks asked about: about a minute."""

Pair = tuple[int, int]
"""An earlier step, in the order of execution, and a later one of the same rank."""


def find_unordered(algorithm: Algorithm, edges: Edges, order: Sequence[int], pairs: list[Pair]) -> list[Pair]:
    """Those pairs of steps in which the first need not be over when the second begins, in the order given.

    Parameters
    ----------
    algorithm : Algorithm
    edges : Edges
    order : sequence of int
        All steps, in an order that respects `edges`.
    pairs : list of (int, int)
        Of two thread blocks of one rank.

    Raises
    ------
    FormatError
        If the text is so large that this cannot be told.
    """
    left = _without_those_in_rank(algorithm, edges, order, pairs)
    columns = sorted({algorithm.steps[one].block for one, _ in left})
    if len(columns) * len(order) > MAX_WORK:
        raise FormatError(
            f"{len(order)} steps with conflicts in {len(columns)} thread blocks: too large to judge"
        )
    return _unsettled_by_all(algorithm, edges.after, order, left, columns)


def _unsettled_by_all(
    algorithm: Algorithm,
    after: Sequence[list[int]] | dict[int, list[int]],
    order: Sequence[int],
    pairs: list[Pair],
    columns: list[int],
) -> list[Pair]:
    """As `_unsettled`, with so few thread blocks at a time that their clocks fit into memory."""
    batch = min(512, max(1, _CLOCK_BYTES // (4 * max(1, len(order)))))
    for start in range(0, len(columns), batch):
        pairs = _unsettled(algorithm, after, order, pairs, columns[start : start + batch])
    return pairs


def _without_those_in_rank(
    algorithm: Algorithm, edges: Edges, order: Sequence[int], pairs: list[Pair]
) -> list[Pair]:
    """The pairs that the waits of their own rank, one after another, leave open."""
    asked: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        asked[algorithm.steps[pair[0]].rank].append(pair)
    own: dict[int, list[int]] = {rank: [] for rank in asked}
    for number in order if asked else ():
        rank = algorithm.steps[number].rank
        if rank in own:
            own[rank].append(number)
    left: set[Pair] = set()
    for rank, found in asked.items():
        columns = sorted({algorithm.steps[one].block for one, _ in found})
        if len(columns) * len(own[rank]) > MAX_WORK:
            left.update(found)
            continue
        inner = {
            number: [other for other in edges.after[number] if algorithm.steps[other].rank == rank]
            for number in own[rank]
        }
        left.update(_unsettled_by_all(algorithm, inner, own[rank], found, columns))
    return [pair for pair in pairs if pair in left]


def _unsettled(
    algorithm: Algorithm,
    after: Sequence[list[int]] | dict[int, list[int]],
    order: Sequence[int],
    pairs: list[Pair],
    columns: list[int],
) -> list[Pair]:
    """The pairs without those whose first step, of one of these thread blocks, comes before the second."""
    place = {block: column for column, block in enumerate(columns)}
    asked: dict[int, list[int]] = defaultdict(list)
    for one, other in pairs:
        if algorithm.steps[one].block in place:
            asked[other].append(one)
    settled: set[Pair] = set()
    clocks: dict[int, Int32Array] = {}
    nothing = np.full(len(columns), -1, dtype=np.int32)
    for number in order:
        clock = clocks.pop(number, nothing)
        step = algorithm.steps[number]
        for one in asked.get(number, ()):
            earlier = algorithm.steps[one]
            if clock[place[earlier.block]] >= earlier.place:
                settled.add((one, number))
        if step.block in place:
            clock = clock.copy()
            clock[place[step.block]] = step.place
        if clock is nothing:
            continue
        for successor in after[number]:
            # clocks are shared and never changed, so that a long line of steps keeps one
            known = clocks.get(successor)
            clocks[successor] = clock if known is None else np.maximum(known, clock)
    return [pair for pair in pairs if pair not in settled]
