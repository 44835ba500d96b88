"""A layer on a mesh: its parts as the forms of parallelism within a layer arrange them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from treadle.training.forms.context_parallel import attention
from treadle.training.forms.expert_parallel import between_exchanges
from treadle.training.forms.layer_passes import (
    LayerPart,
    LayerPasses,
    LayerSeconds,
    computing,
    passes_of,
)
from treadle.training.forms.share import Share
from treadle.training.forms.tensor_parallel import between_reductions
from treadle.training.models.model_layer import ModelLayer
from treadle.training.training_options import Recompute


def layer_passes(layer: ModelLayer, seconds: LayerSeconds, share: Share) -> LayerPasses:
    """What a layer does with a micro-batch.

    A layer with several reductions of tensor parallelism has as many blocks of equal length, attention in
    the middle of the first; where it has experts between two exchanges, the last reduction is theirs. One
    exchange (embedding tables) comes before all blocks.

    Parameters
    ----------
    layer : ModelLayer
    seconds : LayerSeconds
        On one rank.
    share : Share
    """
    has_experts = layer.exchanges == 2
    n_reductions = layer.reductions - (has_experts and layer.reductions > 0)
    n_dense = max(n_reductions, 1)
    parts: list[LayerPart] = []
    for block in range(n_dense):
        if block == 0 and any(seconds.attention):
            half = _part_of(seconds, 2 * n_dense)
            inner = [half, *attention(layer, seconds.attention, share), half]
        else:
            inner = [_part_of(seconds, n_dense)]
        parts += between_reductions(inner, layer, share) if block < n_reductions else inner
    experts = [computing(seconds.expert)] if layer.experts else []
    if has_experts:
        inner = between_reductions(experts, layer, share) if layer.reductions else experts
        parts += between_exchanges(inner, layer, share)
    else:
        parts = between_exchanges(experts, layer, share) + parts
    passes = passes_of(parts)
    if share.options.recompute is not Recompute.FULL or not layer.is_checkpointed:
        return passes
    again = tuple(replace(action, is_recomputed=True) for action in passes.forward)
    return replace(passes, backward=again + passes.backward)


def _part_of(seconds: LayerSeconds, n: int) -> LayerPart:
    forward, backward = seconds.dense
    return computing((forward * Fraction(1, n), backward * Fraction(1, n)))
