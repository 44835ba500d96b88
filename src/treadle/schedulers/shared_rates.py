"""Rates of several groups at once as reports tell them: alone, together, and the links that all need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.brief import brief
from treadle.inputs.problem import Problem
from treadle.schedulers.alltoall import alltoall_rate
from treadle.schedulers.group_rates import AloneRate, alone_rates
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.witness import Witness
from treadle.topologies.isomorphism import UndecidedError, find_isomorphism
from treadle.topologies.topology import Topology

if TYPE_CHECKING:
    from treadle.schedulers.bounds import BoundResult
    from treadle.schedulers.solve import SolveResult
    from treadle.schedules.plan import Plan

_MOST_WORK = 20_000_000
"""Nodes and links to visit per pair of groups that may be alike: less than half a second."""

_SHORT = Fraction(1, 10**6)
"""Shorter than this share of the longest, a link's length comes from rounding."""


@brief("lower", "upper", "alone", "rs_ag")
@dataclass(frozen=True)
class SharedRates:
    """What groups of ranks reach.

    Parameters
    ----------
    lower, upper : Fraction
        algbw of each group while all run: what is attained, and what is proved to be the most; bytes/s.
    alone : tuple of AloneRate
        Each by itself while the others idle, the least first; empty: not looked for.
    bottleneck : tuple of int
        Links that set the rate.
    rs_ag : Fraction, optional
        Of an allreduce: what reduce-scatters and then allgathers of all groups reach; None: not known.
    """

    lower: Fraction
    upper: Fraction
    alone: tuple[AloneRate, ...]
    bottleneck: tuple[int, ...]
    rs_ag: Fraction | None = None

    @property
    def is_exact(self) -> bool:
        """Whether both sides meet."""
        return self.lower == self.upper


def shared_rates(result: BoundResult | SolveResult) -> SharedRates | None:
    """Those of a result; None where it is of one group, or nothing is known of its optimum."""
    if result.collective.blocks is None or result.bound is None:
        return None
    links = bottleneck(result.bound.witness)
    if result.groups is not None:
        return SharedRates(result.groups.lower, result.groups.upper, result.alone, links, result.rs_ag)
    rate = getattr(result, "rate", None)
    if rate is not None:
        lower = result.bound.algbw if rate.exact is not None else Fraction(rate.algbw)
        return SharedRates(lower, result.bound.algbw, result.alone, tuple(rate.binding_links().tolist()))
    plan = getattr(result, "plan", None)
    return None if plan is None else plan_rates(plan, result.alone)


def plan_rates(plan: Plan, alone: tuple[AloneRate, ...]) -> SharedRates | None:
    """Those of a verified plan; None where it is of one group, or has no bound."""
    if plan.collective.blocks is None or plan.optimal_algbw is None or plan.witness is None:
        return None
    return SharedRates(plan.algbw, plan.optimal_algbw, alone, bottleneck(plan.witness))


def bottleneck(witness: Witness) -> tuple[int, ...]:
    """Links that have a length in a witness: together they set the rate."""
    lengths = getattr(witness, "lengths", ())
    least = max(lengths, default=0) * _SHORT
    return tuple(np.flatnonzero([length > least for length in lengths]).tolist())


def alone_in_plan(plan: Plan) -> tuple[AloneRate, ...]:
    """What each group of a plan reaches by itself, as `bound` finds it."""
    problem = Problem(plan.topology, plan.collective)
    if plan.collective.kind is CollectiveKind.ALLTOALL:
        return alltoalls_alone(problem)
    from treadle.synthesis.trees.groups.group_colours import refined
    from treadle.synthesis.trees.groups.union import union_of

    union = union_of(plan.topology, plan.collective)
    kinds = refined(union).kinds[union.type_of].tolist()
    return alone_rates(problem, [kinds.index(kind) for kind in kinds])


def alltoalls_alone(problem: Problem, *, gap: float | None = None) -> tuple[AloneRate, ...]:
    """The optimum of an all-to-all in each group while the others have nothing to send, the least first.

    Ranks of other groups pass data on, as they do while all run.

    Parameters
    ----------
    problem : Problem
        Of demands in blocks.
    gap : float, optional
        As of `alltoall_rate`.
    """
    collective = problem.collective
    groups = collective.blocks or ()

    def alone(group: int) -> tuple[Fraction, bool]:
        nodes = [collective.ranks[rank] for rank in groups[group]]
        others = sorted(frozenset((*collective.ranks, *collective.forwarders)).difference(nodes))
        own = Collective(CollectiveKind.ALLTOALL, tuple(nodes), forwarders=tuple(others))
        found = alltoall_rate(Problem(problem.topology, own), gap=gap)
        return found.upper * len(nodes), found.exact is not None

    return alone_rates(problem, alike_groups(problem.topology, collective), alone)


def alike_groups(topology: Topology, collective: Collective) -> list[int]:
    """For each group the first that a map of the fabric to itself takes to it, as far as one is found."""
    marked: dict[int, Topology] = {}
    found = []
    for group, ranks in enumerate(collective.blocks or ()):
        # what a map keeps besides links: a mark beside the injection caps tells members
        marks = 2 * topology.injection_bytes_per_s.astype(np.int64)
        marks[[collective.ranks[rank] for rank in ranks]] += 1
        one = replace(topology, injection_bytes_per_s=marks)
        first = next((other for other, like in marked.items() if _is_alike(like, one)), group)
        if first == group:
            marked[group] = one
        found.append(first)
    return found


def _is_alike(one: Topology, other: Topology) -> bool:
    try:
        return find_isomorphism(one, other, work_limit=_MOST_WORK) is not None
    except UndecidedError:
        return False
