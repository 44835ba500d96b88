"""A small Llama as one would write it for tensor parallelism: views leave the number of heads open."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from parallelism.capture.samples import Norm

WIDTH, HEAD, WORDS, BATCH, LENGTH = 32, 8, 64, 4, 8


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = Norm(WIDTH), Norm(WIDTH)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.w1, self.w3 = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.w2 = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], -1, HEAD).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm_1(x)
        q, k, v = self.heads(self.wq(h)), self.heads(self.wk(h)), self.heads(self.wv(h))
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(o.transpose(1, 2).flatten(2))
        h = self.norm_2(x)
        return x + self.w2(functional.silu(self.w1(h)) * self.w3(h))


class Model(nn.Module):
    def __init__(self, layers: int, words: int = WORDS) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = Norm(WIDTH), nn.Linear(WIDTH, words, bias=False)

    def forward(self, words: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def _made(words: int, length: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        sizes = (BATCH, length)
        return Model(2, words), (torch.randint(words, sizes), torch.randint(words, sizes))
    finally:
        torch.set_default_dtype(before)


def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return _made(WORDS, LENGTH)


def make_wordy() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """So many words that logits are most of it."""
    return _made(2**17, 2 * LENGTH)
