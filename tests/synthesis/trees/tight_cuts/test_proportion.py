"""Integers in proportion, scales of cut classes, and layers of boxes."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees.fixed_trees import Cut, least_scale, scale_bound
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.tight_cuts.components import Split, single_rate, split_layers
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.near_egress import assigned
from treadle.synthesis.trees.tight_cuts.proportion import in_proportion, quotas
from treadle.synthesis.trees.tight_cuts.scales import cut_against, cut_classes
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported


@pytest.mark.parametrize("factor", [1, 2**28, 2**31])
def test_floors_of_shares(factor: int) -> None:
    """Also where products pass 64 bits."""
    parts, given = np.array([3, 5, 0, 7]) * factor, np.array([4, 2, 9, 6]) * factor
    total = np.array([5, 7, 1, 8]) * factor
    wanted = [p * g // t for p, g, t in zip(parts.tolist(), given.tolist(), total.tolist(), strict=True)]
    assert in_proportion(parts, given, total).tolist() == wanted
    none = np.zeros(0, dtype=np.int64)
    assert in_proportion(none, none, none).tolist() == []


def test_quotas_of_groups() -> None:
    """Group 1 of sizes 4, 2, 6 wants 7: up to 4 that is 28 // 12 = 2, up to 6 it is 3; group 0 wants all."""
    sizes, group = np.array([4, 3, 2, 5, 6, 8]), np.array([1, 0, 1, 2, 1, 0])
    assert quotas(sizes, group, np.array([11, 7, 0])).tolist() == [2, 3, 1, 0, 4, 8]
    assert quotas(sizes, group, np.array([5, 12, 5])).tolist() == [4, 1, 2, 5, 6, 4]
    assert quotas(np.array([0, 0]), np.array([0, 0]), np.array([0])).tolist() == [0, 0]


def odd_boxes() -> tuple[Instance, Family]:
    """Ranks a, b in set 1 with s, c, d in set 2, e in none; p joins all; unequal links and weights."""
    builder = TopologyBuilder("odd")
    for name in "abcde":
        builder.compute(name)
    builder.switch("s")
    builder.switch("p")
    for one, other, bandwidth in (("a", "s", 40), ("b", "s", 30), ("c", "d", 20)):
        builder.duplex(one, other, bandwidth)
    for name, bandwidth in (("a", 3), ("b", 3), ("c", 4), ("d", 5), ("e", 6)):
        builder.link(name, "p", bandwidth)
        builder.link("p", name, bandwidth + 1)
    builder.link("b", "b", 9)
    problem = instance_of(
        builder.build(), Collective(CollectiveKind.ALLGATHER, (4, 0, 1, 2, 3), weights=(2, 1, 0, 3, 1))
    )
    outer, innermost = np.array([-1, 0, 0], dtype=np.int32), np.array([1, 1, 2, 2, 0, 1, 0], dtype=np.int32)
    return problem, Family(outer, innermost)


def test_cut_classes_of_a_family() -> None:
    """Weights are 1, 0, 3, 1 and 2 from a to e, 7 in all."""
    problem, family = odd_boxes()
    found = {
        (one.nodes, tuple(sorted(one.links.items())), one.demand) for one in cut_classes(problem, family)
    }
    assert found == {
        ((0,), ((4, 1), (40, 1)), 6),
        ((1,), ((4, 1), (30, 1)), 7),
        ((2,), ((5, 1), (20, 1)), 4),
        ((3,), ((6, 1), (20, 1)), 6),
        ((4,), ((7, 1),), 5),
        ((0, 1, 5), ((4, 2),), 6),
        ((2, 3), ((5, 1), (6, 1)), 3),
    }


def test_cuts_that_are_alike_count_once() -> None:
    builder = TopologyBuilder("alike")
    for name in "abc":
        builder.compute(name)
    for pair in ("ab", "bc", "ca"):
        builder.duplex(pair[0], pair[1], 3 if pair != "ca" else 5)
    problem = instance_of(builder.build(), on_all_ranks(builder.build(), CollectiveKind.ALLGATHER))
    whole = Family(np.array([-1], dtype=np.int32), np.zeros(3, dtype=np.int32))
    found = cut_classes(problem, whole)
    # a and c both take in 3 and 5
    assert sorted((one.nodes, dict(one.links)) for one in found) == [((0,), {3: 1, 5: 1}), ((1,), {3: 2})]


def test_a_cut_as_a_class() -> None:
    problem, _ = odd_boxes()
    found = cut_against(problem, np.array([2, 3, 6], dtype=np.int32))
    assert found == Cut(Counter([4, 4, 7]), 4, (0, 1, 4, 5))
    assert found is not None
    assert found.rate == Fraction(15, 4)
    assert [found.units(Fraction(*scale)) for scale in ((1, 7), (1, 4), (3, 7), (1, 1))] == [1, 3, 5, 15]
    assert cut_against(problem, np.array([1, 5, 6], dtype=np.int32)) is None  # no shard inside
    assert cut_against(problem, np.array([0, 1, 2, 3, 4], dtype=np.int32)) is None  # no rank outside


def test_the_scale_that_serves_all_classes() -> None:
    classes = [
        Cut(Counter({3: 2, 7: 1}), 5, ()),
        Cut(Counter({5: 1, 4: 2}), 4, ()),
        Cut(Counter({11: 1}), 6, ()),
    ]
    rate = min(one.rate for one in classes)
    assert rate == Fraction(11, 6)
    for trees in range(1, 9):
        scale = scale_bound(rate, trees, classes)
        each = [least_scale(one.links, trees * one.demand, trees / rate) for one in classes]
        assert scale >= max(each)
        assert all(one.units(scale) >= trees * one.demand for one in classes)
        # breakpoints below it do not serve all
        points = {Fraction(j, b) for b in (3, 4, 5, 7, 11) for j in range(80)} | {trees / rate}
        assert scale == min(
            point
            for point in points
            if point >= trees / rate and all(one.units(point) >= trees * one.demand for one in classes)
        )


def boxes(
    n_boxes: int, size: int, inside: int, *, across: int, odd: int = 0, direct: bool = False
) -> Topology:
    """Boxes on switches, all ranks at a network switch besides; rank 0's links there differ by `odd`."""
    builder = TopologyBuilder("boxes")
    builder.switch("network")
    for box in range(n_boxes):
        builder.switch(f"s{box}")
        for place in range(size):
            name = builder.compute(f"g{box}.{place}")
            builder.duplex(name, f"s{box}", inside)
            builder.duplex(name, "network", across + (odd if box == place == 0 else 0))
    if direct:
        builder.duplex("g0.0", "g1.0", across)
    return builder.build()


def family_of(topology: Topology, size: int) -> Family:
    """The boxes as sets."""
    width = size + 1
    innermost = [0, *(1 + (node - 1) // width for node in range(1, topology.n_nodes))]
    return Family(np.array([-1, *[0] * max(innermost)], dtype=np.int32), np.array(innermost, dtype=np.int32))


def split(topology: Topology, size: int, *, weights: tuple[int, ...] | None = None) -> Split | Unsupported:
    ranks = tuple(topology.compute_nodes.tolist())
    problem = instance_of(topology, Collective(CollectiveKind.ALLGATHER, ranks, weights=weights))
    return split_layers(problem, family_of(topology, size))


@pytest.mark.parametrize(
    ("n_boxes", "size", "inside", "across", "scale", "trees"),
    [
        # boxes 12 * 5 = 60, flat 6 * (5 - 1) - 12 = 12: 5 : 1; the border of 6 has 5 + 5, the inside 20 units
        (2, 3, 12, 6, Fraction(5, 3), (5, 1)),
        # 2 * 5 = 10 : 6 * (5 - 1) - 2 = 22
        (2, 3, 2, 6, Fraction(10), (5, 11)),
        # three boxes of two: 5 * 5 = 25 : 4 * (5 - 2) - 2 * 5 = 2
        (3, 2, 5, 4, Fraction(15), (25, 2)),
    ],
)
def test_two_layers_fill_every_rank(
    n_boxes: int, size: int, inside: int, across: int, scale: Fraction, trees: tuple[int, int]
) -> None:
    fabric = boxes(n_boxes, size, inside, across=across)
    found = split(fabric, size)
    assert isinstance(found, Split)
    assert [set(part.multiplicities.tolist()) for part in found.parts] == [{each} for each in trees]
    assert (found.scale, found.trees) == (scale, sum(trees))
    n, others = n_boxes * size, n_boxes - 1
    layers = (part.capacities.tolist() for part in found.parts)
    for bandwidth, one, other in zip(fabric.bandwidths.tolist(), *layers, strict=True):
        if bandwidth == inside:
            assert (one, other) == (trees[0] * (n - 1 - others), 0)
            assert one == scale * inside
        else:
            assert (one, other) == (trees[0] * others, trees[1] * (n - 1))
            assert one + other == scale * across


@pytest.mark.parametrize(
    ("fabric", "weights", "words"),
    [
        (boxes(2, 3, 12, across=6), (1, 1, 2, 1, 1, 1), "shards are unequal"),
        (boxes(2, 3, 12, across=6, odd=1), None, "ranks are joined unequally"),
        (boxes(2, 3, 60, across=6), None, "the egress of boxes binds, not that of ranks"),
    ],
)
def test_boxes_of_which_no_layers_are_made(
    fabric: Topology, weights: tuple[int, ...] | None, words: str
) -> None:
    found = split(fabric, 3, weights=weights)
    assert isinstance(found, Unsupported)
    assert str(found) == words


def test_borders_that_just_bind_make_no_flat_layer() -> None:
    """24 (6 - 2) - 24 = 0 flat trees: 6 * 4 = 24."""
    found = split(boxes(2, 3, 24, across=6), 3)
    assert isinstance(found, Split)
    assert (found.trees, len(found.parts)) == (1, 1)
    assert isinstance(split(boxes(2, 3, 25, across=6), 3), Unsupported)


def test_families_of_which_no_layers_are_made() -> None:
    fabric = boxes(2, 3, 12, across=6, direct=True)
    found = split(fabric, 3)
    assert isinstance(found, Unsupported)
    assert str(found) == "ranks are joined unequally"
    plain = boxes(2, 2, 12, across=6)
    problem = instance_of(plain, on_all_ranks(plain, CollectiveKind.ALLGATHER))
    none = Family(np.array([-1], dtype=np.int32), np.zeros(7, dtype=np.int32))
    lone = family_of(plain, 2).innermost.copy()
    lone[2] = 0
    for family in (none, Family(np.array([-1, 0, 0], dtype=np.int32), lone)):
        refused = split_layers(problem, family)
        assert isinstance(refused, Unsupported)
        assert str(refused) == "ranks are not all in boxes that are not nested"
    builder = TopologyBuilder("paired")
    for name in "abcd":
        builder.compute(name)
    for one, other, bandwidth in (("a", "b", 4), ("c", "d", 4), ("a", "c", 3), ("b", "d", 3)):
        builder.duplex(one, other, bandwidth)
    paired = builder.build()
    refused = split_layers(
        instance_of(paired, on_all_ranks(paired, CollectiveKind.ALLGATHER)),
        Family(np.array([-1, 0, 0], dtype=np.int32), np.array([1, 1, 2, 2], dtype=np.int32)),
    )
    assert isinstance(refused, Unsupported)
    assert str(refused) == "links across a box's boundary do not all join a rank and a switch outside"


def test_the_rate_of_the_scarcest_rank() -> None:
    """Loops carry nothing; e takes in 7 bytes/s, and the lightest shard is 0 of 7."""
    problem, _ = odd_boxes()
    assert single_rate(problem) == Fraction(7, 7)
    builder = TopologyBuilder("alone")
    builder.compute("a")
    builder.compute("b")
    builder.link("a", "b", 5)
    builder.link("a", "a", 5)
    collective = Collective(CollectiveKind.ALLGATHER, (0, 1), weights=(1, 0))
    assert single_rate(instance_of(builder.build(), collective)) == 0


@pytest.mark.parametrize(
    ("need", "have", "depth", "latest"),
    [
        ([3, 2], [2, 3], [[0, 1], [1, 0]], {0: {0: 2, 1: 1}, 1: {1: 2}}),
        ([2, 2, 2], [1, 2, 3], [[0, 1, 2], [1, 0, 1], [2, 1, 0]], None),
        ([4], [1, 1, 2], [[3, 0, 1]], {0: {0: 1, 1: 1, 2: 2}}),
    ],
)
def test_units_of_near_suppliers(
    need: list[int], have: list[int], depth: list[list[int]], latest: dict[int, dict[int, int]] | None
) -> None:
    """All that is needed, no more than there is, and as near as can be."""
    before = list(need), list(have)
    flow = assigned(need, have, np.array(depth))
    assert (need, have) == before
    assert [sum(taken.values()) for taken in flow] == need
    for supplier, units in enumerate(have):
        assert sum(taken.get(supplier, 0) for taken in flow) <= units
    if latest is not None:
        assert [{one: units for one, units in taken.items() if units} for taken in flow] == list(
            latest.values()
        )
    else:  # taker 0 lacks one unit, which taker 1 gives up for one of supplier 2
        assert max(depth[i][j] for i, taken in enumerate(flow) for j, units in taken.items() if units) == 1
