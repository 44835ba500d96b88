"""Costs of tree schedules on a fabric, also of concurrent groups: exact loads, throughput, heights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.in_network import group_crossings
from treadle.schedules.trees.forest import ForestSchedule, Tree
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology


def link_loads(topology: Topology, schedule: ForestSchedule) -> Int64Array:
    """Return the units that cross each link, of all forests together, shape (m,).

    A unit is 1/R of the data, R = `schedule.total_units`. The links that in-network operations cross in
    addition to the trees' paths count as well (`treadle.schedules.in_network`).
    """
    loads = np.zeros(topology.n_links, dtype=np.int64)
    for forest in schedule.forests:
        np.add.at(loads, forest.path_links, np.repeat(forest.path_units(), np.diff(forest.path_offset)))
        loads += group_crossings(topology, forest)
    return loads


def algbw(topology: Topology, schedule: ForestSchedule) -> Fraction:
    """Return the asymptotic algorithmic bandwidth in bytes/s: size / time as the number of slices grows.

    The time is that of the most congested link, M/R * max load/bandwidth. The reducing and broadcasting
    forests of an allreduce run concurrently.
    """
    return rate_of_loads(topology, link_loads(topology, schedule), schedule.total_units)


def rate_of_loads(topology: Topology, loads: Int64Array, total_units: int) -> Fraction:
    """Return the algorithmic bandwidth in bytes/s for loads in units of 1/R of the data."""
    used = np.flatnonzero(loads)
    rates = {(int(topology.bandwidths[e]), int(loads[e])) for e in used}
    return total_units * min(Fraction(bandwidth, load) for bandwidth, load in rates)


def group_algbw(topology: Topology, schedule: GroupSchedule) -> Fraction:
    """Return the asymptotic algbw of every group while all run concurrently, bytes/s.

    Each group moves M bytes, in units of M / R_g: link e carries the sum over groups of load_g(e) * M / R_g.
    Exact.
    """
    loads: dict[int, Int64Array] = {}
    for one in schedule.groups:
        loads[one.total_units] = loads.get(one.total_units, 0) + link_loads(topology, one)
    kinds = np.stack([topology.bandwidths, *loads.values()])
    used = np.unique(kinds[:, kinds[1:].any(axis=0)], axis=1)
    shares: list[tuple[int, Fraction]] = [
        (bandwidth, sum((Fraction(load, units) for load, units in zip(row, loads, strict=True)), Fraction(0)))
        for bandwidth, *row in used.T.tolist()
    ]
    return min(bandwidth / share for bandwidth, share in shares)


def height(tree: Tree) -> int:
    """Return the largest number of logical hops between the root and a rank."""
    is_root = tree.parent < 0
    # hops to an ancestor; each round doubles the distance, up to the root
    hops = (~is_root).astype(np.int64)
    above = np.where(is_root, np.arange(len(tree.parent)), tree.parent)
    for _ in range(len(tree.parent).bit_length()):
        further = hops[above]
        if not further.any():
            break
        hops += further
        above = above[above]
    return int(hops.max(initial=0))


def height_max(schedule: ForestSchedule) -> int:
    """Return the greatest height of all trees of all forests."""
    return max(
        height(tree)
        for forest in schedule.forests
        for root in range(forest.n_ranks)
        for tree in forest.trees(root)
    )
