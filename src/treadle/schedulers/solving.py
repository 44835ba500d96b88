"""From a fabric and a collective to a verified plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from treadle._version import __version__
from treadle.context import TimeLimitError, context, under
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem
from treadle.notebook import displayed_by
from treadle.options.keywords import OptionKeywords
from treadle.schedulers.alone_rates import AloneRate, rates_of
from treadle.schedulers.generation import fall_back, generate, options_for
from treadle.schedulers.given_options import record_given
from treadle.schedulers.schedulers import default_algorithm, find_scheduler
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.result import Result
from treadle.synthesis.scheduler_options import (
    AlltoallOptions,
    RouteOptions,
    SchedulerOptions,
    StepOptions,
    TreeOptions,
)
from treadle.synthesis.steps.gpu_initiated import use_in_network
from treadle.synthesis.trees import Pruning, prune_for_switches
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify as verify_schedule
from treadle.verification.violations import Report


class RejectedError(ScheduleError):
    """A generated schedule did not pass the verifier: a defect of the generator, and never a plan.

    Parameters
    ----------
    algorithm : str
    report : Report
    maker : str
        Origin of the generator; "" for Treadle's.

    Examples
    --------
    >>> import dataclasses
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> false = treadle.verify(dataclasses.replace(plan, algbw=2 * plan.algbw))
    >>> print(str(treadle.planning.RejectedError("mine", false.report, "a plug-in"))[:60])
    mine: fails verification (violations: 9; first: load: link n
    """

    def __init__(self, algorithm: str, report: Report, maker: str = "") -> None:
        first = report.violations[0] if report.violations else "no throughput"
        super().__init__(
            f"{algorithm}: fails verification (violations: {report.n_violations}; first: {first}); "
            f"nothing was written; this is a defect of {maker or 'Treadle'}, please report it"
        )
        self.report = report


@displayed_by("treadle.render.solving:solve_rows")
@dataclass(frozen=True, kw_only=True)
class SolveResult(Result):
    """A verified result: what `Result` has, `algbw` as the verifier computed it, and the plan.

    Parameters
    ----------
    plan : Plan
    report : Report
        Of the independent verifier, on the plan's fabric.
    seconds : mapping of stage to CPU seconds
        With `total`.
    traffic : Pruning, optional
        Traffic before and after, where trees were pruned.
    alone : tuple of AloneRate
        What each of several groups reaches by itself.

    Examples
    --------
    >>> import treadle
    >>> treadle.solve("ring:4", "allgather").is_optimal
    True
    """

    plan: Plan
    report: Report
    seconds: Mapping[str, float]
    traffic: Pruning | None = None
    alone: tuple[AloneRate, ...] = ()

    @property
    def topology(self) -> Topology:
        """The plan's fabric."""
        return self.plan.topology

    @property
    def collective(self) -> Collective:
        """The plan's collective."""
        return self.plan.collective

    @property
    def optimal_algbw(self) -> Fraction | None:
        """The bound, bytes/s."""
        return None if self.bound is None else self.bound.algbw

    @property
    def is_optimal(self) -> bool | None:
        """Whether the plan attains a bound; None if it does not and the bound may be loose, or is unknown."""
        if self.bound is None:
            return None
        if self.report.is_optimal:
            return True
        return False if self.bound.is_tight else None


def solve_problem(
    problem: Problem,
    algorithm: str | None = None,
    options: SchedulerOptions | None = None,
    keywords: OptionKeywords | None = None,
) -> SolveResult:
    """Synthesise a schedule, verify it and put it into a plan; see `treadle.solve`."""
    scheduler = find_scheduler(algorithm or default_algorithm(problem))
    options = options_for(scheduler, options, keywords or {})
    running = context()
    try:
        found = generate(problem, scheduler, options)
        if (
            algorithm is None
            and isinstance(options, AlltoallOptions)
            and options.given().keys() <= {"chunks"}
        ):
            from treadle.schedulers.alltoall_candidates import choose_steps  # and a solver

            found = choose_steps(problem, found, options.chunks)
    except TimeLimitError:
        with under(running.unlimited):
            found = replace(fall_back(problem, options), is_late=True)
    traffic: Pruning | None = None
    is_multicast = isinstance(options, TreeOptions | StepOptions) and options.multicast
    if is_multicast and isinstance(found.schedule, ForestSchedule):
        with running.stage("multicast"):
            traffic = prune_for_switches(problem.topology, found.schedule)
            found = replace(found, schedule=traffic.schedule)
    if is_multicast and isinstance(found.schedule, StepSchedule):
        with running.stage("multicast"):
            switched = use_in_network(problem.topology, problem.collective, found.schedule)
            found = replace(found, schedule=switched)
    if isinstance(found.schedule, ForestSchedule) and problem.topology.multicast.any():
        # here, as few fabrics have such switches
        from treadle.schedulers.multicast_copies import copy_notes

        notes = copy_notes(problem, found.schedule, is_asked=is_multicast)
        found = replace(found, notes=(*found.notes, *notes))
    alone: tuple[AloneRate, ...] = ()
    if found.groups is not None:
        with running.stage("alone"), under(running.unlimited):
            alone = rates_of(problem, found.groups)
    elif problem.collective.blocks is not None and found.bound is not None:
        from treadle.schedulers.alone_rates import alltoalls_alone

        with running.stage("alone"):
            alone = alltoalls_alone(problem)
    with running.stage("verify"):
        plan, report = verified(problem, found, options, maker=scheduler.origin)
    if found.algorithm == scheduler.name:
        plan = replace(plan, provenance={**plan.provenance, **record_given(options)})
    facts = {one.name: getattr(found, one.name) for one in fields(found)} | {"algbw": plan.algbw}
    return SolveResult(
        **facts, plan=plan, report=report, seconds=running.seconds, traffic=traffic, alone=alone
    )


def verified(
    problem: Problem, found: Result, options: SchedulerOptions | None = None, *, maker: str = ""
) -> tuple[Plan, Report]:
    """The plan with the algbw that the verifier computes, and the verifier's report.

    Parameters
    ----------
    problem : Problem
    found : Result
    options : SchedulerOptions, optional
        Of routes: the limits that they are to keep.
    maker : str
        Origin of the scheduler; "" for Treadle's.

    Raises
    ------
    RejectedError
        If the schedule does not verify.
    """
    limit = found.bound
    report = _report(problem, found, options if isinstance(options, RouteOptions) else RouteOptions())
    if not report.is_ok or report.algbw is None:
        raise RejectedError(found.algorithm, report, maker)
    plan = Plan(
        topology=problem.topology,
        collective=problem.collective,
        entries=(PlanEntry(0, None, found.schedule),),
        algorithm=found.algorithm,
        algbw=report.algbw,
        optimal_algbw=None if limit is None else limit.algbw,
        certificate=None if limit is None else limit.certificate,
        provenance=_provenance(found),
    )
    return plan, report


def _report(problem: Problem, found: Result, request: RouteOptions) -> Report:
    """Verify a schedule, its bound and, for routes, the given limits."""
    topology, collective, schedule = problem.topology, problem.collective, found.schedule
    claims: dict[str, Any] = {
        "claimed_optimal_algbw": None if found.bound is None else found.bound.algbw,
        "certificate": None if found.bound is None else found.bound.certificate,
    }
    limits: dict[str, Any] = {"max_routes": request.max_routes, "max_layers": request.max_layers}
    if isinstance(schedule, RouteSchedule):
        from treadle.verification.routes.route_check import verify_routes

        return verify_routes(topology, collective, schedule, max_hops=request.max_hops, **limits, **claims)
    if isinstance(schedule, TimedRoutes):
        from treadle.verification.routes.round_check import verify_timed_routes

        return verify_timed_routes(
            topology, collective, schedule, max_flows=request.max_flows, **limits, **claims
        )
    return verify_schedule(topology, collective, schedule, **claims)


def _provenance(found: Result) -> dict[str, str | int | float]:
    values: dict[str, str | int | float] = {"version": __version__}
    if found.trees_per_root is not None:
        values["trees_per_root"] = found.trees_per_root
    if found.bound is not None and found.bound.model:
        values["model"] = found.bound.model
    return values
