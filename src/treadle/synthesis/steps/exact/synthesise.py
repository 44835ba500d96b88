"""Exact chunked synthesis: a schedule for given steps, rounds and chunks, or a proof that there is none."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypedDict, Unpack

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import Send, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.exact.exact_problem import ExactProblem, FreeRounds, Rounds, exact_problem
from treadle.synthesis.steps.exact.obstruction import Obstruction, find_obstruction
from treadle.synthesis.steps.exact.process import SolverProcess
from treadle.synthesis.steps.exact.semiregular import link_permutation, semiregular_group
from treadle.synthesis.trees.optimality import optimum
from treadle.topologies.topology import Topology

MAX_WORKERS = 64
"""Most threads of CP-SAT."""


class ExactStatus(StrEnum):
    """Outcome of the search."""

    FOUND = "found"
    INFEASIBLE = "infeasible"
    """Proved: no schedule exists for these steps, rounds and chunks."""
    UNKNOWN = "unknown"
    """Out of time, or only a restricted search failed."""


@dataclass(frozen=True)
class ExactSteps:
    """Outcome of one direction.

    Parameters
    ----------
    status : ExactStatus
    steps : Steps, optional
        When found.
    rounds : tuple of int
        Rounds of each step, when found.
    obstruction : Obstruction, optional
        A short certificate of infeasibility. Without one the proof is the exhausted search. For REDUCE it is
        of the transposed fabric and reversed rounds.
    reason : str
        Why no steps were found, in a few words.
    seconds : float
        CPU seconds in the solver; 0 if it was not needed.
    """

    status: ExactStatus
    steps: Steps | None = None
    rounds: tuple[int, ...] = ()
    obstruction: Obstruction | None = None
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class ExactResult:
    """Outcome for a collective.

    Parameters
    ----------
    status : ExactStatus
        Of an allreduce: infeasible if one of its two halves is.
    schedule : StepSchedule, optional
        When found.
    phases : tuple of ExactSteps
        In the order in which they run; an allreduce ends with the first that is not found.
    seconds : float
        CPU seconds in the solver.
    """

    status: ExactStatus
    schedule: StepSchedule | None
    phases: tuple[ExactSteps, ...]
    seconds: float


@dataclass(frozen=True)
class ExactSearch:
    """Settings of the search.

    Parameters
    ----------
    time_limit_s : float
        Wall seconds for the solver.
    seed, workers : int
        Of CP-SAT. The same seed gives the same schedule with one worker unless the time limit strikes.
    symmetric : bool
        Search only schedules that a group of automorphisms maps to themselves (allgather, reduce-scatter,
        allreduce): much smaller, but its failure proves nothing and is reported as unknown.
        A fabric without such symmetry gets the complete search.
    solver : SolverProcess, optional
        A running one to use; default one of its own.

    Raises
    ------
    ScheduleError
        If a number is out of range.
    """

    time_limit_s: float = 60.0
    seed: int = 0
    workers: int = 1
    symmetric: bool = False
    solver: SolverProcess | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_limit_s) and self.time_limit_s > 0):
            raise ScheduleError(
                f"exact synthesis: the time limit must be positive seconds, found {self.time_limit_s}"
            )
        if not 0 <= self.seed < 2**31:
            raise ScheduleError(f"exact synthesis: the seed must be 0 to 2**31 - 1, found {self.seed}")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise ScheduleError(f"exact synthesis: workers must be 1 to {MAX_WORKERS}, found {self.workers}")


class ExactSearchKeywords(TypedDict, total=False):
    """`ExactSearch` as keyword arguments."""

    time_limit_s: float
    seed: int
    workers: int
    symmetric: bool
    solver: SolverProcess | None


def synthesise_exact(
    topology: Topology,
    kind: CollectiveKind,
    *,
    chunks: int,
    rounds: Rounds,
    reduce_rounds: Rounds | None = None,
    root: int | None = None,
    **search: Unpack[ExactSearchKeywords],
) -> ExactResult:
    """Find a step schedule of given size, or prove that there is none.

    Parameters
    ----------
    topology : Topology
        Direct-connect; bandwidths may differ (their ratios to the greatest common divisor are the chunks that
        a link carries per round), latencies are ignored.
    kind : CollectiveKind
        Allreduce means reduce-scatter, then allgather.
    chunks : int
        C, per shard (of broadcast and reduce: of the buffer).
    rounds : sequence of int or FreeRounds
        Chunks that a unit link may carry in each step, or their total for a given number of steps. For an
        allreduce those of its allgather.
    reduce_rounds : sequence of int or FreeRounds, optional
        Of an allreduce's reduce-scatter; default `rounds` reversed.
    root : int, optional
        Rank, of broadcast and reduce.
    **search
        The fields of `ExactSearch`; the time limit is that of all phases together.

    Raises
    ------
    ScheduleError
        If the fabric has switches, or an argument is out of range.
    MissingDependencyError
        If ortools is not installed (extra ``exact``) and a search is needed.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> synthesise_exact(ring(4), CollectiveKind.ALLGATHER, chunks=2, rounds=[1, 1]).status
    <ExactStatus.INFEASIBLE: 'infeasible'>
    """
    check_root(topology, kind, root)
    asked = ExactSearch(**search)
    homes = range(topology.n_nodes) if root is None else (root,)
    if reduce_rounds is None:
        reduce_rounds = rounds if isinstance(rounds, FreeRounds) else tuple(rounds)[::-1]
    elif kind is not CollectiveKind.ALLREDUCE:
        raise ScheduleError(f"exact synthesis: reduce_rounds are for an allreduce, not for {kind}")
    if kind.reduces and not kind.broadcasts:
        reduce_rounds = rounds
    plan = [
        *([(Direction.REDUCE, reduce_rounds)] if kind.reduces else []),
        *([(Direction.BROADCAST, rounds)] if kind.broadcasts else []),
    ]
    phases: list[ExactSteps] = []
    started = time.monotonic()
    for direction, phase_rounds in plan:
        left_s = max(0.01, asked.time_limit_s - (time.monotonic() - started))
        phase = exact_steps(
            topology,
            direction,
            homes,
            chunks=chunks,
            rounds=phase_rounds,
            search=replace(asked, time_limit_s=left_s),
        )
        phases.append(phase)
        if phase.status is not ExactStatus.FOUND:
            break
    schedule = None
    if phase.status is ExactStatus.FOUND:
        found = {phase.steps.direction: phase.steps for phase in phases if phase.steps is not None}
        schedule = StepSchedule(kind, found.get(Direction.REDUCE), found.get(Direction.BROADCAST))
    return ExactResult(phase.status, schedule, tuple(phases), sum(phase.seconds for phase in phases))


def check_root(topology: Topology, kind: CollectiveKind, root: int | None) -> None:
    """Raise ScheduleError unless the kind reduces or broadcasts, and has a root just when it needs one."""
    n = topology.n_nodes
    if not (kind.reduces or kind.broadcasts):
        raise ScheduleError(f"exact synthesis: {kind} is neither a reducing nor a broadcasting collective")
    if kind.is_rooted and (root is None or not 0 <= root < n):
        raise ScheduleError(f"exact synthesis: {kind} needs a root from 0 to {n - 1}, found {root}")
    if not kind.is_rooted and root is not None:
        raise ScheduleError(f"exact synthesis: {kind} has no root, found {root}")


def exact_steps(
    topology: Topology,
    direction: Direction,
    homes: Sequence[int],
    *,
    chunks: int,
    rounds: Rounds,
    search: ExactSearch,
) -> ExactSteps:
    """Steps of one direction for shards with any owners (several at a node, or none).

    REDUCE is the broadcast on the transposed fabric, run backwards (Definition 5 and Theorem 1 of the
    dissertation). Parameters and errors as for `synthesise_exact`.
    """
    reducing = direction is Direction.REDUCE
    fabric = topology.transpose() if reducing else topology
    if reducing and not isinstance(rounds, FreeRounds):
        rounds = tuple(rounds)[::-1]
    problem = exact_problem(fabric, homes, chunks=chunks, rounds=rounds)
    if search.symmetric and problem.homes != tuple(range(problem.n_nodes)):
        raise ScheduleError("exact synthesis: symmetric search is for allgather, reduce-scatter, allreduce")
    # single nodes are quick to try; the bottleneck takes the search for an optimum of its own
    obstruction = find_obstruction(problem)
    if obstruction is None:
        obstruction = find_obstruction(problem, (bottleneck(fabric, problem.homes),))
    if obstruction is not None:
        return ExactSteps(ExactStatus.INFEASIBLE, obstruction=obstruction, reason=_explained(obstruction))
    group = [tuple(range(problem.n_nodes))]
    if search.symmetric:
        group = semiregular_group(problem, seed=search.seed)
    request = _request(problem, group, search)
    given = search.solver
    own: AbstractContextManager[SolverProcess] = SolverProcess() if given is None else nullcontext(given)
    with own as solver:
        answer = solver.solve(request, time_limit_s=search.time_limit_s)
    seconds = float(answer["cpu_s"])
    status = ExactStatus(answer["status"])
    if status is not ExactStatus.FOUND:
        reason = "search exhausted" if status is ExactStatus.INFEASIBLE else "time limit"
        # only symmetric schedules were searched, which proves nothing about the others
        if len(group) > 1 and status is ExactStatus.INFEASIBLE:
            status, reason = ExactStatus.UNKNOWN, f"no schedule with a symmetry of order {len(group)}"
        return ExactSteps(status, reason=reason, seconds=seconds)
    sends = _unfolded(problem, group, request["homes"], answer["sends"])
    used = tuple(int(r) for r in answer["rounds"])
    steps = _steps(problem, sends, direction)
    return ExactSteps(ExactStatus.FOUND, steps, used[::-1] if reducing else used, seconds=seconds)


def bottleneck(topology: Topology, homes: Sequence[int]) -> tuple[int, ...]:
    """The node set with the most shards from outside per bandwidth into it, rising.

    Source: optimality (*) of section 4.4 of the dissertation; found by `trees.optimum`.
    """
    counts = Counter(homes)
    kind, ranks = CollectiveKind.ALLGATHER, tuple(range(topology.n_nodes))
    weights = tuple(counts[v] for v in ranks)
    sources = set(optimum(topology, Collective(kind, ranks, weights=weights)).certificate.nodes)
    return tuple(v for v in ranks if v not in sources)


def _explained(obstruction: Obstruction) -> str:
    nodes, shards = obstruction.nodes, len(obstruction.shards)
    place = f"node {nodes[0]}" if len(nodes) == 1 else f"a set of {len(nodes)} nodes"
    return (
        f"{obstruction.demand} chunks of {shards} shards must enter {place}, "
        f"whose links can bring {obstruction.supply} in time"
    )


def _request(problem: ExactProblem, group: list[tuple[int, ...]], search: ExactSearch) -> dict[str, Any]:
    """The worker's problem: one shard of each orbit of owners, and the images of its sends."""
    free = isinstance(problem.rounds, FreeRounds)
    homes = problem.homes
    if len(group) > 1:
        # every orbit of homes has as many as the group has elements: the least stands for it
        homes = tuple(sorted({min(g[home] for g in group) for home in homes}))
    return {
        "n_nodes": problem.n_nodes,
        "tails": problem.tails,
        "heads": problem.heads,
        "capacity": problem.capacity,
        "distances": problem.distances.tolist(),
        "homes": homes,
        "chunks": problem.chunks,
        "steps": problem.steps,
        "rounds": None if free else problem.rounds,
        "total_rounds": problem.total_rounds,
        "copies": [link_permutation(problem, g) for g in group],
        "seed": search.seed,
        "workers": search.workers,
    }


def _unfolded(
    problem: ExactProblem,
    group: list[tuple[int, ...]],
    homes: Sequence[int],
    sends: Iterable[Sequence[int]],
) -> list[tuple[int, int, int, int]]:
    """The sends (shard, chunk, link, step) of all shards from those of the orbits' representatives."""
    if len(group) == 1:
        return [(int(s), int(c), int(link), int(t)) for s, c, link, t in sends]
    copies = [link_permutation(problem, g) for g in group]
    return [
        (g[homes[s]], c, copy[link], t)
        for s, c, link, t in sends
        for g, copy in zip(group, copies, strict=True)
    ]


def _steps(problem: ExactProblem, sends: list[tuple[int, int, int, int]], direction: Direction) -> Steps:
    """Steps in canonical order, neighbouring chunks on one link joined; REDUCE turns time round."""
    last = problem.steps - 1
    merged: list[list[int]] = []
    for shard, link, step, chunk in sorted((s, link, t, c) for s, c, link, t in sends):
        if merged and merged[-1][:3] == [shard, link, step] and merged[-1][4] == chunk:
            merged[-1][4] += 1
        else:
            merged.append([shard, link, step, chunk, chunk + 1])
    turned = direction is Direction.REDUCE
    rows: list[Send] = [
        (shard, problem.links[link], last - step if turned else step, low, high)
        for shard, link, step, low, high in merged
    ]
    return steps_from_sends(
        direction, problem.n_nodes, problem.chunks, rows, homes=problem.homes, n_steps=problem.steps
    )
