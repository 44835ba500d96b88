"""Tables and notes of steps and served phases, of results by hand; which options are whose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.api.serve import serve
from treadle.errors import FormatError
from treadle.training.serve_result import ServeResult, ServeRow
from treadle.training.serving import ServingPhase
from treadle.training.timeline.task import Category
from treadle.training.train_result import TrainResult, TrainRow


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
