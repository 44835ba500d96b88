"""Transformers from their dimensions: decoders, and encoders with decoders that attend to them."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.training.models.attention import MASK, BlockParts, Heads
from treadle.training.models.feed_forward import dense_parts, expert_parts
from treadle.training.models.model_layer import (
    LOGITS,
    Attended,
    ModelLayer,
    Saved,
    Weight,
    Work,
    WorkKind,
    product_work,
)
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.transformer_shape import BlockKind, TransformerShape

LOGIT_ELEMENTS = 2
"""Elements kept per entry of the logits: the loss is taken in fp32."""


def transformer(shape: TransformerShape) -> TrainingModel:
    """The model of these dimensions: embedding, blocks, and a head with the final norm and the loss.

    Examples
    --------
    >>> gpt2 = TransformerShape(
    ...     "gpt2", 768, 3072, 50257, 12, Heads(12, 12, 64, has_bias=True, output_bias=True), is_gated=False,
    ...     is_tied=True, has_bias=True, norm_has_bias=True, positions=1024,
    ... )
    >>> transformer(gpt2).parameters
    124439808
    """
    layers: list[ModelLayer] = []
    if shape.encoder_layers:
        layers.append(_embedding(shape, "embedding", "encoder"))
        layers += _blocks(shape, "encoder", shape.encoder_layers)
        parts = _norm(shape, "encoder")
        own = (parts.weights, parts.works, parts.saved)
        layers.append(ModelLayer("encoder norm", "encoder", *own, boundary_elements=shape.hidden))
        layers.append(_embedding(shape, "decoder embedding", "decoder", shares="embedding"))
        layers += _blocks(shape, "decoder", shape.layers)
    else:
        layers.append(_embedding(shape, "embedding", ""))
        layers += _blocks(shape, "", shape.layers)
    layers.append(_head(shape, layers[-1].stream))
    return TrainingModel(
        shape.name, tuple(layers), max_tokens=shape.max_tokens, source=shape.source, shape=shape
    )


def _embedding(shape: TransformerShape, name: str, stream: str, *, shares: str = "") -> ModelLayer:
    weights = [Weight("embedding", shape.vocabulary * shape.hidden)]
    if shape.positions:
        weights.append(Weight("positions", shape.positions * shape.hidden, split=False))
    reads = 3 if shape.positions else 2
    return ModelLayer(
        name,
        stream,
        () if shares else tuple(weights),
        works=(
            Work(
                "embedding",
                WorkKind.LOOKUP,
                moved_elements=reads * shape.hidden,
                moved_backward=reads * shape.hidden,
                split=False,
            ),
        ),
        saved=(Saved("mask", MASK * shape.hidden, split=False),) if shape.has_dropout else (),
        boundary_elements=shape.hidden,
        # A table cut by words needs a sum forward; the head needs one backward: counted here for both.
        reductions=1,
        shares=shares,
    )


def _blocks(shape: TransformerShape, stream: str, count: int) -> Iterator[ModelLayer]:
    for index in range(count):
        kind = shape.block_kind(index)
        own = Attended(is_causal=stream != "encoder", window=kind.window, is_chunked=shape.has_chunks)
        yield _block(shape, f"{stream or 'block'} {index}", stream, own, kind)


def _block(shape: TransformerShape, name: str, stream: str, own: Attended, kind: BlockKind) -> ModelLayer:
    hidden, is_cross, heads = shape.hidden, stream == "decoder", shape.attention
    halves: list[BlockParts] = []
    attends, space = kind.half in ("", "*"), shape.state_space if kind.half == "M" else None
    if attends:
        parts = _norm(shape, "attention") + heads.parts(hidden, own, has_dropout=shape.has_dropout)
        parts += _residual(shape, "attention")
        if name.endswith(" 0") and shape.position_buckets and isinstance(heads, Heads):
            parts += BlockParts((Weight("positions", shape.position_buckets * heads.heads),))
        halves.append(parts)
    if is_cross:
        encoder = Attended("encoder", is_causal=False)
        parts = _norm(shape, "cross attention")
        parts += heads.parts(hidden, encoder, has_dropout=shape.has_dropout)
        halves.append(parts + _residual(shape, "cross attention"))
    if space is not None:
        halves.append(_norm(shape, "state space") + space.parts(hidden) + _residual(shape, "state space"))
    experts = shape.experts if kind.has_experts else None
    if kind.half in ("", "-", "E"):
        parts = _norm(shape, "feed-forward")
        for index in range(shape.norms_per_block - 2):
            parts += _bare_norm(shape, f"after {index}")
        if experts is None:
            parts += dense_parts(hidden, shape.feed_forward, is_gated=shape.is_gated, has_bias=shape.has_bias)
        else:
            parts += expert_parts(hidden, experts, is_gated=shape.is_gated)
        halves.append(parts + _residual(shape, "feed-forward"))
    parts = sum(halves, BlockParts())
    cached = heads.cache_elements if attends else space.cache_elements if space else 0
    return ModelLayer(
        name,
        stream,
        parts.weights,
        parts.works,
        parts.saved,
        boundary_elements=hidden,
        reductions=len(halves),
        experts=experts.experts if experts else 0,
        top_k=experts.top_k if experts else 0,
        routed_elements=experts.top_k * experts.routed_width(hidden) if experts else 0,
        exchanges=2 if experts else 0,
        kv_elements=heads.kv_elements if attends else 0,
        cache_elements=cached,
        kv_pieces=space.heads if space else heads.kv_slices,
        cache_window=1 if space else own.window,
    )


def _bare_norm(shape: TransformerShape, name: str) -> BlockParts:
    """A norm and its input, which the backward pass needs."""
    scale = shape.hidden * (2 if shape.norm_has_bias else 1)
    return BlockParts(
        (Weight(f"{name} norm", scale, split=False),),
        (
            Work(
                f"{name} norm",
                WorkKind.ELEMENTWISE,
                moved_elements=2 * shape.hidden,
                moved_backward=3 * shape.hidden,
                split=False,
            ),
        ),
        (Saved(f"{name} norm input", shape.hidden, split=False),),
    )


def _norm(shape: TransformerShape, name: str) -> BlockParts:
    """A norm, and its output, which the products after it need."""
    output = Saved(f"{name} input", shape.hidden, split=False)
    return _bare_norm(shape, name) + BlockParts(saved=(output,))


def _residual(shape: TransformerShape, name: str) -> BlockParts:
    """Dropout and sum: both read, the sum written."""
    # backward the gradient is handed on as it is, and products add up theirs by themselves
    work = Work(
        f"{name} residual",
        WorkKind.ELEMENTWISE,
        moved_elements=3 * shape.hidden,
        moved_backward=0,
        split=False,
    )
    mask = Saved(f"{name} mask", MASK * shape.hidden, split=False)
    return BlockParts((), (work,), (mask,) if shape.has_dropout else ())


def _head(shape: TransformerShape, stream: str) -> ModelLayer:
    hidden, words = shape.hidden, shape.vocabulary
    parts = _norm(shape, "final")
    logits = product_work("logits", hidden, words)
    loss = Work("loss", WorkKind.ELEMENTWISE, moved_elements=2 * words, moved_backward=4 * words)
    own = () if shape.is_tied else (Weight("logits", hidden * words),)
    return ModelLayer(
        "head",
        stream,
        parts.weights + own,
        (*parts.works, logits, loss),
        (*parts.saved, Saved(LOGITS, LOGIT_ELEMENTS * words)),
        boundary_elements=hidden,
        shares="embedding" if shape.is_tied else "",
    )
