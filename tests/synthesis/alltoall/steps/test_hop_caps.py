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
    routes_in_steps,
)
from treadle.topologies.topology import Topology, TopologyBuilder


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
