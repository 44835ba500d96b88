"""Schedulers side by side on one problem, all judged by the same verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from time import monotonic, process_time, time
from typing import Unpack

from treadle.errors import TreadleError
from treadle.planning.problem import Problem, ProblemOptions, pose
from treadle.planning.solving.bounds import Bound, find_bound
from treadle.planning.solving.generation import generate
from treadle.planning.solving.schedulers import find_scheduler, schedulers
from treadle.planning.stages import seconds_left
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.parallel import map_blocks, runs_apart
from treadle.synthesis.scheduler import Comparing, Scheduler, no_switches
from treadle.synthesis.scheduler_options import OPTIONS_OF, SchedulerOptions, TreeOptions
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify as verify_schedule
from treadle.verification.violations import Report
from treadle.watch import Progress, TimeLimitError, Watch

_LARGE = 64
"""Ranks beyond which the slow ones have to be named to be run."""


@dataclass(frozen=True)
class ComparisonRow:
    """One scheduler's result.

    Parameters
    ----------
    algorithm : str
    report : Report, optional
        Of the verifier; None if the scheduler refused the problem.
    trees : int, optional
        Unit trees in all; None for step schedules.
    seconds : float
        CPU time to generate the schedule.
    refusal : str
        Why there is no schedule, else "".
    is_late : bool
        Time ran out.
    """

    algorithm: str
    report: Report | None
    trees: int | None
    seconds: float
    refusal: str = ""
    is_late: bool = False

    @property
    def algbw(self) -> Fraction | None:
        """As the verifier computed it, bytes/s; None without a valid schedule."""
        return self.report.algbw if self.report is not None and self.report.is_ok else None


@dataclass(frozen=True)
class Comparison:
    """All schedulers on one problem.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    bound : Bound
    rows : tuple of ComparisonRow
        Fastest first; refusals last.
    """

    topology: Topology
    collective: Collective
    bound: Bound
    rows: tuple[ComparisonRow, ...]


def compare(
    topology: Topology | str,
    collective: Collective | CollectiveKind | str,
    *,
    algorithms: Sequence[str] | None = None,
    trim: bool = False,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **problem_options: Unpack[ProblemOptions],
) -> Comparison:
    """Run several schedulers and verify each schedule.

    Parameters
    ----------
    topology, collective, **problem_options
        See `treadle.planning.problem.pose`.
    algorithms : sequence of str, optional
        Default: all for such a collective but those that have to be named (exact synthesis), slow ones where
        there are many ranks, and step schedules where there are switches.
    trim : bool
        Where nodes are not Eulerian, let ForestColl leave surplus bandwidth unused; baselines need no such
        thing.
    time_limit_s : float, optional
        Seconds for all together; those that do not get their turn are listed as such.
    progress : callable, optional

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if no schedule exists at all.

    Notes
    -----
    Each scheduler is a task of its own where workers are processes (`planning.workers`). In threads they
    would share an interpreter, and CPU seconds could not be told apart.
    """
    named = [find_scheduler(name) for name in algorithms or ()]
    problem = pose(topology, collective, **problem_options)
    bound = find_bound(problem, Watch(progress), cards_forward=True)  # routes are compared as well
    watch = Watch(progress, seconds_left(time_limit_s))
    rows = _rows(
        problem, [(one, _options(one, trim=trim)) for one in named or _fitting(problem)], bound, watch
    )
    rows.sort(key=lambda row: -(row.algbw or Fraction(-1)))
    return Comparison(problem.topology, problem.collective, bound, tuple(rows))


def _options(scheduler: Scheduler, *, trim: bool) -> SchedulerOptions:
    """Trimming for those that heed it; the others need no such thing."""
    if trim and "trim" in scheduler.heeded:
        return TreeOptions(trim=True)
    return OPTIONS_OF[scheduler.form]()


def _fitting(problem: Problem) -> list[Scheduler]:
    """Those worth a row: for such collectives and such fabrics, the slow ones for small fabrics only.

    Those that refuse for another reason than switches have a line that says so.
    """
    is_alltoall = problem.collective.kind is CollectiveKind.ALLTOALL
    has_switches = bool(problem.topology.switches.size)
    wanted = {
        Comparing.ALWAYS: True,
        Comparing.SMALL: problem.collective.n_ranks <= _LARGE,
        Comparing.SWITCHED: has_switches,
        Comparing.NAMED: False,
    }
    return [
        scheduler
        for scheduler in schedulers()
        if (CollectiveKind.ALLTOALL in scheduler.collectives) == is_alltoall
        and not (has_switches and no_switches in scheduler.needs)
        and wanted[scheduler.comparing]
    ]


_Asked = tuple[Scheduler, SchedulerOptions]


def _rows(problem: Problem, asked: Sequence[_Asked], bound: Bound, watch: Watch) -> list[ComparisonRow]:
    """A row for every scheduler, in order."""
    if not runs_apart():
        return [_row(problem, one, bound, watch) for one in asked]
    # machines share the time of day, no other clock
    end_s = None if watch.deadline is None else time() + watch.deadline - monotonic()
    blocks = [(problem, one, bound, end_s) for one in asked]
    return map_blocks("algorithms", _row_elsewhere, blocks, watch=Watch(watch.progress))


def _row_elsewhere(problem: Problem, asked: _Asked, bound: Bound, end_s: float | None) -> ComparisonRow:
    """The row, by a worker; `end_s`: time of day at which to give up."""
    deadline = None if end_s is None else monotonic() + end_s - time()
    return _row(problem, asked, bound, Watch(None, deadline))


def _row(problem: Problem, asked: _Asked, bound: Bound, watch: Watch) -> ComparisonRow:
    scheduler, options = asked
    name, start = scheduler.name, process_time()
    try:
        found = generate(problem, scheduler, options, bound=bound, watch=watch)
    except TimeLimitError:
        return ComparisonRow(
            name, None, None, process_time() - start, "the time limit was reached", is_late=True
        )
    except TreadleError as error:
        return ComparisonRow(name, None, None, process_time() - start, str(error))
    seconds = process_time() - start
    report = verify_schedule(
        problem.topology,
        problem.collective,
        found.schedule,
        claimed_optimal_algbw=bound.algbw,
        witness=bound.witness,
    )
    trees = (
        found.schedule.total_units if isinstance(found.schedule, ForestSchedule | FactoredSchedule) else None
    )
    return ComparisonRow(name, report, trees, seconds)
