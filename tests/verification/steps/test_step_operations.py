"""Copies and sums of switches in steps: by hand, against a count chunk by chunk, and mutants."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shortcuts.asking_switches import asked, asking_boxes
from treadle.arrays import frozen
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps import step_cost
from treadle.schedules.steps.step_transforms import reverse
from treadle.schedules.steps.steps import PathKind, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import verify
from treadle.verification.violations import Report, ViolationKind

K = CollectiveKind


def star(lanes: int = 1) -> Topology:
    """Four ranks on a switch that works for ranks which ask; up and down by rank and lane in turn."""
    builder = TopologyBuilder("star")
    switch = builder.switch("s", multicast=True, aggregation=True)
    for rank in range(4):
        name = builder.compute(f"r{rank}")
        for _ in range(lanes):
            builder.duplex(name, switch, 12)
    return builder.build()


def one_sum(
    served: tuple[int, ...], *, kind: PathKind = PathKind.SUM, lanes: int = 1, lane: int = 0
) -> Steps:
    """Ranks send a chunk to rank 0, all of it at home there."""
    ways = [(2 * (rank * lanes + lane), 2 * lane + 1) for rank in (1, 2, 3)]
    sends = [(0, rank - 1, 0, 0, 1) for rank in served]
    steps = steps_from_sends(Direction.REDUCE, 4, 1, sends, homes=[0])
    return with_ways(steps, ways, [kind] * len(ways))


def with_ways(steps: Steps, ways: list[tuple[int, ...]], kinds: list[int]) -> Steps:
    return replace(
        steps,
        way_offset=frozen(np.cumsum([0, *map(len, ways)]), np.int64),
        way_links=frozen([link for way in ways for link in way], np.int32),
        way_kinds=frozen(kinds, np.int32),
    )


def judged(fabric: Topology, steps: Steps) -> Report:
    kind = K.REDUCE if steps.direction is Direction.REDUCE else K.BROADCAST
    phase = {"reduce" if kind is K.REDUCE else "broadcast": steps}
    return verify(fabric, on_all_ranks(fabric, kind, root=0), StepSchedule(kind, **phase))


@pytest.mark.parametrize("kind", [PathKind.SUM, PathKind.COPY])
def test_an_operation_crosses_every_link_of_its_group_once(kind: PathKind) -> None:
    """Up from all four and down to the asker; the plain ways bring three to the asker's one link."""
    fabric, steps = star(), one_sum((1, 2, 3))
    up, down = [2 * rank for rank in range(4)], [2 * rank + 1 for rank in range(4)]
    expected = [int(link in up or link == down[0]) for link in range(8)]
    if kind is PathKind.COPY:
        fabric, steps = fabric.transpose(), reverse(steps)
    assert set(steps.way_kinds.tolist()) == {kind}
    (load,) = step_cost.step_loads(fabric, steps)
    assert load.tolist() == expected
    report = judged(fabric, steps)
    assert report.violations == ()
    assert report.algbw == 12
    assert judged(fabric, replace(steps, way_kinds=frozen([0, 0, 0], np.int32))).algbw == 4
    assert reverse(reverse(steps)) == steps


def test_ranks_that_an_operation_does_not_serve_are_crossed_on_the_same_lane() -> None:
    fabric, steps = star(2), one_sum((1, 2), lanes=2, lane=1)
    (load,) = step_cost.step_loads(fabric, steps)
    assert np.flatnonzero(load).tolist() == [2, 3, 6, 10, 14]
    report = judged(fabric, steps)
    assert [violation.kind for violation in report.violations] == [ViolationKind.DELIVERY]


# --- against a slow count ----------------------------------------------------------------------------------


def slow_algbw(fabric: Topology, schedule: StepSchedule) -> Fraction:
    """Chunk by chunk: an operation is what shares a link, a shard, a chunk and a step."""
    total = Fraction(0)
    ranks = np.flatnonzero(fabric.is_compute).tolist()
    ends = list(zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True))
    for steps in schedule.phases:
        for step in range(steps.n_steps):
            load = [0] * fabric.n_links
            served: dict[tuple[int, int, int, int], set[int]] = defaultdict(set)
            for send in range(steps.n_sends)[steps.span(step)]:
                way = int(steps.link[send])
                kind, links = int(steps.way_kinds[way]), steps.path(way).tolist()
                for chunk in range(int(steps.low[send]), int(steps.high[send])):
                    if kind:
                        own, shared = links[::-1] if kind == PathKind.COPY else links
                        served[shared, kind, int(steps.shard[send]), chunk].add(
                            ends[own][kind == PathKind.COPY]
                        )
                        load[own] += 1
                    else:
                        for link in links:
                            load[link] += 1
            for (shared, kind, _, _), nodes in served.items():
                load[shared] += 1
                switch = ends[shared][kind == PathKind.COPY]
                for rank in set(ranks) - nodes:
                    crossed = (switch, rank) if kind == PathKind.COPY else (rank, switch)
                    if crossed in ends and crossed[::-1] in ends:
                        load[ends.index(crossed)] += 1
            slowest = max(
                Fraction(load[link], int(fabric.bandwidths[link])) for link in range(fabric.n_links)
            )
            total += slowest / steps.n_chunks / steps.n_shards
    return 1 / total


CASES = [((4, 2), (2,)), ((4, 2), (1, 2)), ((4, 3), ()), ((6, 2), ())]


@pytest.mark.parametrize(("factors", "exchanged"), CASES)
def test_loads_against_a_slow_count(factors: tuple[int, ...], exchanged: tuple[int, ...]) -> None:
    fabric = asking_boxes(factors[-1], int(np.prod(factors[:-1])))
    schedule = asked(fabric, factors=factors, exchanged=exchanged, chunks=2)
    report = verify(fabric, on_all_ranks(fabric, K.ALLREDUCE), schedule)
    assert report.violations == ()
    assert report.algbw == slow_algbw(fabric, schedule) == step_cost.algbw(fabric, schedule)
