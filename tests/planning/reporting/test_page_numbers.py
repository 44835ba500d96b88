"""Numbers of pages by hand: places in charts and rings, bars over time, links by kind, curves."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.drawing.pages import design_page, plan_page, task_tracks
from treadle.drawing.pages import design_page as ring_module
from treadle.drawing.pages.design_page import ChartPoint, cable_ring, pareto_chart
from treadle.errors import FormatError
from treadle.finder.designing.design_limits import DesignLimits
from treadle.planning import check_page_name
from treadle.schedules.collective import CollectiveKind
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline

LIMITS = DesignLimits(1, Fraction(1), Fraction(1), Fraction(1), 0.0, 0.0)


def point(key: str, kind: str, steps: int, t_b: Fraction | int, name: str = "name") -> ChartPoint:
    return ChartPoint(key, kind, name, 8, 2, steps, Fraction(t_b), (), f"note {key}")


def test_a_chart_of_one_place() -> None:
    """Twice the steps, and a tenth of the time, are its range."""
    chart: Any = pareto_chart([point("1", "frontier", 1, 1)], LIMITS)
    ((x, y, *_),) = chart["points"]
    assert (x, y) == (80.0, round(352 - 334 * 0.006 / 0.014, 1))
    assert [words for _, words in chart["xTicks"]] == ["1", "2"]


def test_labels_keep_clear_of_marks_the_edge_and_each_other() -> None:
    apart = design_page._labels({(100.0, 100.0): "1", (112.0, 98.0): "", (720.0, 300.0): "a, b, c, d"})
    # the mark on the right covers the first two places: the label goes below, and the long one to the left
    (x, y, words), _, last = apart
    assert words == "1"
    assert x + 7 <= 105 or x >= 119 or y + 2 <= 91 or y - 11 >= 105
    assert last == (720 - 10 - 70, 304.0, "a, b, c, d")
    assert design_page._labels({(50.0, 50.0): "x", (50.0, 300.0): "y"}) == [
        (60.0, 45.0, "x"),
        (60.0, 295.0, "y"),
    ]


def built(names: str = "abcde") -> Any:
    """Nodes 2 and 1 in rack x, 0 and 3 in y, 4 in z; three cables, two of them from x to y."""
    placement = SimpleNamespace(
        racks=[SimpleNamespace(name=name) for name in "xyz"],
        rack=np.array([1, 0, 0, 1, 2]),
        unit=np.array([0, 1, 0, 1, 0]),
    )
    wires = [
        SimpleNamespace(tail=tail, head=head, is_duplex=both)
        for tail, head, both in ((0, 1, True), (2, 3, False), (0, 3, True), (4, 0, True))
    ]
    return SimpleNamespace(
        topology=SimpleNamespace(n_nodes=5, node_names=tuple(names)),
        sheet=SimpleNamespace(placement=placement, wires=wires),
    )


MATRIX = [[0, 2, 0], [2, 1, 1], [0, 1, 0]]


def test_nodes_stand_round_a_ring_with_a_gap_between_racks() -> None:
    """Eight places: 2 and 1, a gap, 0 and 3, a gap, 4, a gap; clockwise from above."""
    found: Any = cable_ring(built())
    assert found["single"] is True
    assert found["places"] == [
        [2, 0, 260.0, 55.0, "c"],
        [1, 0, 405.0, 115.0, "b"],
        [0, 1, 405.0, 405.0, "a"],
        [3, 1, 260.0, 465.0, "d"],
        [4, 2, 55.0, 260.0, "e"],
    ]
    assert found["lines"] == [[0, 1, 1, 1], [2, 3, 1, 0], [0, 3, 1, 1], [4, 0, 1, 1]]
    assert found["matrix"] == MATRIX
    # outside of the middle of each rack's nodes, 237 from the ring's
    assert found["labels"] == [[0.0, 350.7, 41.0], [1.0, 350.7, 479.0], [2.0, 23.0, 260.0]]
    assert (found["rackNames"], found["leftOut"]) == (["x", "y", "z"], "")


def test_of_many_nodes_racks_stand_round_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "MOST_NODES", 5)
    assert cable_ring(built())["single"] is True
    monkeypatch.setattr(ring_module, "MOST_NODES", 4)
    found: Any = cable_ring(built())
    assert found["single"] is False
    assert found["places"] == [
        [0, 0, 260.0, 55.0, "x"],
        [1, 1, 437.5, 362.5, "y"],
        [2, 2, 82.5, 362.5, "z"],
    ]
    assert found["lines"] == [[0, 1, 2, 1], [1, 2, 1, 1]]
    assert (found["matrix"], found["labels"], found["leftOut"]) == (MATRIX, [], "")
    monkeypatch.setattr(ring_module, "MOST_RACKS", 2)
    some: Any = cable_ring(built())
    assert (some["rackNames"], len(some["places"])) == (["x", "y"], 2)
    assert some["lines"] == [[0, 1, 2, 1]]
    assert some["matrix"] == [[0, 2], [2, 1]]
    assert some["leftOut"] == "The first 2 of 3 racks are shown."


def bar(begin: int, end: int, name: int = 0, kind: int = 0, count: int = 1) -> list[int]:
    return [begin, end, name, kind, 7, count]


@pytest.mark.parametrize(
    ("bars", "of_a_kind", "joined"),
    [
        ([bar(0, 5, 1), bar(6, 9, 2, count=3)], True, [[0, 9, 1, 0, -1, 4]]),
        ([bar(0, 3, 1), bar(6, 10, 2)], True, [[0, 10, 2, 0, -1, 2]]),
        ([bar(0, 3, 1), bar(6, 9, 2)], True, [[0, 9, 1, 0, -1, 2]]),
        ([bar(0, 3, 1), bar(6, 10, 2, 1)], True, [bar(0, 3, 1), bar(6, 10, 2, 1)]),
        ([bar(0, 3, 1), bar(6, 10, 2, 1)], False, [[0, 10, 2, 1, -1, 2]]),
        ([bar(0, 3), bar(12, 13)], True, [[0, 13, 0, 0, -1, 2]]),
        ([bar(0, 3), bar(13, 14)], True, [bar(0, 3), bar(13, 14)]),
        ([bar(0, 9), bar(9, 18)], True, [[0, 18, 0, 0, -1, 2]]),
        ([bar(0, 9), bar(9, 19)], True, [bar(0, 9), bar(9, 19)]),
        ([bar(0, 10), bar(10, 12)], True, [bar(0, 10), bar(10, 12)]),
        ([bar(0, 9), bar(10, 19)], True, [[0, 19, 0, 0, -1, 2]]),
        ([bar(0, 9), bar(11, 20)], True, [bar(0, 9), bar(11, 20)]),
        ([bar(0, 9), bar(9, 12), bar(12, 19), bar(19, 20)], True, [[0, 19, 0, 0, -1, 3], bar(19, 20)]),
    ],
)
def test_short_bars_are_drawn_as_one(bars: list[list[int]], of_a_kind: bool, joined: list[list[int]]) -> None:
    """Shorter than ten each, less than ten apart, and less than twenty together."""
    assert task_tracks._joined(bars, 10, of_a_kind=of_a_kind) == joined


def stepped(devices: int = 2) -> Timeline:
    """On each device a task from 1 to 3 ns, one that sums 8 bytes beside it until 4 ns, one of no time."""
    tasks = []
    for device in range(devices):
        tasks.append(Task("a", device, COMPUTE_STREAM, 2e-9, (), Category.FORWARD))
        traffic = (CollectiveKind.ALLREDUCE, ("dp",))
        tasks.append(Task(f"b{device}", device, "moves", 3e-9, (), Category.ALLREDUCE, traffic, 8))
        tasks.append(Task("c", device, COMPUTE_STREAM, 0.0, (), Category.OPTIMIZER))
    return Timeline(tuple(tasks), (1e-9, 1e-9, 3e-9) * devices, (3e-9, 4e-9, 3e-9) * devices)


def test_lanes_of_timelines() -> None:
    found: Any = task_tracks.task_tracks([("one", stepped()), ("two", stepped(1))])
    assert [choice["name"] for choice in found["choices"]] == ["one", "two"]
    assert (found["names"], found["details"]) == (["a", "b0", "b1"], ["allreduce along dp, 8B"])
    kinds = [words for words, *_ in found["kinds"]]
    forward, total = kinds.index("forward"), kinds.index("allreduce")
    first, second = found["choices"]
    assert first["lanes"] == [
        ["0: compute", [1, 2, 0, forward, -1, 1]],
        ["0: moves", [1, 3, 1, total, 0, 1]],
        ["1: compute", [1, 2, 0, forward, -1, 1]],
        ["1: moves", [1, 3, 2, total, 0, 1]],
    ]
    assert [name for name, _ in second["lanes"]] == ["compute", "moves"]
    assert (first["seconds"], first["leftOut"]) == (4e-9, "")
    assert [short for _, short, _ in found["kinds"]] == ["F", "C", "B", "O", "AG", "RS", "AR", "A2A", "S"]


def test_lanes_that_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_tracks, "_MOST_LANES", 3)
    found: Any = task_tracks.task_tracks([("one", stepped())])
    assert [name for name, _ in found["choices"][0]["lanes"]] == ["0: compute", "0: moves", "1: compute"]
    assert found["choices"][0]["leftOut"] == "The first 3 of 4 streams are shown."
    assert found["names"] == ["a", "b0"]


@pytest.mark.parametrize(("most", "kept"), [(6, 3), (5, 3), (4, 2), (3, 2), (2, 1), (0, 1)])
def test_scenes_have_as_many_ranks_as_there_is_room_for(
    most: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two, two and two lines; the one that goes beyond is the last."""
    monkeypatch.setattr(plan_page, "MOST_NUMBERS", most - 1)
    rows = [[["words", [[1], [2]]]] for _ in range(3)]
    found: Any = plan_page._within("step", "what", rows)
    assert len(found["roots"]) == kept
    assert found["leftOut"] == ("" if kept == 3 else f"data of {kept} of 3 ranks are shown")
    assert (found["kind"], found["what"]) == ("step", "what")


@pytest.mark.parametrize("name", ["page.html", "a/page.HTM"])
def test_pages_end_in_html(name: str) -> None:
    check_page_name(name, "--report")
    with pytest.raises(FormatError) as error:
        check_page_name(f"{name}x", "--report")
    assert str(error.value) == (
        f"--report '{name}x': expected where to write the page, a name that ends in .html"
    )
    with pytest.raises(FormatError, match=r"^--page is missing: expected where to write the page"):
        check_page_name(None, "--page")
