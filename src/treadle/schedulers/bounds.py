"""The most that any schedule can reach, and what proves it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Unpack, cast

from treadle.checking import checked, unexpected
from treadle.context import Progress, TimeLimitError, context, in_context, under
from treadle.errors import FormatError, ScheduleError
from treadle.inputs.fabrics_and_plans import FabricLike, as_sizes
from treadle.inputs.problem import Problem, model_of, pose
from treadle.options.keywords import BoundOptions, ProblemOptions
from treadle.refusal import Refusal
from treadle.schedulers.alltoall import alltoall_rate, rate_by_method
from treadle.schedulers.group_rates import (
    AloneRate,
    as_no_group,
    bracket_note,
    exact_algbw_of_phases,
    groups_optimum,
    naming_cut_off,
    phase_optima,
    rates_of,
)
from treadle.schedules.alltoall.alltoall_witness import DistanceWitness
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.spelling import spelt_alike, unknown
from treadle.synthesis import alltoall
from treadle.synthesis import trees as forestcoll
from treadle.synthesis.result import Bound
from treadle.synthesis.trees import allreduce
from treadle.told_by import told_by
from treadle.topologies.topology import Topology

if TYPE_CHECKING:
    from treadle.simulation.costs.cost_model import CostModel
    from treadle.simulation.size_bounds.size_witness import SizeBound
    from treadle.synthesis.alltoall import RateResult
    from treadle.synthesis.alltoall.rate.methods import RateMethod
    from treadle.synthesis.trees.allreduce import AllreduceBound
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum


@told_by("treadle.render.solving:bound_result_rows")
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
        Both sides of the optimum of several groups at once; `bound` is the upper one, of each group.
    alone : tuple of AloneRate
        What groups reach, each by itself while the others idle; the least first.
    rs_ag : Fraction, optional
        Of an allreduce in groups: what reduce-scatters and then allgathers reach, bytes/s.
    notes : tuple of str
        What a user should know.
    at_sizes : tuple of SizeBound
        Least times of the sizes that were asked for.
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


def _as_method(value: Any, place: str) -> Any:
    """What `bound` takes as a method, whose type is loaded where one is asked for."""
    if value is None or isinstance(value, str):
        return value
    raise unexpected(place, "a RateMethod or its name", value)


@checked(method=_as_method)
@in_context()
def bound(
    topology: FabricLike,
    collective: Collective | CollectiveKind | str,
    *,
    method: RateMethod | str | None = None,
    gap: float | None = None,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **options: Unpack[BoundOptions],
) -> BoundResult:
    """The exact optimum of a collective on a fabric, with a witness that proves it.

    Parameters
    ----------
    topology, collective, **options
        See `treadle.inputs.problem.pose`.
    method : RateMethod or str, optional
        Of an all-to-all: a published method, to compare with; default the quickest and closest, ours. Cuts
        are upper bounds only.
    gap : float, optional
        How close the two sides of an all-to-all's optimum are to come, as a share; default 0.001, of
        Fleischer's scheme 0.05.
    seed : int
        Of the search for cuts.
    time_limit_s : float, optional
        Seconds after which to give up an allreduce, or to stop an all-to-all with what there is; the cut
        search of the others is not interrupted.
    progress : callable, optional
        progress(stage, done, total).
    sizes : sequence of int or str
        Bytes of the larger per-rank buffer, for each of which the least time of any schedule is found.
    cost_model : CostModel, str or Path, optional
        What messages cost there; see `simulate`.

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if a rank cannot be reached.
    TimeLimitError
        If time ran out for an allreduce: there is no bound then.

    Examples
    --------
    >>> import treadle
    >>> treadle.bound("dgx_a100:2", "allgather").algbw
    Fraction(1040000000000, 3)
    """
    asked = options.get("sizes", ())
    at = () if asked == () else as_sizes(asked, "bound: sizes")
    given = options.get("cost_model")
    names = ("sizes", "cost_model")
    posed = cast(ProblemOptions, {name: one for name, one in options.items() if name not in names})
    result = _bound(topology, collective, method, gap, seed, posed)
    if not at:
        return result
    # here, because few bounds are of sizes
    from treadle.simulation.cost_models import cost_model_of
    from treadle.simulation.size_bounds.problem_bounds import size_bounds

    problem = Problem(result.topology, result.collective)
    model = cost_model_of(problem.topology, given)
    with context().stage("sizes"):
        least = size_bounds(problem, result.bound.witness, at, cost_model=model)
    return replace(result, at_sizes=least, cost_model=model, seconds=context().seconds)


def _bound(
    topology: FabricLike,
    collective: Collective | CollectiveKind | str,
    method: RateMethod | str | None,
    gap: float | None,
    seed: int,
    options: ProblemOptions,
) -> BoundResult:
    """See `bound`; without sizes."""
    with context().stage("fabric"):
        problem = pose(topology, collective, **options)
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        with context().stage("optimum"):
            if method is None:
                rate: RateResult | DistanceWitness = alltoall_rate(problem, gap=gap)
            else:
                rate = rate_by_method(problem, _method(method), gap=gap, seed=seed)
        if isinstance(rate, DistanceWitness):
            units = problem.collective.pair_demands.buffer_units
            upper = units * rate.pair_rate_bound(problem.topology, problem.collective)
            found = Bound(upper, rate, is_tight=False)
            return BoundResult(problem.topology, problem.collective, found, context().seconds)
        alone: tuple[AloneRate, ...] = ()
        if problem.collective.blocks is not None:
            from treadle.schedulers.shared_rates import alltoalls_alone

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
        return bound_in_groups(problem, topology, collective, options)
    with context().stage("optimum"):
        found = find_bound(problem)
    return BoundResult(problem.topology, problem.collective, found, context().seconds)


def bound_in_groups(
    problem: Problem,
    topology: FabricLike,
    collective: Collective | CollectiveKind | str,
    options: ProblemOptions,
) -> BoundResult:
    """The optimum of several groups at once, and what they reach alone; see `bound`.

    Parameters
    ----------
    problem : Problem
    topology, collective, options
        From which it was posed.

    Raises
    ------
    CutOffGroupError
        If a rank of a group cannot be reached.
    """
    with naming_cut_off(problem, topology, collective, options):
        return _groups_bound(problem)


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

    meant = spelt_alike(name, RateMethod)
    if meant is None:
        raise FormatError(unknown("method", name, RateMethod))
    return RateMethod(meant)


MAX_RANKS_BY_CUTS = 128
"""Beyond this many ranks the bound of an allreduce is first sought as that of one group."""

MAX_RANKS_AS_GROUP = 2**13
"""Beyond this many ranks the bound of an allreduce is that of factored forests which attain it, or none."""

MAX_RANKS_BY_FLOW = 1024
"""Beyond this many ranks a bound is first sought by tight cuts."""


def find_bound(problem: Problem, *, cards_forward: bool = False) -> Bound:
    """The exact optimum; for an allreduce with capable switches, an all-to-all, or groups perhaps a bound.

    Parameters
    ----------
    problem : Problem
    cards_forward : bool
        Of an all-to-all on hosts with injection caps: whether what a node passes on stays out of its host.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    if problem.collective.groups is not None:
        if problem.collective.n_ranks > MAX_RANKS_BY_FLOW and (whole := as_no_group(problem)):
            return find_bound(whole)
        return bound_of_groups(problem, groups_optimum(problem))
    if problem.collective.kind is CollectiveKind.ALLREDUCE:
        large = large_allreduce(problem)
        if large is not None:
            return large
        found = allreduce.allreduce_bound(problem.topology, problem.collective)
        return bound_of_allreduce(problem, found)
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        left = context().seconds_left
        with under(context().unlimited):
            rate = alltoall.optimal_rate(
                problem.topology, problem.collective, time_limit_s=left, cards_forward=cards_forward
            )
        return bound_of_alltoall(rate)
    best = _optimum(problem)
    by_cuts = Bound(best.algbw, best.witness)
    if forestcoll.has_balanced_relays(problem.topology, problem.collective):
        return by_cuts
    return _where_switches_lose(problem, by_cuts)


def _where_switches_lose(problem: Problem, by_cuts: Bound) -> Bound:
    """The optimum where a switch may take in what it cannot send on, or the reverse.

    The least cut is attained where splitting off switches keeps it, for which each has to be Eulerian
    (assumed by the dissertation in B.5). Elsewhere trees of paths, priced by link lengths, tell the optimum.
    """
    topology = problem.topology
    if topology.multicast.any() or topology.aggregation.any() or topology.injection_bytes_per_s.any():
        return replace(by_cuts, is_tight=False)
    groups = groups_optimum(problem)
    if groups.lower == by_cuts.algbw:
        return by_cuts
    # the lesser bound counts, whoever it is of
    is_by_cuts = not groups.is_exact and groups.upper >= by_cuts.algbw
    return replace(by_cuts, is_tight=False) if is_by_cuts else bound_of_groups(problem, groups)


def large_allreduce(problem: Problem) -> Bound | None:
    """The optimum of many ranks as that of one group, links that are alike as one; None if it is no question.

    The program by cuts is for fabrics that copy or add, or that have few links alike. Its time grows with the
    ranks (1 s for 160 to 256 of them, 31 s for 1024), that of trees with the classes of links: 0.05 s for 6
    on the same fabrics, 0.8 s for 66 on a mesh of 144 ranks, 6.5 s for 155 on a torus of 144 with a dead
    link, where cuts take 0.2 s.
    """
    topology = problem.topology
    able = topology.multicast.any() or topology.aggregation.any() or topology.injection_bytes_per_s.any()
    if able or problem.collective.n_ranks <= MAX_RANKS_BY_CUTS:
        return None
    if (
        problem.collective.n_ranks > MAX_RANKS_BY_FLOW
    ):  # 0.2 s for 8192 GPUs, where link prices take 30 s and 2 GB
        found = _bound_by_pieces(problem)
        if found is not None or problem.collective.n_ranks > MAX_RANKS_AS_GROUP:
            return found
    from treadle.synthesis.trees.groups.group_optimum import count_classes  # brings a solver

    if 2 * count_classes(topology, problem.collective) > problem.collective.n_ranks:
        return None
    found = bound_of_groups(problem, groups_optimum(problem))
    return found if found.is_tight else None


def _bound_by_pieces(problem: Problem) -> Bound | None:
    """An allreduce's optimum that lengths prove and factored forests attain."""
    found = forestcoll.decompose_allreduce(problem.topology, problem.collective, lower=False)
    if isinstance(found, Refusal) or found.found.algbw < found.bound:
        return None
    return Bound(found.bound, found.witness, True, model_of(problem.topology, problem.collective))


def _optimum(problem: Problem) -> forestcoll.Optimum:
    """The optimum; on large fabrics by a forest that attains it, which takes no flow per rank."""
    if problem.collective.n_ranks > MAX_RANKS_BY_FLOW:
        found = forestcoll.decompose(problem.topology, problem.collective)
        if not isinstance(found, Refusal) and found.algbw == found.optimum.algbw:
            return found.optimum
    with under(context().unlimited):
        return forestcoll.optimum(problem.topology, problem.collective)


def bound_of_allreduce(problem: Problem, found: AllreduceBound) -> Bound:
    """An allreduce bound as the other bounds are told."""
    model = model_of(problem.topology, problem.collective)
    return Bound(found.algbw, found.witness, found.is_attained is True, model)


def bound_of_alltoall(found: RateResult) -> Bound:
    """The upper side of an all-to-all's rate as the other bounds are told."""
    units = found.collective.pair_demands.buffer_units
    return Bound(units * found.upper, found.witness, found.exact is not None)


def bound_of_groups(problem: Problem, found: GroupOptimum) -> Bound:
    """The upper side of the optimum of several groups as the other bounds are told; of each group."""
    topology, kind = problem.topology, problem.collective.kind
    # lengths of links price each tree edge by itself, whatever the switches could do
    prices_copies = (topology.multicast | topology.aggregation).any() or kind is CollectiveKind.ALLREDUCE
    model = f"{kind} without in-network multicast and aggregation" if prices_copies else ""
    return Bound(found.upper, found.witness, found.is_exact, model)
