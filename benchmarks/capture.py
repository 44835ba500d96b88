"""Capturing modules of PyTorch: a block of a 70B Llama, and a language model of 32 layers and 8B parameters.

    python -m benchmarks.capture                  # half a minute; extra: torch
    python -m benchmarks.capture --layers 80

CPU seconds are of this process, after PyTorch was loaded; the first row pays for what PyTorch loads when it
first traces. Peak memory is of the process, so it is the most of this and all rows before.
"""

from __future__ import annotations

import argparse
import resource
from time import process_time
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

from treadle import capture


class Block(nn.Module):
    """A block of Llama: grouped heads, rotary positions, gated MLP."""

    def __init__(self, width: int, heads: int, key_heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.wq = nn.Linear(width, width, bias=False)
        self.wk, self.wv = (nn.Linear(width, key_heads * self.size, bias=False) for _ in range(2))
        self.wo = nn.Linear(width, width, bias=False)
        self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, width, bias=False)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = self.norm_1(x)
        q, k = (self.split(w(h), n) for w, n in ((self.wq, self.heads), (self.wk, self.key_heads)))
        q, k = (
            one * cos + torch.cat((-one.chunk(2, -1)[1], one.chunk(2, -1)[0]), -1) * sin for one in (q, k)
        )
        v = self.split(self.wv(h), self.key_heads)
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.wo(o.transpose(1, 2).flatten(2))
        h = self.norm_2(x)
        return x + self.w2(functional.silu(self.w1(h)) * self.w3(h))


class Language(nn.Module):
    """Embedding, blocks, norm, head and loss."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(128_256, 4096), nn.RMSNorm(4096)
        self.layers = nn.ModuleList(Block(4096, 32, 8, 14_336) for _ in range(layers))
        self.output = nn.Linear(4096, 128_256, bias=False)

    def forward(self, words: Tensor, targets: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(words.shape[1]).float(), 0.1 ** torch.arange(64).float())
        angles = torch.cat((angles, angles), -1)
        x, cos, sin = self.embedding(words), angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return functional.cross_entropy(self.output(self.norm(x)).flatten(0, 1), targets.flatten())


def block() -> tuple[Any, tuple[Any, ...]]:
    return Block(8192, 64, 8, 28_672), (
        torch.empty(16, 8192, 8192, requires_grad=True), torch.empty(8192, 128), torch.empty(8192, 128)
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, default=32)
    layers = parser.parse_args().layers

    def language() -> tuple[Any, tuple[Any, ...]]:
        words = torch.zeros(16, 8192, dtype=torch.long)
        return Language(layers), (words, words)

    table = Table("module", "parameters", "parts", "operators", "CPU s", "peak MB")
    for name, make, repeats in (
        ("70B block, first", block, 80),
        ("70B block", block, 80),
        (f"language model, {layers} layers", language, None),
    ):
        begin = process_time()
        found = capture(make, repeats=repeats)
        seconds = process_time() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        parts = ", ".join(f"{part.name} x {part.repeats}" for part in found.parts)
        operators = sum(len(part.graph.nodes) for part in found.parts)
        row = (f"{found.parameters / 1e9:.2f}B", parts, str(operators), f"{seconds:.2f}", f"{peak:.0f}")
        table.add_row(name, *row)
    Console().print(table)


if __name__ == "__main__":
    main()
