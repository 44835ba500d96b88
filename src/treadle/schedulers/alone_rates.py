"""What groups reach, each by itself while the others idle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.brief import brief
from treadle.context import context
from treadle.inputs.problem import Problem
from treadle.schedulers.alltoall import alltoall_rate
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.group_rates import own_fabric
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.isomorphism import UndecidedError, find_isomorphism
from treadle.topologies.topology import Topology

if TYPE_CHECKING:
    from treadle.schedules.plan import Plan
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum


@brief("algbw", "groups", "is_exact")
@dataclass(frozen=True)
class AloneRate:
    """What groups reach, each by itself while all others idle.

    Parameters
    ----------
    algbw : Fraction
        The optimum of each of them, bytes/s.
    groups : tuple of int
        Rising.
    is_exact : bool
        False: no more than an upper bound is known: of an all-to-all, of an allreduce when time ran out.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.bound("dgx_h100:2", "allgather", mesh="dp=2,tp=8", axes="dp", forward=True)
    >>> rate = found.alone[0]
    >>> len(rate.groups), float(found.bound.algbw) / 1e9, float(rate.algbw) / 1e9
    (8, 100.0, 800.0)
    """

    algbw: Fraction
    groups: tuple[int, ...]
    is_exact: bool = True


def alone_rates(
    problem: Problem, stands_for: Sequence[int], alone: Callable[[int], tuple[Fraction, bool]] | None = None
) -> tuple[AloneRate, ...]:
    """The optimum of each group by itself, the least first.

    Parameters
    ----------
    problem : Problem
        In groups.
    stands_for : sequence of int
        For each group one that is like it; only these are solved.
    alone : callable, optional
        The optimum of a group, and whether it is one. Default: of trees.
    """
    found: dict[tuple[Fraction, bool], list[int]] = defaultdict(list)
    by_group: dict[int, tuple[Fraction, bool]] = {}
    for group, representative in enumerate(stands_for):
        if representative not in by_group:
            context().announce(f"group {representative} alone")
            by_group[representative] = (
                _alone(problem, representative) if alone is None else alone(representative)
            )
        found[by_group[representative]].append(group)
    return tuple(AloneRate(algbw, tuple(found[algbw, exact]), exact) for algbw, exact in sorted(found))


def rates_of(problem: Problem, optimum: GroupOptimum) -> tuple[AloneRate, ...]:
    """The optimum of each group by itself; of groups that are alike in the joint problem, of one."""
    groups = range(problem.collective.n_groups or 0)
    return alone_rates(problem, [optimum.representative(group) for group in groups])


def _alone(problem: Problem, group: int) -> tuple[Fraction, bool]:
    """The optimum of one group, and whether it is one."""
    topology, member = own_fabric(problem, group)
    if member.kind is CollectiveKind.ALLREDUCE:
        from treadle.synthesis.trees.groups.group_optimum import group_optimum  # brings a solver

        optimum = group_optimum(topology, member)
        return optimum.upper, optimum.is_exact
    return find_bound(Problem(topology, member)).algbw, True


_MOST_WORK = 20_000_000


"""Nodes and links to visit per pair of groups that may be alike: less than half a second."""


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

    return alone_rates(problem, equivalent_groups(problem.topology, collective), alone)


def equivalent_groups(topology: Topology, collective: Collective) -> list[int]:
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
