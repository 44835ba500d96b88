"""Context parallelism: attention of a rank's part of a sequence to the keys and values of all ranks.

`GATHER` (Llama 3, section 3.3.2): keys and values are gathered before attention, and again before its
backward pass, as a rank keeps its own; their gradients are reduce-scattered after it. `RING` (Liu et al.
2023, Ring Attention): in each of cp - 1 rounds a rank sends the keys and values that it has while it attends
to them; in the backward pass their gradients travel with them, and go home in one round more.
"""

from __future__ import annotations

from fractions import Fraction

from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Seconds
from treadle.training.forms.layer_passes import Communication, LayerAction, LayerPart, computing
from treadle.training.forms.share import Share
from treadle.training.models.model_layer import ModelLayer
from treadle.training.training_options import ContextExchange, Recompute


def attention(layer: ModelLayer, seconds: tuple[Seconds, Seconds], share: Share) -> list[LayerPart]:
    """What attention of a layer takes, with what it fetches before and again in the backward pass.

    Parameters
    ----------
    seconds : tuple of two numbers
        Forward and backward, by the mean of the ranks.
    """
    axes = share.layout.among("cp")
    n = share.layout.size("cp")
    forward, backward = seconds
    if axes and not share.options.is_causal_balanced and any(_is_causal(layer)):
        # The last of n ranks attends to (2n - 1) / 2n of the sequence on average, all ranks to half of it.
        forward, backward = (one * Fraction(2 * n - 1, n) for one in (forward, backward))
    again = (
        (LayerAction(forward, is_recomputed=True),) if share.options.recompute is Recompute.ATTENTION else ()
    )
    if not axes or not layer.kv_elements:
        return [LayerPart((LayerAction(forward),), (*again, LayerAction(backward)))]
    size = share.activation_bytes(
        layer, Fraction(layer.kv_elements, min(share.layout.size("tp"), layer.kv_pieces))
    )
    if share.options.context_exchange is ContextExchange.GATHER:
        gather = LayerAction(exchange=Communication(CollectiveKind.ALLGATHER, axes, n * size))
        scatter = LayerAction(exchange=Communication(CollectiveKind.REDUCE_SCATTER, axes, n * size))
        part = computing((forward, backward))
        return [LayerPart((gather,), (scatter,)), LayerPart(part.forward, (gather, *again, *part.backward))]
    return [LayerPart(_rounds(forward, n, axes, size), (*again, *_rounds_back(backward, n, axes, size)))]


def _is_causal(layer: ModelLayer) -> list[bool]:
    return [work.attended.is_causal for work in layer.works if work.attended]


def _rounds(seconds: Seconds, n: int, axes: tuple[str, ...], size: int) -> tuple[LayerAction, ...]:
    part = seconds * Fraction(1, n)
    return (*[LayerAction(part, Communication(None, axes, size))] * (n - 1), LayerAction(part))


def _rounds_back(seconds: Seconds, n: int, axes: tuple[str, ...], size: int) -> tuple[LayerAction, ...]:
    home = LayerAction(exchange=Communication(None, axes, size))
    return (*_rounds(seconds, n, axes, 2 * size), home)
