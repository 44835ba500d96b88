"""Graphs of transformers against the layers that `treadle train` counts: two ways from one shape."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import prod

import pytest

from treadle.errors import TreadleError
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.graph.compute_graph import ComputeGraph, Index, Node, OperatorKind, Phase
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.training.models.model_layer import Attended
from treadle.training.models.zoo import MODELS, zoo_model

DECODERS = sorted(
    name for name in MODELS if (shape := zoo_model(name).shape) is not None and not shape.encoder_layers
)
BATCH, SEQUENCE = 2, 1024


def graph_of(name: str) -> ModelGraph:
    return model_graph(zoo_model(name), batch=BATCH, sequence=SEQUENCE)


def flops(graph: ComputeGraph, node: Node, *, backward: Fraction) -> Fraction:
    """Multiplications and additions of a node; attention's backward pass as so many forward passes."""

    def size(indices: set[Index]) -> int:
        return prod(graph.atoms[index.atom].size for index in indices)

    letters = {i for dim in (d for o in node.operands for d in o.roles) for i in dim}
    if node.kind is OperatorKind.EINSUM:
        return Fraction(2 * size(letters | set(node.result_roles)))
    if node.kind is not OperatorKind.ATTENTION:
        return Fraction(0)
    names = {graph.atoms[index.atom].name: graph.atoms[index.atom].size for index in letters}
    heads = prod(names.get(name, 1) for name in "bkg")
    attended = Attended(window=int(str(node.arguments["window"])))
    assert node.arguments["is_causal"] is True
    forward = 2 * heads * names["s"] * attended.mean(names["s"]) * (names["d"] + names["w"])
    return forward * (backward if node.phase is Phase.BACKWARD else 1)


def counted(model: ModelGraph, phase: Phase) -> Fraction:
    return sum(
        (
            part.repeats * flops(part.graph, node, backward=Fraction(2))
            for part in model.parts
            for node in part.graph.nodes
            if node.phase is phase
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("name", DECODERS)
def test_parameters_and_flops_are_those_that_training_counts(name: str) -> None:
    model, found = zoo_model(name), graph_of(name)
    assert found.parameters == model.parameters
    forward = BATCH * model.forward_flops({"": SEQUENCE})
    assert counted(found, Phase.FORWARD) == forward
    assert counted(found, Phase.BACKWARD) == 2 * forward
    assert found.tokens == BATCH * SEQUENCE
    assert found.layers == model.n_layers


@pytest.mark.parametrize("name", DECODERS)
def test_every_parameter_has_a_gradient_and_blocks_stay_small(name: str) -> None:
    for part in graph_of(name).parts:
        assert set(part.parameters.values()) <= set(part.graph.gradients)
        operators = [node for node in part.graph.nodes if node.kind is not OperatorKind.PLACEHOLDER]
        assert len(operators) <= 80, part.name
        read = Counter(operand.tensor for node in part.graph.nodes for operand in node.operands)
        unused = {part.graph.spelled(tensor) for tensor in part.graph.tensors() if not read[tensor]}
        assert not unused


def test_kinds_of_blocks_are_parts_in_the_order_of_the_layers() -> None:
    found = graph_of("deepseek-v3")
    assert [(part.name, part.repeats) for part in found.parts] == [
        ("embedding", 1), ("dense block", 3), ("expert block", 58), ("head", 1)
    ]  # fmt: skip
    assert found.order == (0, *[1] * 3, *[2] * 58, 3)
    windowed = graph_of("gemma-2-2b")
    assert [part.name for part in windowed.parts] == ["embedding", "windowed block", "block", "head"]
    assert windowed.order[:4] == (0, 1, 2, 1)
    assert len(windowed.ties) == 1


@pytest.mark.parametrize(
    ("name", "sequence", "words"),
    [
        ("switch-c", 512, "its decoder attends to an encoder"),
        ("resnet-50", 1, "not a transformer of known dimensions"),
        ("gpt2", 4096, "at most its 1024 learned positions"),
        ("llama-3-8b", 0, "expected 1 or more"),
    ],
)
def test_what_no_graph_can_say_is_refused(name: str, sequence: int, words: str) -> None:
    with pytest.raises(TreadleError, match=words):
        model_graph(zoo_model(name), batch=1, sequence=sequence)
