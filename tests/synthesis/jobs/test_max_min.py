"""Rates of jobs together on a few links, reckoned by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.jobs import Job
from treadle.synthesis.jobs.max_min import max_min_rates
from treadle.topologies.topology import Topology, TopologyBuilder


def line() -> Topology:
    """a to b of 6 B/s, b to c of 4, and c to d of 9."""
    builder = TopologyBuilder("line")
    for name in "abcd":
        builder.compute(name)
    for ends, width in (("ab", 6), ("bc", 4), ("cd", 9)):
        builder.link(ends[0], ends[1], width)
    return builder.build()


def broadcast(name: str, ranks: tuple[int, ...], weight: int | Fraction) -> Job:
    others = tuple(node for node in range(4) if node not in ranks)
    return Job(name, Collective(CollectiveKind.BROADCAST, ranks, 0, forwarders=others), Fraction(weight))


def test_what_is_not_limited_first_goes_on() -> None:
    """Weights 1 and 3 share the link of 4 and are done; two others have what is left of 6 and 9."""
    jobs = [
        broadcast("through", (0, 2), 1),
        broadcast("long", (1, 3), 3),
        broadcast("first", (0, 1), 2),
        broadcast("last", (2, 3), Fraction(5, 2)),
    ]
    found = max_min_rates(line(), jobs)
    assert found.rates == (Fraction(1), Fraction(3), Fraction(5), Fraction(6))
    assert [level.limited for level in found.levels] == [(0, 1), (3,), (2,)]
    assert [level.rate for level in found.levels] == [1, Fraction(12, 5), Fraction(5, 2)]
    for number, parts in enumerate(found.parts):
        assert sum(rate for _, rate in parts) == found.rates[number]
        assert {column.job for column, _ in parts} == {number}
    ((column, _),) = found.parts[1]
    assert dict(column.loads) == {1: 1, 2: 1}


def test_jobs_that_do_not_fit_the_fabric() -> None:
    outside = Job("outside", Collective(CollectiveKind.BROADCAST, (0, 4), 0), Fraction(1))
    with pytest.raises(ScheduleError):
        max_min_rates(line(), [outside])
    with pytest.raises(ScheduleError):
        max_min_rates(line(), [broadcast("twice", (0, 1), 1), broadcast("twice", (0, 1), 1)])
    with pytest.raises(ScheduleError):
        max_min_rates(line(), [])
    slow = [broadcast("one", (0, 1), 1), broadcast("two", (0, 1), 10**6 + 1)]
    with pytest.raises(ScheduleError):
        max_min_rates(line(), slow)
