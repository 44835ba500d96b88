"""From a fabric and a collective to a verified plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Unpack

from treadle._version import __version__
from treadle.errors import FormatError, ScheduleError
from treadle.planning.problem import Problem, ProblemOptions, pose
from treadle.planning.solving.asked_options import record_asked
from treadle.planning.solving.bounds import Bound
from treadle.planning.solving.candidate import (
    Alternative,
    Candidate,
    Form,
    Options,
    RouteRequest,
    SizeRequest,
    tree_budget,
)
from treadle.planning.solving.exact_synthesis import ExactRequest
from treadle.planning.solving.fitting import check_fit
from treadle.planning.solving.generation import FORESTCOLL, RS_AG, default_algorithm, fall_back, generate
from treadle.planning.stages import Stopwatch, seconds_left
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.engine import Progress, TimeLimitError
from treadle.synthesis.trees import Packer, PackingAttempt, Pruning, prune_for_switches
from treadle.topologies.topology import Topology
from treadle.verification.routes.routes import verify_routes
from treadle.verification.routes.timed_routes import verify_timed_routes
from treadle.verification.schedules import verify as verify_schedule
from treadle.verification.violations import Report


class RejectedError(ScheduleError):
    """A generated schedule did not pass the verifier: a defect of the generator, and never a plan.

    Parameters
    ----------
    algorithm : str
    report : Report
    """

    def __init__(self, algorithm: str, report: Report) -> None:
        first = report.violations[0] if report.violations else "no throughput"
        super().__init__(
            f"{algorithm}: fails verification (violations: {report.n_violations}; first: {first}); "
            f"nothing was written; this is a defect of Treadle, please report it"
        )
        self.report = report


@dataclass(frozen=True)
class SolveResult:
    """A plan and what was learnt while making it.

    Parameters
    ----------
    plan : Plan
    report : Report
        Of the independent verifier, on the plan's fabric.
    bound : Bound, optional
        None if time ran out before one was known.
    trees_per_root, exact_trees_per_root : int, optional
        k per unit of shard weight as built, and as the optimum would need; where the algorithm has a k.
    traffic : Pruning, optional
        Traffic before and after, where trees were pruned.
    notes : tuple of str
        What a user should know, a line each.
    seconds : mapping of stage to CPU seconds
        With `total`.
    is_late : bool
        The time limit was reached and the plan is a stopgap.
    packer, packing : str and tuple of PackingAttempt, optional
        Who packed ForestColl's trees, and what became of the other packers.
    height_bound : int, optional
        No spanning tree is lower, in hops from compute node to compute node.
    decomposition : str
        Which pieces tight cuts made of the fabric, or why there are none; "" where it was no question.
    exact_trees : int, optional
        Of an allreduce whose roots are free: trees in all that the optimum would need, if known.
    alternatives : tuple of Alternative
        Other numbers of trees that the notes name, and what they lose.
    """

    plan: Plan
    report: Report
    bound: Bound | None
    trees_per_root: int | None
    exact_trees_per_root: int | None
    traffic: Pruning | None
    notes: tuple[str, ...]
    seconds: Mapping[str, float]
    is_late: bool
    packer: str | None = None
    packing: tuple[PackingAttempt, ...] = ()
    height_bound: int | None = None
    decomposition: str = ""
    exact_trees: int | None = None
    alternatives: tuple[Alternative, ...] = ()

    @property
    def algbw(self) -> Fraction:
        """Asymptotic algbw of the plan, bytes/s."""
        return self.plan.algbw

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


def solve(
    topology: Topology | str,
    collective: Collective | CollectiveKind | str,
    *,
    algorithm: str | None = None,
    trees: int | None = None,
    max_trees: int | None = None,
    exact: bool = False,
    packer: Packer | str | None = None,
    form: Form | str = Form.AUTO,
    trim: bool = False,
    multicast: bool = False,
    chunks: int | None = None,
    rounds: Sequence[int] | None = None,
    steps: int | None = None,
    symmetric: bool = False,
    seed: int = 0,
    max_layers: int | None = None,
    max_routes: int | None = None,
    max_flows: int | None = None,
    size: SizeRequest | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **options: Unpack[ProblemOptions],
) -> SolveResult:
    """Synthesise a schedule, verify it independently, and put it into a plan.

    Parameters
    ----------
    topology, collective, **options
        See `treadle.planning.problem.pose`.
    algorithm : str
        One of `algorithm_names`; default ForestColl, for an all-to-all pipelined routes of an optimal flow.
    trees, max_trees : int, optional
        Just so many trees per root; the best number up to so many (beyond 4096 only the one that attains the
        optimum is looked for). An allreduce whose roots are free may
        have as many in all as that makes for all ranks.
    exact : bool
        The optimum, however many trees per root it takes. By default: the optimum if it cuts the data into
        a power of two of chunks, at most 64 per rank, which texts for runtimes serve at sizes of a power of
        two; else, of a power of two of ranks, the fewest chunks of that kind, at most 16 per rank, that lose
        less than 1%; else the optimum if it takes at most 64 trees per rank; else the best number up to that.
    packer : Packer or str, optional
        Of ForestColl's trees: try this one first, then growth; default all of them in order.
    form : Form or str
        Of ForestColl's trees: ``explicit`` writes out every tree, ``factored`` cuts the fabric into pieces
        that are solved once each; default explicit up to 256 ranks, then factored if the fabric allows it.
    trim : bool
        Where nodes are not Eulerian, leave surplus bandwidth unused.
    multicast : bool
        Prune trees at switches that multicast or aggregate.
    chunks : int, optional
        Chunks per shard: the most that breadth-first broadcast may use (default as many as it needs), or the
        number that exact synthesis (default 2) and pipelined double binary trees (default 16) are to use.
    rounds, steps, symmetric, seed
        Of exact synthesis: chunks a link may carry in each step; or the number of steps; search symmetric
        schedules only; the solver's seed, and that of the search for layers.
    max_layers, max_routes, max_flows : int, optional
        Of routes: at most so many layers (virtual channels), paths from a rank to another, and flows of a
        host at a time, which then set out in rounds.
    size : SizeRequest, optional
        Of an all-to-all in steps: choose how finely to pipeline for this size, not for the largest; of
        breadth-first broadcast: leave out links whose latency does not pay at this size.
    time_limit_s : float, optional
        Seconds after which a quick schedule takes the place of the wanted one.
    progress : callable, optional
        progress(stage, done, total).

    Returns
    -------
    SolveResult
        Look at `report.is_ok` before use; it is false only through a defect of Treadle.

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if no schedule exists under these conditions.

    Examples
    --------
    >>> result = solve("ring:4", "allgather")
    >>> result.report.is_ok, result.is_optimal
    (True, True)
    """
    watch, deadline = Stopwatch(progress), seconds_left(time_limit_s)
    with watch.stage("fabric"):
        problem = pose(topology, collective, **options)
    late, name = False, algorithm or default_algorithm(problem)
    how = Options(
        budget=tree_budget(trees=trees, max_trees=max_trees, exact=exact),
        packer=_packer(packer),
        form=_form(form, name, multicast=multicast),
        trim=trim,
        chunks=chunks,
        exact=ExactRequest(chunks or 2, rounds, steps, symmetric, seed),
        routes=RouteRequest(max_layers, max_routes, max_flows),
        size=size,
        progress=progress,
        deadline=deadline,
    )
    check_fit(name, how, multicast=multicast)
    try:
        found = generate(problem, name, how)
        watch.include(found.seconds)
        late = found.is_late
    except TimeLimitError:
        found, late = fall_back(problem, name, how), True
    traffic: Pruning | None = None
    if multicast and isinstance(found.schedule, ForestSchedule):
        with watch.stage("multicast"):
            traffic = prune_for_switches(problem.topology, found.schedule)
            found = replace(found, schedule=traffic.schedule)
    with watch.stage("verify"):
        plan, report = judged(problem, found, how.routes)
    asked = record_asked(how, multicast=multicast) if found.algorithm == name else {}
    return SolveResult(
        plan=replace(plan, provenance={**plan.provenance, **asked}),
        report=report,
        bound=found.bound,
        trees_per_root=found.trees_per_root,
        exact_trees_per_root=found.exact_trees_per_root,
        traffic=traffic,
        notes=found.notes,
        seconds=watch.seconds(),
        is_late=late,
        packer=found.packer,
        packing=found.packing,
        height_bound=found.height_bound,
        decomposition=found.decomposition,
        exact_trees=found.exact_trees,
        alternatives=found.alternatives,
    )


def _packer(name: Packer | str | None) -> Packer | None:
    """The packer of that name."""
    if name is None:
        return None
    if name not in tuple(Packer):
        raise FormatError(f"unknown packer {name[:40]!r}; expected one of {', '.join(Packer)}")
    return Packer(name)


def _form(name: Form | str, algorithm: str, *, multicast: bool) -> Form:
    """The form of that name, if the algorithm and the pruning of trees allow it."""
    if name not in tuple(Form):
        raise FormatError(f"unknown form {name[:40]!r}; expected one of {', '.join(Form)}")
    form = Form(name)
    if form is not Form.AUTO and algorithm not in (FORESTCOLL, RS_AG):
        raise ScheduleError(f"{algorithm}: --form is for {FORESTCOLL} and {RS_AG}")
    if multicast and form is Form.FACTORED:
        raise ScheduleError("--multicast prunes trees written out; factored ones have to stay whole")
    return Form.EXPLICIT if multicast else form


def judged(problem: Problem, found: Candidate, request: RouteRequest | None = None) -> tuple[Plan, Report]:
    """The plan with the algbw that the verifier computes, and the verifier's report."""
    limit = found.bound
    report = _report(problem, found, request or RouteRequest())
    if not report.is_ok or report.algbw is None:
        raise RejectedError(found.algorithm, report)
    plan = Plan(
        topology=problem.topology,
        collective=problem.collective,
        entries=(PlanEntry(0, None, found.schedule),),
        algorithm=found.algorithm,
        algbw=report.algbw,
        optimal_algbw=None if limit is None else limit.algbw,
        witness=None if limit is None else limit.witness,
        provenance=_provenance(found),
    )
    return plan, report


def _report(problem: Problem, found: Candidate, request: RouteRequest) -> Report:
    """What the verifier says of a schedule, its bound and, of routes, the limits asked for."""
    topology, collective, schedule = problem.topology, problem.collective, found.schedule
    optimal = None if found.bound is None else found.bound.algbw
    witness = None if found.bound is None else found.bound.witness
    if isinstance(schedule, RouteSchedule):
        return verify_routes(
            topology,
            collective,
            schedule,
            claimed_optimal_algbw=optimal,
            witness=witness,
            max_routes=request.max_routes,
            max_layers=request.max_layers,
        )
    if isinstance(schedule, TimedRoutes):
        return verify_timed_routes(
            topology,
            collective,
            schedule,
            claimed_optimal_algbw=optimal,
            witness=witness,
            max_flows=request.max_flows,
            max_routes=request.max_routes,
            max_layers=request.max_layers,
        )
    return verify_schedule(topology, collective, schedule, claimed_optimal_algbw=optimal, witness=witness)


def _provenance(found: Candidate) -> dict[str, str | int | float]:
    values: dict[str, str | int | float] = {"version": __version__}
    if found.trees_per_root is not None:
        values["trees_per_root"] = found.trees_per_root
    if found.bound is not None and found.bound.model:
        values["model"] = found.bound.model
    return values
