"""Exact chunked synthesis as an algorithm of `solve`, and its Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps import exact
from treadle.topologies.distances import diameter

if TYPE_CHECKING:
    from treadle.synthesis.steps.exact import ParetoFront

DEFAULT_TIME_LIMIT_S = 60.0


@dataclass(frozen=True)
class ExactRequest:
    """What exact synthesis is asked for.

    Parameters
    ----------
    chunks : int
        Chunks per shard; without `rounds` at most so many.
    rounds : sequence of int, optional
        Chunks that a unit link may carry in each step. Default: the fewest in all that `steps` allow.
    steps : int, optional
        Without `rounds`; default the least possible.
    symmetric : bool
        Only schedules that a symmetry of the fabric keeps; with `rounds`.
    seed : int
    """

    chunks: int = 2
    rounds: Sequence[int] | None = None
    steps: int | None = None
    symmetric: bool = False
    seed: int = 0


def exact_schedule(problem: Problem, request: ExactRequest, deadline: float | None) -> StepSchedule:
    """The schedule asked for.

    Raises
    ------
    InfeasibleError
        If it is proved that there is none.
    TimeLimitError
        If time ran out before it was known.
    ScheduleError, MissingDependencyError
        If a number is out of range, or CP-SAT is missing.
    """
    if request.rounds is None:
        if request.symmetric:
            raise ScheduleError("exact: the symmetric search needs --rounds")
        return _fewest_rounds(problem, request, deadline)
    result = exact.synthesise_exact(
        problem.topology,
        problem.collective.kind,
        chunks=request.chunks,
        rounds=tuple(request.rounds),
        root=problem.collective.root,
        time_limit_s=_left(deadline),
        seed=request.seed,
        symmetric=request.symmetric,
    )
    if result.schedule is not None:
        return result.schedule
    reason = result.phases[-1].reason
    if result.status is exact.ExactStatus.INFEASIBLE:
        raise InfeasibleError(
            f"exact: {problem.topology.name} has no schedule with {request.chunks} chunks and rounds "
            f"{', '.join(map(str, request.rounds))} ({reason}); allow more rounds or steps"
        )
    if reason == "time limit":
        raise TimeLimitError("exact: the time limit was reached")
    raise ScheduleError(f"exact: {reason}; that proves nothing, search without --symmetric")


def _fewest_rounds(problem: Problem, request: ExactRequest, deadline: float | None) -> StepSchedule:
    kind = problem.collective.kind
    if kind is not CollectiveKind.ALLREDUCE:
        return _last_point(problem, kind, request, deadline)
    return StepSchedule(
        kind,
        reduce=_last_point(problem, CollectiveKind.REDUCE_SCATTER, request, deadline).reduce,
        broadcast=_last_point(problem, CollectiveKind.ALLGATHER, request, deadline).broadcast,
    )


def _last_point(
    problem: Problem, kind: CollectiveKind, request: ExactRequest, deadline: float | None
) -> StepSchedule:
    """The point of the Pareto front with the most steps that are allowed: the least T_B."""
    steps = diameter(problem.topology) if request.steps is None else request.steps
    with under(Context(deadline=monotonic() + DEFAULT_TIME_LIMIT_S if deadline is None else deadline)):
        found = exact.pareto_front(
            problem.topology,
            kind,
            max_steps=steps,
            max_chunks=request.chunks,
            root=problem.collective.root,
            time_limit_s=_left(deadline),
            seed=request.seed,
        )
    if found.points:
        return found.points[-1].schedule
    if any(entry.status is exact.ExactStatus.UNKNOWN for entry in found.excluded):
        raise TimeLimitError("exact: the time limit was reached")
    raise InfeasibleError(
        f"exact: no schedule of {problem.topology.name} has {steps} steps or fewer "
        f"(the least possible is {found.least_steps}) and up to {request.chunks} chunks; allow more"
    )


def _left(deadline: float | None) -> float:
    if deadline is None:
        return DEFAULT_TIME_LIMIT_S
    left = deadline - monotonic()
    if left <= 0:
        raise TimeLimitError("exact: the time limit was reached")
    return left


def exact_front(
    problem: Problem,
    *,
    max_steps: int,
    max_chunks: int,
    max_extra_rounds: int | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    seed: int = 0,
) -> ParetoFront:
    """All Pareto-optimal (steps, rounds / chunks); see `synthesis.steps.exact.pareto.pareto_front`.

    Examples
    --------
    >>> from treadle import planning
    >>> front = planning.exact_front(planning.make_problem("ring:4", "allgather"), max_steps=3, max_chunks=2)
    >>> [(point.steps, point.rounds, point.chunks, point.is_proved) for point in front.points]
    [(2, (1, 2), 2, True)]
    """
    return exact.pareto_front(
        problem.topology,
        problem.collective.kind,
        max_steps=max_steps,
        max_chunks=max_chunks,
        max_extra_rounds=max_extra_rounds,
        root=problem.collective.root,
        time_limit_s=time_limit_s,
        seed=seed,
    )
