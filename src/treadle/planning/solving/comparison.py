"""Schedulers side by side on one problem, all judged by the same verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import monotonic, process_time, time
from typing import Unpack

from treadle.errors import TreadleError
from treadle.planning.problem import Problem, ProblemOptions, pose
from treadle.planning.solving.alltoall_candidates import ALLTOALL_ALGORITHMS
from treadle.planning.solving.alltoall_comparison import COMPARED_ONLY, fitting_names, judged_alltoall
from treadle.planning.solving.bounds import Bound, find_bound
from treadle.planning.solving.candidate import Options
from treadle.planning.solving.generation import RS_AG, algorithm_names, check_algorithm, generate
from treadle.planning.solving.route_candidates import ROUTE_ALGORITHMS
from treadle.planning.solving.step_candidates import EXACT, STEP_ALGORITHMS
from treadle.planning.stages import seconds_left
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.engine import Progress, TimeLimitError
from treadle.synthesis.parallel import map_blocks, runs_apart
from treadle.synthesis.watch import Watch
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify as verify_schedule
from treadle.verification.violations import Report


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
        Default: all that are known but exact synthesis, without step schedules where there are switches.
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
    for name in algorithms or ():
        if name not in COMPARED_ONLY:
            check_algorithm(name)
    problem = pose(topology, collective, **problem_options)
    bound = find_bound(problem, Watch(progress), cards_forward=True)  # routes are compared as well
    options = Options(trim=trim, bound=bound, progress=progress, deadline=seconds_left(time_limit_s))
    names = algorithms or _fitting(problem)
    rows = _rows(problem, names, bound, options)
    rows.sort(key=lambda row: -(row.algbw or Fraction(-1)))
    return Comparison(problem.topology, problem.collective, bound, tuple(rows))


def _fitting(problem: Problem) -> list[str]:
    """Algorithms that are made for such a problem."""
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        return fitting_names(problem)
    is_allreduce = problem.collective.kind is CollectiveKind.ALLREDUCE
    has_switches = bool(problem.topology.switches.size)
    return [
        name
        for name in algorithm_names()
        if (name != RS_AG or is_allreduce)
        and not (has_switches and name in STEP_ALGORITHMS)
        and name not in (*ALLTOALL_ALGORITHMS, *ROUTE_ALGORITHMS)
        and name != EXACT  # it may take hours; name it to have it
    ]


def _rows(problem: Problem, names: Sequence[str], bound: Bound, options: Options) -> list[ComparisonRow]:
    """A row for every name, in order."""
    if not runs_apart():
        return [_row(problem, name, bound, options) for name in names]
    alone = replace(options, progress=None, deadline=None)
    # machines share the time of day, no other clock
    end_s = None if options.deadline is None else time() + options.deadline - monotonic()
    blocks = [(problem, name, bound, alone, end_s) for name in names]
    return map_blocks("algorithms", _row_elsewhere, blocks, watch=Watch(options.progress))


def _row_elsewhere(
    problem: Problem, name: str, bound: Bound, options: Options, end_s: float | None
) -> ComparisonRow:
    """The row, by a worker; `end_s`: time of day at which to give up."""
    deadline = None if end_s is None else monotonic() + end_s - time()
    return _row(problem, name, bound, replace(options, deadline=deadline))


def _row(problem: Problem, name: str, bound: Bound, options: Options) -> ComparisonRow:
    start = process_time()
    try:
        if name in COMPARED_ONLY:
            report, seconds = judged_alltoall(problem, name, bound)
            return ComparisonRow(name, report, None, seconds)
        found = generate(problem, name, options)
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
