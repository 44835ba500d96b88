"""Pages of steps and of plans that shard models: the numbers are those of the results."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from treadle import planning
from treadle.api.report import report
from treadle.drawing.pages import task_tracks as lanes_module
from treadle.drawing.pages.task_tracks import task_tracks
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline

from .test_plan_page import values_of


def bars(lanes: dict[str, Any], choice: int = 0) -> list[list[tuple[Any, ...]]]:
    """Of each lane (from, to, name, category, detail, count), nanoseconds."""
    found = []
    for _, packed in lanes["choices"][choice]["lanes"]:
        now, lane = 0, []
        for at in range(0, len(packed), 6):
            gap, length, name, kind, detail, count = packed[at : at + 6]
            told = lanes["details"][detail] if detail >= 0 else ""
            lane.append(
                (now + gap, now + gap + length, lanes["names"][name], lanes["kinds"][kind][0], told, count)
            )
            now += gap + length
        found.append(lane)
    return found


def panel(values: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in [*values["left"], *values["right"]] if one.get("id") == name)
    return found


@pytest.fixture(scope="module")
def trained() -> planning.TrainResult:
    return planning.train(
        "gpt2",
        "dgx_h100:1",
        mesh="pp=2,fsdp=2,tp=2",
        gpu="h100",
        schedules=("treadle", "bound"),
        sequence=256,
        micro_batches=4,
    )


def test_a_timeline_has_every_task(trained: planning.TrainResult) -> None:
    timeline = trained.rows[1].outcome.timeline
    values = values_of(report(trained))
    drawn = bars(values["lanes"], 1)
    expected = sorted(
        (round(float(begin) * 1e9), round(float(end) * 1e9), task.name, task.category.value)
        for task, begin, end in zip(timeline.tasks, timeline.starts, timeline.ends, strict=True)
        if round(float(begin) * 1e9) < round(float(end) * 1e9)
    )
    assert sorted(bar[:4] for lane in drawn for bar in lane) == expected
    for lane in drawn:
        assert all(one[1] <= other[0] for one, other in pairwise(lane))
    assert values["lanes"]["choices"][1]["leftOut"] == ""
    assert {bar[5] for lane in drawn for bar in lane} == {1}


def test_parts_of_a_step_add_up(trained: planning.TrainResult) -> None:
    values = values_of(report(trained))
    time = panel(values, "time")
    assert [name for name, _ in time["rows"]] == ["treadle", "bound"]
    for (_, parts), row in zip(time["rows"], trained.rows, strict=True):
        assert sum(parts) == pytest.approx(float(row.outcome.iteration_s))
        exposed = {kind[0]: part for kind, part in zip(time["kinds"], parts, strict=True)}
        for category, seconds in row.outcome.exposed_s.items():
            assert exposed[category.value] == pytest.approx(float(seconds))
    for row in panel(values, "communication")["rows"]:
        assert row[2] > 0
        assert row[4] > 0
    memory = panel(values, "memory")["rows"]
    assert sum(row[1] for row in memory[:-1]) == pytest.approx(memory[-1][1])


def timeline_of(n_tasks: int, categories: list[Category]) -> Timeline:
    """One after the other on a stream, a microsecond each, with a pause after every tenth."""
    starts = [(place + place // 10) * 1e-6 for place in range(n_tasks)]
    tasks = tuple(
        Task(f"t{place}", 0, COMPUTE_STREAM, 1e-6, (), categories[place % len(categories)])
        for place in range(n_tasks)
    )
    return Timeline(tasks, tuple(starts), tuple(start + 1e-6 for start in starts))


@pytest.mark.parametrize("categories", [[Category.FORWARD], [Category.FORWARD, Category.BACKWARD]])
def test_many_tasks_are_joined_and_none_is_lost(
    categories: list[Category], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "MOST_BARS", 400)
    timeline = timeline_of(5000, categories)
    lanes: Any = task_tracks([("one", timeline)])
    (lane,) = bars(lanes)
    assert len(lane) <= 400
    assert sum(bar[5] for bar in lane) == 5000
    assert lane[0][0] == 0
    assert lane[-1][1] == round(timeline.total_s * 1e9)
    assert all(one[1] <= other[0] for one, other in pairwise(lane))
    assert "are drawn as one" in lanes["choices"][0]["leftOut"]


def test_what_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "MOST_BARS", 6)
    lanes: Any = task_tracks([("one", timeline_of(1000, [Category.FORWARD]))])
    (lane,) = bars(lanes)
    assert len(lane) <= 6
    assert f"The first {lane[-1][1] / (1.1e-6 * 1e9 * 1000):.0%}"[:-3] in lanes["choices"][0]["leftOut"]


@pytest.fixture(scope="module")
def sharded() -> planning.ParallelizeResult:
    return planning.parallelize("gpt2", "dgx_h100:1", gpu="h100", mesh="8", tokens=2**16, gap=0.1)


def test_figures_are_numbers(sharded: planning.ParallelizeResult, trained: planning.TrainResult) -> None:
    """Forms of columns fit what stands in them, for the script formats by form alone."""
    for values in (values_of(report(sharded)), values_of(report(trained))):
        for one in [*values["left"], *values["right"]]:
            if one["panel"] != "table":
                continue
            for row in one["rows"]:
                assert len(row) == len(one["columns"])
                for value, (_, form) in zip(row, one["columns"], strict=True):
                    assert isinstance(value, str) if form == "text" else value is None or math.isfinite(value)
