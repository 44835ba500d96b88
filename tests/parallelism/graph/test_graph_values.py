"""Numbers and texts of files of graphs at their limits, graphs in print, and refusals in full."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from parallelism.plan.small_models import Drafted, small_model, two_matrices
from samples.training.parsed_values import from_json, model_from_json
from treadle.errors import FormatError, TreadleError
from treadle.parallelism.graph.compute_graph import (
    BaseDim,
    ComputeGraph,
    Index,
    Operand,
    OperatorKind,
    Source,
    TensorRef,
    dim_names,
)
from treadle.parallelism.graph.graph_files import to_json
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie, model_to_json


def refused(make: Callable[[], object], words: str, error: type[Exception] = FormatError) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == words


def test_letters_go_on_with_numbers() -> None:
    found = list(islice(dim_names(), 106))
    assert (found[0], found[25], found[26], found[51]) == ("a", "z", "A", "Z")
    assert (found[52], found[103], found[104]) == ("a1", "Z1", "a2")


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


def test_what_a_graph_says_of_tensors() -> None:
    graph = two_matrices(t=16, h=8, f=32)
    u = TensorRef(3)
    assert (graph.elements(u), graph.nbytes(u), graph.shape(u)) == (512, 1024, (16, 32))
    assert graph.spelled(u) == "u"
    pair = replace(graph.nodes[3], results=graph.nodes[3].results * 2)
    two = replace(graph, nodes=(*graph.nodes[:3], pair, *graph.nodes[4:]))
    assert two.spelled(TensorRef(3, 1)) == "u.1"
    assert list(two.tensors())[3:6] == [TensorRef(3), TensorRef(3, 1), TensorRef(4)]
    assert graph.nodes[3].read == (Index(0), Index(1), Index(2))
    assert graph.nodes[3].result_roles == (Index(0), Index(2))


def changed(number: int, **values: Any) -> ComputeGraph:
    graph = two_matrices()
    nodes = list(graph.nodes)
    nodes[number] = replace(nodes[number], **values)
    return replace(graph, nodes=tuple(nodes))


def test_graphs_that_do_not_hold_together_are_refused_in_full() -> None:
    graph = two_matrices()
    x, up = graph.nodes[3].operands
    rows, columns = (Index(0),), (Index(1),)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: changed(4, name="u"), "two nodes are called 'u'"),
        (lambda: changed(3, kind=OperatorKind.OUTPUT), "u: expected one OUTPUT, as the last node"),
        (lambda: changed(-1, kind=OperatorKind.EINSUM), "output: expected one OUTPUT, as the last node"),
        (
            lambda: changed(3, operands=(Operand(TensorRef(3), x.dims, x.roles), up)),
            "u reads result 0 of node 3, which is not there yet",
        ),
        (
            lambda: changed(3, operands=(Operand(TensorRef(-1), x.dims, x.roles), up)),
            "u reads result 0 of node -1, which is not there yet",
        ),
        (
            lambda: changed(3, operands=(Operand(TensorRef(0, 1), x.dims, x.roles), up)),
            "u reads result 1 of node 0, which is not there yet",
        ),
        (
            lambda: changed(3, operands=(Operand(TensorRef(0), (rows, rows), (rows, (Index(0, 1),))), up)),
            "u sees dimensions that x has not",
        ),
        (
            lambda: changed(3, operands=(Operand(TensorRef(0), ((Index(0, 1),),), (rows,)), up)),
            "u sees dimensions that x has not",
        ),
        (
            lambda: changed(3, operands=(Operand(TensorRef(0), (rows, columns), (columns, rows)), up)),
            "u: roles and dimensions are of different atoms",
        ),
        (lambda: replace(graph, atoms=graph.atoms[:2]), "up: an atom is not listed"),
        (lambda: changed(6, linear=((0, 2),)), "y is linear in an operand that it has not"),
        (lambda: changed(6, linear=((0,), (-1,))), "y is linear in an operand that it has not"),
        (
            lambda: replace(graph, gradients={TensorRef(0): TensorRef(1)}),
            "x and up are tied, but made of unequal atoms",
        ),
        (
            lambda: replace(graph, tangents={TensorRef(3): TensorRef(5)}),
            "u and d are tied, but made of unequal atoms",
        ),
    ]
    for make, words in cases:
        refused(make, f"compute graph: {words}", TreadleError)
    # atoms of one element do not count
    one = replace(graph, atoms=(*graph.atoms[:2], BaseDim("f", 1)), gradients={}, tangents={})
    assert replace(one, tangents={TensorRef(5): TensorRef(7)}).tangents


def test_files_hold_all_of_a_graph() -> None:
    graph = changed(
        3,
        whole=frozenset([Index(2), Index(0)]),
        operator="aten.mm.default",
        line="model.py:3",
        arguments={"is_causal": True, "window": 5},
    )
    told: Any = json.loads(json.dumps(to_json(graph)))
    assert from_json(told) == graph
    assert told["nodes"][3]["whole"] == [[0, 0], [2, 0]]
    assert told["nodes"][3]["arguments"] == {"is_causal": True, "window": 5}
    assert told["nodes"][0] == {
        "name": "x",
        "kind": "PLACEHOLDER",
        "phase": "forward",
        "results": [[[[[0, 0]], [[1, 0]]], [[[0, 0]], [[1, 0]]], 2]],
        "source": "input",
        "path": "x",
    }
    told["nodes"][3]["results"][0][1][0][0][1] = 64
    with pytest.raises(
        FormatError, match=r"nodes\[3\].results\[0\]\[1\]\[0\]\[0\]\[1\]: expected 0 to 63, found 64"
    ):
        from_json(told)


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
        (lambda: replace(other, leaves=TensorRef(3)), "model graph: other: u is no output with a tangent"),
        (
            lambda: replace(other, enters=TensorRef(1)),
            "model graph: other: up is no input with a gradient, which the part before could feed; expected "
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


def test_what_model_graphs_count() -> None:
    model = small_model(3, t=16, h=8, f=64)
    assert (model.layers, model.order, model.parameters) == (4, (0, 0, 0, 1), 3 * 2 * 8 * 64 + 8)
    other = replace(model.parts[0], name="other", repeats=1)
    first = replace(model.parts[0], name="first", repeats=1)
    tied = ModelGraph("m", (other, first), ties=(Tie(("other", "up"), ("first", "up")),))
    assert tied.parameters == 3 * 8 * 64
    assert other.parameter_elements == 2 * 8 * 64
    assert other.factors(TensorRef(1)) == (("h", 8), ("f", 64))
    mixed = ModelGraph("m", (other, replace(model.parts[0], repeats=2)), order=(1, 0, 1))
    assert (mixed.layers, mixed.order) == (3, (1, 0, 1))
    told: Any = model_to_json(replace(model, tokens=2**62))
    assert model_from_json(told).tokens == 2**62
    assert told["parts"][0]["enters"] == [0, 0]
    assert told["parts"][1]["leaves"] is None
    for key in ("name", "repeats", "enters", "leaves", "graph"):
        part = {name: value for name, value in told["parts"][0].items() if name != key}
        with pytest.raises(FormatError, match=rf"parts\[0\]: key '{key}' is missing"):
            model_from_json({**told, "parts": [part, told["parts"][1]]})
    with pytest.raises(FormatError, match=r"parts\[0\]: unknown key .more"):
        model_from_json({**told, "parts": [{**told["parts"][0], "more": 1}]})
