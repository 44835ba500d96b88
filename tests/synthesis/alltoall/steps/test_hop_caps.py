"""Caps of steps, and runs of chunks that get steps hop by hop: by definition and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.steps import hop_steps
from treadle.synthesis.alltoall.steps.hop_steps import (
    _caps,
    _Loads,
    _loads,
    _runs,
    _uneven_runs,
    routes_in_steps,
)
from treadle.topologies.topology import Topology, TopologyBuilder


def loads(load: list[float], start: list[list[float]], end: list[list[float]]) -> _Loads:
    return np.array(load), np.array(start), np.array(end)


def test_caps_rise_and_fall_by_even_shares() -> None:
    """Nothing is known of the hops but the largest load of 40: two steps at either end rise."""
    none = np.zeros((0, 1))
    found = _caps((np.array([40.0]), none, none), 8, False)
    # ramps of 2: 1/3, 2/3, 1, 1, 1, 1, 2/3, 1/3 of 6
    even = np.array([1, 2, 3, 3, 3, 3, 2, 1]) / 18 * 40
    expected = np.diff(np.floor(np.cumsum(even) + 0.5), prepend=0)
    assert found.tolist() == expected.tolist()
    assert found.sum() == 40
    # where links are full ramps double: 1/4, 1/2, 1, ...
    found = _caps((np.array([39.2]), none, none), 8, True)
    even = np.array([1, 2, 4, 4, 4, 4, 2, 1]) / 22 * 40
    assert found.tolist() == np.diff(np.floor(np.cumsum(even) + 0.5), prepend=0).tolist()
    # at most four steps rise, or seven that double
    for is_tight, ramp in ((False, 4), (True, 7)):
        found = _caps((np.array([1e6]), none, none), 40, is_tight)
        assert int((np.abs(np.diff(found)) > 5).sum()) == 2 * ramp


def test_caps_leave_to_the_end_what_comes_late() -> None:
    """By the first step link 0 of 10 carries the 1 of its first hops at most: the cap is 1. So at the end."""
    found = _caps(loads([10, 4], [[1, 4], [10, 4]], [[2, 4], [10, 4]]), 4, False)
    assert found[0] == 1
    assert found[-1] == 2
    assert found.sum() == 10
    # what link 1 has left over is no matter
    assert _caps(loads([10, 4], [[5, 0], [10, 4]], [[5, 0], [10, 4]]), 2, False).tolist() == [5, 5]


def line(*bandwidths: int) -> Topology:
    builder = TopologyBuilder("line")
    for name in "abc":
        builder.compute(name)
    for ends, width in zip(("ab", "bc", "ac"), bandwidths, strict=True):
        builder.link(ends[0], ends[1], width)
    return builder.build()


def some() -> Collective:
    """a has 1 for b and 4 for c."""
    return Collective(
        CollectiveKind.ALLTOALL, (0, 1, 2), demands=Demands(np.array([[0, 1, 4], [0, 0, 0], [0, 0, 0]]))
    )


def routes() -> RouteSchedule:
    """In halves: to b directly, to c six by b and two directly: three quarters and one."""
    return routes_from_paths(3, 2, [(0, 1, 2, 0, [0]), (0, 2, 6, 0, [0, 1]), (0, 2, 2, 0, [2])])


def test_runs_of_unequal_demands_are_large_ones_and_sand() -> None:
    """Whole demands of 8 and 4 units in 16 chunks; even steps of 24 units: the shares say how many runs."""
    n_chunks, run, size = _uneven_runs(np.array([6, 2, 4]), np.array([8, 8, 4]), 24.0, 4, 16)
    # 24 runs a step: ceil(6 * 0.8) = 5, ceil(2 * 0.8) = 2 and ceil(4 * 0.8) = 4; of sand 256 a step: 13, 5, 9
    assert n_chunks == 16
    # chunks of 12, 4 and 16, of which 2, 0 and 3 are sand
    assert run.tolist() == [0] * 7 + [1] * 2 + [2] * 7
    assert size.tolist() == [2, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 4, 1, 1, 1]
    # as fine as the smallest run of several chunks wants: 4 times 8 / 6 * 18, and more
    n_chunks, run, size = _uneven_runs(np.array([6, 2, 4]), np.array([8, 8, 4]), 24.0, 4, 2**10)
    assert n_chunks == 128
    assert np.bincount(run).tolist() == [18, 7, 13]
    assert np.bincount(run, weights=size).tolist() == [96, 32, 128]
    assert _uneven_runs(np.array([6, 2, 4]), np.array([8, 8, 4]), 24.0, 32, 16)[0] == 32


def test_runs_of_a_schedule() -> None:
    """With sixteen chunks at most; loads are 14 halves of a unit over links of twice the least, and more."""
    found = _runs(some(), routes(), 4, np.array([2.0, 1.0, 1.0]), 16)
    assert found.n_chunks == 16
    assert set(found.shard.tolist()) == {0, 1}
    own = found.shard == 1
    # runs of a shard follow each other without gaps
    for mine in (own, ~own):
        assert found.low[mine][0] == 0
        assert found.low[mine][1:].tolist() == found.high[mine][:-1].tolist()
        assert found.high[mine][-1] == 16
    size = found.high - found.low
    # in proportion to data: 1 and 4 units
    assert (found.amount * np.gcd.reduce(np.where(own, 4, 1) * size)).tolist() == (
        np.where(own, 4, 1) * size
    ).tolist()
    hops = np.diff(found.offset)
    assert found.links[: hops[0]].tolist() == [0]
    by_b = int(size[own & (hops == 2)].sum())
    assert (by_b, int(size[own & (hops == 1)].sum())) == (12, 4)
    load, from_start, to_end = _loads(found, np.array([2.0, 1.0, 1.0]))
    unit = float(found.amount.sum()) / 5  # of a unit of demand
    assert load == pytest.approx(np.array([4 / 2, 3, 1]) * unit)
    # first hops: all on links 0 and 2; last ones: of the way by b that over link 1
    assert from_start[0] == pytest.approx(np.array([4 / 2, 0, 1]) * unit)
    assert to_end[0] == pytest.approx(np.array([1 / 2, 3, 1]) * unit)
    assert from_start[1] == pytest.approx(load)
    assert to_end[1] == pytest.approx(load)


def test_equal_demands_are_cut_into_equal_runs() -> None:
    """Two ranks, a unit each over one link: 8 runs for each of three steps, so 32 parts, 16 at most."""
    builder = TopologyBuilder("pair")
    for name in "ab":
        builder.compute(name)
    builder.duplex("a", "b", 1)
    pair = Collective(CollectiveKind.ALLTOALL, (0, 1))
    direct = routes_from_paths(2, 1, [(0, 1, 1, 0, [0]), (1, 0, 1, 0, [1])])
    found = _runs(pair, direct, 3, np.ones(2), 64)
    assert (found.n_chunks, len(found.shard)) == (32, 64)
    assert _runs(pair, direct, 3, np.ones(2), 31).n_chunks == 16
    assert _runs(pair, direct, 2, np.ones(2), 64).n_chunks == 16
    assert found.low.tolist() == [*range(32), *range(32)]
    assert set(found.amount.tolist()) == {1}


def test_steps_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the longest path where demands are unequal, three times where they are equal."""
    asked: list[int] = []

    def caps(_: _Loads, n_steps: int, is_tight: bool) -> np.ndarray:
        asked.append(n_steps)
        return real(_, n_steps, is_tight)

    real = _caps
    monkeypatch.setattr(hop_steps, "_caps", caps)
    routes_in_steps(line(2, 1, 1), some(), routes())
    even = Collective(
        CollectiveKind.ALLTOALL, (0, 1, 2), demands=Demands(np.array([[0, 3, 3], [0, 0, 0], [0, 0, 0]]))
    )
    equal = routes_from_paths(3, 2, [(0, 1, 6, 0, [0]), (0, 2, 6, 0, [0, 1])])
    routes_in_steps(line(2, 1, 1), even, equal)
    routes_in_steps(line(2, 1, 1), even, equal, max_steps=2)
    assert asked == [4, 6, 2]
