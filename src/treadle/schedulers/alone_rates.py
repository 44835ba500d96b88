"""Rates of groups, each alone while the others are idle."""

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
    """Rates of groups, each alone while all others are idle.

    Parameters
    ----------
    algbw : Fraction
        Optimum of each of these groups, bytes/s.
    groups : tuple of int
        Rising.
    is_exact : bool
        Whether it is the optimum, not only an upper bound (of an all-to-all, or after the deadline).

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
    """Return the optimum of each group by itself, the least first.

    Parameters
    ----------
    problem : Problem
        In groups.
    stands_for : sequence of int
        An equivalent group for each group; only these are solved.
    alone : callable, optional
        Returns the optimum of a group, and whether it is exact. Default: that of trees.
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
    """Compute the optimum of each group alone; equivalent groups of the joint problem share one."""
    groups = range(problem.collective.n_groups or 0)
    return alone_rates(problem, [optimum.representative(group) for group in groups])


def _alone(problem: Problem, group: int) -> tuple[Fraction, bool]:
    """Return the optimum of a group, and whether it is exact."""
    topology, member = own_fabric(problem, group)
    if member.kind is CollectiveKind.ALLREDUCE:
        from treadle.synthesis.trees.groups.group_optimum import group_optimum  # brings a solver

        optimum = group_optimum(topology, member)
        return optimum.upper, optimum.is_exact
    return find_bound(Problem(topology, member)).algbw, True


_MOST_WORK = 20_000_000
"""Nodes and links to visit per pair of possibly equivalent groups: less than half a second."""


def alone_in_plan(plan: Plan) -> tuple[AloneRate, ...]:
    """Rate of each group of a plan alone, as `bound` computes it."""
    problem = Problem(plan.topology, plan.collective)
    if plan.collective.kind is CollectiveKind.ALLTOALL:
        return alltoalls_alone(problem)
    from treadle.synthesis.trees.groups.group_colours import refined
    from treadle.synthesis.trees.groups.union import union_of

    union = union_of(plan.topology, plan.collective)
    kinds = refined(union).kinds[union.type_of].tolist()
    return alone_rates(problem, [kinds.index(kind) for kind in kinds])


def alltoalls_alone(problem: Problem, *, gap: float | None = None) -> tuple[AloneRate, ...]:
    """Return the optimum of an all-to-all in each group while the others idle, the least first.

    Ranks of other groups forward data, as they do while all run.

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
    """Return for each group the first that an automorphism is found to map to it."""
    marked: dict[int, Topology] = {}
    found = []
    for group, ranks in enumerate(collective.blocks or ()):
        # Maps keep injection caps, so a mark added to them distinguishes members.
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
