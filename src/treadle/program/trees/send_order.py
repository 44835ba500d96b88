"""Which of the messages that could go at once goes first.

Two rules, both known at either end of a message, so that all ranks list their messages in one common order.
First what has the longest way still to go: its time from here to the end of its tree, by the bandwidths of
its paths (the critical path of list scheduling: R. L. Graham, "Bounds on multiprocessing timing anomalies",
1969). Then turns: everybody begins with the box after its own. In target order all ranks would send to the
lowest target at a time, and queue at its link while the others are idle.
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
_MOST = 2**40
"""Of one link; sums over the hops of a tree stay within 63 bits."""


@dataclass(frozen=True, eq=False)
class Turns:
    """Who sends to whom in which turn: box by box, then rank by rank within the box.

    Parameters
    ----------
    box, place : array of int64, shape (N,)
        Box of each rank, numbered by lowest rank, and its place among the ranks of that box.
    """

    box: Int64Array
    place: Int64Array

    def between(self, sender: Int64Array, target: Int64Array) -> Int64Array:
        """Turn of each pair: in one turn ranks of different boxes (of a box) aim at different ones."""
        boxes, places = int(self.box.max()) + 1, int(self.place.max()) + 1
        turns: Int64Array = (self.box[target] - self.box[sender]) % boxes * places
        return turns + (self.place[target] - self.place[sender]) % places


def turns_of(topology: Topology, collective: Collective) -> Turns:
    """Turns by boxes: the ranks that the fastest links of each rank join, through switches or not.

    GPUs on an NVSwitch, below a leaf or an edge switch are a box; where all links are alike (tori, one
    switch) there is one, and ranks take turns one by one.

    Parameters
    ----------
    topology : Topology
    collective : Collective

    Notes
    -----
    A turn sorts messages and means nothing else: boxes of different sizes only make collisions likelier.
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
    """Time that a unit tree takes over each path, by its slowest link; switches cut through.

    Parameters
    ----------
    topology : Topology
    path_offset, path_links : array
        Of a forest; each path has a link.

    Returns
    -------
    array of int64, shape (paths,)
        At least 1, in units that mean nothing but compare.
    """
    if not len(path_links):
        return np.zeros(0, dtype=np.int64)
    rates = topology.bandwidths[path_links].astype(np.float64)
    slowest = np.minimum.reduceat(rates, path_offset[:-1])
    times: Int64Array = np.minimum(_FINENESS * (rates.max() / slowest), _MOST).astype(np.int64)
    return times


def remaining_hops(
    direction: Direction, tree: Tree, depth: Int64Array, times: Int64Array
) -> tuple[Int64Array, int]:
    """Time from the start of each path entry of a tree to the tree's end, and that of the whole tree.

    Parameters
    ----------
    direction : Direction
    tree : Tree
    depth : array of int64, shape (N,)
        Edges from the root to each rank.
    times : array of int64, shape (entries,)
        Of each entry's path: `path_times`.

    Returns
    -------
    array of int64, shape (entries,), int
        BROADCAST: down to the last leaf below; REDUCE: up to the root.
    """
    counts = np.diff(tree.entry_offset)
    child = np.repeat(np.arange(len(counts)), counts)
    edge = np.zeros(len(counts), dtype=np.int64)
    np.maximum.at(edge, child, times)
    way = np.zeros(len(counts), dtype=np.int64)
    levels = [np.flatnonzero(depth == level) for level in range(1, int(depth.max(initial=0)) + 1)]
    if direction is Direction.REDUCE:
        for ranks in levels:
            way[ranks] = edge[ranks] + way[tree.parent[ranks]]
        return times + way[tree.parent[child]], int(way.max(initial=0))
    for ranks in reversed(levels):
        np.maximum.at(way, tree.parent[ranks], edge[ranks] + way[ranks])
    return times + way[child], int(way[tree.root])


def positions_within(
    groups: Int64Array | Int32Array, keys: Sequence[Int64Array | Int32Array | BoolArray]
) -> Int64Array:
    """Place of each item in its group, ordered by keys of which the last one is the group, then as given."""
    order = np.lexsort(keys)
    ordered = groups[order]
    places = np.empty(len(groups), dtype=np.int64)
    places[order] = np.arange(len(groups)) - np.searchsorted(ordered, ordered, side="left")
    return places
