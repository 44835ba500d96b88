"""Trees of concurrent groups, by name of the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from treadle.context import UNLIMITED, TimeLimitError, context, under
from treadle.errors import InfeasibleError, ScheduleError, TreadleError
from treadle.inputs.problem import Problem
from treadle.schedulers.bounds import bound_of_groups
from treadle.schedulers.group_rates import (
    PHASES,
    algbw_of_phases,
    bracket_note,
    exact_algbw_of_phases,
    groups_optimum,
    own_fabric,
    phase_optima,
)
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedules.collective import Collective
from treadle.schedules.transfer import transfer_schedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.scheduler import Scheduler
from treadle.synthesis.scheduler_options import Form, flag_of
from treadle.synthesis.trees.groups.allocation_forests import lean_forests, two_phases
from treadle.synthesis.trees.groups.group_optimum import GroupOptimum
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

ISOLATED = "isolated"
QUICK = ("hierarchical-ring", "ring", "multitree", "double-binary-tree")
"""Schedulers that are tried for each group after the deadline; all of them are fast."""

_EXACT = ("exact", "form")
"""Supported options: groups use exactly as many trees as their allocation holds."""


def group_candidate(problem: Problem, algorithm: str, given: Mapping[str, object]) -> Result:
    """Make trees of all groups that together attain the optimum.

    Parameters
    ----------
    problem : Problem
        In groups.
    algorithm : str
        The candidate's name.
    given : mapping
        Options by field; those that limit the number of trees are rejected.

    Raises
    ------
    ScheduleError
        If an option is not supported for groups.
    InfeasibleError
        If a member of a group cannot be reached, or there are too many trees.
    TimeLimitError
        If the deadline passed before anything was known of the optimum.
    """
    _check_given(algorithm, given)
    with context().stage("optimum"):
        optimum = groups_optimum(problem)
        phases = phase_optima(problem)
    rate = None if phases is None else algbw_of_phases(phases)
    notes: tuple[str, ...] = ()
    with context().stage("trees"):
        if phases is not None and rate is not None and rate >= optimum.lower:
            schedule = _in_phases(problem, phases)
            phrase = "{} is optimal" if rate == optimum.upper else "built as {}"
            notes = (phrase.format("reduce-scatter + allgather"),)
        else:
            schedule = lean_forests(problem.topology, problem.collective, optimum)
            if rate is not None:
                notes = (
                    f"built as in-trees and out-trees with free roots; reduce-scatter + allgather reaches "
                    f"{float(rate / optimum.lower):.2%} of it",
                )
    return Result(
        schedule,
        bound_of_groups(problem, optimum),
        algorithm,
        notes=(*notes, *bracket_note(optimum)),
        is_late=context().is_late and not optimum.is_exact,
        groups=optimum,
        rs_ag=None if phases is None else exact_algbw_of_phases(phases),
    )


def _in_phases(problem: Problem, optima: Sequence[GroupOptimum]) -> GroupSchedule:
    """Return the trees of the reduce-scatters of all groups and then of their allgathers."""
    scatter, gather = (
        lean_forests(problem.topology, replace(problem.collective, kind=kind), optimum)
        for kind, optimum in zip(PHASES, optima, strict=True)
    )
    return two_phases(scatter, gather)


def _check_given(algorithm: str, given: Mapping[str, object]) -> None:
    """Reject options that groups do not support."""
    wanted = [name for name, value in given.items() if value not in (None, False) and name not in _EXACT]
    if wanted:
        raise ScheduleError(
            f"{algorithm}: {flag_of(wanted[0])} is for one group of ranks; concurrent groups use "
            "the trees that their link allocation holds; leave it out"
        )
    if given.get("form") == Form.FACTORED:
        raise ScheduleError(f"{algorithm}: trees of several groups are written out, not factored (--form)")


def two_phase_groups(problem: Problem, algorithm: str, given: Mapping[str, object]) -> Result:
    """Make reduce-scatters of all groups, then their allgathers, at each phase's optimum.

    See `group_candidate`.

    Raises
    ------
    TimeLimitError
        If the deadline passed before both optima were known.
    """
    _check_given(algorithm, given)
    with context().stage("phases"):
        phases = phase_optima(problem)
    if phases is None:
        raise TimeLimitError("the time limit was reached")
    with context().stage("trees"), under(context().unlimited):
        schedule = _in_phases(problem, phases)
    return _with_group_optimum(Result(schedule, algorithm=algorithm), problem)


def isolated(topology: Topology, collective: Collective) -> Result:
    """Run ForestColl's optimal trees of each group, planned as if the others were idle, concurrently.

    Shows what isolated planning makes of shared links; `forestcoll` plans all groups together. For a single
    group both are the same.

    Raises
    ------
    InfeasibleError, ScheduleError
        If a group has no such trees.
    TimeLimitError
        If the deadline passed.
    """
    problem = Problem(topology, collective)
    if collective.groups is None:
        return replace(_alone(topology, collective), algorithm=ISOLATED)

    def trees(own: Topology, member: Collective) -> object:
        return _alone(own, member).schedule

    return _with_group_optimum(Result(_each(problem, trees), algorithm=ISOLATED), problem)


def _alone(topology: Topology, collective: Collective) -> Result:
    """Return explicit trees of the optimum; if they are too many, as many as come close to it."""
    forestcoll = find_scheduler("forestcoll")
    for asked in ({"exact": True}, {}):
        with suppress(InfeasibleError):
            found = forestcoll.make(topology, collective, {**asked, "form": Form.EXPLICIT})
            assert isinstance(found, Result)
            return found
    found = forestcoll.make(topology, collective, {})  # raises the error
    assert isinstance(found, Result)
    return found


def each_group(
    problem: Problem, scheduler: Scheduler, asked: Mapping[str, object], *, bound: Bound | None = None
) -> Result:
    """Run a scheduler's trees of each group alone concurrently.

    Parameters
    ----------
    problem : Problem
        In groups.
    scheduler : Scheduler
        A scheduler of trees for one group.
    asked : mapping
        Its options by field.
    bound : Bound, optional
        Bound of all groups, if known.

    Raises
    ------
    ScheduleError, InfeasibleError
        If it does not support a group, or uses in-network operations, which groups do not support.
    """
    with context().stage("schedule"):
        schedule = _each(problem, _making(scheduler, asked))
    found = Result(schedule, bound, scheduler.name)
    return found if bound is not None else _with_group_optimum(found, problem)


def _making(scheduler: Scheduler, asked: Mapping[str, object]) -> Callable[[Topology, Collective], object]:
    def trees(own: Topology, member: Collective) -> object:
        refusal = scheduler.unsupported(own, member)
        if refusal is not None:
            raise ScheduleError(f"{scheduler.name}: {refusal}")
        made = scheduler.make(own, member, asked)
        return made.schedule if isinstance(made, Result) else made

    return trees


def _with_group_optimum(found: Result, problem: Problem) -> Result:
    """Add the optimum of all groups, and that of two phases, to a result."""
    try:
        with context().stage("bound"):
            optimum = groups_optimum(problem)
            phases = phase_optima(problem)
    except TimeLimitError:
        return replace(found, is_late=True)
    rs_ag = None if phases is None else exact_algbw_of_phases(phases)
    limit = bound_of_groups(problem, optimum)
    return replace(found, bound=limit, groups=optimum, rs_ag=rs_ag)


def _each(problem: Problem, trees: Callable[[Topology, Collective], object]) -> GroupSchedule:
    """Solve each group on the nodes that it may use; equal problems once."""
    topology, collective = problem.topology, problem.collective
    known: dict[tuple[object, ...], object] = {}
    made = []
    n_groups = collective.n_groups or 0
    for group in range(n_groups):
        context().report("groups by themselves", group, n_groups)
        own, member = own_fabric(problem, group)
        key = (*_arrays(own), member)
        if key not in known:
            known[key] = trees(own, member)
        found = known[key]
        if not isinstance(found, ForestSchedule):
            raise ScheduleError(f"{topology.name}: a schedule of trees written out is needed for each group")
        schedule = transfer_schedule(found, own, topology)
        assert isinstance(schedule, ForestSchedule)
        made.append(schedule)
    return GroupSchedule(collective.kind, tuple(made))


def _arrays(topology: Topology) -> tuple[bytes, ...]:
    """Return a key that is equal for fabrics that differ in names only."""
    columns = (topology.is_compute, topology.tails, topology.heads, topology.bandwidths)
    able = (topology.multicast, topology.aggregation, topology.injection_bytes_per_s)
    return tuple(column.tobytes() for column in (*columns, *able))


def quick_groups(problem: Problem) -> Result:
    """Return the best baseline of each group by itself, without a bound, after the deadline.

    Raises
    ------
    ScheduleError
        If none applies.
    """
    found: list[tuple[Fraction, Result]] = []
    for name in QUICK:
        try:
            with under(UNLIMITED):
                schedule = _each(problem, _making(find_scheduler(name), {}))
        except TreadleError:
            continue
        report = verify(problem.topology, problem.collective, schedule)
        if report.is_ok and report.algbw is not None:
            found.append((report.algbw, Result(schedule, algorithm=name)))
    if not found:
        raise ScheduleError(
            f"{problem.topology.name}: the time limit was reached and no quick schedule fits the groups; "
            f"allow more time"
        )
    return max(found, key=lambda entry: entry[0])[1]
