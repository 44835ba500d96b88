"""A block whose attention is written out: scores, softmax, product with the values; loads torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from parallelism.capture.samples import Norm


class PlainBlock(nn.Module):
    """Causal attention by its definition, in groups of heads, and an MLP; scores are made in float32."""

    def __init__(self, width: int, heads: int, key_heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.norm_1, self.norm_2 = Norm(width), Norm(width)
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, key_heads * self.size, bias=False)
        self.wv = nn.Linear(width, key_heads * self.size, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.w1, self.w2 = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    def split(self, x: Tensor, heads: int) -> Tensor:
        x = x.view(*x.shape[:2], heads, self.size).transpose(1, 2)
        return x.repeat_interleave(self.heads // heads, dim=1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h = self.norm_1(x)
        q = self.split(self.wq(h), self.heads)
        k, v = (self.split(one(h), self.key_heads) for one in (self.wk, self.wv))
        scores = q @ k.transpose(2, 3) * self.size**-0.5 + mask
        o = torch.softmax(scores.to(torch.promote_types(x.dtype, torch.float32)), -1).to(x.dtype) @ v
        x = x + self.wo(o.transpose(1, 2).flatten(2))
        return x + self.w2(functional.silu(self.w1(self.norm_2(x))))


def make_long() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Eight samples of 8192 tokens: 8.6 GB of scores in half precision, 0.13 GB of activations."""
    x = torch.empty(8, 8192, 1024, dtype=torch.bfloat16, requires_grad=True)
    return PlainBlock(1024, 8, 4, 4096).to(torch.bfloat16), (x, torch.empty(8192, 8192, dtype=torch.bfloat16))


def make_short() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """With numbers, in double precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        mask = torch.full((64, 64), -torch.inf).triu(1)
        return PlainBlock(32, 4, 2, 48), (torch.randn(4, 64, 32, requires_grad=True), mask)
    finally:
        torch.set_default_dtype(before)
