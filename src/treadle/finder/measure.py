"""Exact values of candidates, once they are few enough to build their graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from treadle.brief import brief
from treadle.context import context, under
from treadle.finder.build import build
from treadle.finder.construction import Base, ScheduleMethod, expression, is_breadth_first, notation
from treadle.finder.search import FabricCandidate, pareto
from treadle.schedules.steps.step_cost import step_loads
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.topologies import parse
from treadle.topologies.distances import distance_distribution
from treadle.topologies.topology import Topology

LARGEST_MEASURED = 10_000
"""Nodes up to which all distances are computed, in a few seconds; beyond, only predictions are reported."""

_BREADTH_FIRST_WORK = 5 * 10**8
"""About four seconds for both values; N = 4000 with d = 64 and N = 8000 with d = 4, 1.28 10**9, take nine."""


def is_quick_breadth_first(nodes: int, degree: int) -> bool:
    """Whether the values of breadth-first broadcast on a fabric of this size are a matter of seconds.

    Examples
    --------
    >>> is_quick_breadth_first(5000, 4), is_quick_breadth_first(4000, 64)
    (True, False)
    """
    return nodes**2 * (degree + 16) <= _BREADTH_FIRST_WORK


def bfb_values(topology: Topology) -> tuple[int, Fraction, Fraction]:
    """Return steps, T_B of the allgather and T_B of the reduce-scatter in M/B, by breadth-first broadcast.

    A graph and its transpose have the same diameter, and so both directions take as many steps.
    """
    forward, backward = bfb_value(topology), bfb_reduce_scatter_value(topology)
    return forward.diameter, forward.t_b, backward.t_b


def measure_graph(topology: Topology) -> tuple[int, Fraction, Fraction]:
    """Return the `bfb_values`, however late it is: a search past its deadline measures what it found."""
    with under(context().unlimited):
        return bfb_values(topology)


@dataclass(frozen=True)
class FlowRate:
    """Rate that an all-to-all over all nodes of a fabric attains.

    Parameters
    ----------
    rate : float
        Of a flow, between two nodes, in link bandwidths.
    gap : float
        How far the optimum may be above it, as a share of the upper side; 0 if the rate is exact.
    """

    rate: float
    gap: float


LABEL_LENGTH = 64
"""Characters of a fabric's name in a column: those of nearly all that no neighbour search made."""


@brief("candidate", "distances", "flow")
@dataclass(frozen=True)
class Option:
    """A fabric that may be chosen, with exact figures.

    Parameters
    ----------
    candidate : FabricCandidate
        Its values are those of the schedules.
    distances : tuple of int, optional
        Ordered pairs of nodes at each distance; None for very large fabrics.
    flow : FlowRate, optional
        Of an all-to-all, where it was computed.
    parts : int
        Equal parts without links between them; the candidate's steps and T_B are then those of a part.
    """

    candidate: FabricCandidate
    distances: tuple[int, ...] | None
    flow: FlowRate | None = None
    parts: int = 1

    @property
    def expression(self) -> str:
        """The topology in the catalogue's language."""
        return expression(self.candidate.construction)

    @property
    def notation(self) -> str:
        """The topology as papers write it, and in the catalogue's language what they have no sign for."""
        return notation(self.candidate.construction)

    @property
    def label(self) -> str:
        """The notation, cut where it is too long for a column."""
        text = self.notation
        return text if len(text) <= LABEL_LENGTH else f"{text[: LABEL_LENGTH - 3]}..."

    @property
    def degree(self) -> int:
        """d."""
        return self.candidate.gather.degree

    @property
    def nodes(self) -> int:
        """N."""
        return self.candidate.gather.nodes

    @property
    def diameter(self) -> int | None:
        """Longest distance."""
        return None if self.distances is None else len(self.distances) - 1

    @property
    def distance_sum(self) -> int | None:
        """Over all ordered pairs."""
        counts = self.distances
        return None if counts is None else sum(hops * count for hops, count in enumerate(counts))

    @property
    def mean_distance(self) -> Fraction | None:
        """Between two different nodes."""
        total = self.distance_sum
        return None if total is None else Fraction(total, self.nodes * (self.nodes - 1))

    @property
    def pair_rate(self) -> Fraction | None:
        """Upper bound of the all-to-all rate between two nodes, in link bandwidths, by distances alone."""
        total = self.distance_sum
        return None if total is None else Fraction(self.nodes * self.degree, total)

    @cached_property
    def topology(self) -> Topology:
        """The fabric with unit links."""
        return parse(self.expression)


def measured_options(candidates: Iterable[FabricCandidate]) -> tuple[Option, ...]:
    """Measure candidates and return the Pareto-efficient ones, by rising steps.

    A construction that is not scheduled by breadth-first broadcast is also offered with that: it never takes
    more steps, and sometimes no more bandwidth time either.
    """
    exact = [found for candidate in candidates for found in _exact(candidate)]
    kept = pareto(exact)
    return tuple(Option(candidate, _distances(candidate)) for candidate in kept)


def _exact(candidate: FabricCandidate) -> Iterator[FabricCandidate]:
    construction = candidate.construction
    if not is_quick_breadth_first(candidate.gather.nodes, candidate.gather.degree):
        yield candidate
    elif is_breadth_first(construction):
        yield candidate if candidate.is_exact else _with_breadth_first(candidate)
    else:
        yield candidate if candidate.is_exact else _with_built(candidate)
        base = Base(expression(construction), notation(construction), ScheduleMethod.BFB, "expansion")
        yield _with_breadth_first(replace(candidate, construction=base))


def _with_breadth_first(candidate: FabricCandidate) -> FabricCandidate:
    steps, t_b, backward = bfb_values(parse(expression(candidate.construction)))
    gather = replace(
        candidate.gather, steps=steps, t_b=t_b, diameter=steps, is_breadth_first=True, is_exact=True
    )
    reduce = gather if backward == t_b else replace(gather, t_b=backward)
    return replace(candidate, gather=gather, reduce=reduce)


def _with_built(candidate: FabricCandidate) -> FabricCandidate:
    figures = []
    predictions = (candidate.gather, Direction.BROADCAST), (candidate.reduce, Direction.REDUCE)
    for predicted, direction in predictions:
        topology, steps = build(candidate.construction, direction)
        loads = sum(int(load.max()) for load in step_loads(topology, steps))
        t_b = Fraction(loads * predicted.degree, steps.n_chunks * predicted.nodes)
        figures.append(replace(predicted, steps=steps.n_steps, t_b=t_b, is_exact=True))
    return replace(candidate, gather=figures[0], reduce=figures[1])


def _distances(candidate: FabricCandidate) -> tuple[int, ...] | None:
    if candidate.gather.nodes > LARGEST_MEASURED:
        return None
    topology = parse(expression(candidate.construction))
    return tuple(distance_distribution(topology).sum(axis=0).tolist())
