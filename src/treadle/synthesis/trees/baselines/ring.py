"""Rings through boxes, one per NIC, as NCCL and RCCL build them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from treadle.schedules.collective import SPANNING_KINDS, Collective
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.baselines.boxes import Arcs, CycleFinder, direct_arcs, find_boxes
from treadle.synthesis.trees.baselines.embedding import ForestBuilder, check_supported, compose
from treadle.topologies.topology import Topology

Order = tuple[int, ...]
"""Ranks in the order a ring visits them."""

VARIANTS = 8
"""Orders of search tried for the cycles inside a box without a switch."""

MAX_CYCLES = 8
"""Cycles tried inside one box without a switch; more brought nothing on MI250, MI300X and the hypercubes."""


def ring(topology: Topology, collective: Collective) -> ForestSchedule:
    """Ring algorithm: every root's data goes once round each ring.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Of any kind.

    Returns
    -------
    ForestSchedule
        One path-shaped tree per root and ring.

    Notes
    -----
    Several boxes: ring j enters a box at rank j, visits the box, and leaves to the rank of the same place in
    the next box, so that it stays on one rail; over all rings every NIC sends once and receives once.
    Inside a box without a switch the rings follow Hamiltonian paths over its direct links. A direct-connect
    fabric gets Hamiltonian cycles in both directions; where none is found the ring goes in rank order and
    ranks pass on data of others.
    """
    check_supported("ring", topology, collective, SPANNING_KINDS)

    def build(fabric: Topology, there: Collective) -> Forest:
        orders = ring_orders(fabric, there)
        return forest_of_rings(ForestBuilder(fabric, there), orders, there.shard_weights)

    return compose(topology, collective, build)


def single_ring(topology: Topology, collective: Collective) -> ForestSchedule:
    """Return one ring through the boxes in the order of ranks, made without any search."""

    def build(topology: Topology, collective: Collective) -> Forest:
        boxes = find_boxes(topology, collective)
        order = _through_boxes(boxes, [None] * len(boxes), 0)
        return forest_of_rings(ForestBuilder(topology, collective), (order,), collective.shard_weights)

    return compose(topology, collective, build)


def forest_of_rings(builder: ForestBuilder, orders: Sequence[Order], weights: Sequence[int]) -> Forest:
    """Return the forest in which the data of every root go once around each ring."""
    for order in orders:
        parent, numbers = np.full((2, len(order)), -1, dtype=np.int32)
        routes = [builder.router.route(u, v) for u, v in zip((order[-1], *order), order, strict=False)]
        for u, v, links in zip((order[-1], *order), order, routes, strict=False):
            parent[v], numbers[v] = u, -1 if links is None else builder.path_number(links)
        for root in np.flatnonzero(weights).tolist():
            above, paths = parent.copy(), numbers.copy()
            above[root] = paths[root] = -1
            if np.any(numbers < 0):
                builder.add_logical(root, weights[root], above)
            else:
                builder.add_tree(root, weights[root], above, paths)
    return builder.build()


def ring_orders(topology: Topology, collective: Collective) -> tuple[Order, ...]:
    """Return the rings that `ring` uses, each a cyclic order of all ranks."""
    boxes = find_boxes(topology, collective)
    arcs = direct_arcs(topology, collective)
    if len(boxes) == 1:
        # without direct links as many rings as the most links out of one rank
        links_out = np.bincount(topology.tails, minlength=topology.n_nodes)[list(collective.ranks)]
        return box_cycles(boxes[0], arcs) or (boxes[0],) * int(links_out.max())
    lanes = [_box_lanes(box, arcs) for box in boxes]
    return tuple(_through_boxes(boxes, lanes, j) for j in range(min(len(box) for box in boxes)))


def box_cycles(box: Sequence[int], arcs: Arcs) -> tuple[Order, ...]:
    """Return Hamiltonian cycles over a box's direct links, each in both directions if possible; may be empty.

    Of the cycles found one after the other, the first ones with the greatest joint throughput are kept;
    a cycle taken early may block all others, so several orders of search compete.
    """
    kept: tuple[Order, ...] = ()
    best = Fraction(0)
    for variant in range(VARIANTS):
        finder = CycleFinder(box, arcs, variant=variant)
        orders: list[Order] = []
        for _ in range(MAX_CYCLES if finder.degree else 0):
            cycle = finder.next_order(box[0])
            if cycle is None:
                break
            orders.append(cycle)
            if finder.is_reversible(cycle):
                orders.append(cycle[:1] + cycle[:0:-1])
            if len(orders) / finder.relative_load > best:
                kept, best = tuple(orders), len(orders) / finder.relative_load
    return kept


def _box_lanes(box: Sequence[int], arcs: Arcs) -> list[Order] | None:
    """Return one Hamiltonian path per entry rank, with different last ranks; None if not found.

    Ranks are paired along a cycle; a pair shares a path, walked once from either end.
    """
    finder = CycleFinder(box, arcs)
    cycle = finder.next_order(box[0]) if finder.degree else None
    if cycle is None:
        return None
    n, found = len(box), list[tuple[Fraction, list[Order]]]()
    for offset in (0, 1) if n % 2 == 0 else ():
        finder = CycleFinder(box, arcs)
        lanes: list[Order] = []
        for j in range(offset, n + offset, 2):
            order = finder.next_order(cycle[j % n], cycle[(j + 1) % n])
            if order is None:
                break
            lanes += [order, order[::-1]]
        if len(lanes) == n:
            found.append((finder.relative_load, lanes))
    # n / 2 pairs walk a link at most n / 2 times each way, all n turns of the cycle n - 1 times one way
    _, chosen = min(found, key=lambda pair: pair[0], default=(0, [cycle[j:] + cycle[:j] for j in range(n)]))
    return sorted(chosen)


def _through_boxes(boxes: Sequence[Sequence[int]], lanes: Sequence[list[Order] | None], j: int) -> Order:
    """Return ring j: each box is left at the position where the next one is entered.

    Places alternate between two, and with an odd number of boxes a third one closes the ring; a box without a
    switch can only walk its channel forwards or backwards.
    """
    places = [j + i % 2 for i in range(len(boxes))]
    if len(boxes) % 2 and len(boxes) > 1:
        places[-1] = j + 2
    order: list[int] = []
    for i, (box, known) in enumerate(zip(boxes, lanes, strict=True)):
        if known is not None:
            lane = known[j % len(known)]
            order += lane[::-1] if i % 2 else lane
        else:
            order += _switched_lane(box, places[i], places[(i + 1) % len(boxes)])
    return tuple(order)


def _switched_lane(box: Sequence[int], entry: int, leaving: int) -> list[int]:
    """Return the ranks of the box from one position to another, downwards in between."""
    n = len(box)
    first, last = entry % n, leaving % n
    between = [(first - step) % n for step in range(1, n)]
    places = [first, *(place for place in between if place != last)]
    return [box[place] for place in (places if last == first else [*places, last])]
