"""Costs by latency and rate."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import AlphaBetaCosts, RememberedCosts, Traffic

GATHER: Traffic = (CollectiveKind.ALLGATHER, ("dp", "ep"))
SEND: Traffic = (None, ("pp",))


def test_seconds_are_alpha_and_size_over_rate_exactly() -> None:
    costs = AlphaBetaCosts(Fraction(1, 2), {GATHER: 6, SEND: 3})
    assert costs.time_s(CollectiveKind.ALLGATHER, ("dp", "ep"), 9) == 2
    assert costs.send_s("pp", 1) == Fraction(5, 6)


def test_slowdowns_hold_for_those_that_were_named() -> None:
    costs = AlphaBetaCosts(0, {GATHER: 1, SEND: 1}, {(GATHER, SEND): (2, Fraction(3, 2))})
    assert costs.slowdowns((GATHER, SEND)) == (2, Fraction(3, 2))
    assert costs.slowdowns((GATHER, GATHER)) == (1, 1)


def test_traffic_without_a_rate_is_refused_with_what_there_is() -> None:
    costs = AlphaBetaCosts(0, {GATHER: 1, SEND: 3})
    with pytest.raises(ScheduleError, match=r"no rate of allreduce along tp; .* dp,ep, send along pp"):
        costs.time_s(CollectiveKind.ALLREDUCE, ("tp",), 1)


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ScheduleError, match="alpha of -1 s"):
        AlphaBetaCosts(-1, {})
    with pytest.raises(ScheduleError, match="alpha of nan s; expected 0 or more"):
        AlphaBetaCosts(float("nan"), {})
    with pytest.raises(ScheduleError, match="send along pp at 0 bytes/s"):
        AlphaBetaCosts(0, {SEND: 0})
    with pytest.raises(ScheduleError, match="expected a number of at least 1 for each"):
        AlphaBetaCosts(0, {SEND: 1}, {(SEND, SEND): (1, Fraction(1, 2))})


def test_costs_are_asked_once_for_the_same() -> None:
    asked: list[object] = []

    class Told(AlphaBetaCosts):
        def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> int:
            asked.append((kind, axes, size_bytes))
            return len(asked)

        def send_s(self, axis: str, size_bytes: int) -> int:
            asked.append((axis, size_bytes))
            return len(asked)

        def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[int, ...]:
            asked.append(running)
            return (len(asked),)

    costs = RememberedCosts(Told(0, {}, summary="told", is_bound=True))
    kind = CollectiveKind.ALLGATHER
    assert [costs.time_s(kind, ("a",), size) for size in (1, 2, 1)] == [1, 2, 1]
    assert [costs.send_s("a", size) for size in (1, 2, 1)] == [3, 4, 3]
    assert [costs.slowdowns(one) for one in ((SEND,), (GATHER,), (SEND,))] == [(5,), (6,), (5,)]
    assert (costs.summary, costs.is_bound) == ("told", True)
    assert (AlphaBetaCosts(0, {}).summary, AlphaBetaCosts(0, {}).is_bound) == ("alpha and rate", False)
