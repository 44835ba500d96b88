"""Parents and paths of the baselines' trees on odd fabrics, from their definitions; what they refuse."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes, on_a_switch
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.synthesis.trees.baselines.blink import best_root
from treadle.synthesis.trees.baselines.double_binary_tree import double_binary_tree, double_tree
from treadle.synthesis.trees.baselines.embedding import ForestBuilder
from treadle.synthesis.trees.baselines.halving_doubling import halving_doubling
from treadle.synthesis.trees.baselines.hierarchical_ring import hierarchical_ring
from treadle.synthesis.trees.baselines.logical_hops import Router
from treadle.synthesis.trees.baselines.nvls import nvls
from treadle.synthesis.trees.baselines.ring import ring
from treadle.synthesis.trees.tree_parts import single_path_trees
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def trees_of(
    schedule: ForestSchedule, direction: Direction = Direction.BROADCAST
) -> list[tuple[int, int, list[int]]]:
    """Root, units and parents of each tree."""
    forest = schedule.broadcast if direction is Direction.BROADCAST else schedule.reduce
    assert isinstance(forest, Forest)
    assert forest.direction is direction
    return [(spec.root, spec.multiplicity, list(spec.parent)) for spec in single_path_trees(forest)]


def gather(topology: Topology, *, weights: tuple[int, ...] | None = None) -> Collective:
    return Collective(K.ALLGATHER, tuple(topology.compute_nodes.tolist()), weights=weights)


@pytest.mark.parametrize(
    ("n", "first", "second"),
    [
        (1, [-1], [-1]),
        (2, [-1, 0], [1, -1]),
        (3, [-1, 2, 0], [1, -1, 0]),
        (6, [-1, 2, 4, 2, 0, 4], [1, 5, 3, 1, 3, -1]),
        (7, [-1, 2, 4, 2, 0, 6, 4], [5, -1, 3, 5, 3, 1, 0]),
    ],
)
def test_two_binary_trees(n: int, first: list[int], second: list[int]) -> None:
    assert double_tree(n) == (first, second)


@pytest.mark.parametrize("n", [*range(3, 20), 64, 65])
def test_leaves_of_one_tree_are_inner_nodes_of_the_other(n: int) -> None:
    """But for one or two; nobody has more than two children, and paths halve."""
    inner = []
    for parent in double_tree(n):
        assert parent.count(-1) == 1
        counts = np.bincount([above for above in parent if above >= 0], minlength=n)
        assert counts.max() <= 2
        inner.append(counts > 0)
        for rank in range(n):
            hops = 0
            while parent[rank] >= 0:
                rank, hops = parent[rank], hops + 1
                assert hops <= n.bit_length()
    assert (inner[0] == inner[1]).sum() <= 2


def test_double_trees_over_boxes() -> None:
    """Boxes of three and two: two pairs of trees, into a box at place j and round it from there."""
    fabric = in_boxes(3, 2, 3)
    found = double_binary_tree(fabric, on_all_ranks(fabric, K.BROADCAST, root=4))
    assert trees_of(found) == [(4, 1, turned(parents, 4)) for parents in THREE_BOXES]


THREE_BOXES = [
    [-1, 0, 1, 5, 3, 0, 5, 6],
    [3, 0, 1, -1, 3, 0, 5, 6],
    [2, -1, 1, 4, 6, 7, 1, 6],
    [2, 4, 1, 4, -1, 7, 1, 6],
]
"""Heads 0, 3 and 5 of lane 0, then 1, 4 and 6 of lane 1; each box is gone round from its head.

Of the boxes 0 is above 2 and that above 1 in the first tree, 1 above 0 above 2 in the other.
"""


def turned(parent: list[int], root: int) -> list[int]:
    """The same edges away from another root."""
    edges = {rank: {above} if above >= 0 else set() for rank, above in enumerate(parent)}
    for rank, above in enumerate(parent):
        if above >= 0:
            edges[above].add(rank)
    found, order = [-1] * len(parent), [root]
    for rank in order:
        for other in sorted(edges[rank] - {found[rank]}):
            found[other] = rank
            order.append(other)
    return found


def test_double_trees_of_one_box() -> None:
    """Over its ranks; of an allreduce each tree has its own root."""
    found = double_binary_tree(on_a_switch(6), on_all_ranks(on_a_switch(6), K.ALLREDUCE))
    wanted = [(0, 1, [-1, 2, 4, 2, 0, 4]), (5, 1, [1, 5, 3, 1, 3, -1])]
    assert trees_of(found) == trees_of(found, Direction.REDUCE) == wanted


def test_doubling() -> None:
    """The farthest rank first: rank r has it from r with its lowest bit away from the root turned."""
    fabric = on_a_switch(4)
    found = halving_doubling(fabric, gather(fabric, weights=(0, 3, 2, 1)))
    assert trees_of(found) == [(1, 3, [1, -1, 3, 1]), (2, 2, [2, 0, -1, 2]), (3, 1, [1, 3, 3, -1])]


@pytest.mark.parametrize(
    ("make", "n", "words"),
    [
        (halving_doubling, 6, "halving-doubling: expected a power of two ranks, found 6; use ring instead"),
        (nvls, 2, "nvls: expected at least 3 ranks, found 2; use ring instead"),
        (
            nvls,
            3,
            "nvls: expected a GPU-initiated switch that copies and adds up and joins all ranks, "
            "as in 'dgx_h100(1, nvls=True)'",
        ),
    ],
)
def test_numbers_of_ranks_that_are_refused(make: object, n: int, words: str) -> None:
    assert callable(make)
    fabric = on_a_switch(n)
    with pytest.raises(ScheduleError) as refused:
        make(fabric, on_all_ranks(fabric, K.ALLREDUCE))
    assert str(refused.value) == words


def test_kinds_that_are_refused() -> None:
    fabric = on_a_switch(4)
    with pytest.raises(ScheduleError) as refused:
        halving_doubling(fabric, on_all_ranks(fabric, K.BROADCAST, root=0))
    assert str(refused.value) == (
        "halving-doubling: broadcast is not supported; it supports allgather, reduce-scatter, allreduce"
    )


def test_boxes_of_several_sizes_are_refused() -> None:
    fabric = in_boxes(3, 2, 3)
    with pytest.raises(ScheduleError) as refused:
        hierarchical_ring(fabric, gather(fabric))
    assert str(refused.value) == (
        "hierarchical-ring: expected boxes of one size, found [2, 3]; use ring instead"
    )


def test_rings_across_boxes_then_inside() -> None:
    """Root 4 has place 1 of box 1: over place 1 of the boxes upwards, then upwards round each box."""
    fabric = in_boxes(3, 3, 3)
    found = hierarchical_ring(fabric, gather(fabric, weights=(0, 0, 0, 0, 2, 0, 0, 0, 1)))
    assert trees_of(found) == [
        (4, 2, [2, 7, 1, 5, -1, 4, 8, 4, 7]),
        (8, 1, [2, 0, 8, 5, 3, 2, 8, 6, -1]),
    ]


def test_rings_both_ways_where_boxes_have_them() -> None:
    """Boxes of three in a ring of direct links: the second lane goes the other way round boxes and ranks."""
    builder = TopologyBuilder("linked")
    builder.switch("network")
    for box in range(3):
        for place in range(3):
            builder.compute(f"g{box}.{place}")
            builder.duplex(f"g{box}.{place}", "network", 1)
        for place in range(3):
            builder.duplex(f"g{box}.{place}", f"g{box}.{(place + 1) % 3}", 9)
    fabric = builder.build()
    found = hierarchical_ring(fabric, gather(fabric, weights=(0, 0, 0, 0, 1, 0, 0, 0, 0)))
    assert trees_of(found) == [
        (4, 1, [2, 7, 1, 5, -1, 4, 8, 4, 7]),
        (4, 1, [1, 4, 0, 4, -1, 3, 7, 1, 6]),
    ]


def test_rings_of_unequal_shards() -> None:
    """Ranks without a shard have no tree; the others' go once round each ring."""
    fabric = in_boxes(2, 2)
    found = ring(fabric, gather(fabric, weights=(3, 0, 0, 1)))
    orders = [[0, 1, 3, 2], [1, 0, 2, 3]]
    wanted = []
    for root, units in ((0, 3), (3, 1)):
        for order in orders:
            parent = [-1] * 4
            for above, rank in pairwise([*order, *order]):
                parent[rank] = above
            parent[root] = -1
            wanted.append((root, units, parent))
    assert trees_of(found) == wanted


def test_rings_that_pass_other_ranks() -> None:
    """On a line the hop from the last rank to the first passes all others: as the line's own trees."""
    builder = TopologyBuilder("line")
    for name in "abc":
        builder.compute(name)
    builder.duplex("a", "b", 5)
    builder.duplex("b", "c", 5)
    fabric = builder.build()
    wanted = [(0, 2, [-1, 0, 1]), (1, 1, [1, -1, 1])]
    found = trees_of(ring(fabric, gather(fabric, weights=(2, 1, 0))))
    assert found == sorted(wanted * (len(found) // 2))


def nvls_box(*, second: bool) -> Topology:
    """Ranks a, b, c at switch s (6 and, of b's link down, 4 bytes/s), and at t (10) if wanted."""
    builder = TopologyBuilder("box")
    for name in "abc":
        builder.compute(name)
    builder.switch("s", multicast=True, aggregation=True)
    for name in "abc":
        builder.link(name, "s", 6)
        builder.link("s", name, 4 if name == "b" else 6)
    if second:
        builder.switch("t", multicast=True, aggregation=True)
        for name in "abc":
            builder.duplex(name, "t", 10)
    return builder.build()


def test_stars_through_switches() -> None:
    """Links up are 0, 2, 4 (6, 8, 10 of t), links down one more; s is 2 units wide and t 5."""
    fabric = nvls_box(second=True)
    found = nvls(fabric, Collective(K.ALLGATHER, (2, 0, 1), weights=(1, 0, 3)))
    assert found.broadcast is not None
    specs = list(single_path_trees(found.broadcast))
    assert [(spec.root, spec.multiplicity, list(spec.parent)) for spec in specs] == [
        (0, 2, [-1, 0, 0]),
        (0, 5, [-1, 0, 0]),
        (2, 6, [2, 2, -1]),
        (2, 15, [2, 2, -1]),
    ]
    assert [spec.paths for spec in specs] == [
        {1: [((4, 1), 2)], 2: [((3,), 2)]},
        {1: [((10, 7), 5)], 2: [((9,), 5)]},
        {0: [((2, 5), 6)], 1: [((1,), 6)]},
        {0: [((8, 11), 15)], 1: [((7,), 15)]},
    ]
    summed = nvls(nvls_box(second=False), Collective(K.REDUCE_SCATTER, (2, 0, 1), weights=(1, 0, 3)))
    assert summed.reduce is not None
    assert summed.broadcast is None
    specs = list(single_path_trees(summed.reduce))
    # one lane is one unit wide, whatever its bandwidth
    assert [spec.paths for spec in specs] == [
        {1: [((0, 5), 1)], 2: [((2,), 1)]},
        {0: [((4, 3), 3)], 1: [((0,), 3)]},
    ]


@pytest.mark.parametrize(
    ("kind", "multicast", "aggregation", "what"),
    [
        (K.ALLGATHER, False, True, "copies"),
        (K.REDUCE_SCATTER, True, False, "adds up"),
        (K.ALLREDUCE, True, False, "copies and adds up"),
        (K.ALLREDUCE, False, True, "copies and adds up"),
    ],
)
def test_switches_that_lack_an_operation(
    kind: CollectiveKind, multicast: bool, aggregation: bool, what: str
) -> None:
    builder = TopologyBuilder("star")
    builder.switch("s", multicast=multicast, aggregation=aggregation)
    for name in "abc":
        builder.duplex(builder.compute(name), "s", 5)
    fabric = builder.build()
    with pytest.raises(ScheduleError) as refused:
        nvls(fabric, on_all_ranks(fabric, kind))
    assert str(refused.value) == (
        f"nvls: expected a GPU-initiated switch that {what} and joins all ranks, "
        f"as in 'dgx_h100(1, nvls=True)'"
    )
    other = {K.ALLGATHER: K.REDUCE_SCATTER, K.REDUCE_SCATTER: K.ALLGATHER}.get(kind)
    if other is not None:
        assert nvls(fabric, on_all_ranks(fabric, other)).kind is other


def test_the_root_that_reduces_and_broadcasts_fastest() -> None:
    """1/reduce + 1/broadcast: into and out of the root and the others; the lowest of equals."""
    builder = TopologyBuilder("line")
    for name in "abc":
        builder.compute(name)
    for tail, head, bandwidth in (("a", "b", 2), ("b", "a", 3), ("b", "c", 6), ("c", "b", 1)):
        builder.link(tail, head, bandwidth)
    fabric = builder.build()
    # a: 1/1 + 1/2, b: 1/1 + 1/3, c: 1/2 + 1/1
    assert best_root(fabric, gather(fabric)) == 1
    assert best_root(fabric, Collective(K.ALLGATHER, (1, 2, 0), weights=(0, 0, 1))) == 0
    assert best_root(fabric.transpose(), gather(fabric)) == 1
    assert best_root(on_a_switch(3), gather(on_a_switch(3))) == 0


def line_of_four() -> Topology:
    """a - b - c - d, where b and c are ranks as well."""
    builder = TopologyBuilder("line")
    for name in "abcd":
        builder.compute(name)
    for one, other in ("ab", "bc", "cd"):
        builder.duplex(one, other, 5)
    return builder.build()


def test_ranks_on_the_way_keep_what_they_pass_on() -> None:
    """Hops 0 -> 3 and 0 -> 2 pass ranks, which have the data by then: 0 -> 1 -> 2 -> 3."""
    fabric = line_of_four()
    builder = ForestBuilder(fabric, gather(fabric))
    builder.add_logical(0, 3, [-1, 2, 0, 0])
    builder.add_logical(3, 1, [1, 2, 3, -1])
    (first, second) = single_path_trees(builder.build())
    assert (first.root, first.multiplicity, list(first.parent)) == (0, 3, [-1, 0, 1, 2])
    assert first.paths == {1: [((0,), 3)], 2: [((2,), 3)], 3: [((4,), 3)]}
    assert (second.root, second.multiplicity, list(second.parent)) == (3, 1, [1, 2, 3, -1])
    assert second.paths == {0: [((1,), 1)], 1: [((3,), 1)], 2: [((5,), 1)]}


def test_trees_are_sorted_by_root() -> None:
    fabric = on_a_switch(3)
    builder = ForestBuilder(fabric, gather(fabric))
    builder.add_logical(2, 4, [2, 0, -1])
    builder.add_logical(0, 1, [-1, 0, 0])
    builder.add_logical(2, 2, [1, 2, -1])
    forest = builder.build()
    assert forest.root_multiplicity.tolist() == [1, 0, 6]
    assert [
        (root, units) for root, units in zip(forest.tree_root, forest.tree_multiplicity, strict=True)
    ] == [
        (0, 1),
        (2, 4),
        (2, 2),
    ]
    assert forest.n_paths == 5  # 0 -> 1 is the same hop in two trees
    assert builder.path_number((0, 3)) == builder.path_number((0, 3)) == 1


def test_routes_by_length_width_and_load() -> None:
    """From a to b: over s or t, which are as wide, by turns; u is narrow, v on a longer way."""
    builder = TopologyBuilder("ways")
    builder.compute("a")
    builder.compute("b")
    for name, bandwidth in (("s", 8), ("t", 8), ("u", 3)):
        builder.switch(name)
        builder.link("a", name, 20)
        builder.link(name, "b", bandwidth)
    builder.switch("v")
    builder.link("a", "v", 90)
    builder.link("v", "s", 90)
    builder.link("b", "a", 1)
    fabric = builder.build()
    collective = gather(fabric)
    router = Router(fabric, collective)
    assert [router.route(0, 1) for _ in range(3)] == [(0, 1), (2, 3), (0, 1)]
    assert router.route(1, 0) == (8,)
    taken = [0] * 9
    shared = Router(fabric, collective, taken=taken, closed=frozenset({2}))
    assert shared.route(0, 1) == (2, 3)
    assert shared.closed_to(frozenset({2, 3})).route(0, 1) == (4, 5)
    assert shared.closed_to(frozenset({2, 3, 4, 5})).route(0, 1) is None
    assert taken == [0, 0, 1, 1, 1, 1, 0, 0, 0]


def test_ways_through_other_ranks() -> None:
    fabric = line_of_four()
    router = Router(fabric, gather(fabric))
    assert router.route(0, 2) is None
    assert router.route(3, 2) == (5,)
    assert router.passing(0, 3) == (0, 2, 4)
    assert router.relay(3, 1) == [(2, (5,)), (1, (3,))]
    without = Collective(K.ALLGATHER, (0, 3), forwarders=(1, 2))
    assert Router(fabric, without).route(0, 1) == (0, 2, 4)
    assert Router(fabric, without).relay(1, 0) == [(0, (5, 3, 1))]
    builder = TopologyBuilder("gap")
    for name in "abc":
        builder.compute(name)
    builder.duplex("a", "b", 1)
    builder.link("c", "a", 1)
    gap = builder.build()
    with pytest.raises(InfeasibleError) as refused:
        Router(gap, gather(gap)).relay(1, 2)
    assert (
        str(refused.value) == "gap: no path leads from 'b' to 'c'; connect the fabric or leave the rank out"
    )
