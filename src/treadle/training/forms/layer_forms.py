"""A layer on a mesh: its parts as the forms of parallelism within a layer arrange them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, Seconds
from treadle.training.forms.layer_passes import (
    Communication,
    LayerAction,
    LayerPart,
    LayerSeconds,
    computing,
    passes_of,
)
from treadle.training.forms.rank_part import RankPart
from treadle.training.models.model_layer import ModelLayer
from treadle.training.training_options import ContextExchange, ExpertOrder, Recompute

# Tensor parallelism: a block of cut matrices between two communications (Korthikanti et al. 2022)


def between_reductions(parts: Sequence[LayerPart], layer: ModelLayer, share: RankPart) -> list[LayerPart]:
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


def between_exchanges(parts: Sequence[LayerPart], layer: ModelLayer, share: RankPart) -> list[LayerPart]:
    """The experts' part of a layer with the communications that bring tokens there and back."""
    experts, cut = share.layout.among("ep"), share.layout.among("tp")
    if not experts or not layer.exchanges:
        is_cut = layer.reductions and layer.exchanges == 2
        return between_reductions(parts, layer, share) if is_cut else list(parts)
    routed = share.activation_bytes(layer, layer.routed_elements * share.options.capacity_factor)
    tokens = share.activation_bytes(layer, layer.boundary_elements)
    part, is_sharded = -(-routed // share.layout.size("tp")), share.options.sequence_parallel

    def moved(*collectives: tuple[CollectiveKind, tuple[str, ...], int]) -> tuple[LayerAction, ...]:
        return tuple(LayerAction(exchange=Communication(*one)) for one in collectives)

    kind = CollectiveKind
    if layer.exchanges == 1 or not layer.reductions or not cut:
        exchange = moved((kind.ALLTOALL, experts, part if is_sharded else routed))
        around = LayerPart(exchange, exchange)
        return [around, *parts, around] if layer.exchanges == 2 else [*parts, around]
    # Every rank of tp has a cut of the same experts, so that each needs all copies of the tokens routed
    # there, top_k times the tokens, and has a partial sum of each copy's result.
    if share.options.expert_order is ExpertOrder.GATHER_FIRST:
        # Each rank of tp has all tokens and sends all their copies. Partial sums of copies come back, are
        # added up to one for each token, and only these are reduced.
        exchange = moved((kind.ALLTOALL, experts, routed))
        there = (*moved((kind.ALLGATHER, cut, tokens)), *exchange) if is_sharded else exchange
        total = kind.REDUCE_SCATTER if is_sharded else kind.ALLREDUCE
        back = (*exchange, *moved((total, cut, tokens)))
    else:
        # Each rank of tp sends the copies of its part of the tokens (as Megatron's dispatcher does), and
        # copies are gathered where they arrive. Without sequence parallelism all ranks get all tokens back.
        exchange = moved((kind.ALLTOALL, experts, part))
        there = (*exchange, *moved((kind.ALLGATHER, cut, routed)))
        restored = () if is_sharded else moved((kind.ALLGATHER, cut, tokens))
        back = (*moved((kind.REDUCE_SCATTER, cut, routed)), *exchange, *restored)
    # Of the copies a rank keeps its part, which is gathered again for the weights' gradients.
    inner = _gathered_again(parts, *moved((kind.ALLGATHER, cut, routed)))
    return [LayerPart(there, back), *inner, LayerPart(back, there)]


def with_quicker_order(share: RankPart, layers: Iterable[ModelLayer], costs: Costs) -> RankPart:
    """Choose the order of exchanging and gathering tokens for experts that takes less time on its own."""
    if not share.layout.among("ep") or not share.layout.among("tp"):
        return share
    routing = [layer for layer in layers if layer.exchanges == 2 and layer.reductions]

    def seconds(ordered: RankPart) -> Seconds:
        parts = [part for layer in routing for part in between_exchanges([computing((0, 0))], layer, ordered)]
        moved = [one.exchange for part in parts for one in part.forward if one.exchange]
        return sum(costs.time_s(one.kind, one.axes, one.size_bytes) for one in moved if one.kind)

    both = [replace(share, options=replace(share.options, expert_order=order)) for order in ExpertOrder]
    return min(both, key=seconds) if routing else share


# Context parallelism: attention of a rank's part of a sequence to the keys and values of all ranks


def attention(layer: ModelLayer, seconds: tuple[Seconds, Seconds], share: RankPart) -> list[LayerPart]:
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


def layer_passes(layer: ModelLayer, seconds: LayerSeconds, share: RankPart) -> LayerPart:
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
        parts += between_exchanges(experts, layer, share)
    else:
        parts = between_exchanges(experts, layer, share) + parts
    passes = passes_of(parts)
    if share.options.recompute is not Recompute.FULL or not layer.is_checkpointed:
        return passes
    again = tuple(replace(action, is_recomputed=True) for action in passes.forward)
    return replace(passes, backward=again + passes.backward)
