"""Synthesise a schedule, verify it and put it into a plan."""

from __future__ import annotations

from typing import Unpack, cast

from treadle.checking import checked
from treadle.context import Progress, context, in_context
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.problem import make_forwarding_problem, make_problem, problem_keywords
from treadle.options.keywords import OptionKeywords, SolveKeywords
from treadle.schedulers.bound_results import naming_cut_off
from treadle.schedulers.solving import SolveResult, solve_problem
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.scheduler_options import SchedulerOptions


@checked()
@in_context()
def solve(
    topology: FabricLike,
    collective: Collective | CollectiveKind | str,
    *,
    algorithm: str | None = None,
    options: SchedulerOptions | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[SolveKeywords],
) -> SolveResult:
    """Synthesise a schedule, verify it independently, and put it into a plan.

    Parameters
    ----------
    topology, collective
        See `treadle.inputs.problem.make_problem`, also for the keywords of the problem: `ranks`, `forward`,
        `root`, `weights`, `file_format`, `demands`.
    algorithm : str
        A scheduler's name (`algorithm_names`); default ForestColl, for an all-to-all pipelined routes of an
        optimal flow, or on small fabrics a time-stepped flow if that is better.
    options : SchedulerOptions, optional
        Options of the scheduler, in the type of its form: `TreeOptions`, `StepOptions`, `AlltoallOptions`,
        `RouteOptions`.
    **keywords
        The problem's, and any fields of those types by themselves: ``max_trees=4``. One that the scheduler
        does not support is rejected.
    time_limit_s : float, optional
        Seconds after which a quick schedule takes the place of the requested one.
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
    >>> import treadle
    >>> result = treadle.solve("ring:4", "allgather")
    >>> result.algbw, result.is_optimal, result.report.is_ok
    (Fraction(8, 3), True, True)
    """
    of_problem = problem_keywords(keywords)
    of_scheduler = {name: value for name, value in keywords.items() if name not in of_problem}
    with context().stage("fabric"):
        problem = make_problem(topology, collective, **of_problem)
    with naming_cut_off(problem, lambda: make_forwarding_problem(topology, collective, of_problem)):
        return solve_problem(problem, algorithm, options, cast(OptionKeywords, of_scheduler))
