"""Steps cut into parts: the same sends, fair parts, the most awaited first, beside a count by hand."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.step_transforms import pipelined, reverse, subdivide
from treadle.schedules.steps.steps import Steps
from treadle.schedules.steps.urgent_first import MOST_CELLS, urgent_first
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb.breadth_first import bfb_schedule
from treadle.topologies import parse
from treadle.topologies.topology import Topology

FABRICS = ["torus:3,4", "generalized_kautz:2,9", "hypercube:3", "ring:6"]


def broadcast(topology: Topology) -> Steps:
    found = bfb_schedule(topology, CollectiveKind.ALLGATHER, max_chunks=16).broadcast
    assert found is not None
    return pipelined(found, 2)


def sends(steps: Steps) -> list[tuple[int, int, int, int, int]]:
    columns = (steps.send_steps(), steps.shard, steps.link, steps.low, steps.high)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def gathered(steps: Steps, topology: Topology) -> dict[tuple[int, int, int, int, int], Fraction]:
    """Messages that came before, for each send of a reduction and chunk that it carries: one by one."""
    before = defaultdict(list)
    for step, shard, link, low, high in sends(steps):
        for chunk in range(low, high):
            before[int(topology.heads[link]), shard, chunk].append((step, int(topology.tails[link])))

    def behind(node: int, shard: int, chunk: int, step: int) -> int:
        came = [one for one in before[node, shard, chunk] if one[0] < step]
        return sum(1 + behind(tail, shard, chunk, earlier) for earlier, tail in came)

    return {
        (step, shard, link, low, high): Fraction(
            sum(behind(int(topology.tails[link]), shard, chunk, step) for chunk in range(low, high)),
            high - low,
        )
        for step, shard, link, low, high in sends(steps)
    }


@pytest.mark.parametrize("name", FABRICS)
def test_of_a_reduction_what_gathers_most_goes_last(name: str) -> None:
    topology, parts = parse(name), 3
    steps = reverse(broadcast(topology.transpose()))
    assert steps.direction is Direction.REDUCE
    cut, worth = urgent_first(steps, topology, parts), gathered(steps, topology)
    by_link = defaultdict(list)
    for step, shard, link, low, high in sends(cut):
        value = worth[step // parts, shard, link, low, high]
        by_link[step // parts, link].append((step % parts, value))
    seen = 0
    for rows in by_link.values():
        filled = [
            one for number in range(parts) if (one := {value for part, value in rows if part == number})
        ]
        seen += len({value for _, value in rows}) > 1
        assert all(max(one) <= min(other) for one, other in pairwise(filled))
    assert seen  # of some link some gather more than others
    backwards = topology.transpose()
    assert cut == reverse(urgent_first(reverse(steps), backwards, parts))


def test_too_large() -> None:
    topology = parse("ring:4")
    steps = broadcast(topology)
    fine = subdivide(steps, MOST_CELLS // (16 * steps.n_chunks) + 1)
    with pytest.raises(ScheduleError, match="use fewer chunks"):
        urgent_first(fine, topology, 2)
