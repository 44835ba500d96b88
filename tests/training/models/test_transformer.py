"""Blocks against PyTorch's own count of FLOPs, and against published formulas of what is saved."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.feed_forward import Experts
from treadle.training.models.model_layer import ModelLayer
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape

GPT = TransformerShape(
    "gpt",
    64,
    256,
    1000,
    3,
    Heads(4, 4, 16, has_bias=True, output_bias=True),
    is_gated=False,
    is_tied=True,
    has_bias=True,
    norm_has_bias=True,
    positions=128,
    has_dropout=True,
)
LLAMA = TransformerShape("llama", 96, 224, 500, 2, Heads(6, 2, 16))


def saved_bytes(layer: ModelLayer, tokens: int, tp: int, *, in_attention: bool = True) -> Fraction:
    """Of a token: two bytes an element."""
    total = Fraction(0)
    for one in layer.saved:
        if one.in_attention and not in_attention:
            continue
        context = one.attended.mean(tokens) if one.attended else 1
        total += 2 * one.elements * context / (tp if one.split else 1)
    return total


@pytest.mark.parametrize("tp", [1, 4])
def test_saved_bytes_are_those_of_korthikanti(tp: int) -> None:
    """Of a token h (34 + 5 a s / h), by t tensor ranks h (10 + 24 / t + 5 a s / (h t)); less scores 34 h."""
    block, hidden, heads, tokens = transformer(GPT).layer("block 1"), 64, 4, 512
    scores = Fraction(5 * heads * tokens, hidden)
    assert saved_bytes(block, tokens, tp) == hidden * (10 + Fraction(24, tp) + scores / tp)
    assert saved_bytes(block, tokens, tp, in_attention=False) == hidden * (10 + Fraction(24, tp))


def torch_flops(module: Any, *inputs: Any, backward: bool = False) -> int:
    counter = pytest.importorskip("torch.utils.flop_counter")
    with counter.FlopCounterMode(display=False) as mode:
        output = module(*inputs)
        if backward:
            output.sum().backward()
    return int(mode.get_total_flops())


@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=["gpt", "llama"])
def test_flops_are_those_that_torch_counts(shape: TransformerShape) -> None:
    """A block and the head built with torch on the meta device, forward and backward."""
    torch = pytest.importorskip("torch")
    heads = shape.attention
    assert isinstance(heads, Heads)
    queries, keys = heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim

    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            wide = shape.feed_forward
            sizes = [
                (shape.hidden, queries),
                (shape.hidden, keys),
                (shape.hidden, keys),
                (queries, shape.hidden),
            ]
            sizes += [(shape.hidden, wide)] * (2 if shape.is_gated else 1) + [(wide, shape.hidden)]
            self.products = torch.nn.ModuleList(torch.nn.Linear(*size, bias=False) for size in sizes)
            self.head = torch.nn.Linear(shape.hidden, shape.vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            query, key, value, output, *up, down = self.products

            def cut(product: Any, count: int) -> Any:
                parts = product(tokens).unflatten(-1, (count, heads.head_dim)).transpose(1, 2)
                return parts.repeat_interleave(heads.heads // count, 1)

            scores = cut(query, heads.heads) @ cut(key, heads.kv_heads).transpose(-1, -2)
            mixed = scores.softmax(-1) @ cut(value, heads.kv_heads)
            tokens = tokens + output(mixed.transpose(1, 2).flatten(2))
            inner = up[0](tokens)
            if shape.is_gated:
                inner = inner * up[1](tokens)
            return self.head(tokens + down(inner))

    tokens = 48
    layers = transformer(shape)
    ours = sum(
        layers.layer(name).forward_flops({"": tokens}, causal_in_full=True) for name in ("block 1", "head")
    )
    with torch.device("meta"):
        block, batch = Block(), torch.zeros(5, tokens, shape.hidden, requires_grad=True)
        assert torch_flops(block, batch) == 5 * ours
        assert torch_flops(block, batch, backward=True) == 3 * 5 * ours


def test_latent_attention_by_hand() -> None:
    """Parameters of a block of DeepSeek's form, product by product."""
    heads = LatentHeads(4, 12, 10, 8, 6, 7)
    model = transformer(replace(LLAMA, attention=heads, layers=1))
    latent = 96 * 12 + 12 + 12 * 4 * (8 + 6) + 96 * (10 + 6) + 10 + 10 * 4 * (8 + 7) + 4 * 7 * 96
    assert model.layer("block 0").parameters == latent + 3 * 96 * 224 + 2 * 96
    direct = transformer(replace(LLAMA, attention=replace(heads, query_rank=0), layers=1))
    assert model.parameters - direct.parameters == 96 * 12 + 12 + 12 * 56 - 96 * 56


def test_experts_by_hand() -> None:
    shape = replace(LLAMA, layers=4, experts=Experts(8, 3, 40, shared_feed_forward=20), expert_every=2)
    model = transformer(shape)
    dense, block = model.layer("block 0"), model.layer("block 1")
    assert not dense.experts
    assert (block.experts, block.top_k, block.routed_elements, block.exchanges) == (8, 3, 3 * 96, 2)
    assert block.expert_parameters == 8 * 3 * 96 * 40
    assert (
        block.parameters - block.expert_parameters == dense.parameters - 3 * 96 * 224 + 96 * 8 + 3 * 96 * 20
    )
    assert block.active_parameters == block.parameters - 5 * 3 * 96 * 40
    products = block.forward_flops({"": 1}) - 4 * 96 * Fraction(1, 2)
    norms = 2 * 96
    assert products == 2 * (block.active_parameters - norms)


def test_cross_attention_by_hand() -> None:
    model = transformer(replace(LLAMA, encoder_layers=1, layers=1, is_tied=True, position_buckets=32))
    encoder, decoder = model.layer("encoder 0"), model.layer("decoder 0")
    attention = 96 * 96 * 2 + 96 * 64
    assert decoder.parameters - encoder.parameters == attention + 96
    assert (encoder.reductions, decoder.reductions) == (2, 3)
    tokens = {"encoder": 100, "decoder": 10}
    own = model.layer("encoder 0").forward_flops({"encoder": 10, "decoder": 0}, causal_in_full=True)
    cross = 10 * 2 * (2 * 96 * 96) + 100 * 2 * 96 * 64 + 10 * 4 * 96 * 100
    assert decoder.forward_flops(tokens, causal_in_full=True) == own + cross
    assert model.layer("decoder embedding").shares == model.layer("head").shares == "embedding"
    assert model.parameters == sum(
        model.layer(name).parameters
        for name in ("embedding", "encoder 0", "encoder norm", "decoder 0", "head")
    )
