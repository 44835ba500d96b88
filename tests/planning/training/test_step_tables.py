"""Tables and notes of steps and served phases, of results by hand; which options are whose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from samples.training.small_steps import mesh_of
from treadle.api.serve import serve
from treadle.api.train import _held_back, _quicker_baselines
from treadle.errors import FormatError
from treadle.training.prices.collective_prices import MEANING, TimeModel
from treadle.training.serve_result import ServeResult, ServeRow
from treadle.training.serving import ServingPhase
from treadle.training.timeline.task import Category
from treadle.training.train_result import TrainResult, TrainRow
from treadle.training.training_options import CommunicationStreams


def step_row(fabric: str, schedule: str, seconds: float, **exposed: float) -> TrainRow:
    outcome = SimpleNamespace(
        iteration_s=seconds,
        compute_s=0.5,
        contention_s=0.25,
        exposed_s={Category[name]: value for name, value in exposed.items()},
        idle_s=0.125,
        mfu=0.375,
        tokens_per_s=77.0,
    )
    return TrainRow(fabric, schedule, cast(Any, outcome), "words", False, (), ())


def result(*rows: TrainRow) -> TrainResult:
    nothing = cast(Any, None)
    return TrainResult(nothing, nothing, nothing, rows, nothing, "", None, (), 0.0)


def test_a_row_for_each_fabric_and_schedule() -> None:
    found = result(
        step_row("x", "treadle", 2.0, SEND=0.5, REDUCE_SCATTER=0.75),
        step_row("x", "ring", 3.0, ALLGATHER=1.0),
    )
    assert found.exposed_categories == (Category.ALLGATHER, Category.REDUCE_SCATTER, Category.SEND)
    first, second = found.records()
    assert first == {
        "fabric": "x",
        "schedule": "treadle",
        "iteration_s": 2.0,
        "compute_s": 0.5,
        "contention_s": 0.25,
        "exposed_s": 1.25,
        "exposed_allgather_s": 0,
        "exposed_reduce_scatter_s": 0.75,
        "exposed_send_s": 0.5,
        "idle_s": 0.125,
        "mfu": 0.375,
        "per_s": 77.0,
    }
    assert (second["exposed_s"], second["exposed_allgather_s"], second["exposed_send_s"]) == (1.0, 1.0, 0)
    assert list(first) == list(second)


def test_baselines_that_are_quicker_are_told_of() -> None:
    """By more than a thousandth, on the same fabric, and only of what one may choose."""
    rows = [
        step_row("x", "treadle", 2.0),
        step_row("x", "ring", 1.5),
        step_row("x", "tree", 1.999),
        step_row("x", "bound", 1.0),
        step_row("y", "ring", 1.0),
        step_row("z", "tree", 0.9),
        step_row("z", "treadle", 1.0),
    ]
    ending = "the rate of those is optimal, but at these sizes latency and chunks count as well"
    assert _quicker_baselines(rows) == [
        f"x: a step takes 25.0% less by ring than by Treadle's schedules; {ending}",
        f"z: a step takes 10.0% less by tree than by Treadle's schedules; {ending}",
    ]


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"tp": 2, "cp": 2, "fsdp": 2, "dp": 2}, "those of cp, tp wait behind those of dp, fsdp"),
        ({"tp": 2, "ep": 2}, "those of tp wait behind those of ep"),
        ({"tp": 2, "fsdp": 1}, ""),
        ({"tp": 1, "fsdp": 2}, ""),
        ({"tp": 2, "pp": 2}, ""),
    ],
)
def test_layers_that_wait_for_others(axes: dict[str, int], words: str) -> None:
    for streams in CommunicationStreams:
        setup: Any = SimpleNamespace(mesh=mesh_of(**axes), options=SimpleNamespace(streams=streams))
        told = list(_held_back(setup))
        if words and streams is CommunicationStreams.ONE:
            assert told == [f"one communication at a time: {words} (--streams per-axis)"]
        else:
            assert told == []


def test_a_row_for_each_fabric_schedule_and_batch() -> None:
    outcome = SimpleNamespace(
        seconds=2.0,
        device_time=SimpleNamespace(exposed_s={Category.ALLREDUCE: 0.5, Category.ALLTOALL: 0.25}),
        tokens_per_s=5.0,
        memory=SimpleNamespace(total_bytes=9.0),
    )
    row = ServeRow("x", "ring", "words", 3, cast(Any, outcome), ())
    nothing = cast(Any, None)
    assert ServeResult(nothing, nothing, ServingPhase.DECODE, (row,), (), 0.0).records() == [
        {
            "fabric": "x",
            "schedule": "ring",
            "batch": 3,
            "time_s": 2.0,
            "exposed_s": 0.75,
            "tokens_per_s": 5.0,
            "memory_bytes": 9.0,
        }
    ]


@pytest.mark.parametrize(
    "option",
    [
        {"batch": 3},
        {"micro_batches": 2},
        {"interleave": 2},
        {"bucket_bytes": 5},
        {"prefetch": 2},
        {"reshard": False},
        {"zero": 1},
        {"recompute": "full"},
        {"gradients": "bf16"},
        {"calibrate_s": 1.0},
        {"contention": 1.0},
        {"streams": "one"},
        {"alltoall_overtakes": False},
        {"context_exchange": "ring"},
        {"sequence_parallel": True},
    ],
)
def test_options_of_training_have_no_place_in_serving(option: dict[str, Any]) -> None:
    (name,) = option
    message = f"^{name} is of training steps; phase prefill is one forward pass: leave it out$"
    with pytest.raises(FormatError, match=message):
        serve("gpt2", "ring(4)", mesh="tp=4", gpu="a100", phase="Prefill", **option)


def test_what_is_served_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 1, 8 and 64 for each rank with its own sequences, by three schedules on each fabric."""
    asked: list[Any] = []

    def simulated(setup: Any, costs: Any) -> Any:
        asked.append((costs.topology.name, costs.scheduler.name, setup.sequences, setup.element_bytes))
        return "outcome"

    monkeypatch.setattr("treadle.api.serve.simulate_phase", simulated)
    found = serve("gpt2", ["complete(4, bandwidth='25GB/s')"], mesh="dp=2,tp=2", gpu="a100", phase="decode")
    assert [(name, sequences, width) for _, name, sequences, width in asked] == [
        (name, 2 * batch, 2) for name in ("treadle", "ring", "bound") for batch in (1, 8, 64)
    ]
    assert [(row.schedule, row.sequences) for row in found.rows] == [one[1:3] for one in asked]
    assert found.phase is ServingPhase.DECODE
    with pytest.raises(FormatError, match=r"^batches: expected at least one, each at least 1$"):
        serve("gpt2", "ring(4)", mesh="tp=4", gpu="a100", phase="decode", batches=(1, 0))


def test_each_way_to_a_time_has_words() -> None:
    assert set(MEANING) == set(TimeModel)
    assert len(set(MEANING.values())) == len(TimeModel)
