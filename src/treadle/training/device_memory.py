"""What a device must hold at most during a step: weights, optimizer, activations and buffers, part by part.

Activations follow Korthikanti et al. 2022 (sections 4 and 5), shards Rajbhandari et al. 2020 (ZeRO, section
5). Each part is taken at its own peak and these are added up: a bound from above of what is live at one time.
What allocators, libraries and fragments take on top is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from treadle.brief import brief
from treadle.errors import TreadleError
from treadle.notebook import displayed, own_fields
from treadle.training.compute_times import LocalWork
from treadle.training.models.model_layer import LOGITS, ModelLayer, Saved, Weight

ADAM_STATE_BYTES = 12
"""Per parameter beside a 16-bit weight: master, and first and second moment, in fp32."""
ADAM_MOMENT_BYTES = 8
"""Per parameter beside an fp32 weight, which needs no master."""
_LOGIT_COPIES = 2.5
"""Of the fp32 logits when the loss is taken: they, its terms or gradients, and logits of half the width."""


@displayed(own_fields)
@dataclass(frozen=True, kw_only=True)
class ActivationPolicy:
    """How a device keeps what it must remember.

    Parameters
    ----------
    weight_shards, expert_shards : int
        Ranks among which weights, gradients and optimizer states are cut besides tensor parallelism (and
        expert parallelism, for the experts'): the ranks of FSDP; 1: none.
    state_shards, expert_state_shards : int
        The same for the optimizer's state only, by ZeRO.
    shards_gradients : bool
        Gradients are cut as the optimizer's state is, by ZeRO; that of one layer at a time is entire.
    reshard_after_forward : bool
        Of sharded weights, whole layers are dropped after use and gathered again for the backward pass.
    keeps_whole_gradients : bool
        Of sharded weights, gradients of all layers are added up whole until the last micro-batch, and
        scattered then; else each layer's are scattered at once.
    prefetch : int
        Layers gathered ahead.
    recompute : str
        "none", "attention" (score matrices) or "full" (all but inputs of blocks, and what the head saves).
    fused_attention : bool
        Score matrices never reach memory.
    gathers_first : bool
        Tokens are gathered along tp before they are exchanged along ep; else copies of them afterwards.
    weight_bytes, element_bytes, gradient_bytes, optimizer_bytes : int
        Per parameter as it is kept, per element as it is computed with, per gradient, and per parameter of
        the optimizer's state, master weights included.
    block_weight_bytes : int, optional
        Per parameter of blocks (layers that leave keys and values), where these are kept in other widths.
    is_training : bool
        Else there are neither gradients nor optimizer, nothing is saved, and a cache is kept.
    """

    weight_shards: int = 1
    expert_shards: int = 1
    state_shards: int = 1
    expert_state_shards: int = 1
    shards_gradients: bool = False
    reshard_after_forward: bool = True
    keeps_whole_gradients: bool = False
    prefetch: int = 1
    recompute: str = "none"
    fused_attention: bool = True
    gathers_first: bool = True
    weight_bytes: int = 2
    element_bytes: int = 2
    gradient_bytes: int = 2
    optimizer_bytes: int = ADAM_STATE_BYTES
    block_weight_bytes: int | None = None
    is_training: bool = True

    def __post_init__(self) -> None:
        if self.recompute not in ("none", "attention", "full"):
            raise TreadleError(f"recompute {self.recompute[:20]!r}; expected none, attention or full")


@brief("total_bytes")
@dataclass(frozen=True)
class MemoryParts:
    """Bytes of a device at the peak of each part.

    Parameters
    ----------
    weights_bytes, gradients_bytes, optimizer_bytes : float
        As they are kept, sharded.
    gathered_bytes : float
        Weights of whole layers gathered at once, and whole gradients before they are scattered.
    activations_bytes : float
        Saved for the backward pass, of all micro-batches in flight; with full recomputation, those of the
        layer that is computed again as well.
    logits_bytes : float
        Of one micro-batch: in the training precision, in fp32, and the loss's terms or gradient in fp32.
    buffers_bytes : float
        The largest of each kind that communicates: tokens for experts and back, gathered tokens, keys and
        values.
    cache_bytes : float
        Keys and values for decoding.
    """

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    gathered_bytes: float
    activations_bytes: float
    logits_bytes: float
    buffers_bytes: float
    cache_bytes: float

    @property
    def total_bytes(self) -> float:
        """All parts."""
        return sum(self.by_part.values())

    @property
    def by_part(self) -> dict[str, float]:
        """Bytes by the part's name, for reports."""
        return {field.name.removesuffix("_bytes"): getattr(self, field.name) for field in fields(self)}


def memory_parts(
    pieces: Sequence[Sequence[ModelLayer]],
    order: Iterable[tuple[int, bool]],
    local: LocalWork,
    keeping: ActivationPolicy,
    *,
    read: LocalWork | None = None,
) -> MemoryParts:
    """The peak of each part on one device.

    Parameters
    ----------
    pieces : sequence of sequences of ModelLayer
        Of the model, that this device's pipeline stage has: one, or several if they are interleaved.
    order : iterable of (int, bool)
        Passes of the stage in their order: which of `pieces`, and whether it is a forward pass; ((0, True),
        (0, False)) without a pipeline.
    local : LocalWork
        A micro-batch of this device.
    keeping : Keeping
    read : LocalWork, optional
        What logits are made of, where that is not all of `local`: the last token of each prompt.

    Raises
    ------
    TreadleError
        If a piece goes backward more often than forward.

    Examples
    --------
    >>> from treadle.training.models.zoo import zoo_model
    >>> parts = memory_parts(
    ...     [zoo_model("gpt2").layers], [(0, True), (0, False)], LocalWork(8, {"": 1024}), Keeping()
    ... )
    >>> parts.weights_bytes, parts.optimizer_bytes
    (248879616.0, 1493277696.0)
    """
    layers = [layer for piece in pieces for layer in piece]
    weights = sum(_kept(layer, local, keeping) for layer in layers)
    states = sum(_kept(layer, local, keeping, of_state=True) for layer in layers)
    is_training = keeping.is_training
    # without a backward pass: what one layer makes, which the next one uses up
    flowing = max((_kept_of_layer(layer, local, keeping) for layer in layers), default=0.0)
    return MemoryParts(
        sum(_kept(layer, local, keeping) * _weight_bytes(layer, keeping) for layer in layers),
        (states if keeping.shards_gradients else weights) * keeping.gradient_bytes * is_training,
        states * keeping.optimizer_bytes * is_training,
        _gathered(pieces, local, keeping),
        _activations(pieces, order, local, keeping) if is_training else flowing,
        _logits(layers, read or local, keeping),
        _buffers(layers, local, keeping),
        0.0 if is_training else sum(_cache(layer, local, keeping) for layer in layers),
    )


def _whole(weight: Weight, local: LocalWork) -> float:
    """Elements of a weight on a rank of tensor and expert parallelism."""
    return weight.elements / (local.tp if weight.split else 1) / (local.ep if weight.expert else 1)


def _shards(weight: Weight, keeping: ActivationPolicy) -> int:
    return keeping.expert_shards if weight.expert else keeping.weight_shards


def _kept(layer: ModelLayer, local: LocalWork, keeping: ActivationPolicy, *, of_state: bool = False) -> float:
    found = 0.0
    for weight in layer.weights:
        state = (keeping.expert_state_shards if weight.expert else keeping.state_shards) if of_state else 1
        found += _whole(weight, local) / _shards(weight, keeping) / state
    return found


def _weight_bytes(layer: ModelLayer, keeping: ActivationPolicy) -> int:
    own = keeping.block_weight_bytes
    return keeping.weight_bytes if own is None or not layer.cache_elements else own


def _gathered(pieces: Sequence[Sequence[ModelLayer]], local: LocalWork, keeping: ActivationPolicy) -> float:
    """Whole layers beside the shards: those in use and ahead, and one gradient."""

    def sharded(layer: ModelLayer) -> float:
        return sum(_whole(weight, local) for weight in layer.weights if _shards(weight, keeping) > 1)

    if keeping.shards_gradients:
        entire = (
            sum(_whole(weight, local) for weight in layer.weights) for piece in pieces for layer in piece
        )
        return max(entire, default=0.0) * keeping.gradient_bytes

    per_piece = [[sharded(layer) for layer in piece] for piece in pieces]
    everything = sum(one for piece in per_piece for one in piece)
    largest = max((one for piece in per_piece for one in piece), default=0.0)
    at_once = everything
    if keeping.reshard_after_forward or not keeping.is_training:
        window = 1 + keeping.prefetch
        windows = [piece[at : at + window] for piece in per_piece for at in range(len(piece))]
        at_once = max(map(sum, windows), default=0.0)
    whole = everything if keeping.keeps_whole_gradients else largest
    gradient = whole * keeping.gradient_bytes if keeping.is_training else 0.0
    return at_once * keeping.element_bytes + gradient


def _saved_bytes(layer: ModelLayer, part: Saved, local: LocalWork, keeping: ActivationPolicy) -> float:
    tokens = float(local.tokens_here(part.stream or layer.stream))
    if part.attended is not None:
        tokens *= float(part.attended.mean(local.tokens[layer.attended_stream(part)]))
    shards = local.tp if part.split or local.sequence_parallel else 1
    return float(part.elements) * tokens / shards * keeping.element_bytes


def _kept_of_layer(layer: ModelLayer, local: LocalWork, keeping: ActivationPolicy) -> float:
    """Bytes that a layer saves of a micro-batch, logits apart."""
    has_scores = keeping.recompute != "attention" and not keeping.fused_attention
    kept = [part for part in layer.saved if part.name != LOGITS and (has_scores or not part.in_attention)]
    return sum(_saved_bytes(layer, part, local, keeping) for part in kept)


def _activations(
    pieces: Sequence[Sequence[ModelLayer]],
    order: Iterable[tuple[int, bool]],
    local: LocalWork,
    keeping: ActivationPolicy,
) -> float:
    """The most that is saved at one time over the passes of the stage."""
    whole = [[_kept_of_layer(layer, local, keeping) for layer in piece] for piece in pieces]
    again = 0.0
    if keeping.recompute == "full":
        # Of each block its input is kept, or what it saves if that is less; one at a time is computed again.
        saved = []
        for layers, sizes in zip(pieces, whole, strict=True):
            total = 0.0
            for layer, own in zip(layers, sizes, strict=True):
                entry = Saved("input", layer.boundary_elements, split=False)
                least = _saved_bytes(layer, entry, local, keeping) if layer.is_checkpointed else own
                total += min(own, least)
                again = max(again, own * layer.is_checkpointed)
            saved.append(total)
    else:
        saved = [sum(piece) for piece in whole]
    in_flight = [0] * len(pieces)
    live = most = 0.0
    for piece, is_forward in order:
        in_flight[piece] += 1 if is_forward else -1
        if in_flight[piece] < 0:
            raise TreadleError(f"order of passes: piece {piece} goes backward more often than forward")
        live = sum(count * size for count, size in zip(in_flight, saved, strict=True))
        most = max(most, live)
    return most + again


def _logits(layers: Sequence[ModelLayer], local: LocalWork, keeping: ActivationPolicy) -> float:
    copies = _LOGIT_COPIES if keeping.is_training else 1
    logits = [(layer, part) for layer in layers for part in layer.saved if part.name == LOGITS]
    return copies * sum(_saved_bytes(layer, part, local, keeping) for layer, part in logits)


def _buffers(layers: Sequence[ModelLayer], local: LocalWork, keeping: ActivationPolicy) -> float:
    """Tokens to experts and back; tokens of all tensor ranks; keys and values of whole sequences."""
    exchanged = gathered = passed = 0.0
    for layer in layers:
        tokens = float(local.tokens_here(layer.stream))
        cuts_experts = local.tp > 1 and layer.reductions and layer.exchanges == 2
        is_part = not keeping.gathers_first if cuts_experts else local.sequence_parallel
        if local.ep > 1:
            exchanged = max(exchanged, 2 * layer.routed_elements * tokens / (local.tp if is_part else 1))
            if cuts_experts and is_part:
                gathered = max(gathered, layer.routed_elements * tokens)
        if local.tp > 1 and layer.reductions:
            gathered = max(gathered, layer.boundary_elements * tokens)
        if local.cp > 1:
            pieces = min(local.tp, layer.kv_pieces)
            passed = max(passed, layer.kv_elements * tokens * local.cp / pieces)
    return (exchanged + gathered + passed) * keeping.element_bytes


def _cache(layer: ModelLayer, local: LocalWork, keeping: ActivationPolicy) -> float:
    tokens = local.tokens[layer.stream]
    kept = min(tokens, layer.cache_window or tokens)
    elements = float(local.sequences) * layer.cache_elements * kept / local.cp
    return elements / min(local.tp, layer.kv_pieces) * keeping.element_bytes


def missing_bytes(parts: Sequence[MemoryParts], memory_bytes: int) -> str:
    """What does not fit, in words; "" if every device's parts do.

    Parameters
    ----------
    parts : sequence of MemoryParts
        Of each pipeline stage.
    memory_bytes : int
        Of a device.
    """
    worst = max(parts, key=lambda one: one.total_bytes)
    if worst.total_bytes <= memory_bytes:
        return ""
    name, size = max(worst.by_part.items(), key=lambda item: item[1])
    return (
        f"a device needs {worst.total_bytes / 2**30:.1f} GB and has {memory_bytes / 2**30:.1f} GB; "
        f"most of it: {name}, {size / 2**30:.1f} GB"
    )
