"""Pareto front over steps, rounds and chunks, as SCCL defines it, by exact synthesis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from treadle.context import context
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.exact.exact_problem import ExactProblem, FreeRounds, exact_problem
from treadle.synthesis.steps.exact.process import SolverProcess
from treadle.synthesis.steps.exact.synthesise import ExactStatus, bottleneck, check_root, synthesise_exact
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class ParetoPoint:
    """A schedule that no smaller one dominates.

    Parameters
    ----------
    steps : int
        S.
    rounds : tuple of int, length S
        Chunks that a unit link may carry in each step; they sum to R.
    chunks : int
        C, per shard.
    schedule : StepSchedule
    is_proved : bool
        Whether all better candidates within the limits of the search were proved infeasible; otherwise the
        time limit struck for some.
    """

    steps: int
    rounds: tuple[int, ...]
    chunks: int
    schedule: StepSchedule
    is_proved: bool

    @property
    def ratio(self) -> Fraction:
        """R / C: time of the bandwidth term, in shards over the bandwidth of a unit link."""
        return Fraction(sum(self.rounds), self.chunks)


@dataclass(frozen=True)
class Excluded:
    """A candidate that gave no schedule.

    Parameters
    ----------
    steps, total_rounds, chunks : int
    status : ExactStatus
        INFEASIBLE (proved) or UNKNOWN (time limit).
    reason : str
    """

    steps: int
    total_rounds: int
    chunks: int
    status: ExactStatus
    reason: str


@dataclass(frozen=True)
class ParetoFront:
    """Outcome of `pareto_front`.

    Parameters
    ----------
    points : tuple of ParetoPoint
        By rising steps and falling R / C.
    excluded : tuple of Excluded
        All candidates without a schedule, in the order in which they were tried.
    least_steps : int
        Hops from the farthest owner: no schedule has fewer steps.
    least_ratio : Fraction
        Bottleneck cut: no schedule has a smaller R / C.
    """

    points: tuple[ParetoPoint, ...]
    excluded: tuple[Excluded, ...]
    least_steps: int
    least_ratio: Fraction


def pareto_front(
    topology: Topology,
    kind: CollectiveKind,
    *,
    max_steps: int,
    max_chunks: int,
    max_extra_rounds: int | None = None,
    root: int | None = None,
    time_limit_s: float = 60.0,
    seed: int = 0,
    solver: SolverProcess | None = None,
) -> ParetoFront:
    """All Pareto-optimal (steps, R / C) with at most `max_steps` steps and `max_chunks` chunks per shard.

    Parameters
    ----------
    topology : Topology
    kind : CollectiveKind
        Any but allreduce.
    max_steps, max_chunks : int
    max_extra_rounds : int, optional
        SCCL's k: only k-synchronous schedules, R <= S + k. Default: no limit.
    root : int, optional
        Of broadcast and reduce.
    time_limit_s : float
        For each candidate, wall seconds.
    seed : int
        Of CP-SAT.
    solver : SolverProcess, optional
        A running one to use; default one of its own.

    Returns
    -------
    ParetoFront

    Raises
    ------
    ScheduleError
        For an allreduce, or if an argument is out of range.
    InfeasibleError
        If some node cannot be reached at all.

    Notes
    -----
    For each number of steps S from the least, candidates (R, C) are tried by rising R / C, from the
    bottleneck cut's up to what S - 1 steps already reach; the first schedule found is optimal for S. How the
    R rounds are spread over the steps is the solver's choice. The procedure follows Cai et al., *Synthesizing
    Optimal Collective Algorithms* (PPoPP 2021), with an exact bottleneck cut as the lower bound.
    """
    if kind is CollectiveKind.ALLREDUCE:
        raise ScheduleError("pareto front: take those of reduce-scatter and allgather for an allreduce")
    if max_steps < 1 or max_chunks < 1 or (max_extra_rounds is not None and max_extra_rounds < 0):
        raise ScheduleError("pareto front: needs at least 1 step, 1 chunk and 0 extra rounds")
    check_root(topology, kind, root)
    fabric = topology.transpose() if kind.reduces else topology
    homes = range(topology.n_nodes) if root is None else (root,)
    problem = exact_problem(fabric, homes, chunks=1, rounds=FreeRounds(topology.n_nodes, topology.n_nodes))
    least_steps, least_ratio = _least_steps(topology, problem), _least_ratio(fabric, problem)
    points: list[ParetoPoint] = []
    excluded: list[Excluded] = []
    own: AbstractContextManager[SolverProcess] = SolverProcess() if solver is None else nullcontext(solver)
    with own as process:
        for steps in range(least_steps, max_steps + 1):
            # no number of steps goes below the cut, so more of them gain nothing
            if points and points[-1].ratio == least_ratio:
                break
            # all shards over one link in every step are always enough
            below = points[-1].ratio if points else Fraction(steps * len(homes) + 1)
            most_rounds = None if max_extra_rounds is None else steps + max_extra_rounds
            for total, chunks in _candidates(steps, max_chunks, most_rounds, least_ratio, below):
                left = context().seconds_left
                if left is not None and left <= 0:
                    excluded.append(Excluded(steps, total, chunks, ExactStatus.UNKNOWN, "time limit"))
                    return ParetoFront(tuple(points), tuple(excluded), least_steps, least_ratio)
                result = synthesise_exact(
                    topology,
                    kind,
                    chunks=chunks,
                    rounds=FreeRounds(steps, total),
                    root=root,
                    time_limit_s=time_limit_s if left is None else min(time_limit_s, left),
                    seed=seed,
                    solver=process,
                )
                phase = result.phases[0]
                if result.schedule is not None:
                    proved = _all_proved(excluded, Fraction(total, chunks))
                    points.append(ParetoPoint(steps, phase.rounds, chunks, result.schedule, proved))
                    break
                excluded.append(Excluded(steps, total, chunks, result.status, phase.reason))
    return ParetoFront(tuple(points), tuple(excluded), least_steps, least_ratio)


def _all_proved(excluded: list[Excluded], ratio: Fraction) -> bool:
    return all(
        trial.status is ExactStatus.INFEASIBLE
        for trial in excluded
        if Fraction(trial.total_rounds, trial.chunks) <= ratio
    )


def _least_steps(topology: Topology, problem: ExactProblem) -> int:
    farthest = int(problem.distances[list(problem.homes)].max())
    if farthest > topology.n_nodes:
        raise InfeasibleError(f"{topology.name}: some node cannot be reached; connect the fabric strongly")
    return farthest


def _least_ratio(fabric: Topology, problem: ExactProblem) -> Fraction:
    inside = set(bottleneck(fabric, problem.homes))
    entering = sum(
        capacity
        for tail, head, capacity in zip(problem.tails, problem.heads, problem.capacity, strict=True)
        if head in inside and tail not in inside
    )
    return Fraction(sum(home not in inside for home in problem.homes), entering)


def _candidates(
    steps: int, max_chunks: int, most_rounds: int | None, least: Fraction, below: Fraction
) -> Iterator[tuple[int, int]]:
    """Return pairs (R, C) by rising R / C from `least` to under `below`, few chunks first."""
    found = []
    for chunks in range(1, max_chunks + 1):
        # the greatest total whose R / C is below, not equal: a step more has to gain something
        last = ceil(below * chunks) - 1
        if most_rounds is not None:
            last = min(last, most_rounds)
        # every step has a round at least
        first = max(steps, ceil(least * chunks))
        found += [(Fraction(total, chunks), chunks, total) for total in range(first, last + 1)]
    return ((total, chunks) for _, chunks, total in sorted(found))
