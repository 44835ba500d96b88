"""Trees of one root box by box: as fast as any, low, and of boxes that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import planning
from treadle.context import TimeLimitError
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.result import Result
from treadle.synthesis.trees import Packer, TreeBudget, pipeline, synthesise
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.one_root import box_by_box, one_root_forest
from treadle.synthesis.trees.one_root.box_by_box import BoxForest, pack_box_by_box
from treadle.synthesis.trees.one_root.one_root_forest import SEARCHED_RANKS, synthesise_box_by_box
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.packers.packed import PackingAttempt
from treadle.synthesis.trees.tight_cuts import decompose
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


@st.composite
def boxes_on_switches(draw: Any) -> Topology:
    """Boxes of one to four ranks, no two need be alike, joined by one to three switches alone."""
    builder = TopologyBuilder("boxes")
    tops = [builder.switch(f"top{i}") for i in range(draw(st.integers(1, 3)))]
    for box in range(draw(st.integers(2, 5))):
        ranks = [builder.compute(f"box{box}.gpu{i}") for i in range(draw(st.integers(1, 4)))]
        inner = draw(st.integers(6, 24))
        if len(ranks) > 1 and draw(st.booleans()):
            switch = builder.switch(f"box{box}.switch")
            for rank in ranks:
                builder.duplex(rank, switch, inner)
        else:
            for i, rank in enumerate(ranks):
                for other in ranks[:i]:
                    builder.duplex(rank, other, inner)
        for i, rank in enumerate(ranks):
            for top in tops:
                # somewhere each box is joined to every switch, so that all is connected
                if i == 0 or draw(st.booleans()):
                    builder.duplex(rank, top, draw(st.integers(1, 5)))
    return builder.build()


def test_random_boxes() -> None:
    """What is made is right and as fast as exact growth; and it is made in a fourth of the cases or more."""
    made: list[bool] = []

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(boxes_on_switches(), st.sampled_from(ROOTED), st.data())
    def check(topology: Topology, kind: CollectiveKind, data: Any) -> None:
        root = data.draw(st.integers(0, len(topology.compute_nodes) - 1))
        trees = data.draw(st.sampled_from([None, 1, 3]))
        budget = TreeBudget(trees=trees)
        collective = on_all_ranks(topology, kind, root=root)
        problem = instance_of(topology, collective)
        found = pack_box_by_box(problem, budget)
        grown = synthesise(topology, collective, budget=budget, packer=Packer.GROWTH)
        made.append(isinstance(found, BoxForest))
        if isinstance(found, BoxForest):
            checked(topology, found, root, kind)
            assert found.units.fixed.algbw == grown.algbw
            if trees is None:
                assert found.best.algbw == instance_optimum(problem).algbw == found.units.fixed.algbw
        # whichever way it is made, it is as fast
        best = synthesise(topology, collective, budget=budget)
        assert best.algbw == grown.algbw
        assert best.bound is not None
        assert best.bound.algbw == instance_optimum(problem).algbw

    check()
    assert sum(made) > len(made) / 4


@pytest.mark.parametrize("kind", ROOTED)
@pytest.mark.parametrize(
    ("name", "trees", "height"),
    [
        ("dgx_h100(16)", 8, 7),
        ("dgx_h100(512)", 8, 9),
        ("gb200_nvl72(64)", 19, 9),
        ("mi300x(4)", 8, 5),
        ("dgx_a100(64)", 8, 9),
        ("rail_optimized(16)", 8, 9),
        ("leaf_spine(64,1)", 8, 4),
        ("leaf_spine(64,16,gpus_per_leaf=32)", 8, 6),
        ("leaf_spine(67,32,gpus_per_leaf=8)", 8, 6),  # of 8 exits of a leaf 2 fit a link
        ("leaf_spine(7,7,gpus_per_leaf=5)", 8, 5),  # a tree leaves the root for the leaf that sends it on
        ("leaf_spine(40,4,gpus_per_leaf=12,oversubscription=3)", 8, 6),
        ("pods(64,32)", 8, 11),
    ],
)
def test_platforms(name: str, trees: int, height: int, kind: CollectiveKind) -> None:
    """Heights grow with the logarithm of the boxes; the trees attain the optimum, which a cut proves."""
    topology = parse(name)
    found = boxed(topology, kind=kind)
    checked(topology, found, 0, kind)
    assert isinstance(found, BoxForest)
    assert len(found.forest.tree_root) == trees
    assert found.height <= height
    assert found.best.algbw == found.units.fixed.algbw


def test_65536_ranks() -> None:
    found = planning.solve("dgx_h100:8192", "broadcast")
    assert found.is_optimal
    report = found.report
    assert not report.violations
    assert report.height_max <= 12


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


def test_65536_ranks_below_leaves() -> None:
    topology = parse("leaf_spine(2048,16,gpus_per_leaf=32)")
    found = boxed(topology)
    checked(topology, found, 0, CollectiveKind.BROADCAST)
    assert isinstance(found, BoxForest)
    assert (found.height, len(found.forest.tree_root)) == (8, 8)


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


def test_why_it_is_not_made() -> None:
    def reason(name: str, kind: CollectiveKind = CollectiveKind.BROADCAST, **budget: Any) -> str:
        topology = parse(name)
        root = 0 if kind.is_rooted else None
        problem = instance_of(topology, on_all_ranks(topology, kind, root=root))
        found = pack_box_by_box(problem, TreeBudget(**budget))
        assert isinstance(found, Unsupported)
        return found.reason

    assert reason("dgx_h100(2)", CollectiveKind.ALLGATHER) == "there is more than one root"
    assert reason("torus(4,4)") == reason("rail_optimized(4,spines=2)") == NO_BOXES
    assert reason("fat_tree(8)") == "tree 0 does not come to all boxes"
    assert reason("dgx_h100(4)", trees=2**20) == f"{2**20} trees of 32 ranks are too many"
    assert reason("dgx_h100(16)", trees=2**13) == f"{2**13} trees of a box of 8 ranks are too many"


def test_the_optimum_is_computed_where_the_tightest_cut_is_none_of_a_box(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Boxes of two halves with a narrow link between them: a cut within a box binds."""
    builder = TopologyBuilder("narrow inside")
    top = builder.switch("top")
    for box in range(4):
        halves = [builder.switch(f"box{box}.{side}") for side in ("left", "right")]
        ranks = [builder.compute(f"box{box}.gpu{i}") for i in range(4)]
        for i, rank in enumerate(ranks):
            builder.duplex(rank, halves[i // 2], 20)
        builder.duplex(*halves, 3)
        for rank, bandwidth in zip(ranks[:3], (10, 10, 1), strict=True):
            builder.duplex(rank, top, bandwidth)
    topology = builder.build()
    asked: list[object] = []

    def noted(*args: Any, **keywords: Any) -> Any:
        asked.append(args)
        return instance_optimum(*args, **keywords)

    monkeypatch.setattr(box_by_box, "instance_optimum", noted)
    found = boxed(topology)
    checked(topology, found, 0, CollectiveKind.BROADCAST)
    assert isinstance(found, BoxForest)
    assert found.best.algbw == 4  # 3 between the halves, 1 from outside
    assert len(asked) == 1
    checked(parse("dgx_h100(4)"), boxed(parse("dgx_h100(4)")), 0, CollectiveKind.BROADCAST)
    assert len(asked) == 1  # there it is not


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


def test_more_trees_of_boxes_within_boxes() -> None:
    """In factored form too: one tree of fat_tree(16) is a chain of its 1024 ranks."""
    found = planning.solve("fat_tree:16", "broadcast")
    assert found.report.height_max <= 20
    single = planning.solve("fat_tree:16", "broadcast", trees=1)
    assert single.report.height_max == 1023
    assert found.report.algbw == single.report.algbw == 50 * 10**9
    exact = planning.solve("fat_tree:16", "broadcast", exact=True)
    assert exact.report.height_max == 1023
    assert isinstance(found.plan.collective, Collective)


def test_more_trees_that_cannot_be_had_take_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up, or units are too many, when a forest of fewer trees is there."""
    builder = TopologyBuilder("one switch")
    top = builder.switch("top")
    for number in range(6):
        builder.duplex(builder.compute(f"gpu{number}"), top, 4)
    star = builder.build()
    collective = on_all_ranks(star, CollectiveKind.BROADCAST, root=0)
    assert height_max(synthesise(star, collective).schedule) < 5
    usual = pipeline._choose_forest
    for error in (TimeLimitError("more trees"), InfeasibleError("too many units")):

        def once(problem: Any, collective: Any, budget: TreeBudget, *rest: Any, error: Any = error) -> Result:
            if budget.trees is not None:
                raise error
            return usual(problem, collective, budget, *rest)

        monkeypatch.setattr(pipeline, "_choose_forest", once)
        assert height_max(synthesise(star, collective).schedule) == 5
    real = decompose.decompose_with

    def late(problem: Any, trees: Any, **words: Any) -> Any:
        if list(trees) == [8]:
            raise TimeLimitError("tight cuts")
        return real(problem, trees, **words)

    monkeypatch.setattr(decompose, "decompose_with", late)
    found = planning.solve("fat_tree:16", "broadcast", form="factored")
    assert (found.report.height_max, found.is_late) == (1023, False)


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


def test_many_trees_are_left_to_packers_that_write_equal_ones_once() -> None:
    """4,096 trees of six ranks would be as many rows here."""
    topology = wide_boxes()
    found = boxed(topology, trees=2**12)
    assert found == Unsupported(f"{2**12} trees of 6 ranks are too many")
    result = planning.solve(topology, "broadcast", root=0, trees=2**12)
    assert isinstance(result.plan.entries[0].schedule, ForestSchedule)
    (forest,) = result.plan.entries[0].schedule.forests
    assert len(list(forest.trees(0))) < 100
