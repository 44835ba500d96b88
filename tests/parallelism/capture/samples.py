"""Modules to capture; loads torch."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


class Affine(nn.Module):
    """The linear layer of Fig. 5.2."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(x, self.weight) + self.bias


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    """A block of Llama: grouped heads, rotary positions, gated MLP."""

    def __init__(self, width: int, heads: int, key_heads: int, inner: int, *, repeats: bool = True) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size, self.repeats = heads, key_heads, width // heads, repeats
        self.norm_1, self.norm_2 = Norm(width), Norm(width)
        self.wq = nn.Linear(width, heads * self.size, bias=False)
        self.wk = nn.Linear(width, key_heads * self.size, bias=False)
        self.wv = nn.Linear(width, key_heads * self.size, bias=False)
        self.wo = nn.Linear(heads * self.size, width, bias=False)
        self.w1, self.w3 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)

    def repeated(self, x: Tensor) -> Tensor:
        batch, heads, length, size = x.shape
        times = self.heads // heads
        return (
            x[:, :, None].expand(batch, heads, times, length, size).reshape(batch, self.heads, length, size)
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = self.norm_1(x)
        q = rotated(self.split(self.wq(h), self.heads), cos, sin)
        k = rotated(self.split(self.wk(h), self.key_heads), cos, sin)
        v = self.split(self.wv(h), self.key_heads)
        if self.repeats:
            k, v = self.repeated(k), self.repeated(v)
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=not self.repeats)
        x = x + self.wo(o.transpose(1, 2).flatten(2))
        h = self.norm_2(x)
        return x + self.w2(functional.silu(self.w1(h)) * self.w3(h))


class Tied(nn.Module):
    """Embedding, a block and a head that shares the embedding's weight, with a loss."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, width), Norm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words: Tensor, targets: Tensor) -> Tensor:
        logits = self.head(self.norm(self.embedding(words)))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Stack(nn.Module):
    """Affine layers of these widths."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Affine(*pair) for pair in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Gated(nn.Module):
    """A gated MLP with its norm and residual sum."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm = Norm(width)
        self.w1, self.w3 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + self.w2(functional.silu(self.w1(h)) * self.w3(h))


class Language(nn.Module):
    """Embedding, layers, norm, head and loss; layers of these inner widths, or whole blocks of Llama."""

    def __init__(
        self,
        words: int,
        width: int,
        inner: tuple[int, ...],
        *,
        heads: int = 0,
        tied: bool = False,
        bare: bool = False,
    ):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, width), nn.Identity() if bare else Norm(width)
        self.layers = nn.ModuleList(
            Block(width, heads, heads // 2, one) if heads else Gated(width, one) for one in inner
        )
        self.output = nn.Linear(width, words, bias=False)
        self.half = width // heads // 2 if heads else 0
        if tied:
            self.output.weight = self.embedding.weight

    def forward(self, words: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(words)
        angles = ()
        if self.half:
            turns = torch.outer(torch.arange(words.shape[1]).float(), 0.5 ** torch.arange(self.half).float())
            turns = torch.cat((turns, turns), dim=-1)
            angles = (turns.cos(), turns.sin())
        for layer in self.layers:
            x = layer(x, *angles)
        return functional.cross_entropy(self.output(self.norm(x)).flatten(0, 1), targets.flatten())


class Shared(nn.Module):
    """One layer that runs three times with the same weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.layer, self.last = Affine(width, width), Gated(width, 2 * width), Affine(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(3):
            x = self.layer(x)
        return self.last(x)
