"""Prices on direct-connect fabrics whose links are all alike: steps of alpha, and T_B in M/B.

Treadle's allreduce is breadth-first broadcast both ways, or the expansion of a base whose steps are known
to be better. The baselines of the dissertation (3.8.2) are fabrics of their own: as many nodes, as much
bandwidth out of each. Source: dissertation, 3.3.2, 3.6.2, 3.8 and A.1.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np

from treadle.brief import brief
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.finder.build import build
from treadle.finder.construction import Base, LineGraph, ScheduleMethod
from treadle.inputs.problem import Problem
from treadle.schedulers.alltoall import alltoall_rate
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import step_loads
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.baselines.binary_tree_times import best_chunk_count, double_binary_tree_time_s
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.synthesis.steps.exact.bases import BASES
from treadle.topologies.catalogue.graphs import torus
from treadle.topologies.catalogue.rings import double_binary_tree, shifted_ring
from treadle.topologies.distances import diameter
from treadle.topologies.moore import all_to_all_limit, bandwidth_optimum, moore_steps
from treadle.topologies.topology import Topology
from treadle.training.prices.collective_prices import CollectivePrice, TimeModel

BASELINES = ("shifted-ring", "double-binary-tree", "torus")
_RING_DEGREE = 4
"""Of ShiftedRing and of double binary trees."""
_LINE_GRAPH = re.compile(r"line_graph\((?P<base>\w+\([\d, ]*\))(?:, (?P<times>\d))?\)")
_GATHERS = {
    CollectiveKind.ALLGATHER: (1, 0),
    CollectiveKind.REDUCE_SCATTER: (0, 1),
    CollectiveKind.ALLREDUCE: (1, 1),
}
"""How often each is an allgather and a reduce-scatter."""


@brief("summary", "nodes", "steps", "t_b_gather", "t_b_reduce")
@dataclass(frozen=True)
class DirectPrices:
    """What collectives over all nodes of a direct-connect fabric cost.

    Parameters
    ----------
    summary : str
        The fabric and the schedule.
    nodes : int
    bandwidth : Fraction
        B: bytes/s out of a node, all its links together.
    steps : int
        T_L / alpha of an allgather; twice that of an allreduce.
    t_b_gather, t_b_reduce : Fraction
        T_B of allgather and reduce-scatter in M/B.
    """

    summary: str
    nodes: int
    bandwidth: Fraction
    steps: int
    t_b_gather: Fraction
    t_b_reduce: Fraction

    def price(self, kind: CollectiveKind, alpha_s: float) -> CollectivePrice:
        """T_L + T_B; ScheduleError for kinds that are neither allgather, reduce-scatter nor allreduce."""
        if kind not in _GATHERS:
            raise ScheduleError(f"{self.summary}: no price of {kind}; expected {', '.join(_GATHERS)}")
        gathers, reduces = _GATHERS[kind]
        t_b = gathers * self.t_b_gather + reduces * self.t_b_reduce
        return CollectivePrice(
            self.bandwidth / t_b, (gathers + reduces) * self.steps * alpha_s, TimeModel.ALPHA_BETA
        )


@dataclass(frozen=True)
class BinaryTreePrice:
    """An allreduce along two binary trees on links of their own, in the best number of chunks for its size.

    Parameters
    ----------
    nodes : int
    link : Fraction
        Bytes/s.
    alpha_s : float
    model : TimeModel
    """

    nodes: int
    link: Fraction
    alpha_s: float
    model: TimeModel = TimeModel.ALPHA_BETA

    @property
    def algbw(self) -> Fraction:
        """Of large sizes: each half goes up and down one link."""
        return self.link

    @property
    def delay_s(self) -> float:
        """Of no bytes."""
        return 2 * (self.nodes.bit_length() - 1) * self.alpha_s

    def time_s(self, size_bytes: float) -> float:
        """Seconds for a size."""
        if size_bytes <= 0:
            return 0.0
        if not self.alpha_s:
            return size_bytes / float(self.algbw)
        cost = {
            "size_bytes": size_bytes,
            "alpha_s": self.alpha_s,
            "bandwidth_bytes_per_s": float(self.link),
        }
        return double_binary_tree_time_s(self.nodes, best_chunk_count(self.nodes, **cost), **cost)


def node_bandwidth(problem: Problem) -> Fraction | None:
    """B of a direct-connect fabric with equal links, as many at each node, and one group over all nodes."""
    topology, collective = problem.topology, problem.collective
    if len(topology.switches) or topology.injection_bytes_per_s.any() or collective.groups is not None:
        return None
    if collective.n_ranks != topology.n_nodes or collective.demands is not None:
        return None
    degrees = {
        int(count)
        for ends in (topology.tails, topology.heads)
        for count in np.bincount(ends, minlength=topology.n_nodes)
    }
    is_uniform = len(np.unique(topology.bandwidths)) == 1 and len(np.unique(topology.latencies_ns)) == 1
    return Fraction(degrees.pop() * int(topology.bandwidths[0])) if len(degrees) == 1 and is_uniform else None


def direct_prices(problem: Problem, bandwidth: Fraction) -> DirectPrices:
    """Treadle's steps on the fabric itself, and the flow of an all-to-all.

    Parameters
    ----------
    problem : Problem
        Of which `node_bandwidth` is known.
    bandwidth : Fraction
    """
    topology = problem.topology
    context().announce("breadth-first broadcast")
    gather, reduce = bfb_value(topology), bfb_reduce_scatter_value(topology)
    steps, t_b = gather.diameter, (gather.t_b, reduce.t_b)
    words = f"{topology.name}, breadth-first broadcast"
    optimum = bandwidth_optimum(topology.n_nodes)
    if sum(t_b) > 2 * optimum and (found := _expanded(topology)) is not None and sum(found[1]) < sum(t_b):
        (steps, t_b), words = found, f"{topology.name}, line graphs of a base's steps"
    return DirectPrices(words, topology.n_nodes, bandwidth, steps, *t_b)


def exchange_over_all(topology: Topology, alpha_s: float) -> CollectivePrice:
    """An all-to-all over all nodes: alpha for the hops of the farthest pair, and the flow that was found."""
    problem = Problem(topology, on_all_ranks(topology, CollectiveKind.ALLTOALL))
    algbw = topology.n_nodes * Fraction(alltoall_rate(problem).rate)
    return CollectivePrice(algbw, diameter(topology) * alpha_s, TimeModel.ALPHA_BETA)


def _expanded(topology: Topology) -> tuple[int, tuple[Fraction, Fraction]] | None:
    """Steps and T_B both ways of the line graph of a base whose own steps were searched, by building them."""
    found = _LINE_GRAPH.fullmatch(_without_units(topology.name))
    if found is None or found["base"] not in {base.expression for base in BASES}:
        return None
    base = Base(found["base"], found["base"], ScheduleMethod.EXACT, "")
    steps, figures = 0, []
    for direction in (Direction.BROADCAST, Direction.REDUCE):
        fabric, sends = build(LineGraph(base, int(found["times"] or 1)), direction)
        degree = fabric.n_links // fabric.n_nodes
        load = sum(int(one.max()) for one in step_loads(fabric, sends))
        figures.append(Fraction(load * degree, sends.n_chunks * fabric.n_nodes))
        steps = max(steps, sends.n_steps)
    return steps, (figures[0], figures[1])


def _without_units(name: str) -> str:
    """The expression of the graph, without bandwidth and latency of its links."""
    wrapped = re.fullmatch(r"with_links\((.*), [a-z]+=.*\)", name)
    return re.sub(r', (?:bandwidth|latency)="[^"]*"', "", wrapped[1] if wrapped else name)


def baseline_fabric(name: str, nodes: int, bandwidth: Fraction) -> Topology:
    """The fabric of a baseline: as many nodes, and as many bytes/s out of each.

    Raises
    ------
    ScheduleError
        If it does not exist, or its links would not be whole bytes/s.
    """
    sides = torus_sides(nodes, 2) if name == "torus" else ()
    degree = 2 * len(sides) if sides else _RING_DEGREE
    link = max(1, int(bandwidth / degree))
    if name == "shifted-ring":
        return shifted_ring(nodes, bandwidth=link)
    if name == "double-binary-tree":
        return double_binary_tree(nodes, bandwidth=link)
    return torus(*sides, bandwidth=link)


def torus_sides(nodes: int, dimensions: int) -> tuple[int, ...]:
    """The most nearly equal sides of at least 3, longest first.

    Raises
    ------
    ScheduleError
        If there are none.

    Examples
    --------
    >>> torus_sides(1024, 2), torus_sides(96, 2)
    ((32, 32), (12, 8))
    """
    found = max(_factors(nodes, dimensions), default=None)
    if found is None:
        raise ScheduleError(
            f"torus: {nodes} nodes are no grid of {dimensions} sides of at least 3; leave out torus"
        )
    return found[::-1]


def _factors(nodes: int, dimensions: int) -> Iterator[tuple[int, ...]]:
    """Sides that make so many nodes, shortest first; the longest shortest side compares greatest."""
    if dimensions == 1:
        if nodes >= 3:
            yield (nodes,)
        return
    for side in range(3, isqrt(nodes) + 1):
        if nodes % side == 0:
            yield from ((side, *rest) for rest in _factors(nodes // side, dimensions - 1) if rest[0] >= side)


def baseline_prices(name: str, nodes: int, bandwidth: Fraction) -> DirectPrices:
    """Steps and T_B of a baseline on its own fabric.

    Notes
    -----
    ShiftedRing: ring schedules, N - 1 steps. Torus: rings along one dimension after another, which takes
    the sum of (side - 1) steps and is optimal in bandwidth for equal sides; else breadth-first broadcast.
    An all-to-all is that of the optimal flow (A.1.5). Double binary trees serve allreduces only.
    """
    fabric = baseline_fabric(name, nodes, bandwidth)
    optimum = bandwidth_optimum(nodes)
    if name == "torus":
        sides = torus_sides(nodes, 2)
        if len(set(sides)) == 1:
            steps, how = sum(sides) - len(sides), "rings along one dimension after another"
        else:
            steps, how = sum(side // 2 for side in sides), "breadth-first broadcast"
        return DirectPrices(f"{fabric.name}, {how}", nodes, bandwidth, steps, optimum, optimum)
    if name == "shifted-ring":
        return DirectPrices(f"{fabric.name}, rings", nodes, bandwidth, nodes - 1, optimum, optimum)
    raise ScheduleError(f"{name}: only an allreduce and an all-to-all have a price")


def limit_price(
    problem: Problem, bandwidth: Fraction, kind: CollectiveKind, alpha_s: float
) -> CollectivePrice:
    """What no direct-connect fabric of as many nodes and links beats: Moore's bounds."""
    topology = problem.topology
    n, degree = topology.n_nodes, topology.n_links // topology.n_nodes
    steps, optimum = moore_steps(n, degree), bandwidth_optimum(n)
    if kind is CollectiveKind.ALLTOALL:
        algbw = all_to_all_limit(n, degree) * n / degree * bandwidth
        return CollectivePrice(algbw, steps * alpha_s, TimeModel.ALPHA_BETA)
    words = f"no fabric of {n} nodes with {degree} links each is quicker"
    return DirectPrices(words, n, bandwidth, steps, optimum, optimum).price(kind, alpha_s)
