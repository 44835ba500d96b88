"""Bounds as results: with what groups reach alone, and what is cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from treadle.context import TimeLimitError, context
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.notebook import displayed_by
from treadle.schedulers.alltoall import alltoall_rate, rate_by_method
from treadle.schedulers.alone_rates import AloneRate, alltoalls_alone, rates_of
from treadle.schedulers.bounds import alltoall_by_classes, bound_of_alltoall, bound_of_groups, find_bound
from treadle.schedulers.group_rates import (
    bracket_note,
    exact_algbw_of_phases,
    find_cut_off,
    groups_optimum,
    phase_optima,
)
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.spelling import known_name
from treadle.synthesis.result import Bound
from treadle.topologies.topology import Topology
from treadle.units import format_bandwidth

if TYPE_CHECKING:
    from treadle.simulation.costs.cost_model import CostModel
    from treadle.simulation.size_bounds.size_certificate import SizeBound
    from treadle.synthesis.alltoall import RateResult
    from treadle.synthesis.alltoall.rate.methods import RateMethod
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum


@displayed_by("treadle.render.solving:bound_result_rows")
@dataclass(frozen=True)
class BoundResult:
    """The most that any schedule can reach.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    bound : Bound
    seconds : mapping of stage to CPU seconds
    rate : RateResult, optional
        Both sides of an all-to-all's optimum; `bound` is the upper one.
    groups : GroupOptimum, optional
        Both sides of the optimum of concurrent groups; `bound` is the upper one, of each group.
    alone : tuple of AloneRate
        What groups reach, each by itself while the others idle; the least first.
    rs_ag : Fraction, optional
        Of an allreduce in groups: what reduce-scatters and then allgathers reach, bytes/s.
    notes : tuple of str
        What a user should know.
    at_sizes : tuple of SizeBound
        Time lower bounds of the given sizes.
    cost_model : CostModel, optional
        Under which.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.bound("ring:4", "alltoall")
    >>> found
    <BoundResult alltoall, 4 ranks; 2 B/s algbw, 1.5 B/s busbw (exact)>
    >>> found.algbw, found.bound.is_tight
    (Fraction(2, 1), True)
    """

    topology: Topology
    collective: Collective
    bound: Bound
    seconds: Mapping[str, float]
    rate: RateResult | None = None
    groups: GroupOptimum | None = None
    alone: tuple[AloneRate, ...] = ()
    rs_ag: Fraction | None = None
    notes: tuple[str, ...] = ()
    at_sizes: tuple[SizeBound, ...] = ()
    cost_model: CostModel | None = None

    @property
    def algbw(self) -> Fraction:
        """The bound, bytes/s, exact."""
        return self.bound.algbw


def bound_problem(
    problem: Problem, *, method: RateMethod | str | None = None, gap: float | None = None, seed: int = 0
) -> BoundResult:
    """Find the optimum, with what groups reach alone; see `treadle.bound`."""
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        with context().stage("optimum"):
            if method is None:
                by_classes = alltoall_by_classes(problem)
                rate: RateResult | FlowDualCertificate = by_classes or alltoall_rate(problem, gap=gap)
            else:
                rate = rate_by_method(problem, _method(method), gap=gap, seed=seed)
        if isinstance(rate, FlowDualCertificate):
            units = problem.collective.pair_demands.buffer_units
            upper = units * rate.pair_rate_bound(problem.topology, problem.collective)
            found = Bound(upper, rate, is_tight=False)
            return BoundResult(problem.topology, problem.collective, found, context().seconds)
        alone: tuple[AloneRate, ...] = ()
        if problem.collective.blocks is not None:
            with context().stage("alone"):
                alone = alltoalls_alone(problem, gap=gap)
        optimum = bound_of_alltoall(rate)
        return BoundResult(
            problem.topology, problem.collective, optimum, context().seconds, rate, alone=alone
        )
    if method is not None:
        raise ScheduleError(
            f"method: {method} is for an all-to-all; {problem.collective.kind} has one exact bound"
        )
    if gap is not None:
        raise ScheduleError(
            f"gap: the bound of {problem.collective.kind} is exact; only an all-to-all has a gap"
        )
    if problem.collective.groups is not None:
        return _groups_bound(problem)
    with context().stage("optimum"):
        found = find_bound(problem)
    return BoundResult(problem.topology, problem.collective, found, context().seconds)


def _groups_bound(problem: Problem) -> BoundResult:
    with context().stage("optimum"):
        groups = groups_optimum(problem)
    with context().stage("phases"):
        phases = phase_optima(problem)
    alone: tuple[AloneRate, ...] = ()
    with context().stage("alone"), suppress(TimeLimitError):  # what is known of all together is told
        alone = rates_of(problem, groups)
    return BoundResult(
        problem.topology,
        problem.collective,
        bound_of_groups(problem, groups),
        context().seconds,
        groups=groups,
        alone=alone,
        rs_ag=None if phases is None else exact_algbw_of_phases(phases),
        notes=bracket_note(groups),
    )


def _method(name: RateMethod | str) -> RateMethod:
    from treadle.synthesis.alltoall.rate.methods import RateMethod  # brings solvers that few bounds need

    return RateMethod(known_name("method", name, RateMethod))


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


@contextmanager
def naming_cut_off(problem: Problem, forwarding: Callable[[], Problem]) -> Iterator[None]:
    """Within it, a group that is cut off raises CutOffGroupError, which knows the rate with forwarding.

    Parameters
    ----------
    problem : Problem
    forwarding : callable
        The same problem where all compute nodes forward.
    """
    try:
        yield
    except InfeasibleError as error:
        found = None if problem.collective.groups is None else find_cut_off(problem)
        if found is None:
            raise
        result = None
        if not problem.collective.ranks_forward:
            with suppress(InfeasibleError):
                result = bound_problem(forwarding())
        group, words, cut = found
        raise CutOffGroupError(_words(problem, words, result), group, problem, cut, result) from error


def _words(problem: Problem, cut_off: str, forwarding: BoundResult | None) -> str:
    name = problem.topology.name
    if forwarding is None:
        more = "" if problem.collective.ranks_forward else ", and would not if other compute nodes forwarded"
        return f"{name}: {cut_off}{more}; connect them"
    rate = format_bandwidth(forwarding.algbw)
    return f"{name}: {cut_off} without ranks of other groups; with --forward all groups reach {rate} algbw"
