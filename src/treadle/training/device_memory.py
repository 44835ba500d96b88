"""Peak memory of a device during a step: weights, optimizer, activations and buffers, part by part.

Activations follow Korthikanti et al. 2022 (sections 4 and 5), shards Rajbhandari et al. 2020 (ZeRO, section
5). The peaks of all parts are added up, which is an upper bound on the memory in use at one time. Memory of
allocators, libraries and fragmentation is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain

from treadle.brief import brief
from treadle.errors import TreadleError
from treadle.notebook import displayed, own_fields
from treadle.training.compute_times import LocalWork
from treadle.training.models.model_layer import LOGITS, ModelLayer, Saved, Weight

ADAM_STATE_BYTES = 12
"""Per parameter with a 16-bit weight: master, and first and second moment, in fp32."""
ADAM_MOMENT_BYTES = 8
"""Per parameter with an fp32 weight, which needs no separate master."""
_LOGIT_COPIES = 2.5
"""Copies of fp32 logits at the loss: logits, its terms or gradients, and logits of half the width."""


@displayed(own_fields)
@dataclass(frozen=True, kw_only=True)
class ActivationPolicy:
    """Storage of weights, gradients, optimizer states and activations on a device.

    Parameters
    ----------
    weight_shards, expert_shards : int
        Ranks of FSDP that shard weights, gradients and optimizer states, in addition to tensor parallelism
        (and expert parallelism, for experts); 1 without FSDP.
    state_shards, expert_state_shards : int
        The same for the optimizer's state only, by ZeRO.
    shards_gradients : bool
        Gradients are sharded like the optimizer's state, by ZeRO; one layer at a time has a full gradient.
    reshard_after_forward : bool
        Gathered layers are dropped after use and gathered again for the backward pass.
    keeps_whole_gradients : bool
        With sharded weights, full gradients of all layers are accumulated until the last micro-batch and then
        scattered; else each layer's gradient is scattered immediately.
    prefetch : int
        Layers gathered ahead.
    recompute : str
        "none", "attention" (score matrices) or "full" (all but inputs of blocks, and tensors of the head).
    fused_attention : bool
        Score matrices never reach memory.
    gathers_first : bool
        Tokens are gathered along tp before they are exchanged along ep; else copies of them afterwards.
    weight_bytes, element_bytes, gradient_bytes, optimizer_bytes : int
        Bytes of a stored weight, of an element in computations, of a gradient, and of a parameter's optimizer
        state with its master weight.
    block_weight_bytes : int, optional
        Bytes of a stored weight of blocks (layers that leave keys and values), if they have another width.
    is_training : bool
        Otherwise, a cache replaces gradients, optimizer states and saved activations.
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
        Stored shards.
    gathered_bytes : float
        Weights of layers that are gathered together, and full gradients before they are scattered.
    activations_bytes : float
        Saved for the backward pass, of all micro-batches in flight; with full recomputation, also those of
        the layer that is recomputed.
    logits_bytes : float
        Logits of one micro-batch in the training precision and in fp32, and the loss's terms or gradient in
        fp32.
    buffers_bytes : float
        The largest buffer of each kind of communication: tokens to experts and back, gathered tokens, keys
        and values.
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
        """Sum of all parts."""
        return sum(self.by_part.values())

    @property
    def by_part(self) -> dict[str, float]:
        """Bytes by name of the part, for reports."""
        return {field.name.removesuffix("_bytes"): getattr(self, field.name) for field in fields(self)}


def memory_parts(
    stages: Sequence[Sequence[ModelLayer]],
    order: Iterable[tuple[int, bool]],
    local: LocalWork,
    keeping: ActivationPolicy,
    *,
    read: LocalWork | None = None,
) -> MemoryParts:
    """Return the peak of each part on one device.

    Parameters
    ----------
    stages : sequence of sequences of ModelLayer
        Layers of each virtual stage on this device; one without interleaving.
    order : iterable of (int, bool)
        Passes in their order: the virtual stage, and whether it is a forward pass; ((0, True), (0, False))
        without a pipeline.
    local : LocalWork
        A micro-batch of this device.
    keeping : Keeping
    read : LocalWork, optional
        Tokens that have logits, e.g. the last one of each prompt; default all of `local`.

    Raises
    ------
    TreadleError
        If a virtual stage has more backward than forward passes.

    Examples
    --------
    >>> from treadle.training.models.zoo import zoo_model
    >>> parts = memory_parts(
    ...     [zoo_model("gpt2").layers], [(0, True), (0, False)], LocalWork(8, {"": 1024}), ActivationPolicy()
    ... )
    >>> parts.weights_bytes, parts.optimizer_bytes
    (248879616.0, 1493277696.0)
    """
    layers = [*chain.from_iterable(stages)]
    weights = sum(_stored(layer, local, keeping) for layer in layers)
    states = sum(_stored(layer, local, keeping, of_state=True) for layer in layers)
    is_training = keeping.is_training
    logits = sum(
        _saved_bytes(layer, part, read or local, keeping)
        for layer in layers
        for part in layer.saved
        if part.name == LOGITS
    )
    # without a backward pass only one layer's output is live at a time
    flowing = max((_saved_by_layer(layer, local, keeping) for layer in layers), default=0.0)
    return MemoryParts(
        sum(_stored(layer, local, keeping) * _weight_bytes(layer, keeping) for layer in layers),
        (states if keeping.shards_gradients else weights) * keeping.gradient_bytes * is_training,
        states * keeping.optimizer_bytes * is_training,
        _gathered(stages, local, keeping),
        _activations(stages, order, local, keeping) if is_training else flowing,
        (_LOGIT_COPIES if is_training else 1) * logits,
        _buffers(layers, local, keeping),
        0.0 if is_training else sum(_cache(layer, local, keeping) for layer in layers),
    )


def _full(weight: Weight, local: LocalWork) -> float:
    """Return the elements of a weight on a rank of tensor and expert parallelism."""
    return weight.elements / (local.tp if weight.split else 1) / (local.ep if weight.expert else 1)


def _shards(weight: Weight, keeping: ActivationPolicy) -> int:
    return keeping.expert_shards if weight.expert else keeping.weight_shards


def _stored(
    layer: ModelLayer, local: LocalWork, keeping: ActivationPolicy, *, of_state: bool = False
) -> float:
    found = 0.0
    for weight in layer.weights:
        state = (keeping.expert_state_shards if weight.expert else keeping.state_shards) if of_state else 1
        found += _full(weight, local) / _shards(weight, keeping) / state
    return found


def _weight_bytes(layer: ModelLayer, keeping: ActivationPolicy) -> int:
    own = keeping.block_weight_bytes
    return keeping.weight_bytes if own is None or not layer.cache_elements else own


def _gathered(stages: Sequence[Sequence[ModelLayer]], local: LocalWork, keeping: ActivationPolicy) -> float:
    """Return the bytes of gathered layers, in use and ahead, and of full gradients."""

    def sharded(layer: ModelLayer) -> float:
        return sum(_full(weight, local) for weight in layer.weights if _shards(weight, keeping) > 1)

    if keeping.shards_gradients:
        full = (
            sum(_full(weight, local) for weight in layer.weights) for layer in chain.from_iterable(stages)
        )
        return max(full, default=0.0) * keeping.gradient_bytes

    by_stage = [[sharded(layer) for layer in layers] for layers in stages]
    sizes = [*chain.from_iterable(by_stage)]
    gathered = sum(sizes)
    if keeping.reshard_after_forward or not keeping.is_training:
        window = 1 + keeping.prefetch
        windows = [layers[at : at + window] for layers in by_stage for at in range(len(layers))]
        gathered = max(map(sum, windows), default=0.0)
    gradients = sum(sizes) if keeping.keeps_whole_gradients else max(sizes, default=0.0)
    gradient_bytes = gradients * keeping.gradient_bytes if keeping.is_training else 0.0
    return gathered * keeping.element_bytes + gradient_bytes


def _saved_bytes(layer: ModelLayer, part: Saved, local: LocalWork, keeping: ActivationPolicy) -> float:
    tokens = float(local.tokens_here(part.stream or layer.stream))
    if part.attended is not None:
        tokens *= float(part.attended.mean(local.tokens[layer.attended_stream(part)]))
    shards = local.tp if part.split or local.sequence_parallel else 1
    return float(part.elements) * tokens / shards * keeping.element_bytes


def _saved_by_layer(layer: ModelLayer, local: LocalWork, keeping: ActivationPolicy) -> float:
    """Return the bytes that a layer saves for a micro-batch, without logits."""
    has_scores = keeping.recompute != "attention" and not keeping.fused_attention
    return sum(
        _saved_bytes(layer, part, local, keeping)
        for part in layer.saved
        if part.name != LOGITS and (has_scores or not part.in_attention)
    )


def _activations(
    stages: Sequence[Sequence[ModelLayer]],
    order: Iterable[tuple[int, bool]],
    local: LocalWork,
    keeping: ActivationPolicy,
) -> float:
    """Return the peak of saved bytes over the passes of the stage."""
    saved, recomputed = [0.0] * len(stages), 0.0
    for stage, layers in enumerate(stages):
        for layer in layers:
            own = _saved_by_layer(layer, local, keeping)
            if keeping.recompute == "full" and layer.is_checkpointed:
                # a block keeps its input, if that is smaller; one block at a time is computed again
                recomputed = max(recomputed, own)
                entry = Saved("input", layer.boundary_elements, split=False)
                own = min(own, _saved_bytes(layer, entry, local, keeping))
            saved[stage] += own
    in_flight = [0] * len(stages)
    most = 0.0
    for stage, is_forward in order:
        in_flight[stage] += 1 if is_forward else -1
        if in_flight[stage] < 0:
            raise TreadleError(f"order of passes: stage {stage} has more backward than forward passes")
        most = max(most, sum(count * size for count, size in zip(in_flight, saved, strict=True)))
    return most + recomputed


def _buffers(layers: Sequence[ModelLayer], local: LocalWork, keeping: ActivationPolicy) -> float:
    """Return the bytes of tokens to experts and back, of gathered tokens, and of gathered keys and values."""
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
            n_parts = min(local.tp, layer.kv_pieces)
            passed = max(passed, layer.kv_elements * tokens * local.cp / n_parts)
    return (exchanged + gathered + passed) * keeping.element_bytes


def _cache(layer: ModelLayer, local: LocalWork, keeping: ActivationPolicy) -> float:
    tokens = local.tokens[layer.stream]
    cached = min(tokens, layer.cache_window or tokens)
    elements = float(local.sequences) * layer.cache_elements * cached / local.cp
    return elements / min(local.tp, layer.kv_pieces) * keeping.element_bytes


def missing_bytes(parts: Sequence[MemoryParts], memory_bytes: int) -> str:
    """Describe the excess of the largest pipeline stage over a device's memory; "" if all stages fit."""
    worst = max(parts, key=lambda one: one.total_bytes)
    if worst.total_bytes <= memory_bytes:
        return ""
    name, size = max(worst.by_part.items(), key=lambda item: item[1])
    return (
        f"a device needs {worst.total_bytes / 2**30:.1f} GB and has {memory_bytes / 2**30:.1f} GB; "
        f"most of it: {name}, {size / 2**30:.1f} GB"
    )
