"""Breadth-first broadcasts from one root, send by send, and what they refuse."""

from __future__ import annotations

import re

import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb.breadth_first import backwards, bfb_broadcast, bfb_schedule, distances_from
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder

TAILS = [0, 0, 0, 1, 2, 1, 3, 3, 4]
HEADS = [1, 2, 2, 3, 3, 3, 4, 4, 0]


def fabric() -> Topology:
    """Into 1 one link, into 2 two; into 3 two from 1 and one from 2, into 4 two from 3; back to 0."""
    return from_arcs("odd", TAILS, HEADS, n=5)


def rows(steps: Steps) -> list[tuple[int, ...]]:
    columns = (steps.send_steps(), steps.link, steps.low, steps.high)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_every_node_uses_as_many_links_as_the_worst_of_its_step() -> None:
    """One in the first step, three in the second, two in the third: six chunks."""
    steps = bfb_broadcast(fabric(), 0)
    assert (steps.n_chunks, steps.n_steps, steps.homes.tolist()) == (6, 3, [0])
    assert rows(steps) == [
        (0, 0, 0, 6),
        (0, 1, 0, 6),
        (1, 3, 0, 2),
        (1, 4, 2, 4),
        (1, 5, 4, 6),
        (2, 6, 0, 3),
        (2, 7, 3, 6),
    ]
    from_three = bfb_broadcast(fabric(), 3)
    assert rows(from_three) == [(0, 6, 0, 1), (0, 7, 1, 2), (1, 8, 0, 2), (2, 0, 0, 2), (2, 1, 0, 2)]


def test_reductions_run_backwards_on_the_same_links() -> None:
    sends = [(0, 4, 0, 0, 2), (1, 5, 1, 0, 1), (1, 6, 1, 1, 2), (0, 7, 2, 0, 1)]
    turned = backwards(steps_from_sends(Direction.BROADCAST, 3, 2, sends))
    assert (turned.direction, turned.n_chunks) == (Direction.REDUCE, 2)
    columns = (turned.send_steps(), turned.shard, turned.link, turned.low, turned.high)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [
        (0, 0, 7, 0, 1),
        (1, 1, 5, 0, 1),
        (1, 1, 6, 1, 2),
        (2, 0, 4, 0, 2),
    ]
    made = bfb_schedule(fabric(), CollectiveKind.REDUCE, root=0)
    assert made.broadcast is None
    assert made.reduce is not None
    assert made.reduce.homes.tolist() == [0]
    # data of 1 and 2 go by 3 and 4: the transpose has 0, 4, 3, then 1 and 2
    assert rows(made.reduce)[0][0] == 0
    assert made.reduce.n_steps == 3
    assert {row[1] for row in rows(made.reduce) if row[0] == 2} == {8}
    whole = bfb_schedule(fabric(), CollectiveKind.BROADCAST, root=0)
    assert whole.broadcast == bfb_broadcast(fabric(), 0)
    assert whole.reduce is None


def test_distances_from_a_root() -> None:
    assert distances_from(fabric(), 0).tolist() == [0, 1, 1, 2, 3]
    assert distances_from(fabric(), 4).tolist() == [1, 2, 2, 3, 0]
    oneway = from_arcs("oneway", [0, 1], [1, 2], n=4)
    message = "oneway: there is no path from 'n0' to 'n3'"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        distances_from(oneway, 0)
    message = "oneway: there is no path from 'n1' to 'n0'"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        bfb_broadcast(oneway, 1)


@pytest.mark.parametrize(
    ("kind", "root", "words"),
    [
        (CollectiveKind.BROADCAST, None, "broadcast needs a root"),
        (CollectiveKind.REDUCE, None, "reduce needs a root"),
        (CollectiveKind.ALLGATHER, 0, "allgather has no root"),
        (CollectiveKind.BROADCAST, 5, "root 5: expected a rank from 0 to 4"),
        (CollectiveKind.REDUCE, -1, "root -1: expected a rank from 0 to 4"),
    ],
)
def test_roots_that_are_none(kind: CollectiveKind, root: int | None, words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{re.escape(words)}$"):
        bfb_schedule(fabric(), kind, root=root)


def test_one_root_needs_equal_links() -> None:
    builder = TopologyBuilder("mixed")
    for name in "ab":
        builder.compute(name)
    builder.link("a", "b", 1)
    builder.link("b", "a", 2)
    message = "mixed: breadth-first broadcast from one root needs equal links"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        bfb_broadcast(builder.build(), 0)
