"""Parts of the hierarchical all-to-all: which pairs look alike, mean lengths, merged paths, the program."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle.schedules.alltoall.alltoall_witness import DistanceWitness
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.routes.path_sets import from_lists
from treadle.synthesis.alltoall.steps.hierarchical import (
    HierarchicalRoutes,
    _alike,
    _averaged,
    _LeastLoad,
    _merged,
    _relayed,
    _tightest,
    hierarchical_routes,
)
from treadle.synthesis.alltoall.steps.relays import Way, Ways
from treadle.topologies.topology import Topology, TopologyBuilder

ALLTOALL = CollectiveKind.ALLTOALL


def boxes() -> Topology:
    """Two boxes of two at a spine: links 0 to 7 up and down of a0 to b1, then 8, 9 within a, 10, 11 in b."""
    builder = TopologyBuilder("boxes")
    for name in ("a0", "a1", "b0", "b1"):
        builder.compute(name)
    builder.switch("spine")
    for name in ("a0", "a1", "b0", "b1"):
        builder.duplex(name, "spine", 2)
    for box in "ab":
        builder.duplex(f"{box}0", f"{box}1", 8)
    return builder.build()


def everyone() -> Collective:
    return Collective(ALLTOALL, (0, 1, 2, 3))


def test_pairs_of_the_same_lanes_and_distance_look_alike() -> None:
    layout = Ways(boxes(), everyone(), [(0, 1), (2, 3)])
    number = dict(
        zip(
            zip(layout.source.tolist(), layout.target.tolist(), strict=True),
            _alike(layout).tolist(),
            strict=True,
        )
    )
    assert len(set(number.values())) == 6  # two lanes within a box, four between them
    for (source, target), kind in number.items():
        for (one, other), again in number.items():
            same = (source // 2 == target // 2) == (one // 2 == other // 2)
            assert (kind == again) == (same and source % 2 == one % 2 and target % 2 == other % 2)
    crossed = Ways(boxes(), everyone(), [(0, 1), (3, 2)])
    kinds = _alike(crossed)
    pairs = list(zip(crossed.source.tolist(), crossed.target.tolist(), strict=True))
    assert kinds[pairs.index((0, 3))] == kinds[pairs.index((3, 0))]
    assert kinds[pairs.index((0, 3))] != kinds[pairs.index((0, 2))]


def test_lengths_are_averaged_over_what_is_alike() -> None:
    assert _averaged(np.array([1.0, 4.0, 3.0, 6.0]), np.array([7, 5, 7, 7])).tolist() == pytest.approx(
        [10 / 3, 4, 10 / 3, 10 / 3]
    )


def test_the_tightest_bound_of_some_lengths() -> None:
    """Of the links of each rank into the spine: 4 * 2 B/s for 8 pairs of 4 units, once up and once down."""
    fabric = boxes()
    up = (fabric.heads == 4).astype(float)
    none = np.where(np.arange(12) == 8, 1.0, 0.0)
    bound, witness = _tightest(fabric, everyone(), [np.ones(12), up, none])
    assert bound == Fraction(4 * 2 * 4, 8)
    assert witness.lengths.tolist() == up.tolist()
    # lengths that prove nothing are passed over, and equal ones leave the first
    again, first = _tightest(fabric, everyone(), [up, none, 2 * up])
    assert (again, first.lengths.tolist()) == (bound, up.tolist())


def test_paths_of_several_ways_are_merged() -> None:
    """Paths of ways in the order of pairs: the same one twice, one without weight."""
    paths = from_lists([(0, 2, [0, 5]), (0, 2, [8, 2, 5]), (1, 0, [9]), (2, 0, [4, 1])])
    twice = paths.take(np.array([0, 1, 2, 3]))
    merged, weights = _merged(twice, np.array([0.5, 1e-10, 0.25, 1.0]))
    assert [merged.links_of(number).tolist() for number in range(3)] == [[0, 5], [9], [4, 1]]
    assert weights.tolist() == [0.5, 0.25, 1.0]


def test_what_passes_a_rank_between_boxes() -> None:
    """From a0 to b0 directly 3, by a1 1; within box a 9 by links of its own; nothing else counts."""
    fabric = boxes()
    layout = Ways(fabric, everyone(), [(0, 1), (2, 3)])
    paths = from_lists([(0, 1, [8]), (0, 2, [0, 5]), (0, 2, [8, 2, 5])])
    assert _relayed(fabric, layout, paths, np.array([9.0, 3.0, 1.0])) == 0.25
    assert _relayed(fabric, layout, paths.take(np.array([0])), np.array([9.0])) == 0


def test_the_least_load_and_then_the_least_in_all() -> None:
    """Two rows: columns over link 0 (2), link 1 (1) and both (1 and 1); and over link 1 (1) alone."""
    lp = _LeastLoad(2, 2)
    lp.add(
        np.array([0, 0, 0, 1]),
        np.array([0, 1, 2, 2, 3]),
        np.array([0, 1, 0, 1, 1]),
        np.array([2.0, 1, 1, 1, 1]),
    )
    values, time, lengths = lp.solve()
    # x over link 0: 2 x = 1 + (1 - x)
    assert time == pytest.approx(4 / 3)
    assert values.tolist() == pytest.approx([2 / 3, 1 / 3, 0, 1], abs=1e-6)
    # a unit more of link 0 helps a third as much as it has, of link 1 two thirds
    assert lengths.tolist() == pytest.approx([1 / 3, 2 / 3])
    # of equal ones the first, of equal times the least in all
    lp = _LeastLoad(1, 3)
    lp.add(np.array([0, 0, 0]), np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2]), np.array([1.0, 1, 1, 1]))
    values, time, _ = lp.solve()
    assert time == pytest.approx(1 / 2, abs=1e-6)
    assert values.tolist() == pytest.approx([0, 0.5, 0.5], abs=1e-6)


def test_gaps_and_default_boxes() -> None:
    fabric = boxes()
    found = hierarchical_routes(fabric, everyone())
    assert found.boxes == ((0, 1), (2, 3))
    assert found.gap == pytest.approx(0, abs=1e-6)
    assert found.algbw == found.upper == 4
    schedule = found.schedule
    made = HierarchicalRoutes(
        schedule,
        Fraction(3),
        3.0,
        Fraction(4),
        DistanceWitness(np.ones(12, dtype=np.int64)),
        found.boxes,
        0.0,
    )
    assert made.gap == 0.25
    assert (
        HierarchicalRoutes(schedule, Fraction(5), 5.0, Fraction(4), made.witness, found.boxes, 0.0).gap == 0
    )
    before = hierarchical_routes(fabric, everyone(), ways=(Way.RELAY_BEFORE,))
    # half of the data between boxes has to change its lane first
    assert before.relayed == pytest.approx(0.5)
