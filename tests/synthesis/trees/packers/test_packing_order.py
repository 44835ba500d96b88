"""Which packer is tried when and what is told of it; forests and graphs in each other's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shortcuts.switched_ranks import on_a_switch
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, TreeSpec, forest_from_trees
from treadle.synthesis.trees.instance import Instance, find_violated_cut, instance_of
from treadle.synthesis.trees.packers import packers as module
from treadle.synthesis.trees.packers.height_first import pack_height_first
from treadle.synthesis.trees.packers.improvement import local_search, reduce_height, route_trees
from treadle.synthesis.trees.packers.local_search import (
    default_steps,
    link_units,
    rank_numbers,
    reduce_tree_heights,
)
from treadle.synthesis.trees.packers.packed import Packed, Packer, PackingAttempt
from treadle.synthesis.trees.packers.packers import largest_unit, pack_smallest_height
from treadle.synthesis.trees.packers.rebuilding import rebuild_trees
from treadle.synthesis.trees.packers.tree_packing import Packing, from_forest, rank_arcs, to_forest
from treadle.synthesis.trees.packers.vertex_matching import Digraph, Matched, Start, match_vertices
from treadle.synthesis.trees.switch_removal import LogicalGraph, remove_switches
from treadle.synthesis.trees.tree_parts import single_path_trees
from treadle.topologies.topology import Topology, TopologyBuilder


def ring(*widths: int) -> Topology:
    builder = TopologyBuilder("ring")
    for rank in range(len(widths)):
        builder.compute(f"r{rank}")
    for rank, width in enumerate(widths):
        builder.duplex(f"r{rank}", f"r{(rank + 1) % len(widths)}", width)
    return builder.build()


def gather(topology: Topology, ranks: tuple[int, ...] | None = None) -> Instance:
    nodes = ranks or tuple(topology.compute_nodes.tolist())
    return instance_of(topology, Collective(CollectiveKind.ALLGATHER, nodes))


def graph_of(
    problem: Instance, multiplicities: np.ndarray[tuple[int], np.dtype[np.int64]], times: int = 1
) -> LogicalGraph:
    return remove_switches(problem, problem.bandwidths * times, multiplicities)


def packing(*trees: tuple[int, int, list[int]]) -> Packing:
    roots, units, parents = zip(*trees, strict=True)
    return Packing(
        np.array(roots, dtype=np.int32),
        np.array(units),
        np.array(parents, dtype=np.int32),
        speculative=0,
        exact=0,
    )


def failed(*, left: int = 0) -> Matched:
    none = np.zeros(0, dtype=np.int32)
    return Matched(none, np.zeros(0, dtype=np.int64), none.reshape(0, 0), 0, left, 0, 0, 0, 0, "stuck")


def matched(trees: Packing, height: int) -> Matched:
    order = np.arange(len(trees.root))[::-1]  # as they come
    return Matched(trees.root[order], trees.multiplicity[order], trees.parent[order], height, 0, 5, 6, 7, 8)


FAILED = "failed: some rank's in-links do not suffice, or the trees are too many"


@pytest.mark.parametrize(
    ("left", "second"),
    [
        (0, "failed: stuck"),
        (36, "failed: stuck"),  # of 4 * 225 * 4 tree edges a hundredth
        (37, "not tried: breadth-first left 1% of the tree edges on full arcs"),
        (900, "not tried: breadth-first left 25% of the tree edges on full arcs"),
    ],
)
def test_matching_follows_where_little_was_left(
    left: int, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but growth fail; of what breadth-first left on full arcs it depends whether matching is tried."""
    problem = gather(ring(450, 450, 450, 450))
    many = np.full(4, 225, dtype=np.int64)
    graph = graph_of(problem, many)
    monkeypatch.setattr(module, "largest_unit", lambda *_, **__: 1)
    monkeypatch.setattr(module, "match_vertices", lambda *_, **__: failed(left=left))
    monkeypatch.setattr(module, "pack_shortest_trees", lambda *_, **__: None)
    made = pack_smallest_height(problem, graph, many)
    told = [(one.packer, one.outcome) for one in made.attempts]
    assert told[:4] == [
        (Packer.BREADTH_FIRST, "failed: stuck"),
        (Packer.SHORTEST_PATHS, FAILED),
        (Packer.MATCHING, second),
        (Packer.PRICED_MATCHING, "failed: stuck"),
    ]
    grown = made.packing
    assert grown.speculative + grown.exact == grown.multiplicity.sum() == 900
    assert told[4:] == [
        (Packer.GROWTH, f"made the forest: {grown.speculative} unit trees greedily, {grown.exact} exactly")
    ]
    assert (made.packer, made.graph) == (Packer.GROWTH, graph)


LINE = packing((0, 2, [-1, 0, 1]), (1, 2, [1, -1, 1]), (2, 2, [1, 2, -1]))
STARS = packing((0, 2, [-1, 0, 0]), (1, 2, [1, -1, 1]), (2, 2, [2, 2, -1]))
TALL = "made the forest: height 2 (at least 1 in this graph), 5 re-hangings, 6 splits, 7 detours"


def in_a_triangle() -> tuple[Instance, LogicalGraph, Any]:
    problem = gather(ring(4, 4, 4))
    two = np.full(3, 2, dtype=np.int64)
    return problem, graph_of(problem, two), two


@pytest.mark.parametrize("shortest", [False, True])
def test_shortest_paths_are_tried_where_trees_are_high(
    shortest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, graph, two = in_a_triangle()
    monkeypatch.setattr(module, "match_vertices", lambda *_, **__: matched(LINE, 2))
    trees = (STARS.root, STARS.multiplicity, STARS.parent)
    monkeypatch.setattr(module, "pack_shortest_trees", lambda *_, **__: trees if shortest else None)
    made = pack_smallest_height(problem, graph, two)
    told = [(one.packer, one.outcome) for one in made.attempts]
    if shortest:
        assert told == [
            (Packer.BREADTH_FIRST, "not taken: height 2"),
            (Packer.SHORTEST_PATHS, "made the forest: height 1, every rank at its distance in this graph"),
        ]
        assert made.packer is Packer.SHORTEST_PATHS
        assert made.packing.parent.tolist() == STARS.parent.tolist()
    else:
        assert told == [(Packer.SHORTEST_PATHS, FAILED), (Packer.BREADTH_FIRST, TALL)]
        assert made.packer is Packer.BREADTH_FIRST
        assert made.packing.root.tolist() == [0, 1, 2]  # by root again
        assert made.packing.parent.tolist() == LINE.parent.tolist()


def test_trees_at_the_bound_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, graph, two = in_a_triangle()
    monkeypatch.setattr(module, "match_vertices", lambda *_, **__: matched(STARS, 1))
    made = pack_smallest_height(problem, graph, two)
    assert [one.packer for one in made.attempts] == [Packer.BREADTH_FIRST]
    assert made.packing.multiplicity.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("mine", "height", "taken"), [(STARS, 1, Packer.PRICED_MATCHING), (LINE, 2, Packer.GROWTH)]
)
def test_growth_competes_with_priced_matching(
    mine: Packing, height: int, taken: Packer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Growth makes stars here; the lower forest is taken."""
    problem, graph, two = in_a_triangle()

    def match(*_: object, start: Start = Start.BREADTH_FIRST, **__: object) -> Matched:
        return matched(mine, height) if start is Start.PRICED else failed()

    monkeypatch.setattr(module, "match_vertices", match)
    monkeypatch.setattr(module, "pack_shortest_trees", lambda *_, **__: None)
    monkeypatch.setattr(module, "pack_trees", lambda *_, **__: STARS)
    made = pack_smallest_height(problem, graph, two)
    assert made.packer is taken
    told = [(one.packer, one.outcome) for one in made.attempts[3:]]
    if taken is Packer.GROWTH:
        assert told == [
            (Packer.PRICED_MATCHING, "not taken: height 2, 3 trees"),
            (Packer.GROWTH, "made the forest: 0 unit trees greedily, 0 exactly"),
        ]
    else:
        assert told[0][1].startswith("made the forest: height 1 (at least 1 in this graph), ")
        assert told[1:] == [(Packer.GROWTH, "not taken: height 1, 3 trees")]


def test_dense_graphs_have_shortest_paths_first() -> None:
    builder = TopologyBuilder("dense")
    names = [builder.compute(f"r{rank}") for rank in range(17)]
    for one in range(17):
        for other in range(one):
            builder.duplex(names[one], names[other], 1)
    problem = gather(builder.build())
    ones = np.ones(17, dtype=np.int64)
    made = pack_smallest_height(problem, graph_of(problem, ones), ones)
    assert [(one.packer, one.outcome) for one in made.attempts] == [
        (Packer.SHORTEST_PATHS, "made the forest: height 1, every rank at its distance in this graph")
    ]
    sparse = gather(ring(2, 2, 2, 2))
    both = np.ones(4, dtype=np.int64)
    assert (
        pack_smallest_height(sparse, graph_of(sparse, both), both).attempts[0].packer is Packer.BREADTH_FIRST
    )


@pytest.mark.parametrize("multiplicity", [6, 12, 10, 7])
@pytest.mark.parametrize("width", [12, 20, 31])
def test_bundles_are_as_large_as_cuts_allow(multiplicity: int, width: int) -> None:
    """The largest divisor with which capacities rounded down still hold all trees."""
    problem = gather(ring(width, width + 5, width + 1, width))
    many = np.full(4, multiplicity, dtype=np.int64)
    graph = graph_of(problem, many)
    if find_violated_cut(problem, problem.bandwidths, multiplicity=multiplicity) is not None:
        return
    fitting = [
        unit
        for unit in range(1, multiplicity + 1)
        if multiplicity % unit == 0
        and find_violated_cut(problem, problem.bandwidths // unit, multiplicity=multiplicity // unit) is None
    ]
    assert largest_unit(problem, graph, many) == max(fitting)


def test_forests_and_logical_graphs() -> None:
    """Paths with the same ends are one arc, sorted by its ends; rank 1 is node 0 here, and so on."""
    builder = TopologyBuilder("three")
    for name in ("a", "s", "b", "c"):
        if name == "s":
            builder.switch(name)
        else:
            builder.compute(name)
    for pair, width in (("as", 9), ("bs", 9), ("cs", 9), ("ab", 4), ("bc", 4)):
        builder.duplex(pair[0], pair[1], width)
    fabric = builder.build()  # links: as 0, sa 1, bs 2, sb 3, cs 4, sc 5, ab 6, ba 7, bc 8, cb 9
    problem = gather(fabric, (3, 0, 2))
    assert rank_numbers(problem).tolist() == [1, 3, 2, 0]
    specs = [
        TreeSpec(1, 3, [1, -1, 1], {0: [((0, 5), 3)], 2: [((6,), 2), ((0, 3), 1)]}),
        TreeSpec(0, 2, [-1, 2, 0], {2: [((9,), 2)], 1: [((7,), 2)]}),
    ]
    forest = forest_from_trees(Direction.BROADCAST, 3, specs)
    graph, trees = from_forest(problem, forest)
    arcs = list(zip(graph.tails.tolist(), graph.heads.tolist(), graph.capacities.tolist(), strict=True))
    assert arcs == [(0, 2, 3), (0, 3, 3), (2, 0, 2), (3, 2, 2)]
    assert graph.segment_offset.tolist() == [0, 2, 3, 4, 5]
    assert rank_arcs(problem, graph).tail.tolist() == [1, 1, 2, 0]
    assert link_units(graph, 10).tolist() == [4, 0, 0, 1, 0, 3, 2, 2, 0, 2]
    assert (trees.root.tolist(), trees.multiplicity.tolist()) == ([0, 1], [2, 3])
    again = list(single_path_trees(to_forest(problem, graph, trees)))
    assert sorted((one.root, one.multiplicity, tuple(one.parent)) for one in again) == [
        (0, 2, (-1, 2, 0)),
        (1, 1, (1, -1, 1)),
        (1, 2, (1, -1, 1)),
    ]
    assert {path for one in again for ((path, _),) in one.paths.values()} == {
        (0, 5),
        (6,),
        (0, 3),
        (9,),
        (7,),
    }


def test_steps_by_default() -> None:
    """1500 for each unit tree and rank, four times as many where these are few; 16 parts of a tree."""

    def steps(trees: int, units: int, ranks: int) -> int:
        parents = np.full((trees, ranks), 0, dtype=np.int32)
        return default_steps(
            Packing(np.zeros(trees, dtype=np.int32), np.full(trees, units), parents, speculative=0, exact=0)
        )

    assert steps(2, 3, 10) == 1500 * 240
    assert steps(2, 16, 8) == 1500 * 1024
    assert steps(2, 17, 8) == steps(2, 16, 8)  # no more parts
    assert steps(3, 16, 8) == 1500 * 1024
    assert steps(2, 16, 40) == 1500 * 1280
    assert steps(200, 16, 100) == 10**8


def test_why_height_first_is_not_tried() -> None:
    problem, _, two = in_a_triangle()
    low = route_trees(problem, problem.bandwidths, two)
    assert low == PackingAttempt(Packer.HEIGHT_FIRST, "not tried: the fabric has no switches")
    star = gather(on_a_switch(4))
    ones = np.ones(4, dtype=np.int64)
    wide = route_trees(star, star.bandwidths, ones)
    assert wide == PackingAttempt(
        Packer.HEIGHT_FIRST, "not tried: some set of several ranks is tight, and no single rank"
    )
    tight = np.full(8, 3, dtype=np.int64)
    made = route_trees(star, tight, ones)
    assert isinstance(made, Packed)
    assert made.attempts[0].outcome.startswith("made the forest: height 1, ")
    assert route_trees(star, tight, ones, below=1) == PackingAttempt(
        Packer.HEIGHT_FIRST, "not tried: no forest is lower"
    )
    assert isinstance(route_trees(star, star.bandwidths, ones, asked=True), Packed)
    assert isinstance(route_trees(star, tight, ones, below=2), Packed)


def test_what_height_first_came_to() -> None:
    star = gather(on_a_switch(4))
    ones = np.ones(4, dtype=np.int64)
    none = pack_height_first(star, np.full(8, 3), ones, heights=range(0))
    assert (none.graph, none.packing, none.outcome) == (None, None, "not tried: no forest is lower")
    many = np.full(4, 2**19 + 1)
    too_many = pack_height_first(star, np.full(8, 2**30), many, heights=range(1, 2))
    assert too_many.outcome == f"not tried: {2**21 + 4} unit trees of 4 ranks are too many"
    scarce = pack_height_first(star, np.full(8, 2), ones, heights=range(1, 3))
    assert scarce.outcome.startswith("failed: ")
    assert scarce.outcome.endswith(" units too many on their links at height 2")


def test_trees_that_match_no_capacities() -> None:
    """Two nodes of three have no way in; too many trees to count."""
    arcs = np.array([0], dtype=np.int32), np.array([1], dtype=np.int32), np.array([9])
    found = match_vertices(Digraph(np.array([1, 0, 0]), *arcs))
    assert found.failure == "some node is not reached"
    ends = np.array([0, 1], dtype=np.int32), np.array([1, 0], dtype=np.int32)
    scarce = match_vertices(Digraph(np.array([3, 1]), *ends, np.array([2, 1])))
    assert scarce.failure == "stuck with 1 trees too many on their arcs at height 1"
    assert scarce.overload == 1
    bundled = match_vertices(Digraph(np.array([4, 2]), *ends, np.array([5, 2])), unit=2)
    assert not bundled.failure
    assert (bundled.root.tolist(), bundled.multiplicity.tolist()) == ([0, 1], [4, 2])
    assert bundled.parent.tolist() == [[-1, 0], [1, -1]]


def test_trees_that_are_low_enough_stay() -> None:
    problem, graph, _ = in_a_triangle()
    same = rebuild_trees(problem, graph, STARS)
    assert (same.packing, same.before, same.after, same.work) == (STARS, 1, 1, 0)
    high = rebuild_trees(problem, graph, LINE, lowest=2)
    assert (high.packing, high.before, high.after, high.work) == (LINE, 2, 2, 0)
    lower = rebuild_trees(problem, graph, LINE)
    assert (lower.before, lower.after) == (2, 1)
    assert lower.packing.root.tolist() == [0, 1, 2]
    assert lower.packing.parent.tolist() == STARS.parent.tolist()
    assert lower.packing.multiplicity.tolist() == [2, 2, 2]
    kept = reduce_tree_heights(problem, graph, LINE, lowest=2)
    assert (kept.packing, kept.before, kept.after, kept.failure) == (LINE, 2, 2, "")


def test_what_local_search_tells() -> None:
    problem, graph, _ = in_a_triangle()
    start = Packed(graph, LINE, Packer.GROWTH, (PackingAttempt(Packer.GROWTH, "made it"),))
    found = local_search(start, problem, problem.bandwidths)
    assert found.packer is Packer.GROWTH
    assert found.attempts[0].outcome == "made it"
    assert found.attempts[1].packer is Packer.LOCAL_SEARCH
    assert found.attempts[1].outcome.startswith("height 2 -> 1 (at least 1): ")
    assert found.attempts[1].outcome.split(": ")[1].split(", ")[0].endswith(" trees grown anew")
    assert found.packing.parent.tolist() == STARS.parent.tolist()
    done = local_search(Packed(graph, STARS, Packer.GROWTH, ()), problem, problem.bandwidths)
    assert (done.packing, done.attempts) == (STARS, ())


def test_forests_that_cannot_be_lower_are_given_back() -> None:
    problem, _, _ = in_a_triangle()
    specs = [TreeSpec(r, 2, [-1 if v == r else r for v in range(3)], STARRED[r]) for r in range(3)]
    forest = forest_from_trees(Direction.BROADCAST, 3, specs)
    attempts = (PackingAttempt(Packer.TIGHT_CUTS, "made it"),)
    found = reduce_height(problem, forest, problem.bandwidths, Packer.TIGHT_CUTS, attempts, height=1)
    assert found == (forest, Packer.TIGHT_CUTS, attempts)
    chain = [
        TreeSpec(0, 2, [-1, 0, 1], {1: [((0,), 2)], 2: [((2,), 2)]}),
        TreeSpec(1, 2, [1, -1, 1], STARRED[1]),
        TreeSpec(2, 2, [1, 2, -1], {1: [((3,), 2)], 0: [((1,), 2)]}),
    ]
    high = forest_from_trees(Direction.BROADCAST, 3, chain)
    lower, packer, told = reduce_height(
        problem, high, problem.bandwidths, Packer.TIGHT_CUTS, attempts, height=2
    )
    assert packer is Packer.TIGHT_CUTS
    assert [one.outcome for one in told[:2]] == ["made it", "not tried: the fabric has no switches"]
    assert [(one.root, list(one.parent)) for one in single_path_trees(lower)] == [
        (0, [-1, 0, 0]),
        (1, [1, -1, 1]),
        (2, [2, 2, -1]),
    ]


# links of the triangle: r0 r1 and back 0, 1; r1 r2 2, 3; r2 r0 4, 5
STARRED: list[dict[int, list[tuple[tuple[int, ...], int]]]] = [
    {1: [((0,), 2)], 2: [((5,), 2)]},
    {0: [((1,), 2)], 2: [((2,), 2)]},
    {0: [((4,), 2)], 1: [((3,), 2)]},
]


def test_paths_of_in_trees() -> None:
    fabric = ring(4, 4, 4)
    problem = instance_of(fabric, on_all_ranks(fabric, CollectiveKind.REDUCE_SCATTER))
    two = np.full(3, 2, dtype=np.int64)
    graph = remove_switches(problem, problem.bandwidths, two)
    forest = to_forest(problem, graph, packing((0, 2, [-1, 0, 0])))
    assert forest.direction is Direction.REDUCE
    (spec,) = single_path_trees(forest)
    assert spec.paths == {1: [((1,), 2)], 2: [((4,), 2)]}  # from the children to the root
