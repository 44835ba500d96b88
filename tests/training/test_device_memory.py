"""Memory of a device against published formulas and figures, and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.errors import TreadleError
from treadle.training.compute_times import LocalWork
from treadle.training.device_memory import ActivationPolicy, MemoryParts, memory_parts, missing_bytes
from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.feed_forward import Experts
from treadle.training.models.model_layer import ModelLayer, Saved, Weight
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape
from treadle.training.models.zoo import zoo_model

ONCE = ((0, True), (0, False))
GPT = transformer(
    TransformerShape(
        "gpt",
        64,
        256,
        1000,
        4,
        Heads(4, 4, 16, has_bias=True, output_bias=True),
        is_gated=False,
        is_tied=True,
        has_bias=True,
        norm_has_bias=True,
        has_dropout=True,
    )
)
BLOCKS = GPT.layers[1:-1]


def block(name: str, saved: int, weight: int = 0) -> ModelLayer:
    return ModelLayer(name, weights=(Weight("w", weight),), saved=(Saved("s", saved),), boundary_elements=2)


@pytest.mark.parametrize(
    ("shards", "gigabytes"),
    [((1, 1, 1), 120), ((1, 1, 64), 31.4), ((1, 64, 64), 16.6), ((64, 64, 64), 1.88)],
)
def test_states_are_those_of_zero(shards: tuple[int, int, int], gigabytes: float) -> None:
    """ZeRO, figure 1: 7.5B parameters on 64 devices, K = 12; each stage shards one part more."""
    layer = ModelLayer("all", weights=(Weight("w", 7_500_000_000),))
    local = LocalWork(1, {"": 1})
    total = 0.0
    for part, count in zip(("weights", "gradients", "optimizer"), shards, strict=True):
        total += memory_parts([[layer]], ONCE, local, ActivationPolicy(weight_shards=count)).by_part[part]
    optimizer, gradients, weights = (
        7.5e9 * size / count for size, count in zip((12, 2, 2), shards[::-1], strict=True)
    )
    assert total == pytest.approx(optimizer + gradients + weights)
    assert total / 1e9 == pytest.approx(gigabytes, rel=5e-3)


@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("is_fused", [False, True])
def test_activations_are_those_of_korthikanti(tp: int, is_fused: bool) -> None:
    """Equations 1, 2 and 4 of the paper, bytes per layer; with selective recomputation 34 s b h / t."""
    tokens, sequences, hidden, heads = 512, 3, 64, 4
    size = sequences * tokens * hidden
    scores = 0 if is_fused else 5 * heads * tokens / hidden
    local = LocalWork(sequences, {"": tokens}, tp=tp)
    keeping = ActivationPolicy(fused_attention=is_fused)
    found = memory_parts([BLOCKS], ONCE, local, keeping).activations_bytes
    assert found == pytest.approx(len(BLOCKS) * size * (10 + (24 + scores) / tp))
    spread = replace(local, sequence_parallel=True)
    found = memory_parts([BLOCKS], ONCE, spread, keeping).activations_bytes
    assert found == pytest.approx(len(BLOCKS) * size * (34 + scores) / tp)
    selective = memory_parts([BLOCKS], ONCE, spread, replace(keeping, recompute="attention"))
    assert selective.activations_bytes == pytest.approx(len(BLOCKS) * size * 34 / tp)
    full = memory_parts([BLOCKS], ONCE, spread, replace(keeping, recompute="full"))
    again = size * (34 + scores) / tp
    assert full.activations_bytes == pytest.approx(len(BLOCKS) * 2 * size / tp + again)


@pytest.mark.parametrize(("stage", "whole", "cut"), [(0, 16, 0), (1, 4, 12), (2, 2, 14)])
def test_states_of_replicas_are_those_of_zero(stage: int, whole: int, cut: int) -> None:
    """Rajbhandari et al. 2020, section 5: bytes per parameter on each of eight replicas."""
    share = ActivationPolicy(state_shards=8 if stage else 1, shards_gradients=stage == 2)
    layer = ModelLayer("l", weights=(Weight("w", 800),))
    parts = memory_parts([[layer, layer]], ONCE, LocalWork(1, {"": 1}), share)
    states = parts.weights_bytes + parts.gradients_bytes + parts.optimizer_bytes
    assert states == 1600 * (whole + cut / 8)
    assert parts.gathered_bytes == (1600 if stage == 2 else 0), "the gradient of one layer is entire"


def test_what_is_not_computed_again_is_kept() -> None:
    """Of gpt2: masks of the embedding, inputs of twelve blocks, and the final norm's input and output."""
    tokens, hidden = 8 * 1024, 768
    layers, keeping = zoo_model("gpt2").layers, ActivationPolicy(recompute="full")
    full = memory_parts([layers], ONCE, LocalWork(8, {"": 1024}), keeping)
    block = memory_parts([layers[1:2]], ONCE, LocalWork(8, {"": 1024}), ActivationPolicy()).activations_bytes
    assert full.activations_bytes == tokens * hidden * 2 * (0.5 + 12 + 2) + block
    none = memory_parts([layers], ONCE, LocalWork(8, {"": 1024}), replace(keeping, recompute="none"))
    assert full.logits_bytes == none.logits_bytes


def test_torchtitan_with_full_recomputation() -> None:
    """Llama 3.1 8B, 32768 tokens on 8 H100, full checkpointing: 83.9 GiB (its performance.md, table 2).

    Ours are the tensors alone, 15% below what the allocator had reserved.
    """
    keeping = ActivationPolicy(
        weight_shards=8, weight_bytes=4, gradient_bytes=4, optimizer_bytes=8, recompute="full"
    )
    parts = memory_parts([zoo_model("llama-3-8b").layers], ONCE, LocalWork(1, {"": 32_768}), keeping)
    assert parts.total_bytes / 2**30 == pytest.approx(0.85 * 83.9, rel=0.01)
    without = replace(keeping, recompute="none")
    more = memory_parts([zoo_model("llama-3-8b").layers], ONCE, LocalWork(1, {"": 32_768}), without)
    assert more.total_bytes > 2 * parts.total_bytes


def test_the_largest_model_of_the_dissertation_does_not_fit() -> None:
    """Section 4.6.4 trains 119b at batch 1 on 16 A100 of 80 GB: by these parts not without recomputation."""
    layers = zoo_model("llama-3-119b").layers
    keeping = ActivationPolicy(weight_shards=16, optimizer_bytes=0)
    local = LocalWork(1, {"": 2048})
    parts = memory_parts([layers], ONCE, local, keeping)
    assert parts.total_bytes / 1e9 == pytest.approx(98, abs=1)
    assert missing_bytes([parts], 80 * 2**30).startswith("a device needs 91.")
    assert "most of it: activations, 43.2 GB" in missing_bytes([parts], 80 * 2**30)
    less = memory_parts([layers], ONCE, local, replace(keeping, recompute="full"))
    assert missing_bytes([less], 80 * 2**30) == ""


def test_shards_by_hand() -> None:
    layer = ModelLayer(
        "block",
        weights=(Weight("cut", 800), Weight("whole", 40, split=False), Weight("experts", 3200, expert=True)),
        experts=8,
        top_k=1,
        routed_elements=5,
        exchanges=2,
        boundary_elements=6,
        reductions=2,
        kv_elements=8,
        kv_pieces=2,
    )
    local = LocalWork(2, {"": 100}, tp=4, cp=2, ep=8)
    keeping = ActivationPolicy(weight_shards=2, expert_shards=1, gradient_bytes=4)
    parts = memory_parts([[layer]], ONCE, local, keeping)
    kept = (200 + 40) / 2 + 3200 / 4 / 8
    assert parts.weights_bytes == kept * 2
    assert parts.gradients_bytes == kept * 4
    assert parts.optimizer_bytes == kept * 12
    assert parts.gathered_bytes == 240 * 2 + 240 * 4
    tokens = 2 * 100 / 2
    assert parts.buffers_bytes == 2 * (2 * 5 * tokens + 6 * tokens + 8 * tokens * 2 / 2)
    alone = memory_parts([[layer]], ONCE, LocalWork(2, {"": 100}), ActivationPolicy())
    assert alone.gathered_bytes == alone.buffers_bytes == 0


@pytest.mark.parametrize(
    ("prefetch", "reshard", "at_once"), [(0, True, 50), (1, True, 80), (2, True, 90), (1, False, 105)]
)
def test_gathered_layers(prefetch: int, reshard: bool, at_once: int) -> None:
    layers = [block(str(index), 1, weight) for index, weight in enumerate((5, 10, 30, 50, 10))]
    keeping = ActivationPolicy(weight_shards=4, prefetch=prefetch, reshard_after_forward=reshard)
    parts = memory_parts([layers], ONCE, LocalWork(1, {"": 1}), keeping)
    assert parts.gathered_bytes == at_once * 2 + 50 * 2
    added_up = replace(keeping, keeps_whole_gradients=True)
    parts = memory_parts([layers], ONCE, LocalWork(1, {"": 1}), added_up)
    assert parts.gathered_bytes == at_once * 2 + 105 * 2


@pytest.mark.parametrize("stage", range(4))
def test_micro_batches_in_flight(stage: int) -> None:
    """1F1B: stage s of p keeps min(p - s, m)."""
    stages, count = 4, 6
    ahead = stages - 1 - stage
    order = [(0, True)] * ahead + [(0, True), (0, False)] * (count - ahead) + [(0, False)] * ahead
    parts = memory_parts([[block("a", 100)]], order, LocalWork(1, {"": 1}), ActivationPolicy())
    assert parts.activations_bytes == 200 * min(stages - stage, count)


def test_pieces_in_flight_are_weighed_one_by_one() -> None:
    pieces = [[block("a", 100)], [block("b", 10), block("c", 1)]]
    order = [(0, True), (0, True), (1, True), (1, False), (1, True), (0, False), (1, False), (0, False)]
    parts = memory_parts(pieces, order, LocalWork(1, {"": 1}), ActivationPolicy())
    assert parts.activations_bytes == 2 * (100 + 100 + 11)
    with pytest.raises(TreadleError, match="piece 1 goes backward more often than forward"):
        memory_parts(pieces, [(0, True), (1, False)], LocalWork(1, {"": 1}), ActivationPolicy())


def test_serving_keeps_a_cache_and_no_gradients() -> None:
    keeping = ActivationPolicy(is_training=False)
    model = zoo_model("llama-3-8b")
    parts = memory_parts([model.layers], (), LocalWork(4, {"": 1000}, is_decoding=True), keeping)
    assert parts.weights_bytes == 2 * model.parameters
    assert parts.gradients_bytes == parts.optimizer_bytes == 0
    assert parts.cache_bytes == 4 * 1000 * 2 * 2048 * 32
    by_two = memory_parts([model.layers], (), LocalWork(4, {"": 1000}, tp=2, is_decoding=True), keeping)
    by_many = memory_parts([model.layers], (), LocalWork(4, {"": 1000}, tp=16, is_decoding=True), keeping)
    assert by_two.cache_bytes == parts.cache_bytes / 2
    assert by_many.cache_bytes == parts.cache_bytes / 8, "eight heads of keys"


def test_windows_and_latents_bound_the_cache() -> None:
    keeping, tokens = ActivationPolicy(is_training=False), 8192
    near = memory_parts([zoo_model("gemma-2-2b").layers], (), LocalWork(1, {"": tokens}), keeping)
    assert near.cache_bytes == 13 * (4096 + 8192) * 2 * 4 * 256 * 2
    latent = transformer(replace(_SHAPE, attention=LatentHeads(4, 0, 10, 8, 6, 8)))
    parts = memory_parts([latent.layers], (), LocalWork(1, {"": 100}, tp=4), keeping)
    assert parts.cache_bytes == 2 * 100 * 16 * 2, "every rank has the latent"


_SHAPE = TransformerShape("small", 32, 64, 50, 2, Heads(4, 2, 8))


def test_experts_save_what_is_routed_to_them() -> None:
    """Of a block by hand: gated experts of width 16, top 3 of 8."""
    layer = transformer(replace(_SHAPE, experts=Experts(8, 3, 16))).layer("block 1")
    elements = 4 * 32 + 32 + 2 * 2 * 8 + 32 + 8 + 3 * (4 * 16 + 32)
    parts = memory_parts([[layer]], ONCE, LocalWork(1, {"": 10}, ep=8), ActivationPolicy())
    assert parts.activations_bytes == 2 * 10 * elements


def test_unknown_recomputation() -> None:
    with pytest.raises(TreadleError, match="recompute 'some'; expected none, attention or full"):
        ActivationPolicy(recompute="some")


def test_parts_add_up() -> None:
    parts = MemoryParts(1, 2, 3, 4, 5, 6, 7, 8)
    assert parts.total_bytes == 36
    assert list(parts.by_part)[:3] == ["weights", "gradients", "optimizer"]


def test_serving_gathers_what_is_ahead_and_keeps_what_one_layer_makes() -> None:
    """Weights of 6, 4 and 0 elements in two shards each; the logits are apart, once."""
    layers = [
        block("a", 10, 6), block("b", 30, 4),
        ModelLayer("c", saved=(Saved("logits", 7), Saved("s", 20)), boundary_elements=2),
    ]  # fmt: skip
    keeping = ActivationPolicy(weight_shards=2, prefetch=1, reshard_after_forward=False, is_training=False)
    parts = memory_parts([layers], (), LocalWork(1, {"": 3}), keeping)
    assert (parts.weights_bytes, parts.gathered_bytes) == (2 * 5, 2 * 10)
    assert (parts.activations_bytes, parts.logits_bytes) == (2 * 3 * 30, 2 * 3 * 7)
    trained = memory_parts([layers], ONCE, LocalWork(1, {"": 3}), replace(keeping, is_training=True))
    assert (trained.activations_bytes, trained.logits_bytes) == (2 * 3 * 60, 2.5 * 2 * 3 * 7)
    assert trained.gathered_bytes == 2 * 10 + 2 * 6


def test_what_is_exchanged_is_cut_where_the_sequence_is() -> None:
    layer = ModelLayer(
        "e",
        weights=(Weight("experts", 16, expert=True),),
        experts=8,
        top_k=1,
        routed_elements=5,
        exchanges=2,
        boundary_elements=6,
        reductions=2,
    )
    # copies of all tokens are exchanged, or those of a part, of which more are gathered than there are tokens
    for gathers_first, routed, exchanged, gathered in (
        (True, 5, 2 * 5 * 100, 600),
        (False, 5, 2 * 5 * 25, 600),
        (False, 12, 2 * 12 * 25, 1200),
    ):
        local, keeping = LocalWork(1, {"": 100}, tp=4, ep=2), ActivationPolicy(gathers_first=gathers_first)
        parts = memory_parts([[replace(layer, routed_elements=routed)]], ONCE, local, keeping)
        assert parts.buffers_bytes == 2 * (exchanged + gathered)
    once = replace(layer, exchanges=1, reductions=0)
    for spread, exchanged in ((False, 2 * 5 * 100), (True, 2 * 5 * 25)):
        local = LocalWork(1, {"": 100}, tp=4, ep=2, sequence_parallel=spread)
        assert memory_parts([[once]], ONCE, local, ActivationPolicy()).buffers_bytes == 2 * exchanged
    kept = ModelLayer("k", cache_elements=8, kv_elements=8, kv_pieces=2, boundary_elements=6)
    by_two = memory_parts([[kept]], (), LocalWork(3, {"": 100}, cp=2), ActivationPolicy(is_training=False))
    assert by_two.cache_bytes == 3 * 8 * 100 / 2 * 2


def test_what_does_not_fit_is_told_of_the_fullest_device() -> None:
    small, large = (
        MemoryParts(*(n * 2**30 for n in sizes)) for sizes in ((1,) * 8, (1, 2, 3, 4, 5, 6, 8, 7))
    )
    assert missing_bytes([small, large, small], 36 * 2**30) == ""
    assert missing_bytes([small, large], 36 * 2**30 - 1) == (
        "a device needs 36.0 GB and has 36.0 GB; most of it: buffers, 8.0 GB"
    )
    assert missing_bytes([large, small], 5 * 2**29).startswith("a device needs 36.0 GB and has 2.5 GB; ")
