"""Numbers and texts of files of graphs at their limits, graphs in print, and refusals in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parallelism.plan.small_models import Drafted, small_model, two_matrices
from treadle.errors import FormatError, TreadleError
from treadle.parallelism.graph.compute_graph import (
    Index,
    OperatorKind,
    Source,
    TensorRef,
)
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie


def refused(make: Callable[[], object], words: str, error: type[Exception] = FormatError) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == words


def test_every_kind_of_operator_in_print() -> None:
    draft = Drafted(a=2, b=3, c=5)
    draft.placeholder("x", "ab", Source.INPUT)
    draft.placeholder("i", "c", Source.INPUT)
    draft.operator("e", "ab", OperatorKind.ELEMENTWISE, "x")
    draft.operator("r", "b", OperatorKind.REDUCTION, "x")
    draft.operator("g", "cb", OperatorKind.GATHER, "x", "i")
    draft.operator("s", "ab", OperatorKind.SCATTER, "i", "g")
    draft.operator("m", "ac", OperatorKind.EINSUM, "x", "g")
    draft.operator("n", "ab", OperatorKind.DISPATCH, "x")
    graph = draft.graph({"x": "e"}, {}, "m")
    whole = replace(graph.nodes[3], whole=frozenset([Index(1), Index(0)]))
    assert str(replace(graph, nodes=(*graph.nodes[:3], whole, *graph.nodes[4:]))).split("\n") == [
        "Nodes:",
        "  x: PLACEHOLDER [ab]",
        "  i: PLACEHOLDER [c]",
        "  e: ELEMENTWISE(x[ab]) -> [ab]",
        "  r: REDUCTION(x[ab]) over{a} whole{a,b} -> [b]",
        "  g: GATHER(x[ab], i[c]) over{a} -> [cb]",
        "  s: SCATTER(i[c], g[cb]) into{a} -> [ab]",
        '  m: EINSUM "ab,cb->ac"(x, g) -> [ac]',
        '  n: DISPATCH "ab->ab"(x) -> [ab]',
        "  output: OUTPUT[m[ac], e[ab]]",
    ]


def test_refusals_of_model_graphs_in_full() -> None:
    model = small_model(3, t=16, h=8, f=64)
    block, head = model.parts
    other = replace(block, name="other", repeats=1)
    wide = ModelPart("wide", two_matrices(16, 4, 8), 1, TensorRef(0), TensorRef(6))
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: replace(block, repeats=0), "model graph: block runs 0 times; expected 1 or more"),
        (lambda: replace(block, enters=None), "model graph: block is repeated, but does not feed itself"),
        (lambda: replace(block, leaves=None), "model graph: block is repeated, but does not feed itself"),
        (lambda: replace(head, enters=TensorRef(2, 5)), "model graph: head: no tensor (2, 5)"),
        (
            lambda: replace(other, leaves=TensorRef(3)),
            "model graph: other: u is not an output with a tangent",
        ),
        (
            lambda: replace(other, enters=TensorRef(1)),
            "model graph: other: up is not an input with a gradient, which the part before could feed; "
            "expected "
            "one (as captured: an input that requires_grad)",
        ),
        (
            lambda: ModelGraph("m", ()),
            "model graph m: expected parts with distinct names, found []",
        ),
        (
            lambda: ModelGraph("m", (other, other)),
            "model graph m: expected parts with distinct names, found ['other', 'other']",
        ),
        *(
            (
                lambda order=order: ModelGraph("m", (other, head), order=order),
                "model graph m: the order and the parts' repeats differ",
            )
            for order in ((0, 0, 1), (0,), (0, 1, 2), (-1, 0, 1))
        ),
        (lambda: ModelGraph("m", (head, other)), "model graph m: head does not feed other"),
        (
            lambda: ModelGraph("m", (other, wide)),
            "model graph m: other gives t=16 x h=8, wide takes t=16 x h=4; expected the same factors",
        ),
        (
            lambda: ModelGraph("m", (other, head), ties=(Tie(("other", "x"), ("head", "w")),)),
            "model graph m: other has no parameter 'x' to share",
        ),
        (
            lambda: ModelGraph("m", (block, head), ties=(Tie(("block", "up"), ("head", "w")),)),
            "model graph m: block has no parameter 'up' to share",
        ),
        (
            lambda: ModelGraph("m", (other, head), ties=(Tie(("other", "up"), ("head", "w")),)),
            "model graph m: up and w are tied, but of shapes (8, 64) and (8,)",
        ),
        (lambda: model.part("tail"), "model graph small: no part 'tail'"),
    ]
    for make, words in cases:
        refused(make, words, TreadleError)
