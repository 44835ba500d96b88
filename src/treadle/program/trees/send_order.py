"""Order of the messages that could be sent at the same time.

Both ends of a message can apply two rules, so that all ranks list their messages in one common order. First
come the messages with the most remaining time: from here to the end of the tree, by the bandwidths of its
paths (the critical path of list scheduling: R. L. Graham, "Bounds on multiprocessing timing anomalies",
1969). Then turns decide: every rank begins with the box after its own. In target order all ranks would send
to the lowest target first, and queue at its link while the others are idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, positions_of
from treadle.math.graphs import components
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import Direction, Tree
from treadle.topologies.topology import Topology

_FINENESS = 2**10
"""Time of a unit tree on the fastest link: times are compared to a thousandth of it."""
_MAX_TIME = 2**40
"""Maximum time of one link: sums over the hops of a tree fit 63 bits."""


@dataclass(frozen=True, eq=False)
class Turns:
    """Turns of pairs of ranks: box by box, then rank by rank within the box.

    Parameters
    ----------
    box, place : array of int64, shape (N,)
        Box of each rank, numbered by lowest rank, and its index among the ranks of that box.
    """

    box: Int64Array
    place: Int64Array

    def between(self, sender: Int64Array, target: Int64Array) -> Int64Array:
        """Return the turn of each pair; different boxes (ranks of a box) have different targets in a turn."""
        boxes, places = int(self.box.max()) + 1, int(self.place.max()) + 1
        turns: Int64Array = (self.box[target] - self.box[sender]) % boxes * places
        return turns + (self.place[target] - self.place[sender]) % places


def turns_of(topology: Topology, collective: Collective) -> Turns:
    """Return turns by boxes: the ranks joined by the fastest links of each rank, through switches or not.

    GPUs on an NVSwitch, below a leaf or an edge switch are a box; if all links are equally fast (tori, one
    switch) there is one box, and ranks take turns one by one.

    Notes
    -----
    Turns only sort messages: with boxes of different sizes collisions are more likely, not wrong.
    """
    ranks = np.array(collective.ranks, dtype=np.int64)
    fastest = np.zeros(topology.n_nodes, dtype=np.int64)
    real = topology.tails != topology.heads
    tails, heads = topology.tails[real].astype(np.int64), topology.heads[real].astype(np.int64)
    np.maximum.at(fastest, tails, topology.bandwidths[real])
    is_rank = mask_of(topology.n_nodes, ranks)
    joins = is_rank[tails] & (topology.bandwidths[real] == fastest[tails])
    label = components(topology.n_nodes, tails[joins], heads[joins])[ranks]
    _, first, number = np.unique(label, return_index=True, return_inverse=True)
    order = positions_of(len(first), np.argsort(first))
    box = order[number.reshape(-1)]
    return Turns(box, positions_within(box, [box]))


def path_times(topology: Topology, path_offset: Int64Array, path_links: Int32Array) -> Int64Array:
    """Return the time of a unit tree over each path, by its slowest link; switches cut through.

    Times are at least 1, in an arbitrary unit. Each path has a link.
    """
    if not len(path_links):
        return np.zeros(0, dtype=np.int64)
    rates = topology.bandwidths[path_links].astype(np.float64)
    slowest = np.minimum.reduceat(rates, path_offset[:-1])
    times: Int64Array = np.minimum(_FINENESS * (rates.max() / slowest), _MAX_TIME).astype(np.int64)
    return times


def remaining_hops(
    direction: Direction, tree: Tree, depth: Int64Array, times: Int64Array
) -> tuple[Int64Array, int]:
    """Return the time from the start of each path entry to the end of the tree, and that of the tree.

    Parameters
    ----------
    direction : Direction
        BROADCAST: the end is the last leaf below; REDUCE: the root.
    tree : Tree
    depth : array of int64, shape (N,)
        Edges from the root to each rank.
    times : array of int64, shape (entries,)
        `path_times` of the path of each entry.
    """
    counts = np.diff(tree.entry_offset)
    child = np.repeat(np.arange(len(counts)), counts)
    edge, rest = np.zeros((2, len(counts)), dtype=np.int64)
    np.maximum.at(edge, child, times)
    levels = [np.flatnonzero(depth == level) for level in range(1, int(depth.max(initial=0)) + 1)]
    if direction is Direction.REDUCE:
        for ranks in levels:
            rest[ranks] = edge[ranks] + rest[tree.parent[ranks]]
        return times + rest[tree.parent[child]], int(rest.max(initial=0))
    for ranks in reversed(levels):
        np.maximum.at(rest, tree.parent[ranks], edge[ranks] + rest[ranks])
    return times + rest[child], int(rest[tree.root])


def positions_within(
    groups: Int64Array | Int32Array, keys: Sequence[Int64Array | Int32Array | BoolArray]
) -> Int64Array:
    """Return the index of each item in its group, ordered by keys, the last of which is the group."""
    order = np.lexsort(keys)
    ordered = groups[order]
    places = np.empty(len(groups), dtype=np.int64)
    places[order] = np.arange(len(groups)) - np.searchsorted(ordered, ordered, side="left")
    return places
