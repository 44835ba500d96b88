"""All-to-alls factor by factor: what ranks have for each other goes digit by digit, and together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from treadle.arrays import Int64Array, frozen
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.sizes.boxed import Boxes, listed, usual_factors
from treadle.synthesis.sizes.exchanges import Messages
from treadle.synthesis.sizes.shortest_paths import steps_over_paths
from treadle.synthesis.sizes.spanning_exchanges import few_ranks
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.embedding import check_supported
from treadle.topologies.topology import Topology

_NAME = "factor-exchange"
_KINDS = (CollectiveKind.ALLTOALL,)


def factor_exchange(
    topology: Topology, collective: Collective, *, factors: Sequence[int] | None = None
) -> ExchangeSchedule:
    """All to all among ranks that differ in one digit, digit by digit, with all that goes on from there.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all; demands may differ.
    factors : sequence of int, optional
        Radices from the last digit, which distinguishes neighbours and goes first. With the product N digits
        are those of the ranks, numbered box by box; with a larger one those of the distance round the ranks,
        as in Bruck's exchange. Default: of boxes of one size the size and their number, else N.

    Raises
    ------
    ScheduleError
        If the factors' product is less than N, or some factor is of no use.
    InfeasibleError
        If a rank does not reach another.

    Notes
    -----
    Of 16 boxes of 8 the default sends each rank's data for the i-th ranks of all boxes to the i-th rank of
    its own, and that sends what its box has for each other one in one message: 7 + 15 messages instead of
    127. Factors 2,2,...: Bruck's exchange.
    """
    check_supported(_NAME, topology, collective, _KINDS, (few_ranks,))
    boxes = find_boxes(topology, collective)
    radices = _radices(boxes, factors)
    demands = collective.pair_demands.matrix.copy()
    np.fill_diagonal(demands, 0)
    sources, targets = np.nonzero(demands)
    order = np.array([rank for box in boxes for rank in box], dtype=np.int64)
    place = np.argsort(order)
    steps = _steps(radices, place[sources], place[targets], len(order))
    moved = [(order[sender], order[target], shard) for sender, target, shard in steps]
    homes = [sources.astype(np.int64)]
    sends = steps_over_paths(topology, collective, Direction.BROADCAST, [moved], homes)
    return ExchangeSchedule(sends, frozen(targets, np.int32))


def _radices(boxes: Boxes, factors: Sequence[int] | None) -> tuple[int, ...]:
    if factors is None:
        return usual_factors(boxes)
    n, product = sum(map(len, boxes)), prod(factors)
    if min(factors, default=0) < 1 or product < n or (product > n and prod(factors[:-1]) >= n):
        raise ScheduleError(
            f"{_NAME}: factors {listed(factors)}: expected a product of {n} ranks, or the first above it"
        )
    return tuple(factors)


def _steps(radices: tuple[int, ...], source: Int64Array, target: Int64Array, n: int) -> list[Messages]:
    """Sender, shard and receiver by position, digit by digit from the last."""
    at, unit, steps = source.copy(), 1, list[Messages]()
    for radix in radices:
        if prod(radices) == n:
            goal = at + (target // unit % radix - at // unit % radix) * unit
        else:
            goal = (at + (target - source) % n // unit % radix * unit) % n
        moves = np.flatnonzero(goal != at)
        steps.append((at[moves], goal[moves], moves))
        at, unit = goal, unit * radix
    return steps
