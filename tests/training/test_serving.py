"""Times to the first token and per token."""

from __future__ import annotations

from typing import Any

import pytest

from samples.training.small_steps import free_costs, mesh_of
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import accelerator
from treadle.training.models.model_layer import Attended, ModelLayer, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.zoo import zoo_model
from treadle.training.serving import ServingOutcome, ServingPhase, ServingSetup, simulate_phase

H100 = accelerator("h100")
TIMES = RooflineTimes(H100, "bf16", 0.5, memory_efficiency=1.0)
N = 2**24
BLOCK = ModelLayer(
    "block",
    weights=(Weight("w", N),),
    works=(
        Work("w", WorkKind.MATMUL, flops=2 * N, weight_elements=N),
        Work(
            "scores",
            WorkKind.ATTENTION,
            flops_per_context=256,
            moved_per_context=64,
            attended=Attended(),
        ),
    ),
    boundary_elements=128,
    reductions=2,
    kv_elements=64,
    cache_elements=64,
    kv_pieces=8,
)
HEAD = ModelLayer(
    "head",
    weights=(Weight("v", N),),
    works=(Work("v", WorkKind.MATMUL, flops=2 * N, weight_elements=N),),
)
SMALL = TrainingModel("small", (BLOCK, HEAD))


def served(
    mesh: Mesh,
    phase: str,
    *,
    sequences: int = 1,
    tokens: int = 4096,
    model: TrainingModel = SMALL,
    rates: dict[Any, float] | None = None,
) -> ServingOutcome:
    streams = dict.fromkeys(model.streams, tokens)
    setup = ServingSetup(model, mesh, H100, TIMES, ServingPhase(phase), sequences, streams)
    return simulate_phase(setup, free_costs(mesh, rates or {}))


def test_a_token_takes_the_reading_of_weights_and_of_what_was_kept() -> None:
    """Bytes of two weights, and of 64 elements for each of 4096 tokens, at 3.35 TB/s."""
    found = served(mesh_of(tp=1), "decode")
    assert float(found.seconds) == pytest.approx((2 * 2 * N + 2 * 64 * 4096) / 3.35e12)
    assert found.tokens_per_s == pytest.approx(1 / float(found.seconds))
    assert found.memory.cache_bytes == 2 * 64 * 4096


def test_a_prompt_takes_its_products_and_one_token_of_the_head() -> None:
    """2 N FLOPs a token, 256 for each of 2048 tokens that one attends to on average; one of the head."""
    found = served(mesh_of(tp=1), "prefill")
    flops = 4096 * (2 * N + 256 * 2048)
    assert float(found.seconds) == pytest.approx(flops / (0.5 * 989.4e12) + 2 * N / 3.35e12)
    assert found.tokens_per_s == pytest.approx(4096 / float(found.seconds))


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_logits_are_kept_of_the_token_that_they_are_made_of(phase: str) -> None:
    """Of 3 sequences 3 tokens, whatever their lengths: 128,256 words, two elements of two bytes."""
    model = zoo_model("llama-3-8b")
    found = served(mesh_of(tp=1), phase, sequences=3, model=model).memory
    assert found.logits_bytes == 3 * 128_256 * 2 * 2
    assert (
        served(mesh_of(tp=4), phase, sequences=3, model=model).memory.logits_bytes == found.logits_bytes / 4
    )


def test_weights_are_read_in_parts() -> None:
    whole, parts = (served(mesh_of(tp=n), "decode") for n in (1, 4))
    assert float(parts.seconds) == pytest.approx(float(whole.seconds) / 4)


def test_a_prompt_is_read_by_all_streams_and_one_token_is_enough() -> None:
    model = zoo_model("switch-base-256")
    found = served(mesh_of(dp=2), "prefill", model=model, sequences=2, tokens=3)
    assert found.tokens_per_s == pytest.approx(2 * (3 + 3) / float(found.seconds))
    shortest = served(mesh_of(tp=1), "prefill", tokens=1)
    assert shortest.tokens_per_s == pytest.approx(1 / float(shortest.seconds))
