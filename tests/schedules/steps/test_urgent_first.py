"""Steps cut into parts: the same sends, fair parts, the most awaited first, beside a count by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import solve
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.step_transforms import pipelined, reverse, subdivide
from treadle.schedules.steps.steps import Steps, StepSchedule, steps_from_sends
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


def waiting(steps: Steps, topology: Topology) -> list[Fraction]:
    """Chunks that others get because of each send, per chunk that it carries: followed one by one."""
    after = defaultdict(list)
    for step, shard, link, low, high in sends(steps):
        for chunk in range(low, high):
            after[int(topology.tails[link]), shard, chunk].append((step, int(topology.heads[link])))

    def behind(node: int, shard: int, chunk: int, step: int) -> int:
        onward = [one for one in after[node, shard, chunk] if one[0] > step]
        return sum(1 + behind(head, shard, chunk, later) for later, head in onward)

    return [
        Fraction(
            sum(behind(int(topology.heads[link]), shard, chunk, step) for chunk in range(low, high)),
            high - low,
        )
        for step, shard, link, low, high in sends(steps)
    ]


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_the_most_awaited_goes_first(name: str, parts: int) -> None:
    topology = parse(name)
    steps = broadcast(topology)
    cut = urgent_first(steps, topology, parts)
    assert cut.n_steps == parts * steps.n_steps
    assert Counter((step // parts, *rest) for step, *rest in sends(cut)) == Counter(sends(steps))
    by_link = defaultdict(list)
    worth = dict(zip(sends(steps), waiting(steps, topology), strict=True))
    for step, shard, link, low, high in sends(cut):
        by_link[step // parts, link].append(
            (step % parts, worth[step // parts, shard, link, low, high], high - low)
        )
    for rows in by_link.values():
        parted = [{value for part, value, _ in rows if part == number} for number in range(parts)]
        filled = [one for one in parted if one]
        assert all(min(one) >= max(other) for one, other in pairwise(filled))
        whole, most = sum(size for *_, size in rows), max(size for *_, size in rows)
        for number in range(parts):
            here = sum(size for part, _, size in rows if part == number)
            assert abs(Fraction(here) - Fraction(whole, parts)) <= most


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


def test_a_chain_before_a_dead_end() -> None:
    # from rank 0 to 1 goes one's own shard 0, which ends there, and shard 3, which goes on to rank 2
    topology = parse("ring:4")
    links = {
        (int(tail), int(head)): number
        for number, (tail, head) in enumerate(zip(topology.tails, topology.heads, strict=True))
    }
    rows = [(3, (3, 0), 0), (0, (0, 1), 1), (3, (0, 1), 1), (3, (1, 2), 2)]
    steps = steps_from_sends(
        Direction.BROADCAST, 4, 1, [(shard, links[ends], step, 0, 1) for shard, ends, step in rows]
    )
    kept = sends(steps)
    assert waiting(steps, topology) == [2, 0, 1, 0]
    cut = urgent_first(steps, topology, 2)
    of_step = {(shard, link): step for step, shard, link, *_ in sends(cut)}
    assert of_step[3, links[0, 1]] == 2
    assert of_step[0, links[0, 1]] == 3
    assert sends(urgent_first(steps, topology, 1)) == kept
    assert np.array_equal(urgent_first(steps, topology, 1).link, steps.link)


@pytest.mark.parametrize("parts", [0, -2])
def test_no_parts(parts: int) -> None:
    topology = parse("ring:4")
    with pytest.raises(ScheduleError, match="at least 1"):
        urgent_first(broadcast(topology), topology, parts)


def test_too_large() -> None:
    topology = parse("ring:4")
    steps = broadcast(topology)
    fine = subdivide(steps, MOST_CELLS // (16 * steps.n_chunks) + 1)
    with pytest.raises(ScheduleError, match="use fewer chunks"):
        urgent_first(fine, topology, 2)


def test_sums_that_are_exchanged_stay_whole() -> None:
    found = solve("mi250(2)", "allreduce", algorithm="box-trees", chunks=2, parts=4).plan.schedule_for(1)
    plain = solve("mi250(2)", "allreduce", algorithm="box-trees", chunks=2).plan.schedule_for(1)
    assert isinstance(found, StepSchedule)
    assert isinstance(plain, StepSchedule)
    assert found.reduce == plain.reduce
    assert found.broadcast is not None
    assert plain.broadcast is not None
    assert found.broadcast.n_steps == 4 * plain.broadcast.n_steps
