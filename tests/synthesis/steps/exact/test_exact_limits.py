"""Exact synthesis without a search: numbers at their limits, roots, and how phases are put together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.exact import synthesise
from treadle.synthesis.steps.exact.exact_problem import FreeRounds, Rounds, exact_problem
from treadle.synthesis.steps.exact.obstruction import Obstruction
from treadle.synthesis.steps.exact.synthesise import (
    ExactResult,
    ExactSearch,
    ExactStatus,
    ExactSteps,
    _explained,
    _request,
    _steps,
    _unfolded,
    bottleneck,
    check_root,
    exact_steps,
    synthesise_exact,
)
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.graphs import ring
from treadle.topologies.topology import TopologyBuilder

K = CollectiveKind


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"time_limit_s": 0.0}, "the time limit must be positive seconds, found 0.0"),
        ({"time_limit_s": float("inf")}, "the time limit must be positive seconds, found inf"),
        ({"seed": -1}, "the seed must be 0 to 2**31 - 1, found -1"),
        ({"seed": 2**31}, "the seed must be 0 to 2**31 - 1, found 2147483648"),
        ({"workers": 0}, "workers must be 1 to 64, found 0"),
        ({"workers": 65}, "workers must be 1 to 64, found 65"),
    ],
)
def test_searches_out_of_range(values: dict[str, float], words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^exact synthesis: {re.escape(words)}$"):
        ExactSearch(**values)  # type: ignore[arg-type]


def test_searches_at_their_limits() -> None:
    ExactSearch(time_limit_s=1e-9, seed=2**31 - 1, workers=64)
    plain = ExactSearch()
    assert (plain.time_limit_s, plain.seed, plain.workers, plain.symmetric, plain.solver) == (
        60,
        0,
        1,
        False,
        None,
    )
    assert plain.symmetric is False


@pytest.mark.parametrize(
    ("kind", "root", "words"),
    [
        (K.ALLTOALL, None, "alltoall is neither a reducing nor a broadcasting collective"),
        (K.BROADCAST, None, "broadcast needs a root from 0 to 2, found None"),
        (K.REDUCE, 3, "reduce needs a root from 0 to 2, found 3"),
        (K.BROADCAST, -1, "broadcast needs a root from 0 to 2, found -1"),
        (K.ALLGATHER, 0, "allgather has no root, found 0"),
        (K.ALLREDUCE, 1, "allreduce has no root, found 1"),
    ],
)
def test_roots(kind: CollectiveKind, root: int | None, words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^exact synthesis: {re.escape(words)}$"):
        check_root(parse("ring(3)"), kind, root)
    for right, one in ((K.BROADCAST, 0), (K.REDUCE, 2), (K.ALLGATHER, None), (K.REDUCE_SCATTER, None)):
        check_root(parse("ring(3)"), right, one)


def test_what_cannot_be_in_time_is_said_of_the_first_phase() -> None:
    """Two chunks a shard on a ring of four in two steps of a round.

    Of a neighbour and the opposite node four come by one link in both steps, and by the other in the second.
    """
    ring = parse("ring(4)")
    found = synthesise_exact(ring, K.ALLREDUCE, chunks=2, rounds=[1, 1])
    assert (found.status, found.schedule, found.seconds) == (ExactStatus.INFEASIBLE, None, 0)
    assert len(found.phases) == 1
    assert found.phases[0].reason == "4 chunks of 2 shards must enter node 0, whose links can bring 3 in time"
    # a reduction is judged backwards: on a path what comes two hops has the one round of the first step
    path = from_arcs("path", [0, 1, 1, 2], [1, 0, 2, 1], n=3)
    early = synthesise_exact(path, K.REDUCE_SCATTER, chunks=2, rounds=[1, 3])
    assert early.status is ExactStatus.INFEASIBLE
    assert early.phases[0].obstruction == Obstruction((0,), (2,), 2, 1)
    message = "exact synthesis: reduce_rounds are for an allreduce, not for allgather"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        synthesise_exact(ring, K.ALLGATHER, chunks=1, rounds=[1, 1], reduce_rounds=[1, 1])
    message = "exact synthesis: symmetric search is for allgather, reduce-scatter, allreduce"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        exact_steps(
            ring, Direction.BROADCAST, [0], chunks=1, rounds=[1, 1], search=ExactSearch(symmetric=True)
        )


def test_reasons_in_words() -> None:
    assert _explained(Obstruction((1, 2), (0, 3), 9, 8)) == (
        "9 chunks of 2 shards must enter a set of 2 nodes, whose links can bring 8 in time"
    )


def test_the_node_set_that_is_hardest_to_enter() -> None:
    """Two pairs of wide links joined by narrow ones: the pair that has fewer homes."""
    builder = TopologyBuilder("pairs")
    for name in "abcd":
        builder.compute(name)
    for one, other, width in (("a", "b", 9), ("c", "d", 9), ("b", "c", 1)):
        builder.duplex(one, other, width)
    pairs = builder.build()
    assert bottleneck(pairs, [0, 1, 2, 3]) in ((0, 1), (2, 3))
    assert bottleneck(pairs, [0, 0, 1]) == (2, 3)
    assert bottleneck(pairs, [3]) == (0, 1)


def test_phases_become_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    sends = [(0, 0, 0, 0, 1)]
    reduce = steps_from_sends(Direction.REDUCE, 2, 1, sends)
    broadcast = steps_from_sends(Direction.BROADCAST, 2, 1, sends)
    first = ExactSteps(ExactStatus.FOUND, reduce, (1,), seconds=1.5)

    def synthesised(second: ExactSteps) -> ExactResult:
        phases = iter([first, second])
        monkeypatch.setattr(synthesise, "exact_steps", lambda *_given, **_named: next(phases))
        return synthesise.synthesise_exact(ring(2), K.ALLREDUCE, chunks=1, rounds=[1])

    found = synthesised(ExactSteps(ExactStatus.FOUND, broadcast, (1,), seconds=2.0))
    assert (found.status, found.seconds) == (ExactStatus.FOUND, 3.5)
    assert found.schedule is not None
    assert found.schedule.reduce == reduce
    assert found.schedule.broadcast == broadcast
    late = synthesised(ExactSteps(ExactStatus.UNKNOWN, seconds=1.0))
    assert (late.status, late.schedule, late.seconds) == (ExactStatus.UNKNOWN, None, 2.5)


def test_chunks_side_by_side_are_one_send_and_reductions_run_backwards() -> None:
    """Chunks 0, 1 and 3 of a shard in a step, 2 in the other; links as the fabric numbers them."""
    looped = from_arcs("looped", [0, 0, 1], [0, 1, 0], n=2)  # the loop is left out: links 1 and 2
    problem = exact_problem(looped, [0, 1], chunks=4, rounds=[3, 2])
    sends = [(0, 3, 0, 0), (0, 1, 0, 0), (1, 2, 1, 1), (0, 0, 0, 0), (0, 2, 0, 1)]

    def rows(direction: Direction) -> list[tuple[int, ...]]:
        found = _steps(problem, sends, direction)
        assert (found.direction, found.n_chunks, found.n_steps) == (direction, 4, 2)
        columns = (found.send_steps(), found.shard, found.link, found.low, found.high)
        return sorted(zip(*(column.tolist() for column in columns), strict=True))

    assert rows(Direction.BROADCAST) == [
        (0, 0, 1, 0, 2),
        (0, 0, 1, 3, 4),
        (1, 0, 1, 2, 3),
        (1, 1, 2, 2, 3),
    ]
    assert rows(Direction.REDUCE) == [
        (0, 0, 1, 2, 3),
        (0, 1, 2, 2, 3),
        (1, 0, 1, 0, 2),
        (1, 0, 1, 3, 4),
    ]


def test_the_least_of_each_orbit_stands_for_it() -> None:
    """A one-way ring of four turned by two: homes 0 and 1, whose sends are those of 2 and 3 too."""
    ring = from_arcs("ring", [0, 1, 2, 3], [1, 2, 3, 0], n=4)
    problem = exact_problem(ring, range(4), chunks=1, rounds=[1, 1, 1])
    group: list[tuple[int, ...]] = [(0, 1, 2, 3), (2, 3, 0, 1)]
    request = _request(problem, group, ExactSearch(seed=5, workers=3))
    assert request["homes"] == (0, 1)
    assert (request["seed"], request["workers"], request["chunks"], request["steps"]) == (5, 3, 1, 3)
    assert (request["rounds"], request["total_rounds"]) == ((1, 1, 1), 3)
    assert [list(copy) for copy in request["copies"]] == [[0, 1, 2, 3], [2, 3, 0, 1]]
    alone = _request(problem, group[:1], ExactSearch())
    assert alone["homes"] == (0, 1, 2, 3)
    assert _unfolded(problem, group, (0, 1), [(1, 0, 1, 0), (0, 0, 0, 2)]) == [
        (1, 0, 1, 0),
        (3, 0, 3, 0),
        (0, 0, 0, 2),
        (2, 0, 2, 2),
    ]
    assert _unfolded(problem, group[:1], (0, 1, 2, 3), [(3, 0, 1, 0)]) == [(3, 0, 1, 0)]


class Told:
    """A solver that gives the same answers, and keeps what it was asked and for how long."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[dict[str, Any], float]] = []

    def solve(self, request: Mapping[str, Any], *, time_limit_s: float) -> dict[str, Any]:
        self.asked.append((dict(request), time_limit_s))
        return self.answers[len(self.asked) - 1]


def crossed(rounds: list[int]) -> dict[str, Any]:
    """Of two nodes each sends its chunk in the first step."""
    return {"status": "found", "cpu_s": 0.5, "rounds": rounds, "sends": [[0, 0, 0, 0], [1, 0, 1, 0]]}


@pytest.mark.parametrize(
    ("kind", "rounds", "reduce_rounds", "asked"),
    [
        (K.ALLGATHER, [1, 2], None, [(1, 2)]),
        (K.REDUCE_SCATTER, [1, 2], None, [(2, 1)]),  # backwards on the transposed fabric
        (K.ALLREDUCE, [1, 2], None, [(1, 2), (1, 2)]),  # of the reduction those of the other half reversed
        (K.ALLREDUCE, [1, 2], [4, 3], [(3, 4), (1, 2)]),
        (K.ALLREDUCE, FreeRounds(2, 3), None, [None, None]),
    ],
)
def test_rounds_of_a_reduction_are_asked_for_and_told_backwards(
    kind: CollectiveKind, rounds: Rounds, reduce_rounds: Rounds | None, asked: list[tuple[int, int] | None]
) -> None:
    pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    solver = Told(*(crossed(list(one or (1, 2))) for one in asked))
    found = synthesise_exact(
        pair, kind, chunks=1, rounds=rounds, reduce_rounds=reduce_rounds, time_limit_s=7.0, seed=3,
        workers=2, solver=solver,  # type: ignore[arg-type]
    )  # fmt: skip
    assert [request["rounds"] for request, _ in solver.asked] == asked
    assert [(request["seed"], request["workers"]) for request, _ in solver.asked] == [(3, 2)] * len(asked)
    limits = [limit for _, limit in solver.asked]
    assert 6 < limits[-1] <= limits[0] <= 7
    assert (found.status, found.seconds) == (ExactStatus.FOUND, 0.5 * len(asked))
    assert found.schedule is not None
    assert [steps.direction for steps in found.schedule.phases] == [
        *[Direction.REDUCE] * kind.reduces, *[Direction.BROADCAST] * kind.broadcasts
    ]  # fmt: skip
    for phase, one in zip(found.phases, asked, strict=True):
        assert phase.steps is not None
        reduces = phase.steps.direction is Direction.REDUCE
        assert phase.rounds == (one or (1, 2))[:: -1 if reduces else 1]
        assert phase.steps.send_steps().tolist() == [1 if reduces else 0] * 2


@pytest.mark.parametrize(
    ("answer", "symmetric", "status", "reason"),
    [
        ("infeasible", False, ExactStatus.INFEASIBLE, "search exhausted"),
        ("infeasible", True, ExactStatus.UNKNOWN, "no schedule with a symmetry of order 2"),
        ("unknown", True, ExactStatus.UNKNOWN, "time limit"),
        ("unknown", False, ExactStatus.UNKNOWN, "time limit"),
    ],
)
def test_what_a_search_that_finds_nothing_says(
    answer: str, symmetric: bool, status: ExactStatus, reason: str
) -> None:
    """The second phase is not searched."""
    pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    solver = Told({"status": answer, "cpu_s": 1.25})
    found = synthesise_exact(
        pair, K.ALLREDUCE, chunks=1, rounds=[1], symmetric=symmetric, solver=solver  # type: ignore[arg-type]
    )  # fmt: skip
    assert (found.status, found.schedule, found.seconds) == (status, None, 1.25)
    assert found.phases == (ExactSteps(status, reason=reason, seconds=1.25),)
    assert solver.asked[0][0]["homes"] == ((0,) if symmetric else (0, 1))
