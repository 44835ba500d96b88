"""The feed-forward half of a block, without norms and residual sums: dense, or a router and experts.

Dimensions besides those of the block: ``f`` inner width, ``e`` experts, ``n`` experts that a token visits,
``c`` places of an expert for the tokens of one sample, ``z`` inner width of the experts that all tokens
visit.

Each sample fills its own slots, so that sharding samples keeps tokens apart; an expert has as many slots
as it gets tokens if all experts get the same.
"""

from __future__ import annotations

from treadle.parallelism.graph.blocks.attention_half import biased
from treadle.parallelism.graph.blocks.forward import Forward
from treadle.parallelism.graph.compute_graph import OperatorKind, TensorRef
from treadle.training.models.feed_forward import Experts
from treadle.training.models.transformer_shape import BlockKind, TransformerShape

INDEX_BYTES = 8
"""Bytes of int64."""


def feed_forward_sizes(shape: TransformerShape, kind: BlockKind, sequence: int) -> dict[str, int]:
    """Return the sizes of the dimensions of this half."""
    experts = shape.experts
    if not kind.has_experts or experts is None:
        return {"f": shape.feed_forward}
    return {
        "f": experts.feed_forward,
        "e": experts.experts,
        "n": experts.top_k,
        "c": -(-sequence * experts.top_k // experts.experts),
        "z": experts.shared_feed_forward,
    }


def feed_forward_half(
    forward: Forward, shape: TransformerShape, kind: BlockKind, x: TensorRef
) -> tuple[TensorRef, ...]:
    """Add the operators from the norm's output to the terms of this half's output."""
    if not kind.has_experts or shape.experts is None:
        return (_dense(forward, shape, x, has_bias=shape.has_bias),)
    made = [_routed(forward, shape, shape.experts, x)]
    if shape.experts.shared_feed_forward:
        made.append(_shared(forward, shape, shape.experts, x))
    return tuple(made)


def _dense(
    forward: Forward,
    shape: TransformerShape,
    x: TensorRef,
    *,
    prefix: str = "",
    entering: str = "bsh",
    letter: str = "f",
    has_bias: bool = False,
) -> TensorRef:
    """Add up, activation and down products; of experts for the tokens in their slots."""
    inner = entering.replace("h", letter)
    rows = f"{'e' if 'e' in entering else ''}{letter}h"
    module = prefix or "feed_forward"
    name = f"{prefix}_" if prefix else ""

    def lifted(what: str, weight: str, bias: str) -> TensorRef:
        table = forward.parameter(f"{module}.{weight}.weight", rows)
        made = forward.product(f"{name}{what}", f"{entering},{rows}->{inner}", x, table)
        if has_bias:
            made = biased(forward, f"{name}{what}", f"{module}.{bias}.bias", inner, rows[:-1], made)
        return made

    raised = lifted("up", "w3" if shape.is_gated else "w1", "w1")
    if shape.is_gated:
        pair, word = (lifted("gate", "w1", "w3"), raised), f"{inner},{inner}->{inner}"
        active = forward.pointwise(f"{name}activation", word, pair, operator="gated_silu", linear=((1,),))
    else:
        active = forward.pointwise(f"{name}activation", f"{inner}->{inner}", (raised,), operator="gelu")
    columns = f"{rows[:-2]}h{letter}"
    down = forward.parameter(f"{module}.w2.weight", columns)
    made = forward.product(f"{name}down", f"{inner},{columns}->{entering}", active, down)
    if has_bias:
        made = biased(forward, f"{name}down", f"{module}.w2.bias", entering, columns[:-1], made)
    return made


def _routed(forward: Forward, shape: TransformerShape, experts: Experts, x: TensorRef) -> TensorRef:
    router = forward.parameter("router.gate.weight", "eh")
    scores = forward.product("router", "bsh,eh->bse", x, router)
    if experts.has_bias:
        scores = biased(forward, "router", "router.gate.bias", "bse", "e", scores)
    kind, sizes = OperatorKind.ELEMENTWISE, (2, INDEX_BYTES)
    weights, choices = forward.apply(
        "route", kind, "bse->bsn,bsn", (scores,), whole="en", element_bytes=sizes
    )
    kind, word = OperatorKind.DISPATCH, "sbh,sbn->ecbh"
    (places,) = forward.apply("dispatch", kind, word, (x, choices), linear=((0,),))
    made = _dense(forward, shape, places, prefix="experts", entering="ecbh", has_bias=experts.has_bias)
    kind, word, read = OperatorKind.COMBINE, "ecbh,sbn,sbn->sbh", (made, weights, choices)
    return forward.apply("combine", kind, word, read, linear=((0,), (1,)))[0]


def _shared(forward: Forward, shape: TransformerShape, experts: Experts, x: TensorRef) -> TensorRef:
    made = _dense(forward, shape, x, prefix="shared_experts", letter="z")
    if not experts.shared_gate:
        return made
    gate = forward.product("shared_gate_score", "bsh,h->bs", x, forward.parameter("shared_gate.weight", "h"))
    name, word = "shared_gated", "bs,bsh->bsh"
    return forward.pointwise(name, word, (gate, made), operator="gated_sigmoid", linear=((1,),))
