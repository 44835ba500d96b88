"""What an expansion will cost, told from its base without building anything (section A.4, table 3.3).

All figures are those of an allgather in steps and in units of M/B. Theorems 11, 12 and 13 are exact.
Theorem 7 is an upper bound; `has_exact_line_graphs` decides when it is met, because Theorem 10's condition is
not enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np

from treadle.arrays import BoolArray, Int32Array
from treadle.errors import InfeasibleError, ScheduleError, TopologyError
from treadle.schedules.steps.step_cost import step_loads
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import BfbValue
from treadle.topologies.catalogue.direct import in_links
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology


@dataclass(frozen=True, slots=True)
class Performance:
    """Figures of a regular graph with an allgather schedule, measured or predicted.

    Parameters
    ----------
    nodes, degree : int
        N and d; self-loops and parallel links count in d.
    steps : int
        T_L / alpha.
    t_b : Fraction
        T_B in M/B.
    diameter : int or None
        None where it cannot be told without building the graph.
    cycle : int or None
        The longest, over the nodes, of the shortest directed cycle through a node: 2 if links come in
        opposite pairs. None where it cannot be told. After degree expansion a node's copies are so far apart.
    is_breadth_first : bool
        Every shard reaches every node in as many steps as the node is away.
    has_loops, is_simple, is_bidirectional : bool
        Of the graph: self-loops; neither self-loops nor parallel links; known to have its links in opposite
        pairs.
    has_exact_line_graphs : bool
        Corollary 7.1 is known to hold with equality; see the function of this name.
    is_exact : bool
        `steps` and `t_b` are those of the schedule. False: the schedule costs at most so much.
    """

    nodes: int
    degree: int
    steps: int
    t_b: Fraction
    diameter: int | None
    cycle: int | None
    is_breadth_first: bool
    has_loops: bool
    is_simple: bool
    is_bidirectional: bool
    has_exact_line_graphs: bool
    is_exact: bool = True

    @property
    def is_bandwidth_optimal(self) -> bool:
        """T_B = (N - 1) / N (Corollary 4.1)."""
        return self.t_b == Fraction(self.nodes - 1, self.nodes)


def line_graph_performance(base: Performance, n: int = 1) -> Performance:
    """L^n of `base` with Definition 1's schedule (Corollaries 7.1 and 10.1).

    Exact where `base.has_exact_line_graphs`; else an upper bound, and T_B can be smaller.
    """
    d = base.degree
    if d == 1 and base.is_breadth_first:
        return base  # a ring remains a ring, and so does its only breadth-first schedule
    growth = sum((Fraction(1, base.nodes * d**i) for i in range(n)), Fraction(0))
    diameter = None if base.diameter is None else base.diameter + (n if d > 1 else 0)
    return replace(
        base,
        nodes=base.nodes * d**n,
        steps=base.steps + n,
        t_b=base.t_b + growth,
        diameter=diameter,
        # An arc of a bidirectional graph lies on a cycle of 2; arcs of its line graph need not.
        cycle=2 if n == 1 and base.is_bidirectional else None,
        is_simple=not base.has_loops,  # parallel links have become different nodes
        is_bidirectional=False,
        is_exact=base.is_exact and base.has_exact_line_graphs,
    )


def degree_expansion_performance(base: Performance, n: int) -> Performance:
    """`base` * n with Definition 2's schedule: Theorem 11, exact.

    Raises
    ------
    TopologyError
        If the base has self-loops.
    """
    if base.has_loops:
        raise TopologyError("degree expansion takes graphs without self-loops (Definition 13)")
    if n == 1:
        return base
    known = base.diameter is not None and base.cycle is not None
    return replace(
        base,
        nodes=base.nodes * n,
        degree=base.degree * n,
        steps=base.steps + 1,
        t_b=base.t_b + Fraction(n - 1, n * base.nodes),
        diameter=max(base.diameter or 0, base.cycle or 0) if known else None,
        is_breadth_first=False,
        has_exact_line_graphs=True,  # a walk can always step into a copy whose shards the link does not carry
    )


def cartesian_power_performance(base: Performance, n: int) -> Performance:
    """Cartesian power of `base` with Definition 14's schedule: Theorem 12, exact."""
    if n == 1:
        return base
    size = base.nodes
    return replace(
        base,
        nodes=size**n,
        degree=base.degree * n,
        steps=base.steps * n,
        t_b=base.t_b * Fraction(size, size - 1) * Fraction(size**n - 1, size**n),
        diameter=None if base.diameter is None else base.diameter * n,
        is_breadth_first=False,
        has_exact_line_graphs=True,  # a walk along the other dimensions meets no shard that the link carries
    )


def cartesian_product_performance(*factors: Performance) -> Performance:
    """Product of `factors` with its optimal breadth-first schedule: Theorem 13, exact.

    Raises
    ------
    InfeasibleError
        If a factor is not simple, or its schedule not breadth-first and bandwidth-optimal: then the theorem
        says nothing, and only the schedule itself tells what it costs.
    """
    if not factors:
        raise TopologyError("cartesian product: expected at least one factor")
    for position, factor in enumerate(factors):
        if not (factor.is_simple and factor.is_breadth_first and factor.is_bandwidth_optimal):
            raise InfeasibleError(
                f"cartesian product: factor {position} ({factor.nodes} nodes, degree {factor.degree}) is no "
                f"simple graph with a bandwidth-optimal breadth-first schedule; Theorem 13 needs such ones"
            )
    if len(factors) == 1:
        return factors[0]
    nodes = prod(factor.nodes for factor in factors)
    diameter = sum(factor.steps for factor in factors)
    cycles = [factor.cycle for factor in factors]
    return Performance(
        nodes=nodes,
        degree=sum(factor.degree for factor in factors),
        steps=diameter,
        t_b=Fraction(nodes - 1, nodes),
        diameter=diameter,
        cycle=None if None in cycles else min(cycle for cycle in cycles if cycle is not None),
        is_breadth_first=True,
        has_loops=False,
        is_simple=True,
        is_bidirectional=all(factor.is_bidirectional for factor in factors),
        # Definition 1 meets the bound on every product, as on powers. But where links do not come in opposite
        # pairs breadth-first broadcast on the line graph can beat it, which only that can tell.
        has_exact_line_graphs=all(factor.is_bidirectional for factor in factors),
    )


def measured(topology: Topology, steps: Steps) -> Performance:
    """Figures of a graph and its allgather schedule.

    Parameters
    ----------
    topology : Topology
        Regular, with equal links.
    steps : Steps
        Allgather; shard v at home at rank v. Taken as valid.

    Raises
    ------
    TopologyError
        If nodes differ in degree or links in bandwidth.
    InfeasibleError
        If a node does not reach another.
    ScheduleError
        If the steps are not those of an allgather.
    """
    _check_allgather(topology, steps)
    size, degree = in_links(topology).shape
    distances = distance_matrix(topology)
    loads = sum(int(load.max()) for load in step_loads(topology, steps))
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    arcs, opposite = tails * size + heads, heads * size + tails
    cycles = np.full(size, size + 1)
    np.minimum.at(cycles, tails, distances[heads, tails] + 1)
    loops = bool((tails == heads).any())
    arrivals = steps.send_steps() + 1
    return Performance(
        nodes=size,
        degree=degree,
        steps=steps.n_steps,
        t_b=Fraction(loads * degree, steps.n_chunks * size),
        diameter=int(distances.max()),
        cycle=int(cycles.max()),
        is_breadth_first=bool(np.all(distances[steps.shard, topology.heads[steps.link]] == arrivals)),
        has_loops=loops,
        is_simple=not loops and len(np.unique(arcs)) == len(arcs),
        is_bidirectional=bool(np.array_equal(np.sort(arcs), np.sort(opposite))),
        has_exact_line_graphs=has_exact_line_graphs(topology, steps),
    )


def line_graph_t_b(topology: Topology, steps: Steps) -> Fraction:
    """Exact T_B, in M/B, of Definition 1's schedule of the line graph.

    Parameters
    ----------
    topology : Topology
        d-regular, with equal links.
    steps : Steps
        Allgather; shard v at home at rank v.

    Notes
    -----
    Arc (e, f) carries in step t + 1 what link e carried in step t, d times, but for one shard: that of f
    itself, which stands for the shard of f's head. So in units of shards

        load(e, f) = d * load_t(e) - (what e carried of the shard of f's head in step t),

    and Theorem 7 is met if and only if in every step some fullest link ends at a node with an out-neighbour
    whose shard that link does not carry then.

    Examples
    --------
    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> from treadle.topologies.catalogue.direct import from_arcs
    >>> pair = from_arcs("pair", [0, 0, 1, 1], [1, 1, 0, 0], n=2)
    >>> halves = [(0, 0, 0, 0, 1), (0, 1, 0, 1, 2), (1, 2, 0, 0, 1), (1, 3, 0, 1, 2)]
    >>> line_graph_t_b(pair, steps_from_sends(Direction.BROADCAST, 2, 2, halves))
    Fraction(3, 4)
    """
    _check_allgather(topology, steps)
    outs = in_links(topology.transpose())
    size, degree = outs.shape
    followers = topology.heads[outs[topology.heads]].astype(np.int64)  # [link, k]: head of the k-th next link
    wanted = np.arange(topology.n_links, dtype=np.int64)[:, None] * size + followers
    total = steps.n_chunks
    for step, load in enumerate(step_loads(topology, steps)):
        span = steps.span(step)
        pairs, place = np.unique(
            steps.link[span].astype(np.int64) * size + steps.shard[span], return_inverse=True
        )
        if pairs.size:
            amounts = np.bincount(place, weights=steps.high[span] - steps.low[span]).astype(np.int64)
            found = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
            saved = np.where(pairs[found] == wanted, amounts[found], 0).min(axis=1)
            total += int((degree * load - saved).max())
    return Fraction(total, steps.n_chunks * size)


def has_exact_line_graphs(topology: Topology, steps: Steps) -> bool:
    """Whether Corollary 7.1 is an equality for L^n of this schedule, for every n.

    Parameters
    ----------
    topology : Topology
        d-regular, with equal links.
    steps : Steps
        Allgather; shard v at home at rank v.

    Returns
    -------
    bool
        True if d > 1 and in every step some fullest link e is followed by an endless walk over nodes whose
        shards e does not carry in that step: the arcs of L^n along the walk then carry d^n times the load
        of e. False promises nothing: T_B of L^n is at most Corollary 7.1's.

    Notes
    -----
    Theorem 10 asks for breadth-first schedules in which every node has more than one out-neighbour. That is
    not enough: the directed circulant C(8, {1, 3}) has a breadth-first schedule with T_B = 7/8 whose line
    graph has T_B = 15/16, not 1. The proof chooses the out-neighbour u' by the shard v, but sums over v as if
    u' were one node. With a breadth-first schedule it is enough that links come in opposite pairs and every
    node has two neighbours. `keeps_best_line_graph` repairs the theorem.
    """
    _check_allgather(topology, steps)
    outs = in_links(topology.transpose())
    if outs.shape[1] < 2:
        return False
    followers = topology.heads[outs]
    for step, load in enumerate(step_loads(topology, steps)):
        span = steps.span(step)
        if not load.any():
            continue
        fullest = np.flatnonzero(load == load.max())
        order = np.argsort(steps.link[span], kind="stable")
        links, shards = steps.link[span][order], steps.shard[span][order]
        starts, ends = np.searchsorted(links, fullest), np.searchsorted(links, fullest, side="right")
        if not any(
            _can_avoid(followers, int(topology.heads[link]), shards[start:end])
            for link, start, end in zip(fullest, starts, ends, strict=True)
        ):
            return False
    return True


def keeps_best_line_graph(topology: Topology, value: BfbValue) -> bool:
    """Whether no breadth-first schedule of the line graph beats Theorem 10's T_B + 1/N.

    Parameters
    ----------
    topology : Topology
        d-regular, with equal links.
    value : BfbValue
        Of `topology`.

    Returns
    -------
    bool
        True: the best breadth-first schedule of L(G) has T_B(G) + 1/N, and Definition 1 attains it.
        False: it may be better, and `bfb_value(line_graph(topology))` tells by how much.

    Notes
    -----
    Theorem 10, repaired: in every step t some node u with the largest U(u, t) must have an out-neighbour u'
    whose shard u does not receive in step t. Then averaging what the arcs (wu, uu') carry in step t + 1 gives
    a schedule of G, as in the proof. In step 1 it is enough that u has, besides an in-neighbour w with the
    fewest parallel links, an out-neighbour other than w: only those links can carry the shard of w.
    One such node per step, `value.worst`, is looked at: where nodes differ, False may be said without need.

    Examples
    --------
    >>> from treadle.synthesis.steps.bfb import bfb_value
    >>> from treadle.topologies.catalogue.circulants import circulant, directed_circulant
    >>> [keeps_best_line_graph(g, bfb_value(g)) for g in (circulant(16, 3, 4), directed_circulant(8, 1, 3))]
    [True, False]
    """
    outs = in_links(topology.transpose())
    for step, node in enumerate(value.worst):
        after = np.unique(topology.heads[outs[node]])
        if node in after:
            continue  # a self-loop: u' = u has its own shard from the beginning
        if step == 0:
            before, links = np.unique(topology.tails[topology.heads == node], return_counts=True)
            if len({*before[links == links.min()].tolist(), *after.tolist()}) > 1:
                continue
        if np.all(distance_matrix(topology, sources=after.tolist())[:, node] == step + 1):
            return False
    return True


def _can_avoid(followers: Int32Array, start: int, shards: Int32Array) -> bool:
    """Whether an endless walk from `start`, not counting it, meets none of `shards`."""
    alive: BoolArray = np.ones(len(followers), dtype=np.bool_)
    alive[shards] = False
    while True:
        left = alive & alive[followers].any(axis=1)
        if np.array_equal(left, alive):
            return bool(alive[followers[start]].any())
        alive = left


def _check_allgather(topology: Topology, steps: Steps) -> None:
    n = topology.n_nodes
    if steps.direction is not Direction.BROADCAST or not np.array_equal(steps.homes, np.arange(n)):
        raise ScheduleError(
            f"{topology.name}: expected allgather steps with shard v at home at rank v of {n}; "
            f"for reduce-scatter pass the transpose and the reversed steps"
        )
    if len(np.unique(topology.bandwidths)) > 1:
        raise TopologyError(f"{topology.name}: links differ in bandwidth; predictions are for equal links")
