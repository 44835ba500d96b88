"""Exact chunked synthesis as an algorithm of `solve`, and its Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from treadle.context import Context, TimeLimitError, context, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps import exact as synthesis
from treadle.topologies.distances import diameter
from treadle.topologies.topology import Topology

if TYPE_CHECKING:
    from treadle.synthesis.steps.exact import ParetoFront

DEFAULT_TIME_LIMIT_S = 60.0


def exact(
    topology: Topology,
    collective: Collective,
    *,
    chunks: int = 2,
    rounds: Sequence[int] | None = None,
    steps: int | None = None,
    symmetric: bool = False,
    seed: int = 0,
) -> StepSchedule:
    """Make a schedule of these steps, rounds and chunks, or prove that there is none.

    Parameters
    ----------
    topology, collective
    chunks : int
        Chunks per shard; without `rounds` their limit.
    rounds : sequence of int, optional
        Chunks that a unit link may carry in each step. Default: the fewest in all that `steps` allow.
    steps : int, optional
        Without `rounds`; default the least possible.
    symmetric : bool
        Only schedules that a symmetry of the fabric keeps; with `rounds`.
    seed : int

    Raises
    ------
    InfeasibleError
        If it is proved that there is none.
    TimeLimitError
        If the deadline passes before it is decided.
    ScheduleError, MissingDependencyError
        If a number is out of range, or CP-SAT is missing.
    """
    kind = collective.kind
    if rounds is None:
        if symmetric:
            raise ScheduleError("exact: the symmetric search needs --rounds")
        steps = diameter(topology) if steps is None else steps
        kinds = [kind]
        if kind is CollectiveKind.ALLREDUCE:
            kinds = [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER]
        found = [_last_point(topology, one, collective.root, steps, chunks, seed) for one in kinds]
        return StepSchedule(kind, reduce=found[0].reduce, broadcast=found[-1].broadcast)
    result = synthesis.synthesise_exact(
        topology,
        kind,
        chunks=chunks,
        rounds=tuple(rounds),
        root=collective.root,
        time_limit_s=_seconds_left(),
        seed=seed,
        symmetric=symmetric,
    )
    if result.schedule is not None:
        return result.schedule
    reason = result.phases[-1].reason
    if result.status is synthesis.ExactStatus.INFEASIBLE:
        raise InfeasibleError(
            f"exact: {topology.name} has no schedule with {chunks} chunks and rounds "
            f"{', '.join(map(str, rounds))} ({reason}); allow more rounds or steps"
        )
    if reason == "time limit":
        raise TimeLimitError("exact: the time limit was reached")
    raise ScheduleError(f"exact: {reason}; that proves nothing, search without --symmetric")


def _last_point(
    topology: Topology, kind: CollectiveKind, root: int | None, steps: int, chunks: int, seed: int
) -> StepSchedule:
    """Return the point of the Pareto front with the most allowed steps: the least T_B."""
    seconds = _seconds_left()
    with under(Context(deadline=monotonic() + seconds)):
        found = synthesis.pareto_front(
            topology,
            kind,
            max_steps=steps,
            max_chunks=chunks,
            root=root,
            time_limit_s=seconds,
            seed=seed,
        )
    if found.points:
        return found.points[-1].schedule
    if any(entry.status is synthesis.ExactStatus.UNKNOWN for entry in found.excluded):
        raise TimeLimitError("exact: the time limit was reached")
    raise InfeasibleError(
        f"exact: no schedule of {topology.name} has {steps} steps or fewer "
        f"(the least possible is {found.least_steps}) and up to {chunks} chunks; allow more"
    )


def _seconds_left() -> float:
    """Return the time until the deadline, or the default limit; TimeLimitError if there is none left."""
    left = context().seconds_left
    if left is None:
        return DEFAULT_TIME_LIMIT_S
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
    """Find all Pareto-optimal (steps, rounds / chunks); see `synthesis.steps.exact.pareto.pareto_front`.

    Examples
    --------
    >>> from treadle import planning
    >>> front = planning.exact_front(planning.make_problem("ring:4", "allgather"), max_steps=3, max_chunks=2)
    >>> [(point.steps, point.rounds, point.chunks, point.is_proved) for point in front.points]
    [(2, (1, 2), 2, True)]
    """
    return synthesis.pareto_front(
        problem.topology,
        problem.collective.kind,
        max_steps=max_steps,
        max_chunks=max_chunks,
        max_extra_rounds=max_extra_rounds,
        root=problem.collective.root,
        time_limit_s=time_limit_s,
        seed=seed,
    )
