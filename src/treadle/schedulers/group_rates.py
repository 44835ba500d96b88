"""Groups of ranks by themselves: what each reaches while the others idle, and which cannot reach its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.brief import brief
from treadle.context import TimeLimitError, context
from treadle.errors import InfeasibleError
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.problem import Problem
from treadle.options.keywords import ProblemOptions
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.transfer import transfer_collective
from treadle.topologies import reached, subset
from treadle.topologies.topology import Topology
from treadle.units import format_bandwidth

if TYPE_CHECKING:
    from treadle.schedulers.bounds import BoundResult
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum

_SHOWN = 3


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


class CutOffGroupError(InfeasibleError):
    """A group has a rank that its others do not reach.

    Parameters
    ----------
    message : str
    group : int
    problem : Problem
        In groups.
    cut : tuple of str
        Names of the nodes that the rank reaches, or that reach it, from which no link leads on.
    forwarding : BoundResult, optional
        What all groups reach where all compute nodes forward; None if even so a rank is cut off.

    Examples
    --------
    >>> import treadle
    >>> try:
    ...     treadle.bound("ring:4", "allgather", mesh="2,2", axes="0")
    ... except treadle.planning.CutOffGroupError as error:
    ...     print(error.forwarding.algbw)
    2
    """

    def __init__(
        self,
        message: str,
        group: int,
        problem: Problem,
        cut: tuple[str, ...],
        forwarding: BoundResult | None,
    ) -> None:
        super().__init__(message)
        self.group = group
        self.cut = cut
        self.problem = problem
        self.forwarding = forwarding


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


@contextmanager
def naming_cut_off(
    problem: Problem,
    topology: FabricLike,
    collective: Collective | CollectiveKind | str,
    options: ProblemOptions,
) -> Iterator[None]:
    """Within it, a group that is cut off raises CutOffGroupError, which knows the rate with forwarding.

    Parameters
    ----------
    problem : Problem
    topology, collective, options
        From which it was posed.
    """
    try:
        yield
    except InfeasibleError as error:
        found = None if problem.collective.groups is None else find_cut_off(problem)
        if found is None:
            raise
        forwarding = None
        if not problem.collective.ranks_forward:
            from treadle.schedulers.bounds import bound  # which stands within this itself

            with suppress(InfeasibleError):
                if isinstance(collective, Collective):
                    forwarding = bound(
                        topology, replace(collective, ranks_forward=True), time_limit_s=context().seconds_left
                    )
                else:
                    again = ProblemOptions(**{**options, "forward": True})
                    forwarding = bound(topology, collective, time_limit_s=context().seconds_left, **again)
        group, words, cut = found
        raise CutOffGroupError(_words(problem, words, forwarding), group, problem, cut, forwarding) from error


def _words(problem: Problem, cut_off: str, forwarding: BoundResult | None) -> str:
    name = problem.topology.name
    if forwarding is None:
        more = "" if problem.collective.ranks_forward else ", and would not if other compute nodes forwarded"
        return f"{name}: {cut_off}{more}; connect them"
    rate = format_bandwidth(forwarding.algbw)
    return f"{name}: {cut_off} without ranks of other groups; with --forward all groups reach {rate} algbw"


def _alone(problem: Problem, group: int) -> tuple[Fraction, bool]:
    """The optimum of one group, and whether it is one."""
    topology, member = own_fabric(problem, group)
    if member.kind is CollectiveKind.ALLREDUCE:
        from treadle.synthesis.trees.groups.group_optimum import group_optimum  # brings a solver

        optimum = group_optimum(topology, member)
        return optimum.upper, optimum.is_exact
    from treadle.schedulers.bounds import find_bound  # which asks for these rates

    return find_bound(Problem(topology, member)).algbw, True


def own_fabric(problem: Problem, group: int) -> tuple[Topology, Collective]:
    """One group's collective, on the fabric without nodes that are absent for it; switches only pass on."""
    topology, member = problem.topology, problem.collective.member(group)
    if problem.collective.groups is not None and (topology.multicast | topology.aggregation).any():
        idle = np.zeros(topology.n_nodes, dtype=np.bool_)  # what groups at once are bounded by
        topology = replace(topology, multicast=idle, aggregation=idle, turns_round=idle)
    nodes = np.sort(np.array((*member.ranks, *member.forwarders)))
    if len(nodes) == len(topology.compute_nodes):
        return topology, member
    own = subset(topology, *np.searchsorted(topology.compute_nodes, nodes).tolist())
    return own, transfer_collective(member, topology, own)


def find_cut_off(problem: Problem) -> tuple[int, str, tuple[str, ...]] | None:
    """The first group with a rank that others of it do not reach, in words, and the nodes on its side."""
    topology, collective = problem.topology, problem.collective
    names = topology.node_names
    for group in range(collective.n_groups or 0):
        own, member = own_fabric(problem, group)
        ranks = np.array(member.ranks)
        start = int(ranks[member.root or 0])
        for backwards in (False, True):
            if collective.root is not None and backwards is not collective.kind.reduces:
                continue
            side = reached(own, start, backwards=backwards)
            missed = ranks[~side[ranks]]
            if missed.size:
                ends = (own.node_names[start], own.node_names[missed[0]])
                one, other = reversed(ends) if backwards else ends
                members = [names[collective.ranks[rank]] for rank in (collective.groups or ())[group]]
                shown = ", ".join(members[:_SHOWN]) + (", ..." if len(members) > _SHOWN else "")
                words = f"group {group} ({shown}): {one!r} does not reach {other!r}"
                return group, words, tuple(own.node_names[node] for node in np.flatnonzero(side))
    return None


def groups_optimum(problem: Problem) -> GroupOptimum:
    """The most that several groups reach at once, each of them."""
    from treadle.synthesis.trees.groups.group_optimum import group_optimum  # brings a solver

    return group_optimum(problem.topology, problem.collective)


def as_no_group(problem: Problem) -> Problem | None:
    """A problem in one group of all its ranks, where that is the same without groups, and cuts bound it."""
    topology, collective = problem.topology, problem.collective
    groups, kind = collective.groups or (), collective.kind
    is_same = len(groups) == 1 and groups[0] == tuple(range(collective.n_ranks))
    is_by_cuts = kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    able = topology.multicast.any() or topology.aggregation.any()
    if not is_same or not is_by_cuts or able:
        return None
    return replace(problem, collective=replace(collective, groups=None, ranks_forward=False))


_PHASES = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)


def phase_optima(problem: Problem) -> tuple[GroupOptimum, ...] | None:
    """Of an allreduce in groups those of its reduce-scatters and its allgathers; None if there is no time."""
    collective = problem.collective
    if collective.kind is not CollectiveKind.ALLREDUCE:
        return None
    parts = [Problem(problem.topology, replace(collective, kind=kind)) for kind in _PHASES]
    try:
        return tuple(groups_optimum(part) for part in parts)
    except TimeLimitError:
        return None


def algbw_of_phases(phases: Iterable[GroupOptimum]) -> Fraction:
    """What an allreduce reaches in two phases, one after the other: their times per byte add up."""
    return 1 / sum((1 / phase.lower for phase in phases), Fraction(0))


def exact_algbw_of_phases(phases: Sequence[GroupOptimum]) -> Fraction | None:
    """The same where both optima are known; None where time ran out before."""
    return algbw_of_phases(phases) if all(phase.is_exact for phase in phases) else None


def bracket_note(found: GroupOptimum) -> tuple[str, ...]:
    """What is told of an optimum that is known on two sides only."""
    if found.is_exact:
        return ()
    gap = float(1 - found.lower / found.upper)
    return (f"the optimum of the groups is not known exactly: what is built is at most {gap:.2%} below it",)
