"""Route schedules and their verifier: what is right passes, every kind of mistake is found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.topologies import complete, parse, ring
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.routes import route_check
from treadle.verification.routes.route_check import verify_routes
from treadle.verification.violations import ViolationKind

RING = ring(4, bidirectional=False, bandwidth=10)
EVERYONE = on_all_ranks(RING, CollectiveKind.ALLTOALL)


def around(n: int, units: int = 1) -> RouteSchedule:
    """The only routes of a unidirectional ring."""
    return routes_from_paths(
        n,
        units,
        [(i, (i + k) % n, units, 0, [(i + h) % n for h in range(k)]) for i in range(n) for k in range(1, n)],
    )


def dateline(n: int) -> RouteSchedule:
    """The same in two layers: paths over the last link use the second one."""
    routes = around(n)
    crosses = [n - 1 in routes.path(p)[:-1] for p in range(routes.n_paths)]
    return replace(routes, layer=np.array(crosses, dtype=np.int32))


def test_a_ring_in_two_layers() -> None:
    report = verify_routes(RING, EVERYONE, dateline(4), claimed_algbw=Fraction(20, 3), max_layers=2)
    assert report.is_ok, report.violations
    assert report.algbw == Fraction(20, 3)  # 6 pairs cross each link, W = 4


def test_a_ring_in_one_layer_deadlocks() -> None:
    report = verify_routes(RING, EVERYONE, around(4))
    assert [violation.kind for violation in report.violations] == [ViolationKind.DEADLOCK]
    assert "4 links wait" in report.violations[0].message
    assert report.algbw is None


def test_the_witness_proves_the_ring_optimal() -> None:
    certificate = FlowDualCertificate(np.ones(4, dtype=np.int64))
    report = verify_routes(
        RING, EVERYONE, dateline(4), claimed_optimal_algbw=Fraction(20, 3), certificate=certificate
    )
    assert report.is_optimal


def test_demands_scale_the_chunks() -> None:
    pair = complete(2, bandwidth=6)
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1), demands=Demands(np.array([[0, 3], [1, 5]])))
    routes = routes_from_paths(2, 2, [(0, 1, 6, 0, [0]), (1, 0, 2, 0, [1])])
    report = verify_routes(pair, collective, routes)
    assert report.is_ok
    assert report.algbw == Fraction(8 * 6, 3)  # rank 1 gets 3 + 5 units; 3 of them cross at 6 bytes/s


def test_injection_caps_count_own_data_only() -> None:
    builder = TopologyBuilder("capped")
    names = [builder.compute(f"n{i}", injection_bytes_per_s=2) for i in range(4)]
    for i in range(4):
        builder.link(names[i], names[(i + 1) % 4], 10)
    report = verify_routes(builder.build(), EVERYONE, dateline(4))
    assert report.algbw == 4 * Fraction(2, 3)  # the links alone would allow 20/3


@pytest.mark.parametrize("is_sender", [True, False])
def test_caps_count_what_is_sent_and_what_is_received(is_sender: bool) -> None:
    """One host has all of the data, or gets all of it; links are ten times as fast as its cap."""
    builder = TopologyBuilder("star")
    names = [builder.compute(f"n{node}", injection_bytes_per_s=int(node == 0)) for node in range(3)]
    for leaf in names[1:]:
        builder.duplex(names[0], leaf, 10)
    star = builder.build()
    out = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    collective = Collective(
        CollectiveKind.ALLTOALL, (0, 1, 2), demands=Demands(out if is_sender else out.transpose())
    )
    ways = [(0, 1, 1, 0, [0]), (0, 2, 1, 0, [2])] if is_sender else [(1, 0, 1, 0, [1]), (2, 0, 1, 0, [3])]
    routes = routes_from_paths(3, 1, ways)
    assert verify_routes(star, collective, routes).algbw == 1  # 2 units in 2 seconds
    assert route_algbw(star, collective, routes) == 1


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"path_links": [1, 0, 1]}, ViolationKind.PATH),
        ({"path_links": [9, 0, 1]}, ViolationKind.LINK),
        ({"target": [0, 1]}, ViolationKind.ENDS),
        ({"units": [2, 1]}, ViolationKind.UNITS),
    ],
)
def test_mistakes(change: dict[str, Any], kind: ViolationKind) -> None:
    fabric = ring(3, bidirectional=False)
    demands = Demands(np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]]))
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=demands)
    good = routes_from_paths(3, 1, [(0, 2, 1, 0, [0, 1]), (1, 2, 1, 0, [1])])
    assert verify_routes(fabric, collective, good).is_ok
    assert kind in {v.kind for v in verify_routes(fabric, collective, replace(good, **change)).violations}


def test_a_path_that_comes_back_is_refused() -> None:
    fabric = ring(3)
    link = {(int(a), int(b)): e for e, (a, b) in enumerate(zip(fabric.tails, fabric.heads, strict=True))}
    demands = Demands(np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]]))
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=demands)
    routes = routes_from_paths(3, 1, [(0, 2, 1, 0, [link[0, 1], link[1, 0], link[0, 2]])])
    report = verify_routes(fabric, collective, routes)
    assert [str(v) for v in report.violations] == ["path: path 0, rank 0 to rank 2: visits a node twice"]


def test_self_loops_carry_nothing() -> None:
    fabric = parse("de_bruijn(2, 2)")
    loop = int(np.flatnonzero(fabric.tails == fabric.heads)[0])
    node = int(fabric.tails[loop])
    on = int(np.flatnonzero((fabric.tails == node) & (fabric.heads != node))[0])
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[node, fabric.heads[on]] = 1
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=Demands(matrix))
    routes = routes_from_paths(4, 1, [(node, int(fabric.heads[on]), 1, 0, [loop, on])])
    assert {v.kind for v in verify_routes(fabric, collective, routes).violations} == {ViolationKind.LINK}


def test_limits() -> None:
    report = verify_routes(RING, EVERYONE, dateline(4), max_layers=1, max_routes=0)
    kinds = [violation.kind for violation in report.violations]
    assert kinds == [ViolationKind.LIMIT] * 13  # 12 pairs, and the layers
    assert verify_routes(RING, EVERYONE, dateline(4), max_routes=1).is_ok


def test_false_claims() -> None:
    report = verify_routes(RING, EVERYONE, dateline(4), claimed_algbw=Fraction(7))
    assert [violation.kind for violation in report.violations] == [ViolationKind.CLAIM]
    report = verify_routes(RING, EVERYONE, dateline(4), claimed_optimal_algbw=Fraction(7))
    assert [violation.kind for violation in report.violations] == [ViolationKind.BOUND]


def test_another_collective_or_fabric() -> None:
    gather = on_all_ranks(RING, CollectiveKind.ALLGATHER)
    assert verify_routes(RING, gather, dateline(4)).violations[0].kind is ViolationKind.SHAPE
    assert verify_routes(RING, EVERYONE, around(3)).violations[0].kind is ViolationKind.SHAPE
    bigger: Topology = ring(5)
    assert verify_routes(bigger, EVERYONE, dateline(4)).violations[0].kind is ViolationKind.MEMBERSHIP


@pytest.mark.parametrize("block", [1, 5])
def test_paths_looked_at_part_by_part_say_the_same(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, ends, gaps, nodes that come twice, circles; and what the routes cost."""
    fabric = ring(4)
    collective = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    link = {(int(a), int(b)): e for e, (a, b) in enumerate(zip(fabric.tails, fabric.heads, strict=True))}
    ways = [(i, (i + k) % 4, [(i + h) % 4 for h in range(k + 1)]) for i in range(4) for k in (1, 2, 3)]

    def made(*walks: tuple[int, list[int]]) -> RouteSchedule:
        nodes = [dict(walks).get(number, way[2]) for number, way in enumerate(ways)]
        links = [[link[step] for step in pairwise(walk)] for walk in nodes]
        rows = [(way[0], way[1], 1, 0, walk) for way, walk in zip(ways, links, strict=True)]
        return routes_from_paths(4, 1, rows)

    circle = made()
    risen = replace(circle, hop_layer=np.zeros(len(circle.path_links), dtype=np.int32))
    cases = [circle, risen, made((1, [0, 1, 0, 1, 2]), (7, [2, 1, 2, 3, 0])), made((3, [1, 0]), (8, [2, 3]))]
    gaps = circle.path_links.copy()
    gaps[[3, -1]] = gaps[[-1, 3]]
    cases += [replace(circle, path_links=gaps), replace(circle, path_links=gaps + 4)]
    free = verify_routes(RING, EVERYONE, dateline(4))
    whole = [verify_routes(fabric, collective, case) for case in cases]
    assert [len(report.violations) for report in whole] == [1, 1, 2, 2, 4, 9]
    monkeypatch.setattr(route_check, "_BLOCK", block)
    assert [verify_routes(fabric, collective, case) for case in cases] == whole
    assert verify_routes(RING, EVERYONE, dateline(4)) == free


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.data())
def test_mutants_are_rejected(data: st.DataObject) -> None:
    """Any change of a link, of ends, of chunks or of layers breaks this ring's only schedule."""
    n = 4
    fabric = ring(n, bidirectional=False)
    collective = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    good = dateline(n)
    assert verify_routes(fabric, collective, good).is_ok
    key = data.draw(st.sampled_from(["path_links", "target", "units", "layer", "path_offset"]))
    array = getattr(good, key).copy()
    if key == "layer":
        array[:] = 0
    elif key == "path_offset":
        place = data.draw(st.integers(1, len(array) - 2))
        array[place] += data.draw(st.sampled_from([-1, 1]))
    else:
        place = data.draw(st.integers(0, len(array) - 1))
        array[place] = (array[place] + data.draw(st.integers(1, n - 1))) % (n if key != "units" else 100)
    try:
        mutant = replace(good, **{key: array})
    except ScheduleError:
        return  # the constructor refuses what it can
    assert not verify_routes(fabric, collective, mutant).is_ok


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_chunks": 0}, "1 to 2\\*\\*24"),
        ({"n_ranks": 1}, "at least 2 ranks"),
        ({"units": np.zeros(12, dtype=np.int64)}, "units: found 0, expected 1"),
        ({"layer": np.zeros(3, dtype=np.int32)}, "layer has 3 rows, expected 12"),
        ({"layer": np.full(12, -1)}, "layer: found -1, expected 0"),
        ({"source": np.zeros((2, 2), dtype=np.int32)}, "one dimension"),
        ({"source": np.arange(12)[::-1] % 4}, "sorted"),
        ({"path_offset": np.arange(13)}, "must rise from 0 to 24"),
        ({"path_links": np.zeros(24)}, ""),
        ({"target": np.full(12, 0.5)}, "expected int32"),
    ],
)
def test_malformed_values(change: dict[str, Any], words: str) -> None:
    if not words:  # whole numbers in floats are taken
        assert replace(around(4), **change).path_links.dtype == np.int32
        return
    with pytest.raises(ScheduleError, match=words):
        replace(around(4), **change)


def test_values_are_equal_by_content() -> None:
    assert around(4) == around(4)
    assert hash(around(4)) == hash(around(4))
    assert around(4) != dateline(4)
    assert around(4) != 3
    assert around(4).span(1, 3) == slice(5, 6)
    assert around(4).path(5).tolist() == [1, 2]
    assert dateline(4).n_layers == 2
    assert around(4).hops.sum() == 24
