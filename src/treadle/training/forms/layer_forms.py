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
    is_causal = any(work.attended.is_causal for work in layer.works if work.attended)
    if axes and not share.options.is_causal_balanced and is_causal:
        # The last of n ranks attends to (2n - 1) / 2n of the sequence on average, all ranks to half of it.
        forward, backward = (one * Fraction(2 * n - 1, n) for one in (forward, backward))
    repeats = share.options.recompute is Recompute.ATTENTION
    again = (LayerAction(forward, is_recomputed=True),) if repeats else ()
    if not axes or not layer.kv_elements:
        return [LayerPart((LayerAction(forward),), (*again, LayerAction(backward)))]
    pieces = min(share.layout.size("tp"), layer.kv_pieces)
    size = share.activation_bytes(layer, Fraction(layer.kv_elements, pieces))
    if share.options.context_exchange is ContextExchange.GATHER:
        gather = LayerAction(exchange=Communication(CollectiveKind.ALLGATHER, axes, n * size))
        scatter = LayerAction(exchange=Communication(CollectiveKind.REDUCE_SCATTER, axes, n * size))
        attending = LayerPart((LayerAction(forward),), (gather, *again, LayerAction(backward)))
        return [LayerPart((gather,), (scatter,)), attending]
    home = LayerAction(exchange=Communication(None, axes, size))
    rounds_back = _rounds(backward, n, axes, 2 * size)
    return [LayerPart(_rounds(forward, n, axes, size), (*again, *rounds_back, home))]


def _rounds(seconds: Seconds, n: int, axes: tuple[str, ...], size: int) -> tuple[LayerAction, ...]:
    part = seconds * Fraction(1, n)
    return (*[LayerAction(part, Communication(None, axes, size))] * (n - 1), LayerAction(part))


def layer_passes(layer: ModelLayer, seconds: LayerSeconds, share: Share) -> LayerPart:
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
        attended = attention(layer, seconds.attention, share) if not block and any(seconds.attention) else []
        n_parts = 2 * n_dense if attended else n_dense
        forward, backward = (one * Fraction(1, n_parts) for one in seconds.dense)
        dense = computing((forward, backward))
        inner = [dense, *attended, dense] if attended else [dense]
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
