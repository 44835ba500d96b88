"""Cost of the best breadth-first-broadcast schedule, without building it.

In step t every node receives the shards of the nodes t hops away, and may choose its links by itself: T_B is
a sum of independent load-balancing problems, whose value is the worst ratio of shards that must use a set of
links to that set's bandwidth. Source: dissertation, section 3.6, appendix A.5, program (3.1), Theorem 19;
docs/how-it-works/direct-connect.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.engine import core
from treadle.errors import ScheduleError
from treadle.schedules.steps.step_cost import node_bandwidth
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.core_values.step_values import StepRatios
from treadle.synthesis.steps.bfb.in_links import OK, TRANSFORM_LIMIT, InLinkRows, core_loads, link_rows
from treadle.topologies.catalogue.cayley import CayleyGraph
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class BfbValue:
    """Cost of the best breadth-first-broadcast allgather (or, on the transpose, reduce-scatter).

    Parameters
    ----------
    n_ranks : int
        N.
    loads : tuple of Fraction
        U(t) of each step t = 1 ..: shards that the fullest link carries, per `unit_bandwidth` of it.
    worst : tuple of int
        A node at which each step's load is attained.
    unit_bandwidth : int
        Bandwidth of a link, bytes/s; where links differ, the greatest common divisor of their bandwidths.
    node_bandwidth : int, optional
        B, bytes/s, self-loops included; None where nodes differ.
    """

    n_ranks: int
    loads: tuple[Fraction, ...]
    worst: tuple[int, ...]
    unit_bandwidth: int
    node_bandwidth: int | None

    @property
    def diameter(self) -> int:
        """D, the number of steps: T_L = D alpha (Theorem 15)."""
        return len(self.loads)

    @property
    def seconds_per_byte(self) -> Fraction:
        """T_B in seconds per byte of `size`."""
        return sum(self.loads, Fraction(0)) / (self.n_ranks * self.unit_bandwidth)

    @property
    def t_b(self) -> Fraction:
        """T_B in units of M/B.

        Raises
        ------
        ScheduleError
            If the nodes differ in bandwidth, so that B is not defined; `seconds_per_byte` is.
        """
        if self.node_bandwidth is None:
            raise ScheduleError("nodes differ in bandwidth; T_B in M/B is for regular fabrics")
        return self.seconds_per_byte * self.node_bandwidth

    @property
    def is_bw_optimal(self) -> bool:
        """Whether T_B is the least that any allgather can have, (N - 1)/N * M/B (Definition 11)."""
        return self.node_bandwidth is not None and self.t_b == Fraction(self.n_ranks - 1, self.n_ranks)


def bfb_value(topology: Topology, *, transform_limit: int = TRANSFORM_LIMIT) -> BfbValue:
    """Steps and bandwidth time of the best breadth-first-broadcast allgather.

    Parameters
    ----------
    topology : Topology
        Compute nodes only; need not be regular, bandwidths may differ (latencies play no part).
    transform_limit : int
        Nodes with at most this many in-links are handled by a sum over subsets of them, others by Newton's
        iteration on flows. The value is the same.

    Raises
    ------
    TopologyError
        If the fabric has switches, fewer than 2 nodes or more than 65,535.
    InfeasibleError
        If some node cannot reach another.

    Notes
    -----
    Dissertation, section 3.6 and appendix A.5. The linear program (3.1) of node u and step t is a divisible
    scheduling problem, so U(u,t) is the largest ratio of jobs that fit into no link outside a set to the
    bandwidth of that set (the cut in the proof of Theorem 19). Exact; N^2 bytes of memory.

    Examples
    --------
    >>> from treadle.topologies import parse
    >>> value = bfb_value(parse("torus(3, 3)"))
    >>> value.diameter, value.t_b, value.is_bw_optimal
    (2, Fraction(8, 9), True)
    """
    return value_of(link_rows(topology), transform_limit=transform_limit)


def bfb_reduce_scatter_value(topology: Topology) -> BfbValue:
    """Cost of the best breadth-first-broadcast reduce-scatter: the transpose's allgather (Corollary 1.1)."""
    return bfb_value(topology.transpose())


def value_of(instance: InLinkRows, *, transform_limit: int = TRANSFORM_LIMIT) -> BfbValue:
    """`bfb_value` of an instance."""
    try:
        per_node = node_bandwidth(instance.topology)
    except ScheduleError:
        per_node = None
    ratios = core_loads(instance, transform_limit=transform_limit)
    return value_from(ratios, instance.n, instance.unit_bandwidth, per_node)


def value_from(ratios: StepRatios, n_ranks: int, unit_bandwidth: int, per_node: int | None) -> BfbValue:
    """The value of what the core found for each step."""
    pairs = zip(ratios.numerator.tolist(), ratios.denominator.tolist(), strict=True)
    loads = tuple(Fraction(top, bottom) for top, bottom in pairs)
    return BfbValue(n_ranks, loads, tuple(ratios.worst.tolist()), unit_bandwidth, per_node)


def orbit_value(graph: CayleyGraph, *, direction: Direction = Direction.BROADCAST) -> BfbValue:
    """Cost of the best breadth-first-broadcast allgather (BROADCAST) or reduce-scatter (REDUCE), unit links.

    Parameters
    ----------
    graph : CayleyGraph
    direction : Direction
        A reduce-scatter is the allgather of the transpose run backwards.

    Raises
    ------
    ScheduleError
        If the diameter is beyond 65,534.

    Examples
    --------
    >>> from treadle.topologies.catalogue.cayley import cayley_graph
    >>> orbit_value(cayley_graph('abelian_cayley("15", 1, 14, 4, 11, 5, 10)')).loads
    (Fraction(1, 1), Fraction(3, 2))
    """
    # tails of the links into node 0: the generators; on the transposed graph, their inverses
    tails = np.array(graph.generators, dtype=np.int64)
    if direction is not Direction.BROADCAST:
        tails = graph.group.inverse(tails)
    rows, weight = _distance_rows(graph, tails), np.ones(graph.degree, dtype=np.int64)
    status, found, _ = core.bfb_orbit_loads(rows, weight, TRANSFORM_LIMIT)
    assert status == OK, status
    return value_from(StepRatios(*found), graph.n_nodes, 1, graph.degree)


def _distance_rows(graph: CayleyGraph, tails: Int64Array) -> NDArray[np.uint16]:
    """Distances from every node to node 0, then to each of the tails, shape (d + 1, N)."""
    n, nodes = graph.n_nodes, np.arange(graph.n_nodes)
    distance = np.full(n, np.iinfo(np.uint16).max, dtype=np.uint16)
    frontier, step = np.zeros(1, dtype=np.int64), 0
    while frontier.size:
        if step == np.iinfo(np.uint16).max:
            raise ScheduleError(f"{graph.expression}: a diameter beyond 65,534 steps; expected fewer")
        distance[frontier] = step
        step += 1
        # The tails of the links into x are x s.
        reached = np.unique(graph.group.multiply(frontier[:, None], tails))
        frontier = reached[distance[reached] == np.iinfo(np.uint16).max]
    # d(v, s) = d(inverse(s) v, 0).
    moved = graph.group.multiply(graph.group.inverse(tails)[:, None], nodes)
    rows: NDArray[np.uint16] = np.ascontiguousarray(np.concatenate([distance[None, :], distance[moved]]))
    return rows
