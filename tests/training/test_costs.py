"""Costs by latency and rate."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import AlphaBetaCosts, Traffic

GATHER: Traffic = (CollectiveKind.ALLGATHER, ("dp", "ep"))
SEND: Traffic = (None, ("pp",))


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
