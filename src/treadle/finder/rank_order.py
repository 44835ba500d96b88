"""Placement of ranks on nodes that suits groups of ranks: local search.

A placement is evaluated by `evaluate.group_costs` of its groups: pruned trees of shortest paths. In
place of the fullest link the search looks at the fourth-power mean of loads, which changes with every swap.
It begins with the fabric's own numbers and regular placements: mixed-radix numbers with their axes in any
order, of any factors of N, and multiples modulo N. Work is counted: a placement is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from math import gcd
from typing import NamedTuple

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.engine import core, run_core
from treadle.topologies.catalogue.direct import in_links
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology

_MOST_AXES = 4
_MOST_MULTIPLES = 64
_STARTS = 3
"""Regular placements that swaps start from, besides the fabric's own."""

_START_SHARE = 0.25
"""Fraction of the work for regular placements."""

_HOT = 0.02
"""Initial cost increase allowed to a swap, as a fraction; at the end none."""


class TreeGraph(NamedTuple):
    """A regular digraph as trees see it.

    Parameters
    ----------
    tails : array of int32, shape (m,)
    into : array of int32, shape (n, d)
        Links into each node, ascending.
    distances : array of int32, shape (n, n)
        From each node to each.
    """

    tails: Int32Array
    into: Int32Array
    distances: Int32Array


class RankGroups(NamedTuple):
    """Groups r, r + stride, ... of all ranks, and what their trees cost.

    Parameters
    ----------
    size, stride : int
    graph : int
        0, or 1 for the transpose.
    hop_price : float
        Seconds for each hop of the longest distance within a group.
    load_price : float
        For each tree on a link.
    distance_price : float
        For each hop of all ordered pairs within groups together.
    """

    size: int
    stride: int
    graph: int
    hop_price: float
    load_price: float
    distance_price: float


class RankPace(NamedTuple):
    """Limits of a search.

    Parameters
    ----------
    work : int
        Links to examine; 0: only the cost of the start.
    hot : float
        What a swap may cost in the beginning, as a part of the cost.
    seed : int
    """

    work: int
    hot: float
    seed: int


@dataclass(frozen=True, eq=False)
class RankOrder:
    """A placement that was found.

    Parameters
    ----------
    nodes : array of int32, shape (n,)
        Node of each rank.
    cost : float
        Of its trees, seconds.
    own_cost : float
        Of the fabric's own numbers.
    """

    nodes: Int32Array
    cost: float
    own_cost: float


def tree_graph(topology: Topology) -> TreeGraph:
    """Return the properties of a regular fabric that trees use.

    Raises
    ------
    TopologyError
        If nodes differ in their number of incoming links.
    InfeasibleError
        If a node cannot be reached.
    """
    return TreeGraph(
        np.ascontiguousarray(topology.tails, dtype=np.int32), in_links(topology), distance_matrix(topology)
    )


def order_ranks(topology: Topology, kinds: Sequence[RankGroups], *, work: int, seed: int = 0) -> RankOrder:
    """Return the cheapest placement that a search finds, which may be the fabric's own.

    Parameters
    ----------
    topology : Topology
        Regular, connected, without switches.
    kinds : sequence of RankGroups
        At least one.
    work : int
        Links to look at in all; nothing is looked for if regular placements alone take more.
    seed : int
    """
    n = topology.n_nodes
    graphs = [tree_graph(topology)]
    if any(kind.graph for kind in kinds):
        graphs.append(tree_graph(topology.transpose()))

    def searched(start: Int32Array, budget: int) -> tuple[float, Int32Array]:
        _, found, cost = run_core(
            "placement of ranks",
            lambda control: core.order_ranks(
                graphs, list(kinds), start, RankPace(budget, _HOT, seed), control
            ),
        )
        return cost, found

    each = sum(n * (kind.size - 1) for kind in kinds) * (topology.n_links // n)
    most = int(work * _START_SHARE) // each
    starts = [(*searched(order, 0), order) for order in islice(regular_orders(n), max(1, most))]
    own_cost, _, own = starts[0]
    if most < 1:
        return RankOrder(own, own_cost, own_cost)
    chosen = sorted(range(1, len(starts)), key=lambda at: starts[at][0])[:_STARTS]
    left = (work - each * len(starts)) // (len(chosen) + 1)
    cost, nodes = min(
        (searched(starts[at][2], max(1, left)) for at in (0, *chosen)), key=lambda found: found[0]
    )
    return RankOrder(nodes, cost, own_cost)


def regular_orders(n: int) -> Iterator[Int32Array]:
    """Yield placements by axes and by multiples, the nodes' own numbers first; none twice."""
    known: set[bytes] = set()
    for order in _orders(n):
        nodes = order.astype(np.int32)
        key = nodes.tobytes()
        if key not in known:
            known.add(key)
            yield nodes


def _orders(n: int) -> Iterator[Int64Array]:
    own = np.arange(n)
    yield own
    for sizes in sorted(_factorings(n, _MOST_AXES), key=len):
        for axes in permutations(range(len(sizes))):
            yield own.reshape(sizes).transpose(axes).ravel()
    units = [unit for unit in range(2, n // 2 + 1) if gcd(unit, n) == 1]
    for unit in units[:_MOST_MULTIPLES]:
        yield own * unit % n


def _factorings(n: int, most: int) -> Iterator[tuple[int, ...]]:
    """Return all ordered products of at most `most` factors from 2 on that equal n."""
    if n == 1 or most == 0:
        if n == 1:
            yield ()
        return
    for first in range(2, n + 1):
        if n % first == 0:
            for rest in _factorings(n // first, most - 1):
                yield (first, *rest)
