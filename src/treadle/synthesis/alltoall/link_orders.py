"""Total orders of the links: a layer whose paths climb its order cannot deadlock."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.paths import Float64Array, PathSet, turned
from treadle.topologies.topology import Topology

_MOST_DIMENSIONS = 3
"""Grids of more dimensions get random permutations of their groups instead of all."""

_MOST_PERMUTATIONS = 48


class LayeredPaths:
    """Shortest paths among those that climb the order of at least one layer.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    orders : array of int64, shape (L, m)
        The links of each layer in their order.

    Notes
    -----
    One pass over the links in order finds the best climbing walks from all ranks to all nodes: when a link's
    turn comes, every walk it can extend is known. With positive lengths the best ones are simple.
    """

    def __init__(self, topology: Topology, collective: Collective, orders: Int64Array) -> None:
        self.ranks: Int64Array = np.array(collective.ranks, dtype=np.int64)
        self._tails, self._heads = topology.tails.tolist(), topology.heads.tolist()
        self._orders = [
            [link for link in order if self._tails[link] != self._heads[link]] for order in orders.tolist()
        ]
        self._n, self._m = topology.n_nodes, topology.n_links

    def search(self, lengths: Float64Array) -> LayeredSearch:
        """Shortest climbing paths from all ranks; lengths must be positive."""
        count, layers = len(self.ranks), len(self._orders)
        distance = np.full((layers, self._n, count), np.inf)
        last = np.full((layers, self._n, count), -1, dtype=np.int32)
        before = np.full((layers, self._m, count), -1, dtype=np.int32)
        for layer, order in enumerate(self._orders):
            self._climb(order, lengths.tolist(), distance[layer], last[layer], before[layer])
        best = distance.argmin(axis=0).T
        return LayeredSearch(np.ascontiguousarray(distance.min(axis=0).T), best, last, before, self.ranks)

    def _climb(
        self,
        order: list[int],
        lengths: list[float],
        distance: Float64Array,
        last: Int32Array,
        before: Int32Array,
    ) -> None:
        """One layer, in place: rows of nodes and links, columns of ranks."""
        distance[self.ranks, np.arange(len(self.ranks))] = 0
        for link in order:
            tail, head = self._tails[link], self._heads[link]
            through = distance[tail] + lengths[link]
            better = through < distance[head]
            before[link] = last[tail]
            np.copyto(distance[head], through, where=better)
            np.copyto(last[head], link, where=better)


@dataclass(eq=False)
class LayeredSearch:
    """Distances over all layers; the layer of each, the last link there, and the link before each link."""

    distance: Float64Array
    layer: Int64Array
    last: Int32Array
    before: Int32Array
    ranks: Int64Array

    def paths(self, source: NDArray[np.integer], target: NDArray[np.integer]) -> Int64Array:
        """A shortest climbing path for each pair of ranks, as rows of links padded by -1."""
        end = self.ranks[target]
        layer = self.layer[source, end]
        link = self.last[layer, end, source].astype(np.int64)
        columns: list[Int64Array] = []
        while (link >= 0).any():
            columns.append(link)
            link = np.where(link >= 0, self.before[layer, np.maximum(link, 0), source], -1)
        return turned(np.column_stack(columns))


def layers_of(paths: PathSet, orders: Int64Array) -> Int64Array:
    """First layer whose order each path climbs, -1 if there is none; shape (k,)."""
    layer = np.full(paths.n_paths, -1, dtype=np.int64)
    inner = paths.owner[1:] == paths.owner[:-1]
    for number in range(len(orders) - 1, -1, -1):
        place = np.empty(orders.shape[1], dtype=np.int64)
        place[orders[number]] = np.arange(orders.shape[1])
        at = place[paths.links]
        falls = np.bincount(paths.owner[1:][inner & (at[1:] < at[:-1])], minlength=paths.n_paths)
        layer[falls == 0] = number
    return layer


def grid_sides(topology: Topology) -> tuple[int, ...] | None:
    """Sides of the grid or torus that the fabric is, by the numbers of its nodes; None if it is none.

    Node numbers are read in mixed radix, the first side most significant; every link has to lead one step
    along one side, perhaps around.
    """
    for sides in _factorisations(topology.n_nodes):
        if _steps(topology, sides) is not None:
            return sides
    return None


def _factorisations(n: int) -> list[tuple[int, ...]]:
    """Ordered factorisations of n into factors of at least 2, the fewest factors first."""
    found: list[tuple[int, ...]] = [(n,)] if n > 1 else []
    for factor in range(2, n // 2 + 1):
        if n % factor == 0:
            found.extend((factor, *rest) for rest in _factorisations(n // factor))
    return sorted(set(found), key=lambda sides: (len(sides), sides))


def _steps(topology: Topology, sides: tuple[int, ...]) -> tuple[Int64Array, Int64Array, Int64Array] | None:
    """Dimension, direction (0 up, 1 down) and start coordinate of every link; None if some is no step."""
    tails = np.array(np.unravel_index(topology.tails, sides))
    heads = np.array(np.unravel_index(topology.heads, sides))
    moved = tails != heads
    if np.any(moved.sum(axis=0) != 1):
        return None
    dimension = moved.argmax(axis=0)
    links = np.arange(topology.n_links)
    side = np.array(sides)[dimension]
    start = tails[dimension, links]
    shift = (heads[dimension, links] - start) % side
    if np.any((shift != 1) & (shift != side - 1)):
        return None
    return dimension.astype(np.int64), (shift != 1).astype(np.int64), start.astype(np.int64)


def grid_orders(topology: Topology, sides: tuple[int, ...], rng: np.random.Generator) -> Int64Array:
    """Orders for a grid or torus: the groups (dimension, direction) one after another, rings cut somewhere.

    Dimension-ordered routing climbs some of them; with different permutations in different layers the links
    are used evenly. Shape (orders, m).
    """
    steps = _steps(topology, sides)
    assert steps is not None
    dimension, direction, start = steps
    groups = 2 * dimension + direction
    count = 2 * len(sides)
    if len(sides) <= _MOST_DIMENSIONS - 1:
        ways = list(permutations(range(count)))
    else:
        ways = [tuple(rng.permutation(count).tolist()) for _ in range(_MOST_PERMUTATIONS)]
    side = np.array(sides)[dimension]
    orders = []
    for way in ways:
        rank = np.empty(count, dtype=np.int64)
        rank[list(way)] = np.arange(count)
        cuts = np.array([rng.integers(length) for length in sides for _ in range(2)])
        along = np.where(direction == 0, start - cuts[groups], cuts[groups] - start) % side
        orders.append(np.lexsort((along, rank[groups])))
    return np.array(orders, dtype=np.int64)


def up_down_orders(topology: Topology, rng: np.random.Generator, count: int) -> Int64Array:
    """Orders of up*/down* routing from random roots: links towards the root first, then those away from it.

    Nodes are ordered breadth first from the root; up links by falling, down links by rising order of their
    tails. On fabrics with links both ways every pair has a climbing path. Shape (count, m).

    Notes
    -----
    Schroeder et al., Autonet (1991).
    """
    orders = []
    for _ in range(count):
        root = int(rng.integers(topology.n_nodes))
        rank = _breadth_first(topology, root, rng)
        tails, heads = rank[topology.tails], rank[topology.heads]
        up = heads < tails
        orders.append(np.lexsort((np.where(up, -tails, tails), ~up)))
    return np.array(orders, dtype=np.int64).reshape(count, topology.n_links)


def _breadth_first(topology: Topology, root: int, rng: np.random.Generator) -> Int64Array:
    """Place of every node in a breadth-first search that ignores the links' directions."""
    level = np.full(topology.n_nodes, topology.n_nodes, dtype=np.int64)
    level[root] = 0
    depth = 0
    while True:
        reached = level == depth
        near = np.zeros(topology.n_nodes, dtype=np.bool_)
        near[topology.heads[reached[topology.tails]]] = True
        near[topology.tails[reached[topology.heads]]] = True
        near &= level > depth + 1
        if not near.any():
            break
        depth += 1
        level[near] = depth
    order = np.lexsort((rng.random(topology.n_nodes), level))
    rank = np.empty(topology.n_nodes, dtype=np.int64)
    rank[order] = np.arange(topology.n_nodes)
    return rank


def is_two_way(topology: Topology) -> bool:
    """Whether every pair of nodes with a link one way has one the other way."""
    forward = np.unique(topology.tails.astype(np.int64) * topology.n_nodes + topology.heads)
    back = np.unique(topology.heads.astype(np.int64) * topology.n_nodes + topology.tails)
    return np.array_equal(forward, back)
