"""Allgathers of few rounds as schedulers, with the reduce-scatters and allreduces that they turn into.

Each is a tree per root, so that boxes may differ in size and shards in weight, and switches may copy and
add up (`--multicast`). What goes from a rank to another in one depth of the trees is one message where it
is adjacent in the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from treadle.arrays import Int32Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.sizes.boxed import (
    Boxes,
    checked_factors,
    listed,
    nearest_factor,
    rail_trees,
    three_stage_trees,
)
from treadle.synthesis.sizes.exchanges import bruck, direct, far_first, grid_trees, ring, trees_of
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.embedding import GATHERING, check_supported, embedded
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

MOST_RANKS = 512
"""Most ranks if every rank sends to every other: a quarter of a million routes."""
MOST_IN_BOXES = 2048
"""Most ranks if ranks send to few: four million edges of trees."""


def several_boxes(topology: Topology, collective: Collective) -> Unsupported | None:
    """Ranks that are joined more tightly in groups than to one another."""
    if len(find_boxes(topology, collective)) > 1:
        return None
    return Unsupported(f"{topology.name} is one box; use one-shot or mixed-radix")


def not_too_many(_: Topology, collective: Collective) -> Unsupported | None:
    """At most 2048."""
    n = collective.n_ranks
    return Unsupported(f"expected at most {MOST_IN_BOXES} ranks, found {n}") if n > MOST_IN_BOXES else None


def few_ranks(_: Topology, collective: Collective) -> Unsupported | None:
    """At most 512."""
    n = collective.n_ranks
    return Unsupported(f"expected at most {MOST_RANKS} ranks, found {n}") if n > MOST_RANKS else None


def one_shot(topology: Topology, collective: Collective) -> ForestSchedule:
    """Every rank sends its shard to every other by itself, each beginning with the one after it."""
    n = collective.n_ranks
    return _scheduled("one-shot", topology, collective, lambda _: trees_of(direct(n), n))


def rail(topology: Topology, collective: Collective) -> ForestSchedule:
    """Every shard straight to the rank of its place in every other box, then to all in each box."""
    return _scheduled("rail", topology, collective, lambda boxes: rail_trees(boxes, direct(len(boxes))))


def rail_bruck(
    topology: Topology, collective: Collective, *, factors: Sequence[int] = (2,)
) -> ForestSchedule:
    """Bruck's allgather among ranks of equal place in all boxes, then all to all in each box.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    factors : sequence of int, optional
        One number: the radix, default 2.

    Raises
    ------
    ScheduleError
        If `factors` is not one number from 2.
    """
    if len(factors) != 1 or factors[0] < 2:
        raise ScheduleError(f"rail-bruck: factors {listed(factors)}: expected one radix, at least 2")
    return _scheduled(
        "rail-bruck", topology, collective, lambda boxes: rail_trees(boxes, bruck(len(boxes), factors[0]))
    )


def rail_ring(topology: Topology, collective: Collective) -> ForestSchedule:
    """Every shard round the ranks of its place in all boxes, and from each of them to all in its box."""
    return _scheduled("rail-ring", topology, collective, lambda boxes: rail_trees(boxes, ring(len(boxes))))


def three_stage(topology: Topology, collective: Collective) -> ForestSchedule:
    """All to all in the box; each member takes the box's data to a few others; all to all there.

    Boxes send one message to each other, or as many as keep all members busy where there are fewer boxes
    than members.
    """
    return _scheduled("three-stage", topology, collective, three_stage_trees)


def mixed_radix(
    topology: Topology, collective: Collective, *, factors: Sequence[int] | None = None
) -> ForestSchedule:
    """Ranks as numbers of mixed radix: all to all among those that differ in one digit, digit by digit.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    factors : sequence of int, optional
        Radices from the last digit, which distinguishes neighbours, to the first, over which shards go first;
        their product is N. Ranks are numbered box by box. Default: of boxes of one size the size and their
        number; else the two nearest to each other.

    Raises
    ------
    ScheduleError
        If the factors do not multiply to the number of ranks.
    """

    def trees(boxes: Boxes) -> Int32Array:
        shape = _digits(boxes, factors)[::-1]
        return _in_box_order(boxes, grid_trees(shape))

    return _scheduled("mixed-radix", topology, collective, trees)


def pat(topology: Topology, collective: Collective) -> ForestSchedule:
    """Binomial trees, all in parallel, from the largest distance down: near messages are the large ones.

    Notes
    -----
    Of PAT's aggregated messages that are pieced together in intermediate buffers, only those adjacent in
    the buffer are one message here.
    """
    n = collective.n_ranks
    return _scheduled(
        "pat", topology, collective, lambda boxes: _in_box_order(boxes, trees_of(far_first(n), n))
    )


def _digits(boxes: Boxes, factors: Sequence[int] | None) -> tuple[int, ...]:
    """Radices from the last digit to the first."""
    n, sizes = sum(map(len, boxes)), {len(box) for box in boxes}
    if factors is None:
        if len(boxes) > 1 and len(sizes) == 1:
            return sizes.pop(), len(boxes)
        return n // nearest_factor(n), nearest_factor(n)
    return checked_factors("mixed-radix", boxes, factors)


def _in_box_order(boxes: Boxes, trees: Int32Array) -> Int32Array:
    """Trees of the places in the boxes' order as trees of the ranks there."""
    order = np.array([rank for box in boxes for rank in box], dtype=np.int32)
    parent = np.empty_like(trees)
    parent[np.ix_(order, order)] = np.where(trees < 0, -1, order[trees])
    return parent


def _scheduled(
    name: str, topology: Topology, collective: Collective, trees: Callable[[Boxes], Int32Array]
) -> ForestSchedule:
    """The collective by trees between the ranks, routed."""
    check_supported(name, topology, collective, GATHERING, (not_too_many,))
    return embedded(topology, collective, trees(find_boxes(topology, collective)))
