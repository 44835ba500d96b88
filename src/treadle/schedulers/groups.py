"""Trees of several groups at once, by name of the algorithm that makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from treadle.context import UNLIMITED, TimeLimitError, context, under
from treadle.errors import InfeasibleError, ScheduleError, TreadleError
from treadle.inputs.problem import Problem
from treadle.schedulers.bounds import bound_of_groups
from treadle.schedulers.group_rates import (
    algbw_of_phases,
    bracket_note,
    exact_algbw_of_phases,
    groups_optimum,
    own_fabric,
    phase_optima,
)
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedules.collective import Collective, CollectiveKind
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
"""Tried for each group when time has run out; all of them are quick."""

_EXACT = ("exact", "form")
"""What may be asked for: groups take just as many trees as their shares hold."""

_PHASES = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)


def group_candidate(problem: Problem, algorithm: str, asked: Mapping[str, object]) -> Result:
    """Trees of all groups that together attain the optimum.

    Parameters
    ----------
    problem : Problem
        In groups.
    algorithm : str
        The candidate's name.
    asked : mapping
        Options by field; those that limit the number of trees are refused.

    Raises
    ------
    ScheduleError
        If an option was asked for that groups do not heed.
    InfeasibleError
        If a member of a group cannot be reached, or there are too many trees.
    TimeLimitError
        If the deadline passed before anything was known of the optimum.
    """
    _check_asked(algorithm, asked)
    with context().stage("optimum"):
        optimum = groups_optimum(problem)
        phases = _phases(problem)
    with context().stage("trees"):
        if phases is not None and phases.algbw >= optimum.lower:
            schedule, notes = phases.schedule(), phases.describe_bound(optimum.upper)
        else:
            schedule = lean_forests(problem.topology, problem.collective, optimum)
            notes = () if phases is None else phases.beaten(optimum.lower)
    return Result(
        schedule,
        bound_of_groups(problem, optimum),
        algorithm,
        notes=(*notes, *bracket_note(optimum)),
        is_late=context().is_late and not optimum.is_exact,
        groups=optimum,
        rs_ag=None if phases is None else exact_algbw_of_phases((phases.scatter, phases.gather)),
    )


@dataclass(frozen=True)
class _Phases:
    """An allreduce as the reduce-scatters of all groups and then their allgathers."""

    problem: Problem
    scatter: GroupOptimum
    gather: GroupOptimum

    @property
    def algbw(self) -> Fraction:
        """Of both, one after the other."""
        return algbw_of_phases((self.scatter, self.gather))

    def schedule(self) -> GroupSchedule:
        """The trees of both."""
        topology, collective = self.problem.topology, self.problem.collective
        scatter, gather = (
            lean_forests(topology, replace(collective, kind=kind), optimum)
            for kind, optimum in zip(_PHASES, (self.scatter, self.gather), strict=True)
        )
        return two_phases(scatter, gather)

    def describe_bound(self, upper: Fraction) -> tuple[str, ...]:
        """Where nothing better is known."""
        if self.algbw == upper:
            return ("reduce-scatter + allgather is optimal",)
        return ("built as reduce-scatter + allgather",)

    def beaten(self, algbw: Fraction) -> tuple[str, ...]:
        """Where trees with free roots are better."""
        share = float(self.algbw / algbw)
        return (
            f"built as in-trees and out-trees with free roots; reduce-scatter + allgather reaches "
            f"{share:.2%} of it",
        )


def _phases(problem: Problem) -> _Phases | None:
    """Those of an allreduce, if there is time to look at them."""
    optima = phase_optima(problem)
    return None if optima is None else _Phases(problem, *optima)


def _check_asked(algorithm: str, asked: Mapping[str, object]) -> None:
    """Refuse options that groups do not heed."""
    wanted = [name for name, value in asked.items() if value not in (None, False) and name not in _EXACT]
    if wanted:
        raise ScheduleError(
            f"{algorithm}: {flag_of(wanted[0])} is for one group of ranks; several at once take the "
            f"trees that their shares of the links hold; leave it out"
        )
    if asked.get("form") == Form.FACTORED:
        raise ScheduleError(f"{algorithm}: trees of several groups are written out, not factored (--form)")


def two_phase_groups(problem: Problem, algorithm: str, asked: Mapping[str, object]) -> Result:
    """Reduce-scatters of all groups, then their allgathers, each phase at its optimum; see `group_candidate`.

    Raises
    ------
    TimeLimitError
        If the deadline passed before both optima were known.
    """
    _check_asked(algorithm, asked)
    with context().stage("phases"):
        phases = _phases(problem)
    if phases is None:
        raise TimeLimitError("the time limit was reached")
    with context().stage("trees"), under(context().unlimited):
        schedule = phases.schedule()
    return _beside_optimum(Result(schedule, algorithm=algorithm), problem)


def isolated(topology: Topology, collective: Collective) -> Result:
    """ForestColl's optimal trees of each group as if the others were idle; all of them at once.

    What isolated planning makes of shared links: `forestcoll` knows of the others. Of one group it is the
    same.

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

    return _beside_optimum(Result(_each(problem, trees), algorithm=ISOLATED), problem)


def _alone(topology: Topology, collective: Collective) -> Result:
    """The optimum's trees written out; where they are too many for that, as many as come close to it."""
    forestcoll = find_scheduler("forestcoll")
    for asked in ({"exact": True}, {}):
        with suppress(InfeasibleError):
            found = forestcoll.make(topology, collective, {**asked, "form": Form.EXPLICIT})
            assert isinstance(found, Result)
            return found
    found = forestcoll.make(topology, collective, {})  # says what is wrong
    assert isinstance(found, Result)
    return found


def each_group(
    problem: Problem, scheduler: Scheduler, asked: Mapping[str, object], *, bound: Bound | None = None
) -> Result:
    """A scheduler's trees of each group by itself, all of them at once.

    Parameters
    ----------
    problem : Problem
        In groups.
    scheduler : Scheduler
        Of trees, which knows one group.
    asked : mapping
        Its options by field.
    bound : Bound, optional
        Of all groups, if it is known already.

    Raises
    ------
    ScheduleError, InfeasibleError
        If it does not serve a group; or relies on copies and sums in the network, which groups do not have.
    """
    with context().stage("schedule"):
        schedule = _each(problem, _making(scheduler, asked))
    found = Result(schedule, bound, scheduler.name)
    return found if bound is not None else _beside_optimum(found, problem)


def _making(scheduler: Scheduler, asked: Mapping[str, object]) -> Callable[[Topology, Collective], object]:
    def trees(own: Topology, member: Collective) -> object:
        refusal = scheduler.unsupported(own, member)
        if refusal is not None:
            raise ScheduleError(f"{scheduler.name}: {refusal}")
        made = scheduler.make(own, member, asked)
        return made.schedule if isinstance(made, Result) else made

    return trees


def _beside_optimum(found: Result, problem: Problem) -> Result:
    """The schedule beside the optimum of all groups, and what two phases reach of it."""
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
    """Trees of each group on the nodes that it may use; of groups that are alike once."""
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
    """Equal for fabrics that differ in names only."""
    columns = (topology.is_compute, topology.tails, topology.heads, topology.bandwidths)
    able = (topology.multicast, topology.aggregation, topology.injection_bytes_per_s)
    return tuple(column.tobytes() for column in (*columns, *able))


def quick_groups(problem: Problem) -> Result:
    """The best baseline, each group by itself, for when time has run out; no bound.

    Raises
    ------
    ScheduleError
        If none fits.
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
