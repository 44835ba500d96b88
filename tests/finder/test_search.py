"""The search against the published frontiers, and its promises against built schedules."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reference.step_times import t_b
from treadle.finder.build import build
from treadle.finder.construction import (
    Base,
    DegreeExpansion,
    Parallel,
    ScheduleMethod,
)
from treadle.finder.search import (
    Finder,
)
from treadle.finder.tables import Tables, shipped_tables
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies.moore import moore_steps
from treadle.verification.schedules import verify

PUBLISHED_ONLY = Tables(shipped_tables().figures)
"""Without what our own search of Cayley digraphs found."""

TABLE_A1 = {
    32: [(3, "1.000"), (4, "0.969")],
    64: [(3, "1.312"), (4, "1.000"), (6, "0.984")],
    128: [(4, "1.031"), (5, "1.000"), (10, "0.992")],
    256: [(4, "1.328"), (5, "1.016"), (7, "1.000"), (10, "0.996")],
    512: [(5, "1.039"), (6, "1.008"), (11, "1.000"), (16, "0.998")],
    1024: [(5, "1.332"), (6, "1.020"), (8, "1.004"), (11, "1.000"), (20, "0.999")],
}


def finder(tables: Tables = PUBLISHED_ONLY, *, bidirectional: bool = False) -> Finder:
    return Finder(tables.bases, bidirectional=bidirectional)


@pytest.mark.parametrize("nodes", TABLE_A1)
def test_table_a1_is_met_by_published_bases(nodes: int) -> None:
    """Table A.1: for every published row there is one that is at least as good in both figures."""
    found = finder().frontier(nodes, 4)
    for steps, shown in TABLE_A1[nodes]:
        published = Fraction(shown) + Fraction(1, 2000)  # the table rounds to three decimals
        assert any(c.steps <= steps and c.gather.t_b <= published for c in found), (steps, shown)
    assert found[0].steps >= moore_steps(nodes, 4)
    assert found[-1].is_bandwidth_optimal


@pytest.mark.parametrize("direction", list(Direction))
def test_parallel_links_share_every_send(direction: Direction) -> None:
    """Twice the links at the same T_B in M/B, for schedules that are not breadth-first too."""
    base = DegreeExpansion(Base("uni_ring(1, 4)", "UniRing(1,4)", ScheduleMethod.BFB, "ring"), 2)
    kind = CollectiveKind.ALLGATHER if direction is Direction.BROADCAST else CollectiveKind.REDUCE_SCATTER
    costs = []
    for construction in (base, Parallel(base, 3)):
        topology, steps = build(construction, direction)
        schedule = StepSchedule(kind, **{direction.value: steps})
        report = verify(topology, on_all_ranks(topology, kind), schedule)
        assert report.is_ok, report.violations[:3]
        costs.append((steps.n_steps, t_b(topology, schedule)))
    assert costs[0] == costs[1]
