"""Compare schedulers on one problem; the same verifier checks all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from time import monotonic, process_time, time
from typing import Unpack

from treadle.checking import checked, left_alone
from treadle.context import Context, Progress, TimeLimitError, context, start, under
from treadle.errors import TreadleError
from treadle.inputs.fabrics_and_plans import FabricLike, SizesLike, as_sizes
from treadle.inputs.problem import Problem, make_forwarding_problem, make_problem, problem_keywords
from treadle.options.keywords import ComparisonOptions
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
"""Largest number of ranks for which the in-network optimum takes seconds at most."""
_MOST_TASKS = 2**17
"""Limit of one trial of a number of slices, since many schedules are simulated."""


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
        Default: all that support the collective, except those that must be named (exact synthesis), slow ones
        for many ranks, and step schedules for fabrics with switches.
    beside : list of Plan, result, schedule, Program, Path or str, or one of them
        Existing schedules: values, plans and files of other tools; see
        `treadle.schedulers.third_party.placed_schedules.route_schedule`.
    sizes : sequence of int or str
        Bytes of the larger per-rank buffer at which each is simulated.
    cost_model : CostModel, str or Path, optional
        Costs of messages at these sizes; see `simulate`.
    trim : bool
        Let ForestColl leave surplus bandwidth unused at nodes that are not Eulerian; baselines need no such
        option.
    seed : int
        Seed of randomized schedulers.
    time_limit_s : float, optional
        Seconds for all schedulers together; those that were not run are listed.
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
    would share an interpreter, and CPU seconds could not be separated.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.compare("hypercube:3", "allgather", algorithms=["forestcoll", "ring"])
    >>> [(row.algorithm, row.algbw) for row in found.rows]
    [('forestcoll', Fraction(24, 7)), ('ring', Fraction(16, 7))]
    """
    at = tuple(as_sizes(sizes, "compare: sizes"))
    of_problem = problem_keywords(problem_options)
    named = [find_scheduler(name) for name in algorithms or ()]
    problem = make_problem(topology, collective, **of_problem)
    model = cost_model_of(problem.topology, problem_options.get("cost_model"))
    placed = route_schedules(beside if isinstance(beside, list | tuple) else [beside], problem)
    shared: SharedRates | None = None
    with start(progress, time_limit_s) as running:
        if problem.collective.groups is not None:
            with naming_cut_off(problem, lambda: make_forwarding_problem(topology, collective, of_problem)):
                proved = bound_problem(problem)
            bound, shared = proved.bound, shared_rates(proved)
        else:
            with under(running.unlimited):
                bound = find_bound(problem, cards_forward=True)  # routes are compared as well
    with start(progress, time_limit_s):  # the bound's time does not count
        measures = _measures(problem, bound, at, model, is_simulated=bool(at or beside))
        chosen = fitting(problem, at_sizes=bool(at)) if algorithms is None else named
        rows = _rows(problem, [(one, _options(one, trim=trim, seed=seed)) for one in chosen], measures)
        rows = [
            replace(
                row,
                is_baseline=one.is_baseline,
                always_shown=bool(named or one.origin) or one.comparing is Comparing.MACHINES,
            )
            for row, one in zip(rows, chosen, strict=True)
        ]
        rows += [_placed_row(one, measures) for one in placed]
        rows.sort(key=lambda row: -(row.rate or Fraction(-1)))
        found = _in_network(problem, measures) if algorithms is None else None
        if shared is None and problem.collective.blocks is not None:
            lower = bound.algbw if bound.is_tight else rows[0].rate if rows else None
            alone = alltoalls_alone(problem)
            shared = SharedRates(lower or Fraction(0), bound.algbw, alone, bottleneck(bound.certificate))
        return Comparison(
            problem.topology, problem.collective, bound, tuple(rows), measures.sizes, found, shared, model
        )


def _in_network(problem: Problem, measures: _Measures) -> InNetwork | None:
    """Return NCCL's NVLS with in-network aggregation; None if it does not apply or time ran out."""
    reducing = reducing_counterpart(problem)
    if reducing is None or problem.collective.n_ranks > _MOST_SUMMING:
        return None
    try:
        bound = find_bound(reducing)
    except TimeLimitError:
        return None
    scheduler = find_scheduler(NVLS)
    own = _measures(reducing, bound, measures.sizes, measures.cost_model, is_simulated=measures.is_simulated)
    row = _row(reducing, (scheduler, OPTIONS_OF[scheduler.form]()), own)
    return None if row.refusal else InNetwork(bound, replace(row, always_shown=True))


@dataclass(frozen=True)
class _Measures:
    """Bounds and sizes with which every schedule is measured."""

    bound: Bound
    sizes: tuple[int, ...]
    is_simulated: bool
    cost_model: CostModel
    size_bounds: tuple[SizeBound, ...]


def _measures(
    problem: Problem, bound: Bound, sizes: tuple[int, ...], model: CostModel, *, is_simulated: bool
) -> _Measures:
    """Add the time lower bound of each size, computed once for all schedules."""
    bounds = size_bounds(problem, bound.certificate, sizes, cost_model=model) if sizes else ()
    return _Measures(bound, sizes, is_simulated, model, bounds)


def _measured(measure: Callable[[], RowMeasures]) -> RowMeasures:
    """Return the measures of a verified schedule, or why there are none."""
    try:
        return measure()
    except TreadleError as error:
        return RowMeasures(refusal=str(error))


def _placed_row(placed: PlacedSchedule, measures: _Measures) -> ComparisonRow:
    """Return the row of an existing schedule."""
    is_ok = placed.report.is_ok
    return ComparisonRow(
        placed.name,
        placed.report,
        placed.trees,
        0.0,
        form=placed.form,
        measured=_measured(partial(_placed_measures, placed, measures)) if is_ok else None,
        notes=placed.notes,
        rates=placed.rates,
        always_shown=True,
    )


def _placed_measures(placed: PlacedSchedule, measures: _Measures) -> RowMeasures:
    """Measure an existing schedule; a plan by size uses the schedule of each size."""
    rows: dict[int, SimulatedRow] = {}
    for part, places in placed.by_size(measures.sizes):
        sizes = tuple(measures.sizes[at] for at in places)
        own = replace(measures, sizes=sizes, size_bounds=tuple(measures.size_bounds[at] for at in places))
        rows.update(zip(places, _times(part.problem, part.schedule, part.programs, own), strict=True))
    # the busiest links are those at the largest sizes, like algbw
    busy = congestion(placed.topology, placed.programs.programs, measures.bound.algbw)
    return RowMeasures(busy, tuple(rows[place] for place in sorted(rows)))


def _times(
    problem: Problem, schedule: Schedule | None, programs: ProgramGroups, measures: _Measures
) -> tuple[SimulatedRow, ...]:
    """Return the time at each size."""
    graph = task_graph(problem.topology, programs.lists)
    rows = simulated(
        SimulatedSubject(problem, graph, schedule, measures.bound.certificate),
        measures.sizes,
        SimulationOptions(),
        most_tasks=_MOST_TASKS,
        cost_model=measures.cost_model,
        bounds=measures.size_bounds,
    )
    return tuple(row for row, _ in rows)


def _options(scheduler: Scheduler, *, trim: bool, seed: int) -> SchedulerOptions:
    """Return the balancing option for the schedulers that support it."""
    if trim and "trim" in scheduler.supported_options:
        return TreeOptions(trim=True, seed=seed)
    return OPTIONS_OF[scheduler.form](seed=seed)


_Chosen = tuple[Scheduler, SchedulerOptions]


def _rows(problem: Problem, chosen: Sequence[_Chosen], measures: _Measures) -> list[ComparisonRow]:
    """Return a row for every scheduler, in order."""
    if not runs_apart():
        return [_row(problem, one, measures) for one in chosen]
    # machines share the time of day, no other clock
    left = context().seconds_left
    end_s = None if left is None else time() + left
    blocks = [(problem, one, measures, end_s) for one in chosen]
    with under(Context(context().progress)):
        return map_blocks("algorithms", _row_elsewhere, blocks)


def _row_elsewhere(
    problem: Problem, chosen: _Chosen, measures: _Measures, end_s: float | None
) -> ComparisonRow:
    """Compute the row in a worker; `end_s` is the time of day at which to stop."""
    deadline = None if end_s is None else monotonic() + end_s - time()
    with under(Context(None, deadline)):
        return _row(problem, chosen, measures)


def _row(problem: Problem, chosen: _Chosen, measures: _Measures) -> ComparisonRow:
    scheduler, options = chosen
    name, bound, start = scheduler.name, measures.bound, process_time()
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
        certificate=bound.certificate,
    )

    def measure() -> RowMeasures:
        program = lower_groups(problem.topology, problem.collective, schedule)
        busy = congestion(problem.topology, program.programs, bound.algbw)
        return RowMeasures(busy, _times(problem, schedule, program, measures))

    return ComparisonRow(
        name,
        report,
        unit_trees(schedule),
        seconds,
        is_peer=scheduler.is_peer,
        measured=_measured(measure) if measures.is_simulated and report.is_ok else None,
        notes=found.notes,
    )
