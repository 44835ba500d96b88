"""Who sends what to whom, step by step and in which order, on a few ranks: read off the definitions."""

from __future__ import annotations

from itertools import product

import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction, TreeSpec, forest_from_trees
from treadle.synthesis.sizes.box_phases import steps_of_trees
from treadle.synthesis.sizes.leaders import leader_rounds
from treadle.synthesis.sizes.scatter_chunks import gather_chunks, scatter_chunks
from treadle.topologies.topology import Topology

K = CollectiveKind
Row = tuple[int, ...]
"""Step, shard, sender and target; or first and last chunk of a shard besides."""


def rows(fabric: Topology, steps: Steps | None, *, chunks: bool = False) -> list[Row]:
    assert steps is not None
    rank = {node: number for number, node in enumerate(fabric.compute_nodes.tolist())}
    found = []
    for send, step in enumerate(steps.send_steps().tolist()):
        links = steps.path(int(steps.link[send]))
        ends = rank[int(fabric.tails[links[0]])], rank[int(fabric.heads[links[-1]])]
        part = (int(steps.low[send]), int(steps.high[send])) if chunks else ()
        found.append((step, int(steps.shard[send]), *ends, *part))
    return found


def test_carriers_and_receivers_of_three_boxes() -> None:
    """Boxes of ranks 0 to 3, 4 to 7 and 8 to 11; first the lower halves carry for the upper ones."""
    fabric = in_boxes(4, 4, 4)
    made = leader_rounds(fabric, on_all_ranks(fabric, K.ALLREDUCE))
    sums = rows(fabric, made.reduce)

    def pairs(step: int, half: int) -> list[Row]:
        return [row[2:] for row in sums if row[:2] == (step, half)]

    own = [(0, 2), (1, 3), (4, 6), (5, 7), (8, 10), (9, 11)]
    back = [(target, sender) for sender, target in own]
    crossed = [(2, 1), (3, 0), (6, 5), (7, 4), (10, 9), (11, 8)]
    beside = [(0, 1), (1, 0), (4, 5), (5, 4), (8, 9), (9, 8)]
    assert pairs(0, 0) == [*own, *back, *crossed, *beside]
    assert pairs(1, 0) == [(0, 6), (4, 10), (8, 2), (1, 11), (5, 3), (9, 7)]
    assert pairs(2, 0) == [(2, 3), (3, 2), (6, 7), (7, 6), (10, 11), (11, 10)]
    # the other half: the roles change
    turned = {rank: rank + 2 if rank % 4 < 2 else rank - 2 for rank in range(12)}
    for step in range(3):
        assert pairs(step, 1) == [(turned[one], turned[other]) for one, other in pairs(step, 0)]
    assert rows(fabric, made.broadcast) == [
        *((0, 0, sender, target) for sender, target in back),
        *((0, 1, sender, target) for sender, target in own),
    ]
    assert made.reduce is not None
    assert [homes.tolist() for homes in made.reduce.all_owners] == [
        [rank, turned[rank]] for rank in (2, 3, 6, 7, 10, 11)
    ]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_pieces_for_other_boxes_come_before_the_box_s_own(count: int) -> None:
    """Three boxes of two: piece i for the box at distance d in step 2 i + d - 1, across in the next one."""
    fabric, boxes = in_boxes(2, 2, 2), [(0, 1), (2, 3), (4, 5)]
    expected: list[Row] = []
    for piece, distance in product(range(count), (1, 2)):
        step = 2 * piece + distance - 1
        homes = [boxes[(box + distance) % 3] for box in range(3)]
        for box, (one, other) in enumerate(boxes):
            expected.append((step, homes[box][1], one, other, piece, piece + 1))
            expected.append((step, homes[box][0], other, one, piece, piece + 1))
        for box, (one, other) in enumerate(boxes):
            expected.append((step + 1, homes[box][0], one, homes[box][0], piece, piece + 1))
            expected.append((step + 1, homes[box][1], other, homes[box][1], piece, piece + 1))
    for one, other in boxes:
        expected += [(2 * count, other, one, other, 0, count), (2 * count, one, other, one, 0, count)]
    made = scatter_chunks(fabric, on_all_ranks(fabric, K.REDUCE_SCATTER), chunks=count)
    assert rows(fabric, made.reduce, chunks=True) == sorted(expected, key=lambda row: row[0])
    turned = gather_chunks(fabric, on_all_ranks(fabric, K.ALLGATHER), chunks=count).broadcast
    last = 2 * count
    assert sorted(rows(fabric, turned, chunks=True)) == sorted(
        (last - step, shard, target, sender, *part) for step, shard, sender, target, *part in expected
    )


def test_ranks_of_a_box_of_three_begin_with_the_one_after_them() -> None:
    fabric = in_boxes(3, 3)
    made = scatter_chunks(fabric, on_all_ranks(fabric, K.REDUCE_SCATTER), chunks=1).reduce
    last = [row[1:] for row in rows(fabric, made) if row[0] == 1][6:]
    assert last == [
        *((1, 0, 1), (2, 1, 2), (0, 2, 0), (4, 3, 4), (5, 4, 5), (3, 5, 3)),
        *((2, 0, 2), (0, 1, 0), (1, 2, 1), (5, 3, 5), (3, 4, 3), (4, 5, 4)),
    ]


def test_units_of_trees_follow_each_other_and_paths_share_them() -> None:
    """From 0 two units go to 1 over two links, and on to 2; a third one straight to both."""
    chain = TreeSpec(0, 2, [-1, 0, 1], {1: [((0,), 1), ((5,), 1)], 2: [((2,), 2)]})
    star = TreeSpec(0, 1, [-1, 0, 0], {1: [((0,), 1)], 2: [((1,), 1)]})
    others = [
        TreeSpec(1, 3, [2, -1, 1], {2: [((2,), 3)], 0: [((4,), 3)]}),
        TreeSpec(2, 3, [2, 2, -1], {0: [((4,), 3)], 1: [((3,), 3)]}),
    ]
    steps = steps_of_trees(forest_from_trees(Direction.BROADCAST, 3, [chain, star, *others]))
    columns = (steps.send_steps(), steps.shard, steps.link, steps.low, steps.high)
    assert sorted(zip(*(column.tolist() for column in columns), strict=True)) == [
        (0, 0, 0, 0, 1),
        (0, 0, 0, 2, 3),
        (0, 0, 1, 2, 3),
        (0, 0, 5, 1, 2),
        (0, 1, 2, 0, 3),
        (0, 2, 3, 0, 3),
        (0, 2, 4, 0, 3),
        (1, 0, 2, 0, 2),
        (1, 1, 4, 0, 3),
    ]
    assert steps.n_chunks == 3
