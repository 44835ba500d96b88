"""The attention half of a block, without norms and residual sums: grouped heads, and latent ones (MLA).

Dimensions: ``b`` samples, ``s`` tokens, ``h`` hidden, ``k`` heads of keys, ``g`` queries for each of them,
``d`` dimensions of a query or key, ``w`` of a value; of latent attention ``l`` and ``m`` for the latents of
keys and of queries, ``o`` and ``r`` for the parts of ``d`` without and with rotation.
"""

from __future__ import annotations

from treadle.parallelism.graph.blocks.forward import Forward
from treadle.parallelism.graph.compute_graph import OperatorKind, TensorRef
from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.transformer_shape import BlockKind, TransformerShape

STATISTICS_BYTES = 4
"""Log-sums of attention are float32."""


def attention_sizes(heads: Heads | LatentHeads) -> dict[str, int]:
    """Return the sizes of the dimensions of this half."""
    if isinstance(heads, Heads):
        size, groups = heads.head_dim, heads.heads // heads.kv_heads
        return {"k": heads.kv_heads, "g": groups, "d": size, "w": size}
    sizes = {"k": heads.heads, "g": 1, "d": heads.plain_dim + heads.rotated_dim, "w": heads.value_dim}
    return sizes | {"l": heads.kv_rank, "m": heads.query_rank, "o": heads.plain_dim, "r": heads.rotated_dim}


def attention_half(forward: Forward, shape: TransformerShape, kind: BlockKind, x: TensorRef) -> TensorRef:
    """Add the operators from the norm's output to the output product."""
    if isinstance(shape.attention, Heads):
        queries, keys, values = _grouped(forward, shape.attention, x, is_rotated=not shape.positions)
    else:
        queries, keys, values = _latent(forward, shape.attention, x)
    is_chunked = bool(kind.window and shape.has_chunks)
    attended, _ = forward.apply(
        "attention",
        OperatorKind.ATTENTION,
        "bkgsd,bks'd,bks'w->bkgsw,bkgs",
        (queries, keys, values),
        element_bytes=(2, STATISTICS_BYTES),
        arguments={"is_causal": True, "window": kind.window} | ({"is_chunked": True} if is_chunked else {}),
    )
    wo = forward.parameter("attention.wo.weight", "h(kgw)")
    made = forward.product("attention_output", "bkgsw,h(kgw)->bsh", attended, wo)
    if isinstance(shape.attention, Heads) and shape.attention.output_bias:
        made = biased(forward, "attention_output", "attention.wo.bias", "bsh", "h", made)
    return made


def _grouped(
    forward: Forward, heads: Heads, x: TensorRef, *, is_rotated: bool
) -> tuple[TensorRef, TensorRef, TensorRef]:
    found = []
    for name, letter, rows, made in (
        ("query", "q", "(kgd)", "bkgsd"),
        ("key", "k", "(kd)", "bksd"),
        ("value", "v", "(kw)", "bksw"),
    ):
        weight = forward.parameter(f"attention.w{letter}.weight", f"{rows}h")
        one = forward.product(name, f"bsh,{rows}h->{made}", x, weight)
        if heads.has_bias:
            one = biased(forward, name, f"attention.w{letter}.bias", made, rows, one)
        # norms within each head, and over all heads together
        norms = [*(["d"] if heads.has_norms else []), *([rows] if heads.has_wide_norms else [])]
        for normed in norms if name != "value" else ():
            scale = forward.parameter(f"attention.{letter}_norm.weight", normed)
            word, whole = f"{made},{normed}->{made}", normed.strip("()")
            one = forward.pointwise(f"{name}_norm", word, (one, scale), operator="rms_norm", whole=whole)
        if is_rotated and name != "value":
            one = rotated(forward, name, made, one)
        found.append(one)
    queries, keys, values = found
    return queries, keys, values


def _latent(forward: Forward, heads: LatentHeads, x: TensorRef) -> tuple[TensorRef, TensorRef, TensorRef]:
    entry, letter = x, "h"
    if heads.query_rank:
        down = forward.parameter("attention.wq_a.weight", "mh")
        latent = forward.product("query_latent", "bsh,mh->bsm", x, down)
        scale = forward.parameter("attention.q_norm.weight", "m")
        name = "query_latent_norm"
        entry = forward.pointwise(name, "bsm,m->bsm", (latent, scale), operator="rms_norm", whole="m")
        letter = "m"
    path = "attention.wq_b.weight" if heads.query_rank else "attention.wq.weight"
    wq = forward.parameter(path, f"(kd){letter}")
    queries = forward.product("query", f"bs{letter},(kd){letter}->bksd", entry, wq)
    queries = rotated(forward, "query", "bksd", queries)
    latent = forward.product("latent", "bsh,lh->bsl", x, forward.parameter("attention.wkv_a.weight", "lh"))
    scale = forward.parameter("attention.kv_norm.weight", "l")
    latent = forward.pointwise("latent_norm", "bsl,l->bsl", (latent, scale), operator="rms_norm", whole="l")
    weight = forward.parameter("attention.wk_rotated.weight", "rh")
    shared = rotated(forward, "shared_key", "bsr", forward.product("shared_key", "bsh,rh->bsr", x, weight))
    weight = forward.parameter("attention.wk_b.weight", "(ko)l")
    plain = forward.product("plain_key", "bsl,(ko)l->bkso", latent, weight)
    keys = forward.pointwise(
        "key", "bkso,bsr->bksd", (plain, shared), operator="concatenate", whole="ord", linear=((0, 1),)
    )
    weight = forward.parameter("attention.wv_b.weight", "(kw)l")
    values = forward.product("value", "bsl,(kw)l->bksw", latent, weight)
    return queries, keys, values


def rotated(forward: Forward, name: str, word: str, x: TensorRef) -> TensorRef:
    """Add rotary positions along the last dimension."""
    return forward.pointwise(
        f"rotated_{name}", f"{word}->{word}", (x,), operator="rotary", whole=word[-1], linear=((0,),)
    )


def biased(forward: Forward, name: str, path: str, word: str, rows: str, x: TensorRef) -> TensorRef:
    """Add a bias to a product."""
    bias = forward.parameter(path, rows)
    return forward.sum_of(f"{name}_with_bias", word, x, bias, words=(word, rows))
