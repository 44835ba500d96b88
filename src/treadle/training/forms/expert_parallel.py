"""Expert parallelism: tokens go to the ranks of their experts and come back, forward and backward.

Experts are spread over the axis evenly and tokens over the experts (dissertation A.1.4). An exchange blocks:
what is computed next waits for it (Fig. A.5). Embedding tables (DLRM) are looked up where they are, and what
was found is exchanged once.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.schedules.collective import CollectiveKind
from treadle.training.forms.layer_passes import Communication, LayerAction, LayerPart
from treadle.training.forms.share import Share
from treadle.training.models.model_layer import ModelLayer


def between_exchanges(parts: Sequence[LayerPart], layer: ModelLayer, share: Share) -> list[LayerPart]:
    """The experts' part of a layer with the all-to-alls before and after it."""
    axes = share.layout.among("ep")
    if not axes or not layer.exchanges:
        return list(parts)
    size = share.activation_bytes(layer, layer.routed_elements * share.options.capacity_factor)
    if share.options.sequence_parallel:
        size = -(-size // share.layout.size("tp"))
    action = (LayerAction(exchange=Communication(CollectiveKind.ALLTOALL, axes, size)),)
    exchange = LayerPart(action, action)
    return [exchange, *parts, exchange] if layer.exchanges == 2 else [*parts, exchange]
