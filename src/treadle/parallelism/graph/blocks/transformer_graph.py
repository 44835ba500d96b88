"""The model graph of a transformer from its dimensions: embedding, blocks of one or several kinds, head.

What differs between models is what `TransformerShape` says, as for the layers that `treadle train` counts. A
norm, a rotation, an activation is one operator. Left out are dropout, losses that balance experts, and sinks
of attention (one number per head).
"""

from __future__ import annotations

from treadle.errors import TreadleError
from treadle.parallelism.graph.blocks.attention_half import attention_half, attention_sizes
from treadle.parallelism.graph.blocks.feed_forward_half import (
    INDEX_BYTES,
    feed_forward_half,
    feed_forward_sizes,
)
from treadle.parallelism.graph.blocks.forward import Forward
from treadle.parallelism.graph.blocks.gradients import joint_graph
from treadle.parallelism.graph.compute_graph import OperatorKind, Source, TensorRef
from treadle.parallelism.graph.folding.fold import common_prefix
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.transformer_shape import BlockKind, TransformerShape

LOGIT_BYTES = 4
"""The loss is taken in float32."""
_TABLE = "tok_embeddings.weight"
_HEAD = "output.weight"
_BLOCKS = "layers"
"""The list of blocks in a module whose parameters are called as here: torchtitan's models are."""


def model_graph(model: TrainingModel, *, batch: int, sequence: int) -> ModelGraph:
    """Return the graph of one training step of a model of the zoo or of a ``config.json``.

    Parameters
    ----------
    model : TrainingModel
    batch, sequence : int
        Samples of a step, and tokens of each: dimensions ``b`` and ``s``.

    Raises
    ------
    TreadleError
        If the model is not a decoder-only transformer, or has learned positions for shorter sequences.

    Examples
    --------
    >>> from treadle.training.models.zoo import zoo_model
    >>> found = model_graph(zoo_model("llama-3-8b"), batch=16, sequence=8192)
    >>> [(part.name, part.repeats) for part in found.parts], found.parameters
    ([('embedding', 1), ('block', 32), ('head', 1)], 8030261248)
    """
    shape = model.shape
    if shape is None:
        raise TreadleError(
            f"model {model.name} is not a transformer of known dimensions; expected a decoder of the zoo, a "
            "config.json, or a captured module"
        )
    if shape.encoder_layers:
        raise TreadleError(
            f"model {model.name}: its decoder attends to an encoder, and parts of a model graph follow each "
            "other; expected a model without an encoder"
        )
    if shape.pattern:
        raise TreadleError(
            f"model {model.name}: a model graph has no operators for state-space layers; use treadle train"
        )
    if min(batch, sequence) < 1:
        raise TreadleError(f"model {model.name}: {batch} samples of {sequence} tokens; expected 1 or more")
    if shape.positions and sequence > shape.positions:
        raise TreadleError(
            f"model {model.name}: {sequence} tokens; expected at most its {shape.positions} learned positions"
        )
    if not 2 <= shape.norms_per_block <= 4:
        raise TreadleError(f"model {model.name}: {shape.norms_per_block} norms a block; expected 2, 3 or 4")
    sizes = {"b": batch, "s": sequence, "h": shape.hidden, "v": shape.vocabulary}
    kinds = [shape.block_kind(index) for index in range(shape.layers)]
    distinct = list(dict.fromkeys(kinds))
    blocks = []
    for kind in distinct:
        own = attention_sizes(shape.attention) | feed_forward_sizes(shape, kind, sequence)
        words = []
        if len({other.has_experts for other in distinct}) > 1:
            words.append("expert" if kind.has_experts else "dense")
        if len({other.window for other in distinct}) > 1 and kind.window:
            words.append("windowed")
        # the blocks of a kind among all, as a path has them: all, a slice, or one by one
        places = [str(place) for place, other in enumerate(kinds) if other == kind]
        path = "*" if len(places) == len(kinds) > 1 else common_prefix(places, has_all=False)
        forward = Forward(sizes | own, f"{_BLOCKS}.{path}")
        blocks.append(_block(forward, shape, kind, " ".join([*words, "block"]), len(places)))
    embedding = _embedding(Forward(sizes | {"p": shape.positions}), shape)
    return ModelGraph(
        model.name,
        (embedding, *blocks, _head(Forward(sizes), shape)),
        "b",
        "s",
        batch * sequence,
        (0, *(1 + distinct.index(kind) for kind in kinds), len(distinct) + 1),
        (Tie(("embedding", _TABLE), ("head", _HEAD)),) if shape.is_tied else (),
    )


def _norm(forward: Forward, shape: TransformerShape, name: str, x: TensorRef) -> TensorRef:
    operands = [x, forward.parameter(f"{name}.weight", "h")]
    if shape.norm_has_bias:
        operands.append(forward.parameter(f"{name}.bias", "h"))
    specification = f"{','.join(['bsh', 'h', 'h'][: len(operands)])}->bsh"
    operator = "layer_norm" if shape.norm_has_bias else "rms_norm"
    return forward.pointwise(f"{name}ed", specification, operands, operator=operator, whole="h")


def _embedding(forward: Forward, shape: TransformerShape) -> ModelPart:
    words = forward.placeholder("words", "bs", Source.INPUT, element_bytes=INDEX_BYTES)
    table = forward.parameter(_TABLE, "vh")
    kind = OperatorKind.GATHER
    (x,) = forward.apply("embedding", kind, "vh,bs->bsh", (table, words), operator="lookup", linear=((0,),))
    if shape.positions:
        rows = (forward.parameter("positions.weight", "ph"),)
        (row,) = forward.apply("position", kind, "ph->sh", rows, operator="lookup", linear=((0,),))
        x = forward.sum_of("embedding_at_position", "bsh", x, row, words=("bsh", "sh"))
    return ModelPart("embedding", joint_graph(forward, leaves=x), 1, None, x)


def _block(forward: Forward, shape: TransformerShape, kind: BlockKind, name: str, repeats: int) -> ModelPart:
    x = entered = forward.placeholder("x", "bsh", Source.INPUT)
    follows = shape.norms_follow
    made = x if follows else _norm(forward, shape, "attention_norm", x)
    made = attention_half(forward, shape, kind, made)
    if follows or shape.norms_per_block > 2:
        made = _norm(forward, shape, "post_attention_norm", made)
    x = forward.sum_of("attention_residual", "bsh", x, made)
    made = x if follows else _norm(forward, shape, "ffn_norm", x)
    halves = feed_forward_half(forward, shape, kind, made)
    if follows or shape.norms_per_block > 3:
        if len(halves) > 1:
            halves = (forward.sum_of("experts_sum", "bsh", *halves),)
        halves = (_norm(forward, shape, "post_ffn_norm", halves[0]),)
    x = forward.sum_of("residual", "bsh", x, *halves)
    return ModelPart(name, joint_graph(forward, leaves=x, entered=entered), repeats, entered, x)


def _head(forward: Forward, shape: TransformerShape) -> ModelPart:
    x = forward.placeholder("x", "bsh", Source.INPUT)
    targets = forward.placeholder("targets", "bs", Source.INPUT, element_bytes=INDEX_BYTES)
    normed = _norm(forward, shape, "norm", x)
    table = forward.placeholder("output_weight", "vh", Source.PARAMETER, path=_HEAD)
    logits = forward.product("logits", "bsh,vh->bsv", normed, table, element_bytes=LOGIT_BYTES)
    # sums of parts of the words add up: the one kind of loss that words can be cut for
    sums, picked = forward.apply(
        "word_sums",
        OperatorKind.REDUCTION,
        "bsv,bs->bs,bs",
        (logits, targets),
        operator="sum_exp_and_pick",
        element_bytes=(LOGIT_BYTES, LOGIT_BYTES),
    )
    (loss,) = forward.apply(
        "loss",
        OperatorKind.REDUCTION,
        "bs,bs->",
        (sums, picked),
        operator="mean_loss",
        element_bytes=(LOGIT_BYTES,),
    )
    return ModelPart("head", joint_graph(forward, leaves=loss, entered=x), 1, x, None)
