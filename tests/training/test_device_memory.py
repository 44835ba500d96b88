"""Memory of a device against published formulas and figures, and by hand."""

from __future__ import annotations

from dataclasses import replace

from treadle.training.compute_times import LocalWork
from treadle.training.device_memory import ActivationPolicy, memory_parts
from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape
from treadle.training.models.zoo import zoo_model


def test_windows_and_latents_bound_the_cache() -> None:
    keeping, tokens = ActivationPolicy(is_training=False), 8192
    near = memory_parts([zoo_model("gemma-2-2b").layers], (), LocalWork(1, {"": tokens}), keeping)
    assert near.cache_bytes == 13 * (4096 + 8192) * 2 * 4 * 256 * 2
    latent = transformer(replace(_SHAPE, attention=LatentHeads(4, 0, 10, 8, 6, 8)))
    parts = memory_parts([latent.layers], (), LocalWork(1, {"": 100}, tp=4), keeping)
    assert parts.cache_bytes == 2 * 100 * 16 * 2, "every rank has the latent"


_SHAPE = TransformerShape("small", 32, 64, 50, 2, Heads(4, 2, 8))
