"""Numbers of pages by hand: places in charts and rings, bars over time, links by kind, curves."""

from __future__ import annotations

import base64
from fractions import Fraction
from math import log2
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from treadle.drawing.pages import design_page, plan_page, task_tracks
from treadle.drawing.pages import design_page as ring_module
from treadle.drawing.pages.design_page import ChartPoint, cable_ring, pareto_chart
from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.drawing.pages.plan_page import _sort, link_kinds
from treadle.errors import FormatError
from treadle.finder.designing.design_limits import DesignLimits
from treadle.planning import check_page_name, simulate, solve
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline

LIMITS = DesignLimits(1, Fraction(1), Fraction(1), Fraction(1), 0.0, 0.0)


def point(key: str, kind: str, steps: int, t_b: Fraction | int, name: str = "name") -> ChartPoint:
    return ChartPoint(key, kind, name, 8, 2, steps, Fraction(t_b), (), f"note {key}")


def test_places_in_the_chart() -> None:
    """Steps by their logarithm from 80 to 720; time from .94 at 352 up to 2.08 at 18."""
    half = Fraction(3, 2)
    points = [
        point("1", "frontier", 1, 2),
        point("2", "frontier", 4, 1),
        point("", "other", 2, half, "plain"),
        point("a", "known", 2, half, "torus"),
        point("", "other", 4, 2),
    ]
    chart: Any = pareto_chart(points, LIMITS)
    low, middle, high = 334.4, 187.9, 41.4
    assert [one[:4] for one in chart["points"]] == [
        [80.0, high, [0], "frontier"],
        [720.0, low, [1], "frontier"],
        [400.0, middle, [2, 3], "known"],
        [720.0, high, [4], "other"],
    ]
    assert [one[4:] for one in chart["points"]] == [
        [90.0, high - 5, "1"],
        [730.0, low - 5, "2"],
        [410.0, middle - 5, "a"],
        [730.0, high - 5, ""],
    ]
    assert chart["front"] == [[80.0, high], [720.0, low]]
    assert chart["limit"] == [80.0, low]
    assert chart["xTicks"] == [
        [80.0, "1"],
        [400.0, "2"],
        [round(80 + 640 * log2(3) / 2, 1), "3"],
        [720.0, "4"],
    ]
    assert [words for _, words in chart["yTicks"]] == ["1", "1.2", "1.4", "1.6", "1.8", "2"]
    assert (chart["yTicks"][0][0], chart["yTicks"][-1][0]) == (low, high)
    assert [chart[name] for name in ("width", "height", "left", "low", "top", "right")] == [
        760.0,
        400.0,
        66.0,
        352.0,
        18.0,
        734.0,
    ]
    assert chart["names"][3] == ["torus", "known", 8, 2, 2, 1.5, "note a"]


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


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 7.0, [0, 1, 2, 3, 4, 5, 6, 7]),
        (0.0, 8.0, [0, 2, 4, 6, 8]),
        (0.3, 1.6, [0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6]),
        (10.0, 50.0, [10, 20, 30, 40, 50]),
        (0.0, 18.0, [0, 5, 10, 15]),
    ],
)
def test_ticks_are_round_and_few(low: float, high: float, ticks: list[float]) -> None:
    assert design_page._ticks(low, high) == pytest.approx(ticks)


def test_ticks_of_steps() -> None:
    assert design_page._step_ticks(3, 20) == [3, 4, 6, 8, 12, 16]
    assert design_page._step_ticks(5, 6) == [6, 8]
    assert design_page._step_ticks(2**16, 2**17) == [65536, 98304, 131072]


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


def test_bars_in_little_room() -> None:
    assert task_tracks._packed([bar(3, 5, 1), bar(5, 9, 2)]) == [3, 2, 1, 0, 7, 1, 0, 4, 2, 0, 7, 1]


@pytest.mark.parametrize(
    ("left", "words"),
    [
        ((3, 3, 0, 1.0), ""),
        ((2, 3, 0, 1.0), "The first 2 of 3 streams are shown."),
        ((3, 3, 0, 0.125), "The first 12.5% of the time are shown."),
        (
            (1, 2, 1500, 0.5),
            "The first 50.0% of the time are shown. The first 1 of 2 streams are shown. Tasks shorter than "
            "1.50 us that follow each other are drawn as one, as what takes longest of them.",
        ),
    ],
)
def test_what_is_left_out_is_said(left: tuple[int, int, int, float], words: str) -> None:
    assert task_tracks._left_out(*left) == words


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


@pytest.mark.parametrize(
    ("name", "sort"),
    [
        ("box3.gpu5", "gpu"),
        ("gpu12", "gpu"),
        ("a.b.leaf_1", "leaf"),
        ("n0_0", "n"),
        ("17", "node"),
        ("x-", "x"),
    ],
)
def test_sorts_of_nodes(name: str, sort: str) -> None:
    assert _sort(name) == sort


def small_fabric() -> Topology:
    """Two GPUs below a switch: 5 bytes/s up, 5 and 7 down."""
    draft = TopologyBuilder("small")
    for name in ("gpu0", "gpu1"):
        draft.compute(name)
    draft.switch("leaf")
    draft.link("gpu0", "leaf", 5)
    draft.link("leaf", "gpu0", 5)
    draft.link("gpu1", "leaf", 5)
    draft.link("leaf", "gpu1", 7)
    return draft.build()


def test_links_by_kind() -> None:
    fabric = DrawnFabric(small_fabric())
    busy, full = np.array([0.5, 1.0, 0.25, 0.33333]), np.array([False, True, False, False])
    rows = link_kinds(fabric, busy, full)
    arrow = "\N{RIGHTWARDS ARROW}"
    assert [[row[key] for key in ("name", "links", "bytesPerS", "mean", "most", "full")] for row in rows] == [
        [f"gpu {arrow} leaf", 2, 5, 0.375, 0.5, 0],
        [f"leaf {arrow} gpu", 1, 5, 1.0, 1.0, 1],
        [f"leaf {arrow} gpu", 1, 7, 0.3333, 0.3333, 0],
    ]
    for row, links in zip(rows, ([0, 2], [1], [3]), strict=True):
        assert row["lines"] == sorted({abs(int(fabric.signed_line[link])) for link in links})
    bare = link_kinds(fabric, None, None)
    assert [(row["mean"], row["most"], row["full"]) for row in bare] == [(None, None, None)] * 3


def test_lines_of_a_picture_carry_their_links() -> None:
    fabric = DrawnFabric(small_fabric())
    values: Any = fabric.values()
    marks = {mark[0]: number for number, mark in enumerate(values["marks"])}
    assert len(marks) == 3
    for node in range(3):
        assert values["marks"][fabric.mark_of[node]][6] == fabric.topology.node_names[node]
    rates = {
        tuple(fabric.topology.node_names[node] for node in (tail, head)): rate
        for tail, head, rate in ((0, 2, 5), (2, 0, 5), (1, 2, 5), (2, 1, 7))
    }
    for one, other, _, forward, backward, out, back in values["lines"]:
        ends = [values["marks"][place][6] for place in (one, other)]
        assert (forward, backward) == (1, 1)
        assert (out, back) == (rates[ends[0], ends[1]], rates[ends[1], ends[0]])
    assert fabric.lines_of([0, 1, 0]) == [int(fabric.signed_line[0]), int(fabric.signed_line[1])]
    assert fabric.signed_line[0] == -fabric.signed_line[1] != 0


def test_sizes_of_curves() -> None:
    def plan(ranks: int) -> Any:
        return SimpleNamespace(collective=SimpleNamespace(n_ranks=ranks))

    every = tuple(4**power for power in range(5, 16))
    assert plan_page.display_sizes(plan(64)) == every
    assert plan_page.display_sizes(plan(65)) == every[::2]
    assert (every[0], every[-1]) == (2**10, 2**30)


def test_bounds_of_curves_are_those_of_all_sizes() -> None:
    def row(time: float | None) -> Any:
        return SimpleNamespace(bound=None if time is None else SimpleNamespace(time=time), time=time)

    assert plan_page._bounds([row(1.23456789), row(2.0)]) == [1.23457, 2.0]
    assert plan_page._bounds([row(1.0), row(None)]) is None
    assert plan_page._seconds([row(0.123456789)]) == [0.123457]
    words = "Simulated on this fabric's model, the best of several numbers of slices: alpha."
    assert plan_page._note("alpha", None) == words
    assert (
        plan_page._note("alpha", [1.0])
        == f"{words} The bound of each size is proved: no schedule ends before."
    )


def test_the_busiest_links_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = solve("ring(4, bandwidth='1GB/s')", "allgather").plan
    run = simulate(plan, [2**24])
    fabric = DrawnFabric(plan.topology)
    found: Any = plan_page.timeline(run.last, fabric)
    assert found["bins"] == 200
    assert found["seconds"] == pytest.approx(float(run.last.time))
    assert sorted(found["names"]) == sorted(map(plan.topology.link_name, range(8)))
    assert found["lines"] == [int(line) for line in fabric.signed_line]
    levels = np.frombuffer(base64.b64decode(found["levels"]), np.uint8).reshape(8, 200)
    assert levels.max() == 255
    # as much as is busy in all: each level is rounded up, to 1/255 of a 200th
    assert (levels.mean(1) / 255 >= np.array(found["shares"]) - 1e-4).all()
    assert (levels.mean(1) / 255 <= np.array(found["shares"]) + 1 / 255).all()
    assert found["leftOut"] == ""
    monkeypatch.setattr(plan_page, "MAX_LANES", 3)
    some: Any = plan_page.timeline(run.last, fabric)
    assert len(some["names"]) == 3
    assert some["leftOut"] == "the 3 busiest of 8 links"


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


def test_names_of_plans_are_told_apart() -> None:
    def plan(algorithm: str, fabric: str) -> Any:
        return SimpleNamespace(algorithm=algorithm, topology=SimpleNamespace(name=fabric))

    plans = [plan("ring", "a"), plan("ring", "b"), plan("tree", "a"), plan("ring", "b"), plan("ring", "a")]
    assert plan_page.display_names(plans[0], plans[1:]) == [
        "ring",
        "ring on b",
        "tree",
        "ring on b (2)",
        "ring (2)",
    ]


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


def test_facts_of_a_plan() -> None:
    plan = solve("ring(4, bandwidth='1GB/s')", "allgather").plan
    facts = dict(cast(list[tuple[str, str]], plan_page._facts(plan, np.array([True, False, True]))))
    assert facts["Fabric"] == "4 nodes, 8 links"
    assert facts["Busy all the time"] == "2 of 3 links"
    assert facts["Proved bound"] == "2.67 GB/s"
    assert plan_page.tiles(plan)[2] == ["4", "ranks, no switch", ""]
    assert plan_page.tiles(plan)[0][1:] == ["algorithm bandwidth at large sizes", ""]
