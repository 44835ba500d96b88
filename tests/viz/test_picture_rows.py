"""Gaps of rows, ways through them and marks beside each other, by hand; switches that no box reaches."""

from __future__ import annotations

from math import pi

import pytest

from treadle.topologies.expressions import parse as build_topology
from treadle.topologies.topology import TopologyBuilder
from treadle.viz.fabric_layout import fabric_layout
from treadle.viz.rows import Row, polyline, spread


@pytest.mark.parametrize(
    ("x", "free"),
    [
        # taken with the margin of 4: 6 to 34 (the gap of 7 between the first two is too small), and 46 to 64
        *((0.0, 0.0), (6.0, 6.0), (7.0, 6.0), (20.0, 6.0), (20.5, 34.0), (33.0, 34.0), (34.0, 34.0)),
        *((40.0, 40.0), (46.0, 46.0), (54.0, 46.0), (56.0, 64.0), (64.0, 64.0), (70.0, 70.0)),
    ],
)
def test_lines_pass_where_nothing_stands(x: float, free: float) -> None:
    row = Row(0.0, 9.0, ((10.0, 18.0), (25.0, 30.0), (50.0, 60.0)))
    assert row.taken == ((10.0, 18.0), (25.0, 30.0), (50.0, 60.0))
    assert row.free_near(x) == free


def test_a_gap_of_two_margins_is_one() -> None:
    row = Row(0.0, 1.0, ((0.0, 10.0), (18.0, 20.0)))
    assert row.free_near(13.0) == 14.0
    assert Row(0.0, 1.0, ((0.0, 10.0), (17.0, 20.0))).free_near(13.0) == 24.0
    inner = Row(0.0, 1.0, ((0.0, 30.0), (5.0, 10.0)))
    assert inner.free_near(29.0) == 34.0


def test_ways_go_straight_through_each_row() -> None:
    rows = [Row(10.0, 20.0, ((-5.0, 9.0),)), Row(40.0, 50.0, ())]
    # a quarter of the way is 2.5, which the first row takes; the nearest gap is at 13
    assert polyline((0.0, 0.0), (10.0, 60.0), rows) == [
        (0.0, 0.0),
        (13.0, 10.0),
        (13.0, 20.0),
        (13.0 - 3 * 25 / 40, 40.0),
        (13.0 - 3 * 25 / 40, 50.0),
        (10.0, 60.0),
    ]
    assert polyline((0.0, 60.0), (10.0, 0.0), [rows[1], rows[0]])[:3] == [
        (0.0, 60.0),
        (2.5, 50.0),
        (2.5, 40.0),
    ]
    assert polyline((3.0, 0.0), (3.0, 60.0), rows[1:]) == [(3.0, 0.0), (3.0, 60.0)]
    assert polyline((3.0, 5.0), (3.0, 5.0), []) == [(3.0, 5.0)]
    assert polyline((0.0, 45.0), (8.0, 45.0), rows[1:])[0] == (0.0, 45.0)


@pytest.mark.parametrize(
    ("wanted", "widths", "gap", "found"),
    [
        ([], [], 1.0, []),
        ([3.0], [10.0], 1.0, [3.0]),
        ([0.0, 12.0], [10.0, 10.0], 2.0, [0.0, 12.0]),  # just far enough
        ([0.0, 11.0], [10.0, 10.0], 2.0, [-0.5, 11.5]),
        # unequal widths, 24 in all: the middle is the mean of 0 + 10 and 0 - 3
        ([0.0, 0.0], [4.0, 18.0], 2.0, [-6.5, 6.5]),
        # the third pushes back the block of the first two
        ([0.0, 1.0, 2.0], [10.0, 10.0, 10.0], 2.0, [-11.0, 1.0, 13.0]),
    ],
)
def test_marks_stand_beside_each_other(
    wanted: list[float], widths: list[float], gap: float, found: list[float]
) -> None:
    assert spread(wanted, widths, gap) == pytest.approx(found)


def test_switches_that_no_box_reaches_stand_above_all_others() -> None:
    builder = TopologyBuilder("apart")
    for name in ("leaf", "spine", "lost", "lost too"):
        builder.switch(name)
    for box in range(2):
        for place in range(2):
            builder.duplex(builder.compute(f"b{box}.gpu{place}"), "leaf", 3)
    builder.duplex("leaf", "spine", 3)
    builder.duplex("lost", "lost too", 3)
    marks = {mark.label: mark for mark in fabric_layout(builder.build()).marks}
    heights = [marks[name].y for name in ("lost", "spine", "leaf", "0")]
    assert heights == sorted(set(heights))


def test_the_picture_is_as_wide_as_its_widest_band() -> None:
    """Twelve switches whose labels of 8 letters take 6.2 each and 10, each with 8 to the next."""
    builder = TopologyBuilder("wide")
    gpus = [builder.compute(f"b{box}.gpu0") for box in range(2)]
    for number in range(12):
        builder.switch(f"switch{number:02}")
        for gpu in gpus:
            builder.duplex(gpu, f"switch{number:02}", 3)
    layout = fabric_layout(builder.build())
    assert layout.width == pytest.approx(12 * (6.2 * 8 + 10 + 8) + 2 * 12)
    assert min(mark.left for mark in layout.marks) == pytest.approx(12 + 4)  # half of 8 left over at each end


def test_circles_of_more_than_64_nodes_are_of_one_size() -> None:
    widths = [fabric_layout(build_topology(f"generalized_kautz(2, {n})")).width for n in (63, 64, 65, 66)]
    # 34 of the circle for each node, of 64 at most
    assert widths[1] - widths[0] == pytest.approx(34 / pi, rel=1e-3)  # marks grow a little, too
    assert 2 * 450 < widths[2] < 1000
    assert widths[1] < 2 * 450
    assert widths[3] - widths[2] < 1


def test_switches_of_a_box_are_linked_below_their_row() -> None:
    builder = TopologyBuilder("beside")
    for place in range(2):
        builder.compute(f"b.gpu{place}")
    for place in range(2):
        builder.switch(f"b.nvs{place}")
    for gpu in range(2):
        for switch in range(2):
            builder.duplex(f"b.gpu{gpu}", f"b.nvs{switch}", 3)
    builder.duplex("b.nvs0", "b.nvs1", 5)
    layout = fabric_layout(builder.build())
    one, other = (mark for mark in layout.marks if mark.label.startswith("nvs"))
    (line,) = (line for line in layout.lines if all(layout.marks[end] in (one, other) for end in line.ends))
    low = one.y + 9
    # 2 below the row, 4, and 4 more for each number that they are apart
    assert line.strokes == (((one.x, low), (one.x, low + 10), (other.x, low + 10), (other.x, low)),)
