"""What a schedule costs on a fabric: exact loads, throughput, heights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.in_network import group_crossings
from treadle.schedules.trees.forest import ForestSchedule, Tree
from treadle.topologies.topology import Topology


def link_loads(topology: Topology, schedule: ForestSchedule) -> Int64Array:
    """Units that cross each link, all forests together, shape (m,).

    A unit is 1/R of the data, R = `schedule.total_units`. What the groups of operations cross besides the
    trees' paths counts too (`treadle.schedules.in_network`).
    """
    loads = np.zeros(topology.n_links, dtype=np.int64)
    for forest in schedule.forests:
        units = np.zeros(forest.n_paths, dtype=np.int64)  # on each path, over all trees
        np.add.at(units, forest.entry_path, forest.entry_units)
        np.add.at(loads, forest.path_links, np.repeat(units, np.diff(forest.path_offset)))
        loads += group_crossings(topology, forest)
    return loads


def algbw(topology: Topology, schedule: ForestSchedule) -> Fraction:
    """Asymptotic algorithmic bandwidth in bytes/s: size / time as the number of slices grows.

    The time is that of the most congested link, M/R * max load/bandwidth, where reducing and broadcasting
    forests of an allreduce run at once.
    """
    return rate_of_loads(topology, link_loads(topology, schedule), schedule.total_units)


def rate_of_loads(topology: Topology, loads: Int64Array, total_units: int) -> Fraction:
    """Algorithmic bandwidth in bytes/s of loads in units, R of which are the data."""
    used = np.flatnonzero(loads)
    rates = {(int(topology.bandwidths[e]), int(loads[e])) for e in used}
    return total_units * min(Fraction(bandwidth, load) for bandwidth, load in rates)


def height(tree: Tree) -> int:
    """Longest number of logical hops between the root and a rank."""
    is_root = tree.parent < 0
    # hops to a node above, the root at last; each round leaps as far again
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
    """Greatest height over all trees of all forests."""
    return max(
        height(tree)
        for forest in schedule.forests
        for root in range(forest.n_ranks)
        for tree in forest.trees(root)
    )
