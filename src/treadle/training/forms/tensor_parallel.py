"""Tensor parallelism: a block of cut matrices between two communications (Korthikanti et al. 2022).

Without sequence parallelism the outputs of a block are summed on all ranks in the forward pass, the
gradients of its inputs in the backward pass. With it each rank has a part of the tokens between blocks: a
block begins with an allgather and ends with a reduce-scatter, and its backward pass is the same the other
way round. Gathered inputs are kept for the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        return [LayerPart(gather, scatter), *parts, LayerPart(scatter, gather)]
    total = action(CollectiveKind.ALLREDUCE)
    return [LayerPart((), total), *parts, LayerPart(total, ())]
