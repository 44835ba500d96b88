"""Pages about plans on small fabrics, in full: tiles, facts, loads and cuts, and how data spread."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.drawing.pages import plan_page
from treadle.drawing.pages import plan_page as scenes_module
from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.drawing.pages.plan_page import scenes
from treadle.planning import solve
from treadle.schedules.plan import Plan
from treadle.units import format_fraction

BOXES = "leaf_spine(2, 1, gpus_per_leaf=2)"


@pytest.fixture(scope="module")
def boxes() -> Plan:
    """Each rank takes three shards of four over its one link of 50 GB/s."""
    return solve(BOXES, "allgather").plan


def named(fabric: DrawnFabric, *links: str) -> list[int]:
    """Lines of links by name, negative against their direction."""
    topology = fabric.topology
    numbers = {topology.link_name(link): link for link in range(topology.n_links)}
    return [int(fabric.signed_line[numbers[name]]) for name in links]


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
