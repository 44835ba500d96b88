"""Phases of serving: against times worked out from their parts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import TreadleError
from treadle.planning import ServeResult, serve
from treadle.training.models.zoo import zoo_model


def served(**changes: Any) -> ServeResult:
    asked: dict[str, Any] = {
        "mesh": "tp=4",
        "gpu": "a100",
        "phase": "decode",
        "schedules": "treadle",
        "sequence": 512,
        "efficiency": 0.5,
        "batches": (1, 8),
    }
    return serve(
        changes.pop("model", "gpt2-medium"), changes.pop("fabric", "dgx_a100_flat:1"), **{**asked, **changes}
    )


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_larger_batches_take_longer_and_give_more(phase: str) -> None:
    found = served(mesh="tp=8", phase=phase)
    one, eight = found.rows
    assert (one.sequences, eight.sequences) == (1, 8)
    assert float(one.outcome.seconds) < float(eight.outcome.seconds)
    assert one.outcome.tokens_per_s < eight.outcome.tokens_per_s
    assert one.outcome.memory.total_bytes < eight.outcome.memory.total_bytes


def test_weights_are_held_as_wide_as_they_are_read() -> None:
    """8.03 billion of them over 8 ranks, but for norms, which all have."""
    model = zoo_model("llama-3-8b")
    norms = sum(weight.elements for layer in model.layers for weight in layer.weights if not weight.split)
    held = (model.parameters - norms) / 8 + norms
    for precision, width in (("bf16", 2), ("tf32", 4), ("fp32", 4)):
        found = served(model="llama-3-8b", mesh="tp=8", precision=precision, batches=(1,))
        assert found.rows[0].outcome.memory.weights_bytes == held * width


def test_bounds_are_below() -> None:
    found = served(mesh="tp=8", schedules=["treadle", "ring", "bound"], batches=(1,))
    times = [float(row.outcome.seconds) for row in found.rows]
    assert times[2] == min(times)
    assert [row["schedule"] for row in found.records()] == ["treadle", "ring", "bound"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phase": "train"}, "unknown phase 'train'"),
        ({"mesh": "fsdp=8"}, "serving does not support an axis fsdp"),
        ({"mesh": "tp=8", "batches": ()}, "at least one"),
        ({"mesh": "tp=8", "batches": (0,)}, "at least 1"),
        ({"mesh": "tp=8", "bucket_bytes": 1}, "bucket_bytes is of training steps"),
        ({"mesh": "tp=8", "calibrate_s": 1.0}, "calibrate_s is of training steps"),
        ({"mesh": "tp=8", "sequence_parallel": False}, "sequence_parallel is of training steps"),
        ({"mesh": "tp=8", "model": "gpt2"}, "expected tp to divide the 12 attention heads of gpt2"),
        ({"mesh": "tp=8", "sequence": 1025}, "1025 tokens; expected at most its 1024 learned positions"),
        ({"mesh": "tp=8", "sequence": 1025, "phase": "prefill"}, "at most its 1024 learned positions"),
        ({"mesh": "dp=8", "model": "resnet-50", "sequence": None}, "keys and values"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        served(**changes)
