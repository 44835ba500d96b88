"""Pictures before they are written: lines, labels and limits of axes; what stays of a front."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("matplotlib", reason="matplotlib: not installed; pip install 'treadle[plot]'")

from treadle.drawing import comparison_plot, front_plot
from treadle.errors import ScheduleError
from treadle.schedulers.tree_front import TreeFront, TreePoint
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
