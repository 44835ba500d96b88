"""A schedule for a problem by a scheduler of the table, and what stands in for it when time has run out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from time import monotonic, process_time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from treadle.context import Context, TimeLimitError, context, under
from treadle.errors import ScheduleError, TreadleError
from treadle.inputs.problem import Problem
from treadle.options.keywords import OptionKeywords
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.schedulers import find_scheduler, schedulers
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.scheduler import Scheduler
from treadle.synthesis.scheduler_options import (
    OPTIONS_OF,
    Form,
    RouteOptions,
    ScheduleForm,
    SchedulerOptions,
    TreeOptions,
    flag_of,
    given_of,
)
from treadle.verification.schedules import verify

if TYPE_CHECKING:
    from treadle.schedules.schedule import Schedule

FALLBACKS = ("bfb", "ring", "multitree", "hierarchical-ring", "double-binary-tree")
"""Tried in this order when time has run out; where none is ready in `GRACE_S`, one ring without a search."""
GRACE_S = 0.5
MOST_FALLBACK_HOPS = 10**6
"""Hops of all trees of a fallback: of an allgather of 1000 ranks, made and verified in a second."""

_SCHEDULES: Mapping[ScheduleForm, tuple[type[Schedule], ...]] = MappingProxyType(
    {
        ScheduleForm.TREES: (ForestSchedule, FactoredSchedule, GroupSchedule),
        ScheduleForm.STEPS: (StepSchedule,),
        ScheduleForm.ALLTOALL_STEPS: (ExchangeSchedule,),
        ScheduleForm.ROUTES: (RouteSchedule, TimedRoutes),
    }
)


def options_for(
    scheduler: Scheduler, options: SchedulerOptions | None, keywords: OptionKeywords
) -> SchedulerOptions:
    """What was asked of a scheduler, as the options of its form.

    Parameters
    ----------
    scheduler : Scheduler
    options : SchedulerOptions, optional
        Of its form.
    keywords : OptionKeywords
        More of them, or all; those at their defaults ask for nothing.

    Raises
    ------
    ScheduleError
        If it does not heed one of them: names the schedulers that do. Or if it is out of range.
    """
    kind = OPTIONS_OF[scheduler.form]
    if options is not None and not isinstance(options, kind):
        raise ScheduleError(
            f"{scheduler.name}: options are {type(options).__name__}, expected {kind.__name__}"
        )
    asked = ({} if options is None else options.given()) | given_of(keywords)
    for name in asked:
        if name not in scheduler.supported_options and name != "seed":
            *others, last = [record.name for record in schedulers() if name in record.supported_options]
            heeding = f"{', '.join(others)} or {last}" if others else last
            raise ScheduleError(f"{scheduler.name}: {flag_of(name)} is for --algorithm {heeding}")
    wanted = kind(**cast(Any, asked))
    if isinstance(wanted, TreeOptions) and wanted.multicast and "form" in scheduler.supported_options:
        if wanted.form == Form.FACTORED:
            raise ScheduleError("--multicast prunes trees written out; factored ones have to stay whole")
        wanted = replace(wanted, form=Form.EXPLICIT)
    return wanted


def generate(
    problem: Problem,
    scheduler: Scheduler,
    options: SchedulerOptions | None = None,
    *,
    bound: Bound | None = None,
) -> Result:
    """A schedule by a scheduler of the table.

    Parameters
    ----------
    problem : Problem
    scheduler : Scheduler
    options : SchedulerOptions, optional
        Of its form, as `options_for` returns them.
    bound : Bound, optional
        If it is known already.

    Raises
    ------
    InfeasibleError, ScheduleError
        If the scheduler cannot serve the problem.
    TimeLimitError
        If the deadline passed.
    """
    topology, collective = problem.topology, problem.collective
    options = options or OPTIONS_OF[scheduler.form]()
    with _faults_of_strangers(scheduler):
        refusal = scheduler.unsupported(topology, collective)
    if refusal is not None:
        is_other = collective.kind is CollectiveKind.ALLTOALL and collective.kind not in scheduler.collectives
        instead = "; for an all-to-all leave out --algorithm (treadle algorithms)" if is_other else ""
        raise ScheduleError(f"{scheduler.name}: {refusal}{instead}")
    if collective.groups is not None and isinstance(options, TreeOptions) and options.multicast:
        raise ScheduleError(
            f"{scheduler.name}: {flag_of('multicast')} prunes trees of one group of ranks; leave it out"
        )
    start = process_time()
    made = _made(problem, scheduler, options, bound)
    if made.algorithm:
        return made
    schedule = made.schedule
    if isinstance(options, RouteOptions) and isinstance(schedule, RouteSchedule):
        from treadle.schedulers.route_candidates import within_limits

        schedule = within_limits(scheduler.name, topology, schedule, options)
    context().count("schedule", process_time() - start)
    with context().stage("bound"):
        limit = bound or made.bound or _bound_beside(problem, schedule)
    return replace(made, schedule=schedule, bound=limit, algorithm=scheduler.name)


def _made(problem: Problem, scheduler: Scheduler, options: SchedulerOptions, bound: Bound | None) -> Result:
    """What the scheduler's function made of the problem, of the type that its form promises."""
    asked = {name: value for name, value in options.given().items() if name in scheduler.options}
    topology, collective = problem.topology, problem.collective
    with _faults_of_strangers(scheduler):
        if collective.groups is not None and not scheduler.in_groups:
            from treadle.schedulers.groups import each_group  # brings a solver

            return each_group(problem, scheduler, asked, bound=bound)
        made = scheduler.make(topology, collective, asked, bound=bound)
    result = made if isinstance(made, Result) else Result(made)
    expected = _SCHEDULES[scheduler.form]
    if not isinstance(result.schedule, expected):
        raise ScheduleError(
            f"{scheduler.name}: returned {type(result.schedule).__name__}, expected a schedule of form "
            f"{scheduler.form}: {' or '.join(kind.__name__ for kind in expected)}"
        )
    return result


@contextmanager
def _faults_of_strangers(scheduler: Scheduler) -> Iterator[None]:
    """Whatever goes wrong in code that is not ours is a ScheduleError that names its origin."""
    try:
        yield
    except (TreadleError, TimeLimitError):
        raise
    except Exception as error:
        if not scheduler.origin:
            raise
        raise ScheduleError(
            f"{scheduler.name} (of {scheduler.origin}): failed with {type(error).__name__}: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error


def _bound_beside(problem: Problem, schedule: Schedule) -> Bound:
    """The most that any schedule of such a form can reach."""
    if isinstance(schedule, StepSchedule):
        from treadle.schedulers.step_candidates import bound_of_steps

        return bound_of_steps(problem, schedule)
    return find_bound(problem, cards_forward=isinstance(schedule, RouteSchedule | TimedRoutes))


def fall_back(problem: Problem, options: SchedulerOptions | None = None) -> Result:
    """The fastest schedule of those that are quick to make, for when time has run out.

    Routes are replaced by routes within the same limits.

    Raises
    ------
    TimeLimitError
        If none fits, or none is made in `GRACE_S`.
    """
    if isinstance(options, RouteOptions):
        from treadle.schedulers.route_candidates import quick_routes

        return quick_routes(problem, options)
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        from treadle.schedulers.alltoall_candidates import quick_alltoall

        try:
            return quick_alltoall(problem, getattr(options, "chunks", None))
        except ScheduleError as error:  # too large for it
            raise TimeLimitError(str(error)) from None
    if problem.collective.groups is not None:
        from treadle.schedulers.groups import quick_groups

        return quick_groups(problem)
    grace = Context(deadline=monotonic() + GRACE_S)
    collective = problem.collective
    n_trees = sum(weight > 0 for weight in collective.shard_weights)
    n_hops = collective.n_ranks * n_trees * (collective.kind.broadcasts + collective.kind.reduces)
    if n_hops > MOST_FALLBACK_HOPS:
        raise TimeLimitError("no schedule is quick enough")
    found: list[tuple[Fraction, str, Schedule]] = []
    for name in (*FALLBACKS, ""):
        if found and grace.is_late:
            break
        try:
            if name:
                with under(grace):
                    schedule = find_scheduler(name).make(problem.topology, collective, {})
            else:
                from treadle.synthesis.trees.baselines.ring import single_ring

                schedule = single_ring(problem.topology, collective)
        except (TreadleError, TimeLimitError):
            continue
        report = verify(problem.topology, collective, schedule)
        if report.is_ok and report.algbw is not None:
            found.append((report.algbw, name or "ring", schedule))
    if not found:
        raise TimeLimitError("no quick schedule fits")
    bound = None
    if collective.kind is not CollectiveKind.ALLREDUCE:  # whose linear program may take long
        with suppress(TimeLimitError), under(Context(deadline=monotonic() + GRACE_S)):
            bound = find_bound(problem)
    _, name, schedule = max(found, key=lambda entry: entry[0])
    return Result(schedule, bound, name)
