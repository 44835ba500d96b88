"""A layer on a mesh: its parts as the forms of parallelism within a layer arrange them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Seconds
from treadle.training.forms.layer_passes import (
    Communication,
    LayerAction,
    LayerPart,
    LayerPasses,
    LayerSeconds,
    computing,
    passes_of,
)
from treadle.training.forms.share import Share
from treadle.training.models.model_layer import ModelLayer
from treadle.training.training_options import ContextExchange, Recompute

# Tensor parallelism: a block of cut matrices between two communications (Korthikanti et al. 2022)


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


# Expert parallelism: tokens go to the ranks of their experts and come back, forward and backward


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


# Context parallelism: attention of a rank's part of a sequence to the keys and values of all ranks


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
