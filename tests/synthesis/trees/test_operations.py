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
