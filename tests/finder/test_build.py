"""Fabrics that the search builds by adding every link's opposite: both schedules, verified."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.finder.build import build
from treadle.finder.construction import (
    Base,
    DegreeExpansion,
    Placed,
    ScheduleMethod,
    WithReverse,
)
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.verification.schedules import verify


@pytest.mark.parametrize(
    ("base", "algbw"),
    [
        ("directed_circulant(8, 1, 3)", Fraction(32, 7)),
        ("de_bruijn(2, 3)", Fraction(16, 7)),
        ("generalized_kautz(2, 9)", Fraction(18, 7)),
    ],
)
@pytest.mark.parametrize("direction", list(Direction))
def test_with_its_reverse(base: str, algbw: Fraction, direction: Direction) -> None:
    """Half of each shard on the graph, half on its transpose (section A.1.6)."""
    of = WithReverse(Base(base, base, ScheduleMethod.BFB, "test"))
    topology, steps = build(of, direction)
    if direction is Direction.BROADCAST:
        schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    else:
        schedule = StepSchedule(CollectiveKind.REDUCE_SCATTER, reduce=steps)
    report = verify(topology, on_all_ranks(topology, schedule.kind), schedule)
    assert report.violations == ()
    assert report.algbw == algbw


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("nodes", [(3, 0, 5, 1, 7, 2, 6, 4), (1, 2, 3, 4, 5, 6, 7, 0)])
def test_placed_ranks_have_their_own_shards(direction: Direction, nodes: tuple[int, ...]) -> None:
    """The same sends on the same links; what rank r owns was node nodes[r]'s."""
    ring = DegreeExpansion(Base("uni_ring(1, 4)", "UniRing(1,4)", ScheduleMethod.BFB, "ring"), 2)
    plain, first = build(ring, direction)
    topology, steps = build(Placed(ring, nodes), direction)
    assert [plain.node_names[node] for node in nodes] == list(topology.node_names)
    assert (steps.link.tolist(), steps.low.tolist()) == (first.link.tolist(), first.low.tolist())
    assert [nodes[shard] for shard in steps.shard.tolist()] == first.shard.tolist()
    assert {nodes[v]: nodes[home] for v, home in enumerate(steps.homes.tolist())} == dict(
        enumerate(first.homes.tolist())
    )
    kind = CollectiveKind.ALLGATHER if direction is Direction.BROADCAST else CollectiveKind.REDUCE_SCATTER
    report = verify(topology, on_all_ranks(topology, kind), StepSchedule(kind, **{direction.value: steps}))
    assert report.violations == ()
