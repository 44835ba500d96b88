"""Model graphs: parts that fit, what constructors and readers refuse, JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from samples.training.parsed_values import model_from_json
from treadle.errors import FormatError, TreadleError
from treadle.parallelism.graph.compute_graph import (
    BaseDim,
    ComputeGraph,
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    Source,
    TensorRef,
)
from treadle.parallelism.graph.model_files import read_model_graph
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie, model_to_json

B, H = (Index(0),), (Index(1),)


def placeholder(name: str, dims: Any, source: Source) -> Node:
    phase = Phase.BACKWARD if source is Source.TANGENT else Phase.FORWARD
    results = (Result(dims, dims, 2),)
    return Node(name, OperatorKind.PLACEHOLDER, results=results, source=source, path=name, phase=phase)


def scaled(hidden: int = 8) -> ComputeGraph:
    """x * w, and its gradients."""
    x, w, dy = (Operand(TensorRef(at), dims, dims) for at, dims in ((0, (B, H)), (1, (H,)), (3, (B, H))))
    return ComputeGraph(
        (BaseDim("b", 4), BaseDim("h", hidden)),
        (
            placeholder("x", (B, H), Source.INPUT),
            placeholder("w", (H,), Source.PARAMETER),
            Node(
                "y",
                OperatorKind.ELEMENTWISE,
                (x, w),
                (Result((B, H), (B, H), 2),),
                linear=((0,), (1,)),
                arguments={"alpha": 1},
            ),
            placeholder("dy", (B, H), Source.TANGENT),
            Node("dx", OperatorKind.ELEMENTWISE, (dy, w), (Result((B, H), (B, H), 2),), Phase.BACKWARD),
            Node("dw", OperatorKind.REDUCTION, (dy, x), (Result((H,), (H,), 2),), Phase.BACKWARD),
            Node("output", OperatorKind.OUTPUT, phase=Phase.BACKWARD),
        ),
        {TensorRef(0): TensorRef(4), TensorRef(1): TensorRef(5)},
        {TensorRef(2): TensorRef(3)},
    )


def part(name: str, repeats: int = 1, *, hidden: int = 8, ends: bool = True) -> ModelPart:
    return ModelPart(name, scaled(hidden), repeats, TensorRef(0), TensorRef(2) if ends else None)


def model() -> ModelGraph:
    tie = Tie(("first", "w"), ("head", "w"))
    return ModelGraph("m", (part("first"), part("block", 3), part("head", ends=False)), "b", ties=(tie,))


def test_layers_and_parameters_are_counted() -> None:
    found = model()
    assert found.order == (0, 1, 1, 1, 2)
    assert found.layers == 5
    assert found.parameters == 8 + 3 * 8, "the head's table is the first part's"
    assert list(found.part("block").parameters) == ["w"]


def test_json_brings_the_same_model_back_and_the_digest_tells_models_apart() -> None:
    found = model()
    again = read_model_graph(json.dumps(model_to_json(found)))
    assert again == found
    assert again.digest == found.digest
    assert again.part("block").graph.nodes[2].linear == ((0,), (1,))
    assert again.part("block").graph.nodes[2].arguments == {"alpha": 1}
    other = ModelGraph("m", (part("first"), part("block", 4), part("head", ends=False)), "b", ties=found.ties)
    assert other.digest != found.digest


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TreadleError, match=r"first gives b=4 x h=8, block takes b=4 x h=6"):
        ModelGraph("m", (part("first"), part("block", hidden=6)))
    with pytest.raises(TreadleError, match="head does not feed last"):
        ModelGraph("m", (part("head", ends=False), part("last")))
    with pytest.raises(TreadleError, match="distinct names"):
        ModelGraph("m", (part("a"), part("a")))
    with pytest.raises(TreadleError, match="order and the parts' repeats differ"):
        ModelGraph("m", (part("a", 2), part("b")), order=(0, 1))
    with pytest.raises(TreadleError, match="no parameter 'v' to share"):
        ModelGraph("m", (part("a"), part("b")), ties=(Tie(("a", "w"), ("b", "v")),))
    graph = scaled()
    wide = replace(
        graph,
        nodes=(graph.nodes[0], placeholder("w", (B, H), Source.PARAMETER), *graph.nodes[2:]),
        gradients={TensorRef(0): TensorRef(4)},
    )
    other = ModelPart("b", wide, 1, TensorRef(0), None)
    with pytest.raises(TreadleError, match=r"tied, but of shapes \(8,\) and \(4, 8\)"):
        ModelGraph("m", (part("a"), other), ties=(Tie(("a", "w"), ("b", "w")),))


def test_a_part_says_what_enters_and_leaves() -> None:
    with pytest.raises(TreadleError, match="w is no input with a gradient"):
        ModelPart("a", scaled(), 1, TensorRef(1), None)
    with pytest.raises(TreadleError, match="dx is no output with a tangent"):
        ModelPart("a", scaled(), 1, None, TensorRef(4))
    with pytest.raises(TreadleError, match="does not feed itself"):
        ModelPart("a", scaled(), 2, TensorRef(0), None)
    with pytest.raises(TreadleError, match="no tensor"):
        ModelPart("a", scaled(), 1, TensorRef(9), None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"treadle": "plan"}, 'treadle: expected "model graph", found "plan"'),
        ({"version": 2}, "version: expected 1, found 2"),
        ({"version": True}, "version: expected an integer, found true"),
        (
            {"more": 1},
            'unknown key "more"; known are batch, name, order, parts, sequence, ties',
        ),
        ({"parts": 3}, "parts: expected a list, found 3"),
        ({"tokens": "many"}, 'tokens: expected an integer, found "many"'),
        ({"order": [0, 1]}, "repeats differ"),
        ({"ties": [[["first", "w"]]]}, r"ties\[0\]: expected a list of length 2, found 1"),
    ],
)
def test_malformed_files_are_refused_in_one_line(change: dict[str, object], words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        model_from_json({**model_to_json(model()), **change}, source="g.json")
    assert str(caught.value).startswith("g.json: ")
    assert "\n" not in str(caught.value)


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(FormatError, match=r"g\.json:1:2: malformed JSON"):
        read_model_graph("{", source="g.json")
