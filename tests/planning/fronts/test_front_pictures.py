"""Pictures before they are written: lines, labels and limits of axes; what stays of a front."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from harness.summaries import tree_front_summary

pytest.importorskip("matplotlib", reason="matplotlib: not installed; pip install 'treadle[plot]'")

from treadle.drawing import comparison_plot, front_plot
from treadle.errors import ScheduleError
from treadle.schedulers.tree_front import TreeFront, TreePoint, _undominated
from treadle.schedules.collective import CollectiveKind
from treadle.training import step_trace
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline


def drawn(monkeypatch: pytest.MonkeyPatch, module: ModuleType, draw: Any) -> Any:
    """The figure that a picture is made of."""
    figures: list[Any] = []

    def keep(figure: Any, file_format: str) -> bytes:
        figures.append((figure, file_format))
        return b"picture"

    monkeypatch.setattr(module, "plot_bytes", keep)
    assert draw() == b"picture"
    ((figure, file_format),) = figures
    assert file_format == "svg"
    return figure


def row(name: str, *times: float, bounds: tuple[float | None, ...] = (1.0, 1.0, 1.0)) -> Any:
    sizes = [
        SimpleNamespace(time=time, bound=None if bound is None else SimpleNamespace(time=bound))
        for time, bound in zip(times, bounds, strict=True)
    ]
    return SimpleNamespace(algorithm=name, measured=SimpleNamespace(sizes=sizes))


def compared(*rows: Any, sizes: tuple[int, ...] = (1024, 4096, 16384)) -> Any:
    return SimpleNamespace(rows=rows, sizes=sizes)


def lines(figure: Any) -> list[tuple[str, list[float]]]:
    (axes,) = figure.axes
    return [(line.get_label(), [float(y) for y in line.get_ydata()]) for line in axes.get_lines()]


def test_times_are_multiples_of_the_quickest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two win somewhere, one of them with a twin; a third is grey."""
    bounds = (1.0, 2.0, 6.0)
    found = compared(
        row("one", 2.0, 4.0, 24.0, bounds=bounds),
        row("slow", 6.0, 8.0, 24.0),
        row("two", 4.0, 8.0, 12.0),
        row("twin", 2.0, 4.0, 24.0),
        SimpleNamespace(algorithm="none", measured=None),
    )
    figure = drawn(
        monkeypatch,
        comparison_plot,
        lambda: comparison_plot.plot_comparison(found, title="times", file_format="svg"),
    )
    assert [(label, ratios) for label, ratios in lines(figure) if not label.startswith("_")] == [
        ("one, twin", [1.0, 1.0, 2.0]),
        ("two", [2.0, 2.0, 1.0]),
        ("never fastest", []),
        ("time bound", [0.5, 0.5, 0.5]),
    ]
    grey = [line for line in figure.axes[0].get_lines() if line.get_color() == "0.75"]
    assert [[float(y) for y in line.get_ydata()] for line in grey] == [[3.0, 2.0, 2.0], []]
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_title()) == ("log", "log", "times")
    assert axes.get_ylim()[1] == 16
    assert axes.yaxis.get_major_formatter()(2.5, 0) == "2.5x"
    assert axes.xaxis.get_major_formatter()(4096.2, 0) == "4KB"
    assert axes.xaxis.get_major_formatter()(0.2, 0) == "1B"
    markers = [line.get_marker() for line in axes.get_lines()]
    assert markers[:3] == ["o", "None", "s"]


def test_without_all_bounds_and_losers_neither_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(row("one", 2.0, 4.0, 8.0, bounds=(1.0, None, 1.0)), row("two", 4.0, 2.0, 8.0))
    figure = drawn(
        monkeypatch, comparison_plot, lambda: comparison_plot.plot_comparison(found, file_format="svg")
    )
    assert [label for label, _ in lines(figure)] == ["one", "two"]


@pytest.mark.parametrize(("n", "label"), [(3, "a, b, c"), (4, "a, b, c and 1 more")])
def test_a_line_of_several_has_three_names(monkeypatch: pytest.MonkeyPatch, n: int, label: str) -> None:
    found = compared(*(row(name, 2.0, 4.0, 8.0, bounds=(1.0, None, 1.0)) for name in "abcde"[:n]))
    figure = drawn(
        monkeypatch, comparison_plot, lambda: comparison_plot.plot_comparison(found, file_format="svg")
    )
    assert [found_label for found_label, _ in lines(figure)] == [label]


def test_one_size_is_no_picture() -> None:
    one = compared(row("one", 2.0, bounds=(1.0,)), sizes=(1024,))
    for found, words in (
        (one, "plot: 1 schedulers were simulated at 1 sizes; expected two or more"),
        (compared(), "plot: 0 schedulers were simulated at 3 sizes; expected two or more"),
    ):
        with pytest.raises(ScheduleError, match=f"^{words}$"):
            comparison_plot.plot_comparison(found)


def point(height: int, trees: int, algbw: int, most: int | None = None) -> TreePoint:
    return TreePoint(
        height, trees, Fraction(algbw), None if most is None else Fraction(most), cast(Any, None)
    )


def front(*points: TreePoint, optimum: int = 20 * 10**9) -> TreeFront:
    return TreeFront(cast(Any, SimpleNamespace(algbw=Fraction(optimum))), points)


def test_throughput_by_height(monkeypatch: pytest.MonkeyPatch) -> None:
    giga = 10**9
    found = front(
        point(1, 1, 5 * giga, 9 * giga),
        point(2, 2, 12 * giga),
        point(3, 1, 10 * giga, 15 * giga),
        point(4, 2, 16 * giga),
    )
    figure = drawn(
        monkeypatch,
        front_plot,
        lambda: front_plot.plot_front(found, title="front", file_format="svg"),
    )
    (axes,) = figure.axes
    told = [
        (line.get_label(), [float(x) for x in line.get_xdata()], [float(y) for y in line.get_ydata()])
        for line in axes.get_lines()
    ]
    assert [label for label, *_ in told] == ["optimum", "1 tree per root", "2 trees per root"]
    assert set(told[0][2]) == {20.0}
    assert told[1][1:] == ([1.0, 3.0], [5.0, 10.0])
    assert told[2][1:] == ([2.0, 4.0], [12.0, 16.0])
    (proved,) = axes.collections
    assert proved.get_offsets().tolist() == [[1.0, 9.0], [3.0, 15.0]]
    assert (axes.get_ylim()[0], axes.get_title()) == (0.0, "front")
    bare = front(point(1, 1, 5 * giga))
    again = drawn(monkeypatch, front_plot, lambda: front_plot.plot_front(bare, file_format="svg"))
    assert not again.axes[0].collections


def test_points_that_others_beat_leave_the_front() -> None:
    points = [point(2, 1, 5), point(1, 2, 4), point(1, 1, 3), point(2, 2, 5), point(3, 4, 9), point(2, 2, 8)]
    assert _undominated(points) == (points[2], points[1], points[0], points[5], points[4])
    assert _undominated([point(1, 1, 3), point(1, 1, 4)]) == (point(1, 1, 4),)
    assert _undominated([point(1, 2, 4), point(2, 1, 4), point(3, 1, 4)]) == (point(1, 2, 4), point(2, 1, 4))


def test_what_is_certified_is_within_a_part_in_ten_thousand() -> None:
    own = front(optimum=10_001)
    assert own.certified(point(1, 1, 10_000))
    assert not own.certified(point(1, 1, 9_999))
    assert own.certified(point(1, 1, 5_000, 5_000))
    assert not own.certified(point(1, 1, 5_000, 5_001))
    assert own.certified(point(1, 1, 10_000, 20_000))


def test_fronts_as_json() -> None:
    found = front(point(1, 2, 3), point(2, 1, 6, 7), optimum=8)
    assert tree_front_summary(found) == {
        "optimal_algbw_bytes_per_s": 8.0,
        "optimal_algbw_exact": "8/1",
        "points": [
            {
                "height": 1,
                "trees_per_root": 2,
                "algbw_bytes_per_s": 3.0,
                "algbw_exact": "3/1",
                "share_of_bound": 0.375,
                "most_bytes_per_s": None,
                "certified": False,
            },
            {
                "height": 2,
                "trees_per_root": 1,
                "algbw_bytes_per_s": 6.0,
                "algbw_exact": "6/1",
                "share_of_bound": 0.75,
                "most_bytes_per_s": 7.0,
                "certified": False,
            },
        ],
    }


def stepped(devices: int) -> Timeline:
    """Two seconds of work, beside it three of an allreduce after a pause of one; a task of no time."""
    tasks: list[Task] = []
    for device in range(devices):
        tasks += [
            Task("a", device, COMPUTE_STREAM, 2.0, (), Category.FORWARD),
            Task("b", device, "moves", 3.0, (), Category.ALLREDUCE, (CollectiveKind.ALLREDUCE, ("dp",)), 8),
            Task("c", device, COMPUTE_STREAM, 0.0, (), Category.OPTIMIZER),
        ]
    return Timeline(tuple(tasks), (0.0, 1.0, 2.0) * devices, (2.0, 4.0, 2.0) * devices)


@pytest.mark.parametrize(
    ("devices", "names"),
    [(1, ["compute", "moves"]), (2, ["0: compute", "0: moves", "1: compute", "1: moves"])],
)
def test_bars_of_a_step(devices: int, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn(
        monkeypatch,
        step_trace,
        lambda: step_trace.step_drawing(stepped(devices), "a step", file_format="svg"),
    )
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    assert [float(y) for y in axes.get_yticks()] == [place + 0.5 for place in range(len(names))]
    assert axes.get_xlim() == (0.0, 4000.0)
    assert axes.yaxis_inverted()
    assert axes.get_title() == "a step"
    bars = [
        (
            bar.get_label() if not str(bar.get_label()).startswith("_") else "",
            [[float(value) for value in path.get_extents().bounds] for path in bar.get_paths()],
        )
        for bar in axes.collections
    ]
    expected = [("forward", [[0.0, 0.1, 2000.0, 0.8]]), ("allreduce", [[1000.0, 1.1, 3000.0, 0.8]])]
    if devices == 2:
        expected += [("", [[0.0, 2.1, 2000.0, 0.8]]), ("", [[1000.0, 3.1, 3000.0, 0.8]])]
    assert [label for label, _ in bars] == [label for label, _ in expected]
    for (_, found), (_, places) in zip(bars, expected, strict=True):
        assert found == [pytest.approx(place) for place in places]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["forward", "allreduce"]
    assert [float(size) for size in figure.get_size_inches()] == pytest.approx([10, 1.6 + 0.4 * len(names)])


def test_a_picture_has_room_for_some_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert step_trace.MOST_LANES == 32
    monkeypatch.setattr(step_trace, "MOST_LANES", 3)
    figure = drawn(
        monkeypatch, step_trace, lambda: step_trace.step_drawing(stepped(2), "", file_format="svg")
    )
    assert len(figure.axes[0].get_yticks()) == 3
    assert len(figure.axes[0].collections) == 3


def test_a_step_of_nothing_is_an_empty_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Timeline((), (), ())
    figure = drawn(monkeypatch, step_trace, lambda: step_trace.step_drawing(nothing, "", file_format="svg"))
    assert figure.axes[0].get_xlim() == (0.0, 1.0)
    assert not figure.legends
    assert float(figure.get_size_inches()[1]) == pytest.approx(2.4)
