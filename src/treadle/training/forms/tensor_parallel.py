"""Tensor parallelism: a block of cut matrices between two communications (Korthikanti et al. 2022).

Without sequence parallelism the outputs of a block are summed on all ranks in the forward pass, the
gradients of its inputs in the backward pass. With it each rank has a part of the tokens between blocks: a
block begins with an allgather and ends with a reduce-scatter, and its backward pass is the same the other
way round. Of gathered inputs a rank keeps its own part (their equation 4), so that they are gathered again
for the gradients of weights, while those of inputs are computed, as Megatron does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from treadle.schedules.collective import CollectiveKind
from treadle.training.forms.layer_passes import Communication, LayerAction, LayerPart
from treadle.training.forms.share import Share
from treadle.training.models.model_layer import ModelLayer


def between_reductions(parts: Sequence[LayerPart], layer: ModelLayer, share: Share) -> list[LayerPart]:
    """A block of a layer with the communications of tensor parallelism around it."""
    axes = share.layout.among("tp")
    if not axes:
        return list(parts)
    size = share.activation_bytes(layer, layer.boundary_elements)

    def action(kind: CollectiveKind) -> tuple[LayerAction, ...]:
        return (LayerAction(exchange=Communication(kind, axes, size)),)

    if share.options.sequence_parallel:
        gather, scatter = action(CollectiveKind.ALLGATHER), action(CollectiveKind.REDUCE_SCATTER)
        inner = list(parts) if layer.is_lookup else _gathered_again(parts, gather[0])
        return [LayerPart(gather, scatter), *inner, LayerPart(scatter, gather)]
    total = action(CollectiveKind.ALLREDUCE)
    return [LayerPart((), total), *parts, LayerPart(total, ())]


def _gathered_again(parts: Sequence[LayerPart], gather: LayerAction) -> list[LayerPart]:
    """Parts whose first one, the last backward, has its inputs gathered beside half of what it computes."""
    first, *rest = parts
    *before, last = first.backward
    half = replace(last, seconds=last.seconds * Fraction(1, 2))
    return [replace(first, backward=(*before, replace(half, exchange=gather.exchange), half)), *rest]
