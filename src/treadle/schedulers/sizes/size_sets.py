"""The best schedule at every size as one verified plan: candidates, their selection, its envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, sqrt

from treadle._version import __version__
from treadle.brief import brief
from treadle.context import TimeLimitError, context
from treadle.errors import ScheduleError, TreadleError
from treadle.notebook import displayed_by
from treadle.schedulers.generation import generate
from treadle.schedulers.sizes.candidate_options import Entrant, format_options
from treadle.schedulers.sizes.cost_ranges import UncertainChoice
from treadle.schedulers.sizes.envelope import ChosenRange, choose_ranges, crossing
from treadle.schedulers.sizes.selection import SelectionRules, SizeCandidate, best_baseline, winners
from treadle.schedulers.solving import RejectedError
from treadle.schedules.plan import Pipelining, Plan, PlanEntry, Scalar
from treadle.schedules.schedule import Schedule
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.size_bounds.problem_bounds import size_bounds
from treadle.simulation.size_bounds.size_certificate import SizeBound
from treadle.synthesis.result import Bound
from treadle.synthesis.scheduler_options import StepOptions, TreeOptions
from treadle.synthesis.steps.gpu_initiated import use_in_network
from treadle.synthesis.trees import prune_for_switches
from treadle.tabular import Cell, Tabular, plain_row
from treadle.verification.schedules import verify as verify_schedule
from treadle.verification.schedules import verify_plan
from treadle.verification.violations import Report

MOST_RANGES = 6
"""Default limit on the ranges of a set."""
_MOST_COST = 1.01
"""Ratio of times up to which a crossover is moved to a power of two."""

_Part = tuple[int, SizeCandidate, list[int]]
"""First size in bytes, schedule, and the simulated sizes, of which there are some."""

SET_ALGORITHM = "by-size"
"""Algorithm name of plans of several schedules."""


@brief("size_bytes", "title", "slices", "protocol", "seconds")
@dataclass(frozen=True)
class SizedChoice:
    """Schedule of a size.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer.
    title : str
        Scheduler and options.
    slices : int
    protocol : str
        Of the cost model; "" without one.
    seconds : float
    best_seconds : float
        Of the fastest candidate, which the set may lack.
    baseline : str
        The fastest of what people have without Treadle; "" where none fits.
    baseline_seconds : float, optional
    bound : SizeBound, optional
        Time lower bound of all schedules, with its certificate.

    Examples
    --------
    >>> import treadle
    >>> row = treadle.solve_sizes("ring:3", "allgather", "1K").rows[0]
    >>> row.title, row.slices, row.baseline
    ('forestcoll', 1, 'one-shot')
    >>> row.seconds <= row.baseline_seconds
    True
    """

    size_bytes: int
    title: str
    slices: int
    protocol: str
    seconds: float
    best_seconds: float
    baseline: str = ""
    baseline_seconds: float | None = None
    bound: SizeBound | None = None


@displayed_by("treadle.render.solving:size_set_rows")
@dataclass(frozen=True)
class SizeSet(Tabular):
    """A plan of size ranges, and what was learnt while making it.

    Parameters
    ----------
    plan : Plan
    reports : tuple of Report
        Of the independent verifier, one per entry.
    rows : tuple of SizedChoice
        By rising size.
    bound : Bound, optional
        On algbw, whatever the size.
    cost_model : CostModel
        What messages cost.
    doubts : tuple of UncertainChoice
        Choices that change somewhere within the model's error bands.
    n_candidates, n_timed : int
        Schedules that differ, and how many were timed at all.
    left_out : tuple of str
        Schedulers that are tried on fewer ranks only, and schedules that were too large to simulate.
    is_late : bool
        The time limit was reached; what was not timed is left out.
    seconds : mapping of stage to CPU seconds

    Examples
    --------
    >>> import treadle
    >>> found = treadle.solve_sizes("ring:3", "allgather", "1K,1G")
    >>> [(row.size_bytes, row.title) for row in found.rows]
    [(1024, 'forestcoll'), (1073741824, 'forestcoll')]
    """

    plan: Plan
    reports: tuple[Report, ...]
    rows: tuple[SizedChoice, ...]
    bound: Bound | None
    cost_model: CostModel
    doubts: tuple[UncertainChoice, ...] = ()
    n_candidates: int = 0
    n_timed: int = 0
    left_out: tuple[str, ...] = ()
    is_late: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def worst_ratio(self) -> float:
        """Ratio of a time to the fastest candidate's at that size."""
        return max(row.seconds / row.best_seconds for row in self.rows)

    @property
    def mean_ratio(self) -> float:
        """Same as `worst_ratio`, the mean over sizes."""
        return sum(row.seconds / row.best_seconds for row in self.rows) / len(self.rows)

    def records(self) -> list[dict[str, Cell]]:
        """A row for each size."""
        return [
            plain_row(
                {
                    "size_bytes": row.size_bytes,
                    "schedule": row.title,
                    "slices": row.slices,
                    "protocol": row.protocol,
                    "time_s": row.seconds,
                    "best_time_s": row.best_seconds,
                    "baseline": row.baseline,
                    "baseline_time_s": row.baseline_seconds,
                    "bound_s": None if row.bound is None else row.bound.time,
                }
            )
            for row in self.rows
        ]


def half_octaves(sizes: Sequence[int]) -> list[int]:
    """Sizes, rising, with the geometric mean of those that double."""
    rising = sorted(set(sizes))
    between = {round(low * sqrt(2)) for low in rising if 2 * low in rising}
    return sorted({*rising, *between})


def verified_racers(
    rules: SelectionRules, chosen: Sequence[Entrant], bound: Bound
) -> tuple[list[SizeCandidate], bool]:
    """Schedules that differ, each verified, and whether time ran out.

    Parameters
    ----------
    rules : SelectionRules
    chosen : sequence of Entrant
        Some, but not all, may fail to support the problem.
    bound : Bound
    """
    racers: list[SizeCandidate] = []
    refusals = []
    problem = rules.problem
    for done, (scheduler, options) in enumerate(chosen):
        try:
            context().report("candidates", done, len(chosen))
            schedule: Schedule = generate(problem, scheduler, options, bound=bound).schedule
        except TimeLimitError:
            if racers:
                return racers, True
            raise
        except TreadleError as error:
            refusals.append(f"{scheduler.name}: {error}")
            continue
        if isinstance(options, TreeOptions) and options.multicast and isinstance(schedule, ForestSchedule):
            schedule = prune_for_switches(problem.topology, schedule).schedule
        if isinstance(options, StepOptions) and options.multicast and isinstance(schedule, StepSchedule):
            schedule = use_in_network(problem.topology, problem.collective, schedule)
        words = format_options(options)
        baseline = f"{scheduler.name} {words}".strip() if scheduler.is_baseline else ""
        same = next(
            (one for one in racers if (type(schedule), schedule) == (type(one.schedule), one.schedule)), None
        )
        if same is not None:
            same.baseline = same.baseline or baseline
            continue
        report = verify_schedule(problem.topology, problem.collective, schedule)
        if not report.is_ok:
            raise RejectedError(scheduler.name, report, scheduler.origin)
        racers.append(SizeCandidate(rules, scheduler.name, words, schedule, report, baseline=baseline))
    if not racers:
        shown = refusals[0] if refusals else "no scheduler serves it"
        raise ScheduleError(f"{problem.topology.name}: no candidate at any size; {shown}")
    return racers, False


def size_set(
    rules: SelectionRules,
    racers: Sequence[SizeCandidate],
    sizes: Sequence[int],
    bound: Bound | None,
    max_schedules: int | None = None,
) -> tuple[Plan, tuple[Report, ...], tuple[SizedChoice, ...]]:
    """The plan of the fastest at each size, verified.

    Parameters
    ----------
    rules : SelectionRules
    racers : sequence of SizeCandidate
        Candidates after the selection.
    sizes : sequence of int
        Rising.
    bound : Bound, optional
        What the plan claims as the optimum.
    max_schedules : int, optional

    Raises
    ------
    RejectedError
        If the plan does not verify.
    """
    best = winners(racers, sizes)
    if not best:
        told = next((f"; {racer.title}: {racer.refusal}" for racer in racers if racer.refusal), "")
        raise ScheduleError(f"{rules.problem.topology.name}: no candidate was timed at any size{told}")
    at = [size for size in sizes if size in best]
    able = list(dict.fromkeys(best.values()))
    parts = _parts(able, at, _ranges(able, at, max_schedules))
    plan = _plan(rules, parts, bound)
    reports = verify_plan(plan)
    if not all(report.is_ok for report in reports):
        raise RejectedError(plan.algorithm, next(report for report in reports if not report.is_ok))
    rows = []
    certificate = None if bound is None else bound.certificate
    bounds = size_bounds(rules.problem, certificate, at, cost_model=rules.cost_model)
    least = dict(zip(at, bounds, strict=True))
    for _, racer, served in parts:
        for size in served:
            timed, (name, seconds) = racer.time(size), best_baseline(racers, size) or ("", None)
            rows.append(
                SizedChoice(
                    size,
                    racer.title,
                    timed.slices,
                    timed.protocol,
                    timed.seconds,
                    best[size].times[size].seconds,
                    name,
                    seconds,
                    least[size],
                )
            )
    return plan, reports, tuple(rows)


def _ranges(able: Sequence[SizeCandidate], sizes: Sequence[int], most: int | None) -> tuple[ChosenRange, ...]:
    """The best ranges; what is not known of a choice is found out before it stands."""
    while True:
        ranges = choose_ranges([[_seconds(racer, size) for size in sizes] for racer in able], most)
        unknown = [
            (able[one.schedule], size)
            for one in ranges
            for size in sizes[one.first : one.last + 1]
            if size not in able[one.schedule].times
        ]
        if not unknown:
            return ranges
        for racer, size in unknown:
            racer.time(size)


def _seconds(racer: SizeCandidate, size: int) -> float:
    """Return its time at a size; if not timed, a lower bound."""
    return racer.times[size].seconds if size in racer.times else racer.floor(size)


def _parts(able: Sequence[SizeCandidate], sizes: Sequence[int], ranges: Sequence[ChosenRange]) -> list[_Part]:
    """Ranges with their first sizes in bytes, powers of two where that costs less than 1%."""
    starts = [0]
    for left, right in pairwise(ranges):
        before, after = able[left.schedule], able[right.schedule]
        low, high = sizes[left.last], sizes[right.first]
        start = crossing(
            low, high, *((_seconds(each, low), _seconds(each, high)) for each in (before, after))
        )
        costs = {start: _MOST_COST}
        for power in (1 << start.bit_length() - 1, 1 << (start - 1).bit_length()):
            if power <= sizes[right.last] and any(starts[-1] <= size < power for size in sizes):
                first, past = min(power, start), max(power, start)
                at = {power, *(size for size in sizes if first <= size < past)}
                worse, better = (after, before) if power < start else (before, after)
                costs[power] = max(worse.time(size).seconds / better.time(size).seconds for size in at)
        starts.append(min(costs, key=lambda one: costs[one]))
    ends = (*starts[1:], inf)
    return [
        (start, able[one.schedule], [size for size in sizes if start <= size < end])
        for start, end, one in zip(starts, ends, ranges, strict=True)
    ]


def _plan(rules: SelectionRules, parts: Sequence[_Part], bound: Bound | None) -> Plan:
    entries = []
    lasts = [start - 1 for start, _, _ in parts[1:]]
    for (first, racer, sizes), last in zip(parts, (*lasts, None), strict=True):
        cuts: list[Pipelining] = []
        for number, size in enumerate(sizes):
            timed = racer.time(size)
            if not cuts or (cuts[-1].slices, cuts[-1].protocol) != (timed.slices, timed.protocol):
                cuts.append(Pipelining(size if number else first, timed.slices, timed.protocol))
        entries.append(PlanEntry(first, last, racer.schedule, racer.algorithm, racer.options, tuple(cuts)))
    final = parts[-1][1]
    assert final.report.algbw is not None
    provenance: dict[str, Scalar] = {"version": __version__, "cost_model": rules.cost_model.name}
    return Plan(
        rules.problem.topology,
        rules.problem.collective,
        tuple(entries),
        SET_ALGORITHM if len(entries) > 1 else final.algorithm,
        final.report.algbw,
        None if bound is None else bound.algbw,
        None if bound is None else bound.certificate,
        provenance,
    )
