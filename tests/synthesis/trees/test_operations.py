"""Operations that ranks ask of a switch: for which units of which trees, and the links of their paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.forest_cost import link_loads
from treadle.synthesis.trees.multicast import prune_for_switches
from treadle.synthesis.trees.operations import use_operations
from treadle.synthesis.trees.tree_parts import single_path_trees
from treadle.topologies.topology import Topology, TopologyBuilder

OUT, IN = Direction.BROADCAST, Direction.REDUCE


def around_a_switch(
    n: int,
    *,
    down: Mapping[int, int] | None = None,
    caps: Mapping[int, int] | None = None,
    multicast: bool = True,
    aggregation: bool = True,
    turns_round: bool = False,
) -> Topology:
    """N ranks at a switch, 30 bytes/s each way but for links down given here.

    The switch is node 0, rank r is node r + 1; its link up is 2 r, its link down 2 r + 1; then come direct
    links from rank 0 to rank n - 1 and back.
    """
    builder = TopologyBuilder("star")
    builder.switch("s", multicast=multicast, aggregation=aggregation, turns_round=turns_round)
    for rank in range(n):
        builder.compute(f"r{rank}", injection_bytes_per_s=(caps or {}).get(rank, 0))
        builder.link(f"r{rank}", "s", 30)
        builder.link("s", f"r{rank}", (down or {}).get(rank, 30))
    builder.link("r0", f"r{n - 1}", 30)
    builder.link(f"r{n - 1}", "r0", 30)
    return builder.build()


def schedule_of(forest: Forest) -> ForestSchedule:
    if forest.direction is OUT:
        return ForestSchedule(CollectiveKind.ALLGATHER, broadcast=forest)
    return ForestSchedule(CollectiveKind.REDUCE_SCATTER, reduce=forest)


def tree(n: int, root: int, units: int, hops: Sequence[tuple[int, int]], direction: Direction) -> TreeSpec:
    """Hops over the switch, of in-trees back; between rank 0 and the last of many by their own link."""
    parent, paths = [-1] * n, dict[int, list[tuple[tuple[int, ...], int]]]()
    for above, rank in hops:
        parent[rank] = above
        out = direction is OUT
        path: tuple[int, ...] = (2 * above, 2 * rank + 1) if out else (2 * rank, 2 * above + 1)
        if (above, rank) == (0, n - 1) and len(hops) > 3:
            path = (2 * n,) if out else (2 * n + 1,)
        paths[rank] = [(path, units)]
    return TreeSpec(root, units, parent, paths)


def asked(topology: Topology, specs: Sequence[TreeSpec], n: int, direction: Direction) -> list[TreeSpec]:
    """All trees afterwards."""
    schedule = schedule_of(forest_from_trees(direction, n, specs))
    made = use_operations(topology, schedule, link_loads(topology, schedule).tolist())
    assert made.kind == schedule.kind
    assert made.root_multiplicity.tolist() == schedule.root_multiplicity.tolist()
    (forest,) = made.forests
    assert isinstance(forest, Forest)
    assert forest.direction is direction
    return list(single_path_trees(forest))


STAR = [(0, 1), (0, 2), (0, 3)]


def copied(direction: Direction, units: int) -> TreeSpec:
    """Rank 0 asks by its hop to rank 1; ranks 2 and 3 are named by their links to the switch alone."""
    out = direction is OUT
    ways = {1: (0, 3) if out else (2, 1), 2: (5,) if out else (4,), 3: (7,) if out else (6,)}
    return TreeSpec(0, units, [-1, 0, 0, 0], {rank: [(way, units)] for rank, way in ways.items()})


@pytest.mark.parametrize("direction", [OUT, IN])
def test_three_sends_become_an_operation(direction: Direction) -> None:
    """Also that of a tree whose ranks send on; what they had from others they have from the asker."""
    fabric = around_a_switch(4)
    assert asked(fabric, [tree(4, 0, 5, STAR, direction)], 4, direction) == [copied(direction, 5)]
    chain = [(0, 1), (1, 2), (2, 3)]
    assert asked(fabric, [tree(4, 0, 5, chain, direction)], 4, direction) == [copied(direction, 5)]


@pytest.mark.parametrize("direction", [OUT, IN])
@pytest.mark.parametrize(("bandwidth", "units"), [(10, 5), (8, 4), (5, 2), (4, 2), (2, 1), (1, 0)])
def test_as_many_units_as_there_is_room_for(bandwidth: int, units: int, direction: Direction) -> None:
    """Rank 0 sends 15 units, 2 bytes/s each. Its own link, which operations cross, has less."""
    if direction is OUT:
        fabric = around_a_switch(4, down={0: bandwidth})
    else:  # an operation that sums crosses the asker's link up
        whole = around_a_switch(4, down={0: bandwidth})
        fabric = whole.transpose()
    specs = [tree(4, 0, 5, STAR, OUT)]
    if direction is IN:
        specs = [turned(spec) for spec in specs]
    found = asked(fabric, specs, 4, direction)
    wanted = [] if units == 5 else [tree(4, 0, 5 - units, STAR, OUT)]
    wanted = sorted([*wanted, *([copied(OUT, units)] if units else [])], key=lambda one: one.multiplicity)
    if direction is IN:
        wanted = [turned(spec) for spec in wanted]
    assert sorted(found, key=lambda one: one.multiplicity) == wanted


def turned(spec: TreeSpec) -> TreeSpec:
    """The tree on the transposed fabric, whose links have the same numbers."""
    paths = {rank: [(links[::-1], units) for links, units in way] for rank, way in spec.paths.items()}
    return TreeSpec(spec.root, spec.multiplicity, spec.parent, paths)


@pytest.mark.parametrize(
    ("down", "cap", "units"),
    [(8, 0, 5), (7, 0, 4), (3, 0, 2), (1, 0, 0), (30, 30, 5), (30, 14, 4), (30, 9, 1), (30, 8, 0)],
)
def test_ranks_that_have_the_data_from_elsewhere_are_crossed_too(down: int, cap: int, units: int) -> None:
    """Rank 0 sends 20 units over the switch, 1.5 bytes/s each; rank 5 has 5 units over a link of its own."""
    star = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    fabric = around_a_switch(6, down={5: down}, caps={5: cap})
    found = asked(fabric, [tree(6, 0, 5, star, OUT)], 6, OUT)
    assert sum(spec.multiplicity for spec in found) == 5
    assert sum(spec.multiplicity for spec in found if spec.paths[2][0][0] == (5,)) == units
    assert all(spec.paths[5] == [((12,), spec.multiplicity)] for spec in found)


def test_few_sends_cost_less_than_an_operation() -> None:
    """An operation at five ranks crosses 6 links, as three sends do; four cross 8."""
    four = tree(5, 0, 2, [(0, 1), (0, 2), (0, 3), (3, 4)], OUT)
    three = TreeSpec(0, 2, [-1, 0, 0, 0, 0], {**four.paths, 4: [((10,), 2)]})
    assert asked(around_a_switch(5), [three], 5, OUT) == [three]
    (found,) = asked(around_a_switch(5), [four], 5, OUT)
    assert list(found.parent) == [-1, 0, 0, 0, 0]
    assert found.paths == {1: [((0, 3), 2)], 2: [((5,), 2)], 3: [((7,), 2)], 4: [((9,), 2)]}


def test_the_asker_is_nearest_to_the_root() -> None:
    """The root feeds rank 3 by their own link; rank 3 and, below it, rank 2 use the switch."""
    spec = TreeSpec(
        0, 1, [-1, 2, 3, 0], {3: [((8,), 1)], 2: [((6, 5), 1)], 1: [((4, 3), 1)]}
    )  # two sends only: 2 * 2 <= 4 + 1
    assert asked(around_a_switch(4), [spec], 4, OUT) == [spec]
    five = TreeSpec(
        0,
        1,
        [-1, 2, 4, 2, 0, 1],
        {4: [((0, 9), 1)], 2: [((8, 5), 1)], 1: [((4, 3), 1)], 3: [((4, 7), 1)], 5: [((2, 11), 1)]},
    )
    (found,) = asked(around_a_switch(6), [five], 6, OUT)
    assert list(found.parent) == [-1, 0, 0, 0, 0, 0]
    assert found.paths == {
        4: [((0, 9), 1)],
        **{rank: [((2 * rank + 1,), 1)] for rank in (1, 2, 3, 5)},
    }


def test_trees_share_the_room() -> None:
    """5 units fit into rank 0's link down, of which 2 are there; the first tree takes 3, the second none."""
    fabric = around_a_switch(4, down={0: 10})
    first, second = tree(4, 0, 5, STAR, OUT), tree(4, 1, 2, [(1, 0), (1, 2), (1, 3)], OUT)
    found = asked(fabric, [first, second], 4, OUT)
    mine = sorted((spec for spec in found if spec.root == 0), key=lambda one: one.multiplicity)
    assert mine == [tree(4, 0, 2, STAR, OUT), copied(OUT, 3)]
    other = [spec for spec in found if spec.root == 1]
    # an operation of rank 1 crosses its own link down in place of nothing, and that to rank 0 as before
    assert [list(spec.parent) for spec in other] == [[1, -1, 1, 1]]
    assert other[0].paths == {0: [((2, 1), 2)], 2: [((5,), 2)], 3: [((7,), 2)]}


@pytest.mark.parametrize(
    ("multicast", "aggregation", "turns_round", "direction"),
    [
        (False, True, False, OUT),
        (True, False, False, IN),
        (True, True, True, OUT),
        (False, False, False, OUT),
    ],
)
def test_other_switches_are_not_asked(
    multicast: bool, aggregation: bool, turns_round: bool, direction: Direction
) -> None:
    fabric = around_a_switch(4, multicast=multicast, aggregation=aggregation, turns_round=turns_round)
    spec = tree(4, 0, 5, STAR, direction)
    assert asked(fabric, [spec], 4, direction) == [spec]


def test_each_switch_is_asked_for_its_own_sends() -> None:
    """Two switches join all ranks: rank 1 has its data over s, which is too few, the others over t."""
    builder = TopologyBuilder("two")
    for switch in ("s", "t"):
        builder.switch(switch, multicast=True)
    for rank in range(5):
        builder.compute(f"r{rank}")
        for switch in ("s", "t"):
            builder.duplex(f"r{rank}", switch, 9)
    fabric = builder.build()  # links of rank r from 4 r on: up to s, down from s, up to t, down from t
    given: dict[int, tuple[int, ...]] = {1: (0, 5), 2: (2, 11), 3: (10, 15), 4: (2, 19)}
    spec = TreeSpec(0, 1, [-1, 0, 0, 2, 0], {rank: [(way, 1)] for rank, way in given.items()})
    assert asked(fabric, [spec], 5, OUT) == [spec]  # three sends cross as much as an operation at five ranks
    given = {1: (2, 7), 2: (2, 11), 3: (10, 15), 4: (2, 19)}
    spec = TreeSpec(0, 1, [-1, 0, 0, 2, 0], {rank: [(way, 1)] for rank, way in given.items()})
    (found,) = asked(fabric, [spec], 5, OUT)
    assert list(found.parent) == [-1, 0, 0, 0, 0]
    assert found.paths == {
        rank: [(way, 1)] for rank, way in {1: (2, 7), 2: (11,), 3: (15,), 4: (19,)}.items()
    }


@pytest.mark.parametrize(("multicast", "turns_round"), [(False, True), (True, False)])
def test_what_neither_copies_nor_is_asked_is_left(multicast: bool, turns_round: bool) -> None:
    """A switch that turns round, but only adds up; one that is asked, for two sends among four ranks."""
    fabric = around_a_switch(4, multicast=multicast, turns_round=turns_round)
    spec = TreeSpec(0, 2, [-1, 0, 0, 0], {1: [((0, 3), 2)], 2: [((0, 5), 2)], 3: [((8,), 2)]})
    made = prune_for_switches(fabric, schedule_of(forest_from_trees(OUT, 4, [spec])))
    (forest,) = made.schedule.forests
    assert isinstance(forest, Forest)
    assert list(single_path_trees(forest)) == [spec]
    assert made.traffic_before == made.traffic_after == 5


@pytest.mark.parametrize("direction", [OUT, IN])
def test_switches_that_copy_by_themselves(direction: Direction) -> None:
    """Every later edge begins at the switch; traffic is per byte of the data, here of one root."""
    fabric = around_a_switch(4, turns_round=True)
    hops = [(0, 2), (2, 1), (0, 3)]
    schedule = schedule_of(forest_from_trees(direction, 4, [tree(4, 0, 5, hops, direction)]))
    made = prune_for_switches(fabric, schedule)
    (forest,) = made.schedule.forests
    assert isinstance(forest, Forest)
    (found,) = single_path_trees(forest)
    out = direction is OUT
    assert list(found.parent) == [-1, 2, 0, 0]
    assert found.paths == {
        2: [((0, 5) if out else (4, 1), 5)],
        3: [((7,) if out else (6,), 5)],
        1: [((3,) if out else (2,), 5)],
    }
    assert (made.traffic_before, made.traffic_after) == (6, 4)


@pytest.mark.parametrize(
    ("able", "ways"),
    [(True, {1: (0, 1, 2), 2: (3,), 3: (4,)}), (False, {1: (0, 1, 2), 2: (3,), 3: (0, 4)})],
)
def test_edges_begin_at_the_last_switch_that_has_the_data(
    able: bool, ways: Mapping[int, tuple[int, ...]]
) -> None:
    """Of two switches in a row, s and t, rank 2's edge begins at t, and rank 3's at s where that copies."""
    builder = TopologyBuilder("row")
    for rank in range(4):
        builder.compute(f"r{rank}")
    builder.switch("s", multicast=able, turns_round=able)
    builder.switch("t", multicast=True, turns_round=True)
    for one, other in (("r0", "s"), ("s", "t"), ("t", "r1"), ("t", "r2"), ("s", "r3")):
        builder.link(one, other, 7)
    fabric = builder.build()
    given: dict[int, tuple[int, ...]] = {1: (0, 1, 2), 2: (0, 1, 3), 3: (0, 4)}
    paths = {rank: [(way, 3)] for rank, way in given.items()}
    forest = forest_from_trees(OUT, 4, [TreeSpec(0, 3, [-1, 0, 0, 0], paths)])
    made = prune_for_switches(fabric, schedule_of(forest))
    (pruned,) = made.schedule.forests
    assert isinstance(pruned, Forest)
    (found,) = single_path_trees(pruned)
    assert found.paths == {rank: [(way, 3)] for rank, way in ways.items()}
    assert (made.traffic_before, made.traffic_after) == (8, sum(map(len, ways.values())))


@pytest.mark.parametrize("direction", [OUT, IN])
def test_trees_packed_through_switches_stay(direction: Direction) -> None:
    """Rank 1's edge begins at the switch, to which the data comes on the way to rank 2."""
    fabric = around_a_switch(3, turns_round=True)
    out = direction is OUT
    ways = {1: (3,) if out else (2,), 2: (0, 5) if out else (4, 1)}
    spec = TreeSpec(0, 4, [-1, 0, 0], {rank: [(way, 4)] for rank, way in ways.items()})
    made = prune_for_switches(fabric, schedule_of(forest_from_trees(direction, 3, [spec])))
    (forest,) = made.schedule.forests
    assert isinstance(forest, Forest)
    assert list(single_path_trees(forest)) == [spec]


@pytest.mark.parametrize("direction", [OUT, IN])
def test_an_edge_that_begins_at_another_switch_is_not_asked_for(direction: Direction) -> None:
    """Switch t copies by itself and feeds rank 1 over s; the four sends from rank 0 over s become one."""
    builder = TopologyBuilder("two kinds")
    builder.switch("s", multicast=True, aggregation=True)
    builder.switch("t", multicast=True, aggregation=True, turns_round=True)
    for rank in range(6):
        builder.compute(f"r{rank}")
        builder.duplex(f"r{rank}", "s", 99)  # rank r: up 2 r, down 2 r + 1
    builder.duplex("r0", "t", 99)
    builder.duplex("t", "s", 99)
    fabric = builder.build()
    given = {1: (14, 3), 2: (0, 5), 3: (0, 7), 4: (0, 9), 5: (0, 11)}
    alone: dict[int, tuple[int, ...]] = {rank: (2 * rank + 1,) for rank in (3, 4, 5)}
    if direction is IN:  # every link back
        given = {rank: (last - 1, first + 1) for rank, (first, last) in given.items()}
        alone = {rank: (last - 1,) for rank, (last,) in alone.items()}
    spec = TreeSpec(0, 1, [-1, *[0] * 5], {rank: [(way, 1)] for rank, way in given.items()})
    (found,) = asked(fabric, [spec], 6, direction)
    assert found.paths == {rank: [(way, 1)] for rank, way in (given | alone).items()}
