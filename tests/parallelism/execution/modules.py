"""Modules with numbers in them, to capture and to execute; loads torch."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from parallelism.capture.samples import Block, Norm, Tied
from treadle.parallelism.capture.joint import capture
from treadle.parallelism.graph.compute_graph import Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie


class Head(nn.Module):
    """Norm, logits and loss."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.norm, self.out = Norm(width), nn.Linear(width, words, bias=False)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(self.out(self.norm(x)).flatten(0, 1), targets.flatten())


def _in(dtype: torch.dtype, make):
    """What a function makes in this precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return make()
    finally:
        torch.set_default_dtype(before)


def _block(repeats: bool = True):
    module = Block(32, 4, 2, 48, repeats=repeats)
    return module, (torch.randn(4, 8, 32, requires_grad=True), torch.randn(8, 8), torch.randn(8, 8))


def _head():
    return Head(64, 32), (torch.randn(4, 8, 32, requires_grad=True), torch.randint(64, (4, 8)))


make_block = partial(_in, torch.float64, _block)
make_grouped_block = partial(_in, torch.float64, partial(_block, False))
make_head = partial(_in, torch.float64, _head)


def _embedding():
    return nn.Embedding(64, 32), (torch.randint(64, (4, 8)),)


make_embedding = partial(_in, torch.float64, _embedding)


def _tied():
    return Tied(64, 16), (torch.randint(64, (4, 8)), torch.randint(64, (4, 8)))


def _wordy():
    return Tied(256, 16), (torch.randint(256, (4, 64)), torch.randint(256, (4, 64)))


make_wordy = partial(_in, torch.float64, _wordy)
make_tied = partial(_in, torch.float64, _tied)
make_single = partial(_in, torch.float32, _tied)


def part(name: str, make, repeats: int = 1) -> ModelPart:
    """A captured part: the first input with a gradient is fed, the first output with a tangent feeds."""
    graph = capture(make)
    inputs = [
        TensorRef(number)
        for number, node in enumerate(graph.nodes)
        if node.source is Source.INPUT and TensorRef(number) in graph.gradients
    ]
    leaves = next(iter(graph.tangents))
    is_loss = not graph.shape(leaves)
    return ModelPart(name, graph, repeats, inputs[0] if inputs else None, None if is_loss else leaves)


def one_part(name: str, make, repeats: int = 1) -> ModelGraph:
    return ModelGraph(name, (part(name, make, repeats),))


def language_model(layers: int) -> ModelGraph:
    """Embedding, blocks and a head that shares the embedding's weight."""
    parts = part("embedding", make_embedding), part("block", make_block, layers), part("head", make_head)
    return ModelGraph("lm", parts, ties=(Tie(("embedding", "weight"), ("head", "out.weight")),))


LANGUAGE_MODEL = {"embedding": make_embedding, "block": make_block, "head": make_head}
