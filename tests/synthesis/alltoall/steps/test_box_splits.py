"""Parts of the hierarchical all-to-all: which pairs look alike, mean lengths, merged paths, the program."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.routes.path_sets import from_lists
from treadle.synthesis.alltoall.steps import relays
from treadle.synthesis.alltoall.steps.hierarchical import (
    HierarchicalRoutes,
    _alike,
    _averaged,
    _least_load,
    _merged,
    _relayed,
    _tightest,
    hierarchical_routes,
)
from treadle.synthesis.alltoall.steps.relays import RelayPath, RelayPaths, _positions, candidates
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
    layout = RelayPaths(boxes(), everyone(), [(0, 1), (2, 3)])
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
    crossed = RelayPaths(boxes(), everyone(), [(0, 1), (3, 2)])
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
    bound, certificate = _tightest(fabric, everyone(), [np.ones(12), up, none])
    assert bound == Fraction(4 * 2 * 4, 8)
    assert certificate.lengths.tolist() == up.tolist()
    # lengths that prove nothing are passed over, and equal ones leave the first
    again, first = _tightest(fabric, everyone(), [up, none, 2 * up])
    assert (again, first.lengths.tolist()) == (bound, up.tolist())


def test_paths_of_several_ways_are_merged() -> None:
    """Paths of ways in the order of pairs: the same one twice, one without weight."""
    paths = from_lists([(0, 2, [0, 5]), (0, 2, [8, 2, 5]), (1, 0, [9]), (2, 0, [4, 1])])
    twice = paths.take(np.array([0, 1, 2, 3]))
    merged = _merged(twice, np.array([0.5, 1e-10, 0.25, 1.0]))
    assert [merged.paths.links_of(number).tolist() for number in range(3)] == [[0, 5], [9], [4, 1]]
    assert merged.weights.tolist() == [0.5, 0.25, 1.0]


def test_what_passes_a_rank_between_boxes() -> None:
    """From a0 to b0 directly 3, by a1 1; within box a 9 by links of its own; nothing else counts."""
    fabric = boxes()
    layout = RelayPaths(fabric, everyone(), [(0, 1), (2, 3)])
    paths = from_lists([(0, 1, [8]), (0, 2, [0, 5]), (0, 2, [8, 2, 5])])
    assert _relayed(fabric, layout, paths, np.array([9.0, 3.0, 1.0])) == 0.25
    assert _relayed(fabric, layout, paths.take(np.array([0])), np.array([9.0])) == 0


def test_the_least_load_and_then_the_least_in_all() -> None:
    """Two rows: columns over link 0 (2), link 1 (1) and both (1 and 1); and over link 1 (1) alone."""
    columns, links, loads = np.array([0, 1, 2, 2, 3]), np.array([0, 1, 0, 1, 1]), np.array([2.0, 1, 1, 1, 1])
    values, time, lengths = _least_load(2, 2, np.array([0, 0, 0, 1]), columns, links, loads)
    # x over link 0: 2 x = 1 + (1 - x)
    assert time == pytest.approx(4 / 3)
    assert values.tolist() == pytest.approx([2 / 3, 1 / 3, 0, 1], abs=1e-6)
    # a unit more of link 0 helps a third as much as it has, of link 1 two thirds
    assert lengths.tolist() == pytest.approx([1 / 3, 2 / 3])
    # of equal ones the first, of equal times the least in all
    columns, links, loads = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2]), np.array([1.0, 1, 1, 1])
    values, time, _ = _least_load(1, 3, np.array([0, 0, 0]), columns, links, loads)
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
        FlowDualCertificate(np.ones(12, dtype=np.int64)),
        found.boxes,
        0.0,
    )
    assert made.gap == 0.25
    assert (
        HierarchicalRoutes(schedule, Fraction(5), 5.0, Fraction(4), made.certificate, found.boxes, 0.0).gap
        == 0
    )
    before = hierarchical_routes(fabric, everyone(), ways=(RelayPath.RELAY_BEFORE,))
    # half of the data between boxes has to change its lane first
    assert before.relayed == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("planes", "spines", "count"), [(3, 5, 15), (4, 4, 16), (3, 7, 7), (7, 3, 7), (17, 1, 16)]
)
def test_legs_with_choices_are_combined_or_go_in_step(planes: int, spines: int, count: int) -> None:
    """From a0 over a1, by any of the planes in its box, to b1, by any spine: all pairs of up to 16 paths."""
    builder = TopologyBuilder("planes")
    names = ("a0", "a1", "b0", "b1")
    for name in names:
        builder.compute(name)
    for plane in range(planes):
        for box in "ab":
            builder.switch(f"{box} plane {plane}")
            for lane in "01":
                builder.duplex(f"{box}{lane}", f"{box} plane {plane}", 8)
    for spine in range(spines):
        builder.switch(f"spine {spine}")
        for name in names:
            builder.duplex(name, f"spine {spine}", 2)
    fabric = builder.build()
    ways = RelayPaths(fabric, everyone(), [(0, 1), (2, 3)])
    paths = ways.paths(RelayPath.RELAY_BEFORE, 0, 3)
    assert [share for share, _ in paths] == [pytest.approx(1 / count)] * count
    through = [[fabric.node_names[fabric.heads[link]] for link in links][:-1] for _, links in paths]
    assert len({tuple(nodes) for nodes in through}) == count
    assert all(nodes[1] == "a1" and len(nodes) == 3 for nodes in through)
    for place, choices, word in ((0, min(planes, 16), "a plane"), (2, spines, "spine")):
        used = [nodes[place] for nodes in through]
        assert all(name.startswith(word) for name in used)
        times = [used.count(name) for name in set(used)]
        assert len(times) == choices
        assert max(times) - min(times) <= 1


def test_lanes_are_taken_in_turn_and_not_all_of_many() -> None:
    assert _positions(3, 4) == [1, 2, 0]
    assert _positions(16, 1) == [*range(1, 16), 0]
    assert _positions(20, 18) == [18, 19, *range(14)]


def test_paths_of_all_pairs_are_counted_before_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of twelve pairs has one direct path; relays serve the eight pairs between boxes alone."""
    ways = RelayPaths(boxes(), everyone(), [(0, 1), (2, 3)])
    monkeypatch.setattr(relays, "_MAX_PATHS", 12)
    found = candidates(ways, [RelayPath.DIRECT])
    assert found.pair.tolist() == list(range(12))
    assert (found.way.tolist(), found.share.tolist()) == ([0] * 12, [1.0] * 12)
    # pairs that no wanted way serves go directly
    later = candidates(ways, [RelayPath.RELAY_AFTER])
    inside = [source // 2 == target // 2 for source, target in zip(ways.source, ways.target, strict=True)]
    assert later.way.tolist() == [0 if one else 2 for one in inside]
    monkeypatch.setattr(relays, "_MAX_PATHS", 11)
    with pytest.raises(ScheduleError) as caught:
        candidates(ways, [RelayPath.DIRECT])
    assert str(caught.value) == (
        "12 paths for the first 12 pairs; fewer ways, such as direct and relay-before, make fewer"
    )
    for wrong in ([(0, 1), (2,)], [(0, 1), (2, 3, 0)]):
        with pytest.raises(ScheduleError, match=r"^boxes: expected each of 4 ranks in one box, once$"):
            RelayPaths(boxes(), everyone(), wrong)
