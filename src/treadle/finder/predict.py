"""Cost of an expansion, predicted from its base without building anything (section A.4, table 3.3).

All values are those of an allgather in steps and in units of M/B. Theorems 11, 12 and 13 are exact.
Theorem 7 is an upper bound; `Performance.has_exact_line_graphs` says where it is known to be met, because
Theorem 10's condition is not enough (docs/how-it-works/direct-connect.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from treadle.brief import brief
from treadle.errors import InfeasibleError, TopologyError


@brief("nodes", "degree", "steps", "t_b", "diameter")
@dataclass(frozen=True, slots=True)
class Performance:
    """Values of a regular graph with an allgather schedule, measured or predicted.

    Parameters
    ----------
    nodes, degree : int
        N and d; self-loops and parallel links count in d.
    steps : int
        T_L / alpha.
    t_b : Fraction
        T_B in M/B.
    diameter : int or None
        None if it is unknown without building the graph.
    cycle : int or None
        The longest, over the nodes, of the shortest directed cycle through a node: 2 if links come in
        bidirectional links. None if it is unknown. After degree expansion a node's copies are so far apart.
    is_breadth_first : bool
        Every shard reaches every node in as many steps as the node is away.
    has_loops, is_simple, is_bidirectional : bool
        Of the graph: self-loops; neither self-loops nor parallel links; known to have its links in opposite
        pairs.
    has_exact_line_graphs : bool
        Corollary 7.1 is known to hold with equality.
    is_exact : bool
        `steps` and `t_b` are those of the schedule. False: the schedule costs at most so much.
    """

    nodes: int
    degree: int
    steps: int
    t_b: Fraction
    diameter: int | None = None
    cycle: int | None = None
    is_breadth_first: bool = False
    has_loops: bool = False
    is_simple: bool = False
    is_bidirectional: bool = False
    has_exact_line_graphs: bool = False
    is_exact: bool = True

    @property
    def is_bandwidth_optimal(self) -> bool:
        """T_B = (N - 1) / N (Corollary 4.1)."""
        return self.t_b == Fraction(self.nodes - 1, self.nodes)


def line_graph_performance(base: Performance, n: int = 1) -> Performance:
    """Return L^n of `base` with Definition 1's schedule (Corollaries 7.1 and 10.1).

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
    """Return `base` * n with Definition 2's schedule: Theorem 11, exact.

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
    """Return the cartesian power of `base` with Definition 14's schedule: Theorem 12, exact."""
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
    """Return the product of `factors` with its optimal breadth-first schedule: Theorem 13, exact.

    Raises
    ------
    InfeasibleError
        If a factor is not simple, or its schedule not breadth-first and bandwidth-optimal: then the theorem
        does not apply, and only the schedule itself gives the cost.
    """
    if not factors:
        raise TopologyError("cartesian product: expected at least one factor")
    for position, factor in enumerate(factors):
        if not (factor.is_simple and factor.is_breadth_first and factor.is_bandwidth_optimal):
            raise InfeasibleError(
                f"cartesian product: factor {position} ({factor.nodes} nodes, degree {factor.degree}) is not "
                "a simple graph with a bandwidth-optimal breadth-first schedule, as Theorem 13 requires"
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
        is_simple=True,
        is_bidirectional=all(factor.is_bidirectional for factor in factors),
        # Definition 1 meets the bound on every product, as on powers. But where links do not come in opposite
        # pairs breadth-first broadcast on the line graph can beat it, which only that can tell.
        has_exact_line_graphs=all(factor.is_bidirectional for factor in factors),
    )
