"""Who sends what to whom, step by step and in which order, on a few ranks: read off the definitions."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes, on_a_switch
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction, TreeSpec, forest_from_trees
from treadle.synthesis.sizes.axis_exchange import axis_exchange
from treadle.synthesis.sizes.box_phases import steps_of_trees
from treadle.synthesis.sizes.exchanges import bruck, direct, far_first, on_axis, ring, sends_of
from treadle.synthesis.sizes.factor_allreduce import factor_allreduce
from treadle.synthesis.sizes.factor_exchange import factor_exchange
from treadle.synthesis.sizes.leaders import leader_rounds
from treadle.synthesis.sizes.routed_rounds import _on_torus, _swinging, _trebling
from treadle.synthesis.sizes.scatter_chunks import gather_chunks, scatter_chunks
from treadle.topologies import parse
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


def digits(number: int, radices: tuple[int, ...]) -> tuple[int, ...]:
    """The last digit first."""
    found = []
    for radix in radices:
        found.append(number % radix)
        number //= radix
    return tuple(found)


def factor_rows(radices: tuple[int, ...], exchanged: set[int], *, gathers: bool) -> list[Row]:
    """Partial sums are scattered or exchanged over the factors; sums are gathered from the last one back.

    In each everybody sends to the one after it first; a shard goes from who has it: who agrees with its
    number in the factors that are scattered so far.
    """
    n, kept = prod(radices), tuple(1 if f in exchanged else r for f, r in enumerate(radices))
    found: list[Row] = []
    factors = [f for f in range(len(radices)) if not gathers or f not in exchanged]
    for step, factor in enumerate(factors[::-1] if gathers else factors):
        before = [f for f in range(factor + gathers) if f not in exchanged]
        for shift, sender, shard in product(range(1, radices[factor]), range(n), range(prod(kept))):
            mine, wanted = digits(sender, radices), digits(shard, kept)
            weight = prod(radices[:factor])
            place = (mine[factor] + shift) % radices[factor]
            target = sender + (place - mine[factor]) * weight
            has = all(mine[f] == wanted[f] for f in before)
            if has and (gathers or factor in exchanged or place == wanted[factor]):
                found.append((step, shard, sender, target))
    return found


@pytest.mark.parametrize(
    ("radices", "exchanged"), [((2, 3), (2,)), ((3, 2), ()), ((2, 3), (1,)), ((2, 2, 3), (2,)), ((6,), ())]
)
def test_factors_are_gone_through_in_order(radices: tuple[int, ...], exchanged: tuple[int, ...]) -> None:
    fabric = on_a_switch(prod(radices))
    made = factor_allreduce(fabric, on_all_ranks(fabric, K.ALLREDUCE), factors=radices, exchanged=exchanged)
    places = {place - 1 for place in exchanged}
    assert rows(fabric, made.reduce) == factor_rows(radices, places, gathers=False)
    assert rows(fabric, made.broadcast) == factor_rows(radices, places, gathers=True)


def test_ranks_are_numbered_box_by_box() -> None:
    """Boxes of ranks 0 to 2 and 3 to 5: by default scattered in the boxes, exchanged between them."""
    fabric = in_boxes(3, 3)
    made = factor_allreduce(fabric, on_all_ranks(fabric, K.ALLREDUCE))
    assert rows(fabric, made.reduce) == factor_rows((3, 2), {1}, gathers=False)
    assert rows(fabric, made.broadcast) == factor_rows((3, 2), {1}, gathers=True)
    cut = factor_allreduce(fabric, on_all_ranks(fabric, K.ALLREDUCE), chunks=2).reduce
    assert cut is not None
    assert cut.n_chunks == 2
    assert cut.n_steps == 3


def axis_rows(sides: tuple[int, ...], exchanged: set[int], *, gathers: bool) -> list[Row]:
    """As `factor_rows`, for a part of the data for each axis that goes first; the farthest ranks first."""
    count, ranks = len(sides), list(product(*map(range, sides)))
    orders = [[*range(first, count), *range(first)] for first in range(count)]
    places = [p for p in range(count) if p not in exchanged] if gathers else list(range(count))
    found: list[Row] = []
    for step, place in enumerate(places[::-1] if gathers else places):
        for part, order in enumerate(orders):
            scattered = [axis for p, axis in enumerate(order) if p not in exchanged]
            shards = list(product(*(range(sides[axis]) for axis in scattered)))
            axis = order[place]
            side = sides[axis]
            before = [a for a in scattered if order.index(a) < place + gathers]
            for shift in sorted(range(1, side), key=lambda one: -min(one, side - one)):
                for number, shard in enumerate(shards):
                    for sender, at in enumerate(ranks):
                        there = tuple((x + shift) % side if a == axis else x for a, x in enumerate(at))
                        has = all(at[a] == shard[scattered.index(a)] for a in before)
                        one = not gathers and place not in exchanged
                        if has and (not one or there[axis] == shard[scattered.index(axis)]):
                            found.append((step, part * len(shards) + number, sender, ranks.index(there)))
    return found


@pytest.mark.parametrize(
    ("sides", "exchanged"),
    [
        ((3, 4), None),
        ((5,), None),
        ((5,), ()),
        ((3, 3), (2,)),
        ((3, 3), (1,)),
        ((4, 4), ()),
        ((2, 3), (1, 2)),
    ],
)
def test_axes_are_gone_through_in_turn(sides: tuple[int, ...], exchanged: tuple[int, ...] | None) -> None:
    fabric = parse(f"torus({', '.join(map(str, sides))})")
    made = axis_exchange(fabric, on_all_ranks(fabric, K.ALLREDUCE), exchanged=exchanged)
    places = set(range(len(sides))) if exchanged is None else {place - 1 for place in exchanged}
    assert rows(fabric, made.reduce) == axis_rows(sides, places, gathers=False)
    assert rows(fabric, made.broadcast) == axis_rows(sides, places, gathers=True)
    assert made.reduce is not None
    parts = len(sides)
    scattered = prod(side for place, side in enumerate(sides) if place not in places)
    assert made.reduce.n_shards == parts * scattered


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


def test_digits_of_ranks_and_of_distances() -> None:
    """Of 6 ranks in base (2, 3) shards go by the target's digits; in (2, 2, 2) by those of the distance."""
    fabric = on_a_switch(6)
    collective = on_all_ranks(fabric, K.ALLTOALL)
    pairs = [(source, target) for source in range(6) for target in range(6) if source != target]
    made = factor_exchange(fabric, collective, factors=(2, 3)).sends
    expected = [(0, i, s, s - s % 2 + t % 2) for i, (s, t) in enumerate(pairs) if s % 2 != t % 2]
    expected += [(1, i, s - s % 2 + t % 2, t) for i, (s, t) in enumerate(pairs) if s // 2 != t // 2]
    assert rows(fabric, made) == expected
    made = factor_exchange(fabric, collective, factors=(2, 2, 2)).sends
    expected = []
    for digit in range(3):
        for i, (source, target) in enumerate(pairs):
            apart = (target - source) % 6
            at = (source + apart % 2**digit) % 6
            if apart >> digit & 1:
                expected.append((digit, i, at, (at + 2**digit) % 6))
    assert rows(fabric, made) == expected


def test_rounds_of_seven() -> None:
    ranks = np.arange(7)
    assert [one.tolist() for one in direct(3)] == [[[1, 2, 0], [2, 0, 1]]]
    assert direct(1) == []
    assert bruck(1) == []
    assert ring(1) == []
    assert [one.tolist() for one in ring(3)] == [[[1, 2, 0]]] * 2
    found = bruck(7, 3)
    assert [one.tolist() for one in found] == [
        [((ranks + 1) % 7).tolist(), ((ranks + 2) % 7).tolist()],
        [((ranks + 3) % 7).tolist(), ((ranks + 6) % 7).tolist()],
    ]
    assert [one.tolist() for one in far_first(7, 3)] == [one.tolist() for one in found[::-1]]
    assert [len(one) for one in bruck(5, 3)] == [2, 1]  # 6 is beyond 5
    assert on_axis((2, 3), 1, np.array([[1, 2, 0], [2, 0, 1]])).tolist() == [
        [1, 2, 0, 4, 5, 3],
        [2, 0, 1, 5, 3, 4],
    ]
    assert on_axis((2, 3), 0, np.array([[1, 0]])).tolist() == [[3, 4, 5, 0, 1, 2]]


def test_each_shard_comes_once_by_the_first_message_that_brings_it() -> None:
    """Rounds of distances 1 and 2 at once, then of 1 again, among 4; rank 3 waits at first."""
    rounds = [np.array([[1, 2, 3, 3], [2, 3, 0, 1]]), np.array([[1, 2, 3, 0]])]
    first, second = (list(zip(*(c.tolist() for c in one), strict=True)) for one in sends_of(rounds, 4))
    assert first == [(0, 1, 0), (1, 2, 1), (2, 3, 2), (0, 2, 0), (1, 3, 1), (2, 0, 2), (3, 1, 3)]
    assert second == [(2, 3, 0), (3, 0, 1), (0, 1, 2), (1, 2, 3), (3, 0, 3)]


def test_rounds_of_swing_and_trivance() -> None:
    """Distances 1, -1 and 3 of even ranks, the other way of odd ones; 9, 3 and 1 to both sides."""
    assert [one.tolist() for one in _swinging(8, way=1)] == [
        [[3, 6, 5, 0, 7, 2, 1, 4]],
        [[7, 2, 1, 4, 3, 6, 5, 0]],
        [[1, 0, 3, 2, 5, 4, 7, 6]],
    ]
    assert [one.tolist() for one in _swinging(4, way=-1)] == [[[1, 0, 3, 2]], [[3, 2, 1, 0]]]
    assert [[row[0] for row in one.tolist()] for one in _trebling(10)] == [[1, 9], [3, 7], [1, 9]]
    assert [[row[0] for row in one.tolist()] for one in _trebling(9)] == [[3, 6], [1, 8]]
    assert [one.tolist() for one in _trebling(2)] == [[[1, 0]]]
    assert [one.tolist() for one in _trebling(3)] == [[[1, 2, 0], [2, 0, 1]]]


def test_axes_of_fewer_levels_come_in_later() -> None:
    """Distances 3 and 1 on the side of 5, 1 on that of 2: the latter beside the last level of the former."""
    first, second = _on_torus(parse("torus(5, 2)"), _trebling)
    far = [(rank + 6) % 10 for rank in range(10)], [(rank + 4) % 10 for rank in range(10)]
    near = [(rank + 2) % 10 for rank in range(10)], [(rank + 8) % 10 for rank in range(10)]
    short = [[rank ^ 1 for rank in range(10)]]
    long = [sorted(map(list, far), key=lambda row: row[0]), sorted(map(list, near), key=lambda row: row[0])]
    assert [one.tolist() for one in first] == [*long, short]
    assert [one.tolist() for one in second] == [long[0], short, long[1]]


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


def test_collectives_of_some_ranks_keep_their_order() -> None:
    """Ranks 2 and 0 of three, of which the other forwards."""
    fabric = on_a_switch(3)
    zero, one, two = fabric.compute_nodes.tolist()
    some = Collective(K.ALLREDUCE, (two, zero), forwarders=(one,))
    made = factor_allreduce(fabric, some).reduce
    assert rows(fabric, made) == [(0, 0, 2, 0), (0, 0, 0, 2)]
