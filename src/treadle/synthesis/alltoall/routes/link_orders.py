"""Total orders of the links: a layer whose paths climb its order cannot deadlock."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, Int32Array, Int64Array, positions_of
from treadle.engine import core, run_core
from treadle.math.graphs import hops
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import PathSet, turned
from treadle.synthesis.core_values.flow_values import Annealing, ClimbProblem, ClimbTable
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
    orders : array of int, shape (L, m)
        The links of each layer in their order.

    Notes
    -----
    One pass over the links in order finds the best climbing walks from all ranks to all nodes: when a link's
    turn comes, every walk it can extend is known. With positive lengths the best ones are simple.
    """

    def __init__(self, topology: Topology, collective: Collective, orders: NDArray[np.integer]) -> None:
        self.ranks: Int64Array = np.array(collective.ranks, dtype=np.int64)
        self.orders: Int32Array = np.ascontiguousarray(orders, dtype=np.int32)
        self._n, self._m = topology.n_nodes, topology.n_links
        self._tails = np.ascontiguousarray(topology.tails, dtype=np.int32)
        self._heads = np.ascontiguousarray(topology.heads, dtype=np.int32)
        self._source = self.ranks.astype(np.int32)
        self._demand = np.zeros((len(self.ranks), self._n))
        self._demand[:, self.ranks] = collective.pair_demands.between

    def search(self, lengths: Float64Array) -> LayeredSearch:
        """Shortest climbing paths from all ranks; lengths must be positive."""
        found = ClimbTable(*core.climb_paths(self._problem(), np.asarray(lengths, dtype=np.float64)))
        layers, count = len(self.orders), len(self.ranks)
        table = found.distance.reshape(layers, self._n, count)
        return LayeredSearch(
            np.ascontiguousarray(table.min(axis=0).T),
            table.argmin(axis=0).T,
            found.last.reshape(layers, self._n, count),
            found.before.reshape(layers, self._m, count),
            self.ranks,
        )

    def loads(self, lengths: Float64Array) -> Float64Array:
        """Units of demand over each link if every pair takes a shortest climbing path, shape (m,)."""
        return core.climb_loads(self._problem(), np.asarray(lengths, dtype=np.float64))

    def annealed(
        self, views: Float64Array, *, steps: int, hot: float, cold: float, seed: int
    ) -> tuple[Int32Array, float]:
        """Change the orders, at random moves, so that climbing paths get short at each of some lengths.

        Parameters
        ----------
        views : array of float64, shape (J, m)
            Positive lengths.
        steps : int
        hot, cold : float
            Temperatures at the first and the last step, in units of the cost.
        seed : int

        Returns
        -------
        orders : array of int32, shape (L, m)
        cost : float
            Demand times distance over climbing paths, relative to all paths, mean over the views. A pair
            without a climbing path counts as 8 times as far as the farthest pair.

        Raises
        ------
        TimeLimitError
            If the deadline passes.

        Notes
        -----
        A move puts a link elsewhere, or the links of a shortest path that does not climb just behind or
        before each other. Simulated annealing of Kirkpatrick, Gelatt and Vecchi (1983).
        """
        _, orders, cost = run_core(
            "link orders",
            lambda control: core.anneal_link_orders(
                self._problem(), np.ascontiguousarray(views), Annealing(steps, hot, cold, seed), control
            ),
        )
        return orders.reshape(self.orders.shape), cost

    def _problem(self) -> ClimbProblem:
        return ClimbProblem(self._n, self._tails, self._heads, self._source, self._demand, self.orders)


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


def layers_of(paths: PathSet, orders: NDArray[np.integer]) -> Int64Array:
    """First layer whose order each path climbs, -1 if there is none; shape (k,)."""
    layer = np.full(paths.n_paths, -1, dtype=np.int64)
    inner = paths.owner[1:] == paths.owner[:-1]
    for number in range(len(orders) - 1, -1, -1):
        place = positions_of(orders.shape[1], orders[number])
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
    """Dimension, direction (0 up, 1 down) and start coordinate of every link; None if some link is not a
    step."""
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
        rank = positions_of(count, list(way))
        cuts = np.array([rng.integers(length) for length in sides for _ in range(2)])
        along = np.where(direction == 0, start - cuts[groups], cuts[groups] - start) % side
        orders.append(np.lexsort((along, rank[groups])))
    return np.array(orders, dtype=np.int64)


def up_down_orders(topology: Topology, count: int) -> Int32Array:
    """Orders of the links, up to one of `count` roots far from each other and then down; shape (count, m).

    Every node takes part, and every pair has a climbing path where each link has one that leads back: routing
    up and then down from a root never deadlocks (Autonet: Schroeder et al., 1991).
    """
    nearest = np.full(topology.n_nodes, topology.n_nodes, dtype=np.int64)
    width = np.bincount(topology.tails, weights=topology.bandwidths, minlength=topology.n_nodes)
    orders = []
    for _ in range(min(count, topology.n_nodes)):
        root = int(np.lexsort((-width, -nearest))[0])  # the farthest from the roots so far, then the widest
        depth = hops(topology.n_nodes, topology.tails, topology.heads, np.array([root]))[0]
        depth[depth < 0] = topology.n_nodes
        # links to nodes nearer to the root, the deepest first; then the others, the nearest first
        place = positions_of(topology.n_nodes, np.argsort(depth, kind="stable"))
        tail, head = place[topology.tails], place[topology.heads]
        orders.append(np.lexsort((np.where(head < tail, -tail, tail), head >= tail)))
        nearest = np.minimum(nearest, depth)
    return np.array(orders, dtype=np.int32)
