"""Trees of one root box by box: as fast as any, low, and of boxes that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.result import Result
from treadle.synthesis.trees import Packer, TreeBudget, synthesise
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.one_root import box_by_box, one_root_forest
from treadle.synthesis.trees.one_root.box_by_box import BoxForest, pack_box_by_box
from treadle.synthesis.trees.one_root.one_root_forest import SEARCHED_RANKS, synthesise_box_by_box
from treadle.synthesis.trees.packers.packed import PackingAttempt
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.topologies.transforms.failures import without_failures
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify

NO_BOXES = "no boxes are joined by one layer of switches"
ROOTED = (CollectiveKind.BROADCAST, CollectiveKind.REDUCE)


def boxed(
    topology: Topology, root: int = 0, kind: CollectiveKind = CollectiveKind.BROADCAST, **budget: Any
) -> BoxForest | Unsupported:
    collective = on_all_ranks(topology, kind, root=root)
    return pack_box_by_box(instance_of(topology, collective), TreeBudget(**budget))


def checked(topology: Topology, found: BoxForest | Unsupported, root: int, kind: CollectiveKind) -> None:
    """The forest is one, keeps to the capacities, and has the rate and the height that are told."""
    assert isinstance(found, BoxForest), found
    forests = {"reduce": None, "broadcast": None} | {"reduce" if kind.reduces else "broadcast": found.forest}
    schedule = ForestSchedule(kind, **forests)
    report = verify(
        topology,
        on_all_ranks(topology, kind, root=root),
        schedule,
        claimed_algbw=found.units.fixed.algbw,
    )
    assert not report.violations
    assert report.height_max == found.height


def test_leaves_of_different_sizes() -> None:
    """Trees are few hops high, though nearly all that GPUs send is needed."""
    whole = parse("leaf_spine(11,4,gpus_per_leaf=4)")
    lame = without_failures(whole, ["leaf2.gpu0", "leaf5.gpu1", "spine1--leaf7"])
    for topology in (whole, lame):
        ranks = len(topology.compute_nodes)
        for root in (
            0,
            7,
            ranks - 1,
            topology.compute_nodes.tolist().index(topology.node_index("leaf5.gpu0")),
        ):
            for kind in ROOTED:
                found = boxed(topology, root, kind)
                checked(topology, found, root, kind)
                assert isinstance(found, BoxForest)
                assert found.best.algbw == found.units.fixed.algbw == 50 * 10**9
                assert found.height <= 5


def test_a_root_in_the_middle_and_boxes_that_lost_links() -> None:
    whole = parse("dgx_h100(6)")
    lame = without_failures(whole, ["box2.gpu3--ib0", "box4.gpu1--box4.nvswitch"])
    for topology in (whole, lame):
        for root in (0, 19, 47):
            for kind in ROOTED:
                checked(topology, boxed(topology, root, kind), root, kind)
    found = boxed(lame)
    assert isinstance(found, BoxForest)
    assert found.outcome.startswith("7 boxes of 5 kinds")  # a rank without a box is one by itself


def one(name: str, **options: Any) -> Result:
    topology = parse(name)
    return synthesise(topology, on_all_ranks(topology, CollectiveKind.BROADCAST, root=0), **options)


def test_the_lower_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to some ranks both ways are tried; beyond, just this one."""
    made = one("dgx_h100(16)")
    outcomes = {attempt.packer: attempt.outcome for attempt in made.packing}
    assert outcomes[Packer.TIGHT_CUTS].startswith("made the forest")
    assert height_max(made.schedule) <= 7
    monkeypatch.setattr(one_root_forest, "SEARCHED_RANKS", 127)
    beyond = one("dgx_h100(16)")
    assert beyond.packer == Packer.BOX_BY_BOX
    assert [attempt.packer for attempt in beyond.packing] == [Packer.BOX_BY_BOX]
    assert beyond.packing[0].outcome == "made the forest: 16 boxes of 2 kinds, height 7"
    assert SEARCHED_RANKS == 1024


def test_asked_for_by_name() -> None:
    made = one("dgx_h100(4)", packer=Packer.BOX_BY_BOX)
    assert made.packer == Packer.BOX_BY_BOX
    grown = one("torus(4,4)", packer=Packer.BOX_BY_BOX)
    assert [attempt.packer for attempt in grown.packing] == [Packer.BOX_BY_BOX, Packer.GROWTH]
    assert grown.packing[0].outcome == f"failed: {NO_BOXES}"


def test_fewer_trees_than_the_optimum_takes() -> None:
    """The bound is computed then: the tightest cut is attained by nothing that was built."""
    topology = parse("dgx_h100(8)")
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    made = synthesise_box_by_box(topology, collective, budget=TreeBudget(trees=3))
    assert isinstance(made, Result)
    assert made.bound.algbw == 400 * 10**9
    assert made.algbw == 150 * 10**9
    assert (made.trees_per_root, made.exact_trees_per_root) == (3, 8)
    ring = parse("ring(4)")
    none = synthesise_box_by_box(
        ring, on_all_ranks(ring, CollectiveKind.BROADCAST, root=0), budget=TreeBudget()
    )
    assert none == PackingAttempt(Packer.BOX_BY_BOX, f"failed: {NO_BOXES}")


def forest_of(name: str) -> tuple[int, int]:
    """Trees and height of a broadcast."""
    made = one(name)
    return int(np.sum(made.schedule.root_multiplicity)), height_max(made.schedule)


@pytest.mark.parametrize(
    ("name", "trees", "height"),
    [("fat_tree(4)", 8, 4), ("leaf_spine(8,4)", 8, 4), ("star(16)", 1, 1), ("ring(8)", 2, 7)],
)
def test_more_trees_where_they_are_lower(name: str, trees: int, height: int) -> None:
    """One tree behind switches is a chain of all ranks; without switches more trees are the same again."""
    assert forest_of(name) == (trees, height)


def test_too_many_units_are_left_to_other_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise InfeasibleError("units")

    monkeypatch.setattr(box_by_box, "first_possible", refused)
    made = one("dgx_h100(2)")
    assert made.packing[0] == PackingAttempt(Packer.BOX_BY_BOX, "failed: units")
    monkeypatch.undo()
    monkeypatch.setattr(box_by_box, "UNIT_LIMIT", 2**8)
    found = boxed(parse("leaf_spine(64,1)"))
    assert isinstance(found, BoxForest)
    assert len(found.forest.tree_root) == 1


def wide_boxes() -> Topology:
    """Three pairs of ranks on a switch; two pairs have uplinks 10^11 times as wide as the third's."""
    builder = TopologyBuilder("wide")
    builder.switch("top")
    for box, width in enumerate((10**11, 10**11, 1)):
        for rank in range(2):
            builder.compute(f"b{box}.g{rank}")
            builder.duplex(f"b{box}.g{rank}", "top", width)
        builder.duplex(f"b{box}.g0", f"b{box}.g1", 10**12)
    return builder.build()


@pytest.mark.parametrize("kind", ROOTED)
def test_bandwidths_far_apart_take_no_memory(kind: CollectiveKind) -> None:
    """Links hold 4 x 10^11 units of eight trees: they are counted, not listed."""
    topology = wide_boxes()
    checked(topology, boxed(topology, kind=kind), 0, kind)
