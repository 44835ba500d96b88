"""Phases of serving: against times worked out from their parts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import TreadleError
from treadle.planning import ServeResult, serve, step_costs
from treadle.schedules.collective import CollectiveKind
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


def test_decoding_exposes_two_sums_a_layer_and_what_the_head_needs() -> None:
    found = served(mesh="tp=8", batches=(4,))
    costs = step_costs("dgx_a100_flat:1", "tp=8")
    exposed = found.rows[0].outcome.device_time.exposed_s
    # 24 blocks, two sums each of 4 tokens x 1024 elements x 2 bytes
    least = 48 * costs.time_s(CollectiveKind.ALLREDUCE, ("tp",), 4 * 1024 * 2)
    assert least <= float(sum(exposed.values())) <= 1.2 * least


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


def test_blocks_of_a_checkpoint_for_fp8_have_a_byte_a_weight() -> None:
    """DeepSeek-V3 on eight H200: 671e9 parameters, of which table and head (129,280 x 7168) have two."""
    model, words = zoo_model("deepseek-v3"), 129_280 * 7168
    asked: dict[str, Any] = {"model": "deepseek-v3", "fabric": "dgx_h100:1", "gpu": "h200", "batches": (1,)}
    narrow, wide = (served(mesh="ep=8", precision=one, **asked) for one in ("fp8", "bf16"))
    experts = sum(layer.expert_parameters for layer in model.layers)
    held = experts / 8 + model.parameters - experts
    one, other = (found.rows[0].outcome for found in (narrow, wide))
    assert other.memory.weights_bytes == 2 * held
    final_norm = 7168
    assert one.memory.weights_bytes == held + 2 * words + final_norm
    assert one.memory.total_bytes < 141 * 2**30 < other.memory.total_bytes
    # what is neither product nor weight takes as long; a token's weights are read in about half the time
    assert 0.45 < float(one.device_time.compute_s) / float(other.device_time.compute_s) < 0.65
    told = "weights of blocks have 1 byte in fp8; those of embedding and head, activations, keys and values "
    assert f"{told}have 2" in narrow.notes
    assert not [note for note in wide.notes if "weights" in note]


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
