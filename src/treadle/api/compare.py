"""Schedulers side by side on one problem, all judged by the same verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import monotonic, process_time, time
from typing import Unpack, cast

from treadle.checking import checked, left_alone
from treadle.context import Context, Progress, TimeLimitError, context, start, under
from treadle.errors import TreadleError
from treadle.inputs.fabrics_and_plans import FabricLike, SizesLike, as_sizes
from treadle.inputs.problem import Problem, make_forwarding_problem, make_problem
from treadle.options.keywords import ComparisonOptions, ProblemOptions
from treadle.program.any_schedule import lower_groups
from treadle.program.group_lists import ProgramGroups
from treadle.schedulers.alone_rates import alltoalls_alone
from treadle.schedulers.bound_results import bound_problem, naming_cut_off
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.comparison import Comparison, ComparisonRow, InNetwork, RowMeasures
from treadle.schedulers.expectations import NVLS, reducing_counterpart
from treadle.schedulers.generation import generate
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedulers.shared_rates import SharedRates, bottleneck, shared_rates
from treadle.schedulers.sizes.fitting import fitting
from treadle.schedulers.third_party.placed_schedules import ForeignSchedule, PlacedSchedule, route_schedules
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.schedule import Schedule, unit_trees
from treadle.simulation.congestion import congestion
from treadle.simulation.cost_models import cost_model_of
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.simulated_plans import SimulatedRow, SimulatedSubject, simulated
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.size_bounds.problem_bounds import size_bounds
from treadle.simulation.size_bounds.size_certificate import SizeBound
from treadle.simulation.tasks import task_graph
from treadle.synthesis.parallel import map_blocks, runs_apart
from treadle.synthesis.result import Bound
from treadle.synthesis.scheduler import Comparing, Scheduler
from treadle.synthesis.scheduler_options import OPTIONS_OF, SchedulerOptions, TreeOptions
from treadle.verification.schedules import verify as verify_schedule

_MOST_SUMMING = 128
"""Ranks up to which the optimum of switches that sum takes seconds at most."""
_MOST_TASKS = 2**17
"""Of one trial of a number of slices: many schedules are simulated."""


@checked(sizes=left_alone)
def compare(
    topology: FabricLike,
    collective: Collective | CollectiveKind | str,
    *,
    algorithms: Sequence[str] | None = None,
    beside: list[ForeignSchedule] | tuple[ForeignSchedule, ...] | ForeignSchedule = (),
    sizes: SizesLike = (),
    trim: bool = False,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **problem_options: Unpack[ComparisonOptions],
) -> Comparison:
    """Run several schedulers and verify each schedule.

    Parameters
    ----------
    topology, collective, **problem_options
        See `treadle.inputs.problem.make_problem`.
    algorithms : sequence of str, optional
        Default: all for such a collective but those that have to be named (exact synthesis), slow ones where
        there are many ranks, and step schedules where there are switches.
    beside : list of Plan, result, schedule, Program, Path or str, or one of them
        Schedules that are there already: values, plans and files of others; see
        `treadle.schedulers.third_party.placed_schedules.route_schedule`.
    sizes : sequence of int or str
        Bytes of the larger per-rank buffer at which each is simulated.
    cost_model : CostModel, str or Path, optional
        What messages cost there; see `simulate`.
    trim : bool
        Where nodes are not Eulerian, let ForestColl leave surplus bandwidth unused; baselines need no such
        thing.
    seed : int
        Of those with chance in them.
    time_limit_s : float, optional
        Seconds for all together; those that do not get their turn are listed as such.
    progress : callable, optional

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if no schedule exists at all.
    TimeLimitError
        If time ran out before anything was known of the optimum of several groups.

    Notes
    -----
    Each scheduler is a task of its own where workers are processes (`planning.workers`). In threads they
    would share an interpreter, and CPU seconds could not be told apart.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.compare("hypercube:3", "allgather", algorithms=["forestcoll", "ring"])
    >>> [(row.algorithm, row.algbw) for row in found.rows]
    [('forestcoll', Fraction(24, 7)), ('ring', Fraction(16, 7))]
    """
    at = tuple(as_sizes(sizes, "compare: sizes"))
    cost_model = problem_options.get("cost_model")
    posed = cast(ProblemOptions, {name: one for name, one in problem_options.items() if name != "cost_model"})
    named = [find_scheduler(name) for name in algorithms or ()]
    problem = make_problem(topology, collective, **posed)
    model = cost_model_of(problem.topology, cost_model)
    several = beside if isinstance(beside, list | tuple) else [beside]
    brought = route_schedules(several, problem)
    shared: SharedRates | None = None
    with start(progress, time_limit_s) as running:
        if problem.collective.groups is not None:
            with naming_cut_off(problem, lambda: make_forwarding_problem(topology, collective, posed)):
                told = bound_problem(problem)
            bound, shared = told.bound, shared_rates(told)
        else:
            with under(running.unlimited):
                bound = find_bound(problem, cards_forward=True)  # routes are compared as well
    with start(progress, time_limit_s):  # the bound's time does not count
        asked = _asked(problem, bound, at, model, measures=bool(at or beside))
        chosen = fitting(problem, at_sizes=bool(at)) if algorithms is None else named
        rows = _rows(problem, [(one, _options(one, trim=trim, seed=seed)) for one in chosen], asked)
        shown = [bool(named or one.origin) or one.comparing is Comparing.MACHINES for one in chosen]
        rows = [
            replace(row, is_baseline=one.is_baseline, always_shown=always)
            for row, one, always in zip(rows, chosen, shown, strict=True)
        ]
        rows += [_brought_row(one, asked) for one in brought]
        rows.sort(key=lambda row: -(row.rate or Fraction(-1)))
        found = _in_network(problem, asked) if algorithms is None else None
        if shared is None and problem.collective.blocks is not None:
            lower = bound.algbw if bound.is_tight else rows[0].rate if rows else None
            alone = alltoalls_alone(problem)
            shared = SharedRates(lower or Fraction(0), bound.algbw, alone, bottleneck(bound.witness))
        return Comparison(
            problem.topology, problem.collective, bound, tuple(rows), asked.sizes, found, shared, model
        )


def _in_network(problem: Problem, asked: _Asked) -> InNetwork | None:
    """NCCL's NVLS on switches that sum; None where that is no question, or time ran out."""
    twin = reducing_counterpart(problem)
    if twin is None or problem.collective.n_ranks > _MOST_SUMMING:
        return None
    try:
        bound = find_bound(twin)
    except TimeLimitError:
        return None
    scheduler = find_scheduler(NVLS)
    sums = _asked(twin, bound, asked.sizes, asked.cost_model, measures=asked.measures)
    row = _row(twin, (scheduler, OPTIONS_OF[scheduler.form]()), sums)
    return None if row.refusal else InNetwork(bound, replace(row, always_shown=True))


@dataclass(frozen=True)
class _Asked:
    """What is told of every schedule."""

    bound: Bound
    sizes: tuple[int, ...]
    measures: bool
    cost_model: CostModel
    least: tuple[SizeBound, ...]


def _asked(
    problem: Problem, bound: Bound, sizes: tuple[int, ...], model: CostModel, *, measures: bool
) -> _Asked:
    """With the least time of each size, found once for all schedules."""
    least = size_bounds(problem, bound.witness, sizes, cost_model=model) if sizes else ()
    return _Asked(bound, sizes, measures, model, least)


def _brought_row(placed: PlacedSchedule, asked: _Asked) -> ComparisonRow:
    """The row of a schedule that was there already."""
    report = placed.report
    measured = None
    if report.is_ok:
        try:
            measured = _brought_measures(placed, asked)
        except TreadleError as error:
            measured = RowMeasures(refusal=str(error))
    return ComparisonRow(
        placed.name,
        report,
        placed.trees,
        0.0,
        form=placed.form,
        measured=measured,
        notes=placed.notes,
        rates=placed.rates,
        always_shown=True,
    )


def _brought_measures(placed: PlacedSchedule, asked: _Asked) -> RowMeasures:
    """Of a schedule that was there: a plan by size is priced at each size by what serves it there."""
    rows: dict[int, SimulatedRow] = {}
    for part, places in placed.by_size(asked.sizes):
        sizes = tuple(asked.sizes[at] for at in places)
        own = replace(asked, sizes=sizes, least=tuple(asked.least[at] for at in places))
        rows.update(zip(places, _times(part.problem, part.schedule, part.programs, own), strict=True))
    # links are told of for the largest sizes, as algbw is
    busy = congestion(placed.topology, placed.programs.programs, asked.bound.algbw)
    return RowMeasures(busy, tuple(rows[place] for place in sorted(rows)))


def _times(
    problem: Problem, schedule: Schedule | None, programs: ProgramGroups, asked: _Asked
) -> tuple[SimulatedRow, ...]:
    """How long messages take at each size."""
    subject = SimulatedSubject(
        problem, task_graph(problem.topology, programs.lists), schedule, asked.bound.witness
    )
    rows = simulated(
        subject,
        asked.sizes,
        SimulationOptions(),
        most_tasks=_MOST_TASKS,
        cost_model=asked.cost_model,
        bounds=asked.least,
    )
    return tuple(row for row, _ in rows)


def _options(scheduler: Scheduler, *, trim: bool, seed: int) -> SchedulerOptions:
    """Trimming for those that heed it; the others need no such thing."""
    if trim and "trim" in scheduler.supported_options:
        return TreeOptions(trim=True, seed=seed)
    return OPTIONS_OF[scheduler.form](seed=seed)


_Chosen = tuple[Scheduler, SchedulerOptions]


def _rows(problem: Problem, chosen: Sequence[_Chosen], asked: _Asked) -> list[ComparisonRow]:
    """A row for every scheduler, in order."""
    if not runs_apart():
        return [_row(problem, one, asked) for one in chosen]
    # machines share the time of day, no other clock
    left = context().seconds_left
    end_s = None if left is None else time() + left
    blocks = [(problem, one, asked, end_s) for one in chosen]
    with under(Context(context().progress)):
        return map_blocks("algorithms", _row_elsewhere, blocks)


def _row_elsewhere(problem: Problem, chosen: _Chosen, asked: _Asked, end_s: float | None) -> ComparisonRow:
    """The row, by a worker; `end_s`: time of day at which to give up."""
    deadline = None if end_s is None else monotonic() + end_s - time()
    with under(Context(None, deadline)):
        return _row(problem, chosen, asked)


def _row(problem: Problem, chosen: _Chosen, asked: _Asked) -> ComparisonRow:
    scheduler, options = chosen
    name, bound, start = scheduler.name, asked.bound, process_time()
    try:
        found = generate(problem, scheduler, options, bound=bound)
    except TimeLimitError:
        seconds, reason = process_time() - start, "the time limit was reached"
        return ComparisonRow(name, None, None, seconds, reason, is_late=True, is_peer=scheduler.is_peer)
    except TreadleError as error:
        seconds = process_time() - start
        return ComparisonRow(name, None, None, seconds, str(error), is_peer=scheduler.is_peer)
    seconds, schedule = process_time() - start, found.schedule
    report = verify_schedule(
        problem.topology,
        problem.collective,
        schedule,
        claimed_optimal_algbw=bound.algbw,
        witness=bound.witness,
    )
    trees = unit_trees(schedule)
    measured = None
    if asked.measures and report.is_ok:
        try:
            program = lower_groups(problem.topology, problem.collective, schedule)
            busy = congestion(problem.topology, program.programs, bound.algbw)
            measured = RowMeasures(busy, _times(problem, schedule, program, asked))
        except TreadleError as error:
            measured = RowMeasures(refusal=str(error))
    return ComparisonRow(
        name, report, trees, seconds, is_peer=scheduler.is_peer, measured=measured, notes=found.notes
    )
