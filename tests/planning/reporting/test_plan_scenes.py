"""Pages about plans on small fabrics, in full: tiles, facts, loads and cuts, and how data spread."""

from __future__ import annotations

import base64
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from treadle.drawing.pages import plan_page
from treadle.drawing.pages import plan_page as scenes_module
from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.drawing.pages.plan_page import scenes
from treadle.errors import FormatError
from treadle.planning import solve
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.units import format_fraction

BOXES = "leaf_spine(2, 1, gpus_per_leaf=2)"


@pytest.fixture(scope="module")
def boxes() -> Plan:
    """Each rank takes three shards of four over its one link of 50 GB/s."""
    return solve(BOXES, "allgather").plan


@pytest.fixture(scope="module")
def ring() -> Plan:
    return solve("ring(5)", "allreduce", algorithm="ring").plan


def named(fabric: DrawnFabric, *links: str) -> list[int]:
    """Lines of links by name, negative against their direction."""
    topology = fabric.topology
    numbers = {topology.link_name(link): link for link in range(topology.n_links)}
    return [int(fabric.signed_line[numbers[name]]) for name in links]


def test_all_that_needs_no_simulation(boxes: Plan) -> None:
    fabric = DrawnFabric(boxes.topology)
    found = plan_page.static_values(boxes, fabric)
    words = "3 of 4 shards must enter leaf0.gpu0 through 50 GB/s: at most 66.67 GB/s"
    assert found["title"] == f"allgather on {BOXES}"
    assert found["lede"] == words
    assert found["tiles"] == [
        ["66.67 GB/s", "algorithm bandwidth at large sizes", ""],
        ["optimal", "proved: no schedule is faster at large sizes", "good"],
        ["4", "ranks, 3 switches", ""],
        ["verified", "schedule and claims recomputed", "good"],
    ]
    assert found["facts"] == [
        ["Algorithm", "forestcoll"],
        ["Fabric", "7 nodes, 12 links"],
        ["Proved bound", "66.67 GB/s"],
        ["Trees a rank", "1 of equal weight"],
        ["Busy all the time", "8 of 12 links"],
    ]
    assert found["ranks"] == ["leaf0.gpu0", "leaf0.gpu1", "leaf1.gpu0", "leaf1.gpu1"]
    assert found["marksOfRanks"] == [int(fabric.mark_of[node]) for node in boxes.collective.ranks]
    assert found["hops"] == [1, 3]
    inside = named(fabric, "leaf0->leaf0.gpu0", "leaf0->leaf0.gpu1", "leaf1->leaf1.gpu0", "leaf1->leaf1.gpu1")
    load = cast(dict[str, list[float]], found["load"])
    for line in range(1, 7):
        is_full = line in map(abs, inside)
        assert (load["share"][line - 1], load["full"][line - 1]) == ((1.0, 1) if is_full else (0.6667, 0))
    assert found["cut"] == {
        "words": words,
        "lines": [abs(inside[0])],
        "marks": [int(fabric.mark_of[boxes.topology.node_index("leaf0.gpu0")])],
    }


def test_less_is_said_of_what_is_not_known(boxes: Plan) -> None:
    half = replace(boxes, algbw=boxes.algbw * 3 / 4)
    assert plan_page.tiles(half)[1] == [format_fraction(Fraction(3, 4)), "of the proved bound", ""]
    bare = replace(boxes, optimal_algbw=None, certificate=None)
    assert plan_page.tiles(bare)[1] == ["no bound", "nothing is proved of the best", ""]
    assert plan_page._cut(bare) is None
    assert [name for name, _ in plan_page._facts(bare, None)] == ["Algorithm", "Fabric", "Trees a rank"]
    first = boxes.entries[0]
    twice = replace(boxes, entries=(replace(first, max_bytes=9), replace(first, min_bytes=10)))
    assert plan_page._facts(twice, None)[-1] == [
        "Schedules by size",
        "2; pictures show the one for large sizes",
    ]


def test_a_tree_over_switches_is_one_hop(boxes: Plan) -> None:
    fabric = DrawnFabric(boxes.topology)
    found: Any = scenes(boxes, fabric)
    assert (found["kind"], found["what"], found["leftOut"]) == (
        "tree",
        "a tree of a rank's data, hop by hop",
        "",
    )
    assert len(found["roots"]) == 4
    ((words, frames),) = found["roots"][0]
    assert words == "tree 1 of 1: 100% of its data"
    way = named(
        fabric,
        "leaf0.gpu0->leaf0",
        "leaf0->leaf0.gpu1",
        "leaf0->spine0",
        "spine0->leaf1",
        "leaf1->leaf1.gpu0",
        "leaf1->leaf1.gpu1",
    )
    assert [sorted(frame) for frame in frames] == [sorted(way)]


def test_sums_come_from_the_farthest_first(ring: Plan) -> None:
    """Both ways round: a chain of five up to the rank, then down from it."""
    fabric = DrawnFabric(ring.topology)
    found: Any = scenes(ring, fabric)
    assert [words for words, _ in found["roots"][0]] == [
        "tree 1 of 2 sums up: 50% of its data",
        "tree 1 of 2 spreads: 50% of its data",
        "tree 2 of 2 sums up: 50% of its data",
        "tree 2 of 2 spreads: 50% of its data",
    ]
    falling = [[line] for line in named(fabric, "n4->n3", "n3->n2", "n2->n1", "n1->n0")]
    rising = [[line] for line in named(fabric, "n0->n1", "n1->n2", "n2->n3", "n3->n4")]
    chains = [frames for _, frames in found["roots"][0]]
    assert chains[:2] == [falling, rising]
    assert chains[2] == [[line] for line in named(fabric, "n1->n2", "n2->n3", "n3->n4", "n4->n0")]
    assert chains[3] == [[line] for line in named(fabric, "n0->n4", "n4->n3", "n3->n2", "n2->n1")]


def test_steps_of_a_rank_s_data() -> None:
    plan = solve("ring(4)", "allgather", algorithm="bfb").plan
    fabric = DrawnFabric(plan.topology)
    found: Any = scenes(plan, fabric)
    assert (found["kind"], found["what"]) == ("step", "sends of the data of a rank, step by step")
    ((words, frames),) = found["roots"][0]
    assert words == "spreads"
    assert sorted(frames[0]) == sorted(named(fabric, "n0->n1", "n0->n3"))
    assert len(frames) == 2
    assert sorted(frames[1]) == sorted(named(fabric, "n1->n2", "n3->n2"))
    assert plan_page._hops(plan) == []


def test_routes_of_a_pair() -> None:
    """Three links, two of three units on the longer way; one of one link."""
    fabric: Any = SimpleNamespace(lines_of=lambda links: [10 + links[0]])
    routes = SimpleNamespace(
        n_ranks=2,
        units=np.array([1, 2, 5]),
        span=lambda source, target: {(0, 1): slice(0, 2), (1, 0): slice(2, 3)}.get(
            (source, target), slice(0, 0)
        ),
        path=lambda number: np.array([[4], [1, 2, 3], [7]][number]),
    )
    found: Any = scenes_module._route_scenes(cast(Any, routes), fabric)
    assert found["roots"] == [
        [[], [["66.7%, 3 links", [[11], [12], [13]]], ["33.3%, 1 link", [[14]]]]],
        [[["100%, 1 link", [[17]]]], []],
    ]
    assert (found["kind"], found["what"], found["leftOut"]) == ("route", "routes of a pair, link by link", "")


def test_routes_have_as_much_room_as_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric: Any = SimpleNamespace(lines_of=lambda links: [1])
    routes: Any = SimpleNamespace(
        n_ranks=3,
        units=np.ones(3, dtype=np.int64),
        span=lambda source, target: slice(source, source + (target == 0)),
        path=lambda number: np.array([0, 0]),
    )
    for most, kept in ((6, 3), (4, 3), (3, 2), (2, 2), (1, 1)):
        monkeypatch.setattr(scenes_module, "MOST_NUMBERS", most)
        found: Any = scenes_module._route_scenes(routes, fabric)
        assert len(found["roots"]) == kept
        assert found["leftOut"] == ("" if kept == 3 else f"routes from {kept} of 3 ranks are shown")


def test_the_course_in_time(boxes: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 2 to 4 seconds in 254 shades; where nothing moves, none."""
    seconds = np.array([[-1.0, 2.0, 3.0], [4.0, -1.0, 2.5]])
    monkeypatch.setattr(plan_page, "Program", SimpleNamespace)
    monkeypatch.setattr(plan_page, "arrivals", lambda run, program: seconds)
    monkeypatch.setattr(plan_page, "timeline", lambda run, fabric: "told")
    last = SimpleNamespace(
        options=SimpleNamespace(slices=7), graph=SimpleNamespace(program=SimpleNamespace())
    )
    run: Any = SimpleNamespace(last=last)
    found: Any = plan_page.course_values(boxes, cast(Any, None), 2**21, run)
    assert (found["size"], found["slices"], found["timeline"]) == ("2MB", 7, "told")
    told = found["arrivals"]
    assert (told["rows"], told["columns"], told["from"], told["to"]) == (2, 3, 2.0, 4.0)
    assert list(base64.b64decode(told["cells"])) == [0, 1, 128, 255, 0, round(0.25 * 254) + 1]
    assert told["what"] == "when the rank of a row has all of the shard of a column"
    monkeypatch.setattr(plan_page, "arrivals", lambda run, program: np.full((1, 2), -1.0))
    still: Any = plan_page.course_values(boxes, cast(Any, None), 2**21, run)
    assert (still["arrivals"]["from"], still["arrivals"]["to"]) == (0.0, 0.0)
    assert list(base64.b64decode(still["arrivals"]["cells"])) == [0, 0]
    last.graph.program = 3
    assert "arrivals" not in plan_page.course_values(boxes, cast(Any, None), 2**21, run)


def test_others_are_of_the_same_collective(boxes: Plan, ring: Plan) -> None:
    with pytest.raises(
        FormatError, match=r"^report: another plan has collective allreduce, expected allgather as the first$"
    ):
        plan_page.check_same_problem(boxes, ring)
    plan_page.check_same_problem(boxes, boxes)
    assert boxes.collective.kind is CollectiveKind.ALLGATHER


def test_tiles_of_steps_and_of_a_set_by_size() -> None:
    steps = solve("dgx_h100:2", "allreduce", algorithm="factor-allreduce", chunks=3).plan
    assert plan_page.tiles(steps)[:2] == [
        ["257.14 GB/s", "algorithm bandwidth at large sizes, 196.36 GB/s step by step", ""],
        ["96.43%", "of the proved bound", ""],
    ]
    small, large = replace(steps.entries[0], max_bytes=99), replace(steps.entries[0], min_bytes=100)
    by_size = replace(steps, entries=(small, large))
    rows: Any = [
        SimpleNamespace(algbw_bytes_per_s=reached * 1e9, efficiency=share)
        for reached, share in ((2.0, 0.5), (1.0, 0.75), (200.0, 0.25))
    ]
    assert plan_page.tiles(by_size, rows)[:2] == [
        ["1 GB/s to 200 GB/s", "algorithm bandwidth, by size", ""],
        ["25.00% to 75.00%", "of the bound of each size", ""],
    ]
