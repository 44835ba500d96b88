"""Low trees over boxes of one size, hop by hop; what few trees refuse, and which of two forests they take."""

from __future__ import annotations

import pytest

from shortcuts.switched_ranks import in_boxes, linked_boxes
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import TreeSpec
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.trees.few import fixed_k as module
from treadle.synthesis.trees.few.fixed_k import fixed_k_trees, within_height
from treadle.synthesis.trees.few.trees_across import trees_across
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def gather(topology: Topology, weights: tuple[int, ...] | None = None) -> Collective:
    return Collective(K.ALLGATHER, tuple(topology.compute_nodes.tolist()), weights=weights)


def hops(spec: TreeSpec, rank: int) -> int:
    found = 0
    while spec.parent[rank] >= 0:
        rank, found = spec.parent[rank], found + 1
    return found


@pytest.mark.parametrize("trees", [1, 3])
def test_across_in_one_hop_then_inside(trees: int) -> None:
    """A root's children are the ranks of its place in other boxes; all others are below their own box's."""
    fabric = in_boxes(3, 3, 3)
    boxes = [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    weights = (1, 0, 2, 1, 1, 3, 1, 1, 1)
    found = trees_across(fabric, gather(fabric, weights), boxes, trees_per_root=trees, height=2)
    assert [spec.root for spec in found] == [root for root in range(9) if weights[root] for _ in range(trees)]
    for spec in found:
        place = spec.root % 3
        assert spec.multiplicity == weights[spec.root]
        for rank in range(9):
            head = 3 * (rank // 3) + place
            if rank == spec.root:
                assert spec.parent[rank] == -1
            elif rank == head:
                assert spec.parent[rank] == spec.root
            else:
                assert spec.parent[rank] == head
            if rank != spec.root:
                ((links, units),) = spec.paths[rank]
                above = spec.parent[rank]
                nodes = [int(fabric.tails[links[0]]), *fabric.heads[list(links)].tolist()]
                assert units == spec.multiplicity
                ends = gather(fabric).ranks[above], gather(fabric).ranks[rank]
                assert (nodes[0], nodes[-1]) == ends
                # across by the network, inside by the box's switch
                assert fabric.node_names[nodes[1]] == ("network" if rank == head else f"box{rank // 3}")


def test_boxes_of_direct_links_in_another_order() -> None:
    """Rings of four: of height 3, a hop across and two inside; ranks are numbered from the second box on."""
    fabric = linked_boxes(2, 4, chords=1)
    nodes = fabric.compute_nodes.tolist()
    collective = Collective(K.ALLGATHER, (*nodes[4:], *nodes[:4]))
    boxes = [(0, 1, 2, 3), (4, 5, 6, 7)]
    found = trees_across(fabric, collective, boxes, trees_per_root=2, height=3)
    assert len(found) == 16
    for spec in found:
        assert max(hops(spec, rank) for rank in range(8)) <= 3
        for rank, ((links, _),) in spec.paths.items():
            ends = int(fabric.tails[links[0]]), int(fabric.heads[links[-1]])
            assert ends == (collective.ranks[spec.parent[rank]], collective.ranks[rank])
            assert (len(links) == 2) is (spec.parent[rank] // 4 != rank // 4)
    with pytest.raises(
        InfeasibleError, match="box: some rank is 2 hops from a root, expected trees of height 1"
    ):
        trees_across(fabric, collective, boxes, trees_per_root=2, height=2)


def test_boxes_that_do_not_match() -> None:
    fabric = in_boxes(2, 3)
    with pytest.raises(ScheduleError) as refused:
        trees_across(fabric, gather(fabric), [(0, 1), (2, 3, 4)], trees_per_root=1, height=3)
    assert str(refused.value) == "trees across boxes: expected boxes of one size"
    builder = TopologyBuilder("apart")
    for box in range(2):
        for place in range(2):
            builder.compute(f"g{box}.{place}")
        builder.duplex(f"g{box}.0", f"g{box}.1", 5)
    builder.duplex("g0.0", "g1.0", 1)
    apart = builder.build()
    with pytest.raises(InfeasibleError) as missing:
        trees_across(apart, gather(apart), [(0, 1), (2, 3)], trees_per_root=1, height=3)
    assert str(missing.value) == "trees across boxes: no path through switches leads from g0.1 to g1.1"


def test_too_many_ranks_for_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit in one program; beyond, boxes within it are asked for."""
    for most, fine in ((6, True), (3, True), (2, False)):
        monkeypatch.setattr(module, "MOST_RANKS", most)
        fabric = in_boxes(3, 3)
        if fine:
            assert height_max(fixed_k_trees(fabric, gather(fabric), height=2)) <= 2
            continue
        with pytest.raises(ScheduleError) as refused:
            fixed_k_trees(fabric, gather(fabric), height=2)
        assert str(refused.value) == (
            "few-trees: trees of bounded height are limited to 2 ranks, or as many in a box; found 6 in 2; "
            "leave out --height"
        )


def test_switches_that_are_not_balanced_have_low_trees() -> None:
    """ForestColl's need as much into as out of a switch; the others are taken then."""
    builder = TopologyBuilder("odd")
    builder.switch("s")
    for name, up in (("a", 9), ("b", 6), ("c", 6)):
        builder.compute(name)
        builder.link(name, "s", up)
        builder.link("s", name, 6)
    fabric = builder.build()
    forest = within_height(fabric, gather(fabric), 1, 2)
    assert forest.root_multiplicity.tolist() == [1, 1, 1]
    with pytest.raises(InfeasibleError):
        fixed_k_trees(fabric, gather(fabric))
