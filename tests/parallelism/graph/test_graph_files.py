"""Graphs that are written by hand: JSON, and what constructors and readers refuse."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from samples.training.parsed_values import from_json
from treadle.errors import FormatError
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
from treadle.parallelism.graph.graph_files import to_json

ROW, COLUMN = (Index(0),), (Index(0, 1),)


def squared() -> ComputeGraph:
    """A square matrix of weights times its transpose."""
    weight = Node(
        "w",
        OperatorKind.PLACEHOLDER,
        results=(Result((ROW, COLUMN), (ROW, COLUMN), 4),),
        source=Source.PARAMETER,
        path="w",
    )
    other = (Index(0, 2),)
    product = Node(
        "mm",
        OperatorKind.EINSUM,
        (
            Operand(TensorRef(0), (ROW, COLUMN), (ROW, COLUMN)),
            Operand(TensorRef(0), (COLUMN, ROW), (COLUMN, other)),
        ),
        (Result((ROW, COLUMN), (ROW, other), 4),),
        operator="aten.mm.default",
    )
    output = Node(
        "output",
        OperatorKind.OUTPUT,
        (Operand(TensorRef(1), (ROW, COLUMN), (ROW, COLUMN)),),
        phase=Phase.BACKWARD,
    )
    return ComputeGraph((BaseDim("a", 16),), (weight, product, output))


def edited(*keys: Any, value: object) -> Any:
    data: Any = deepcopy(json.loads(json.dumps(to_json(squared()))))
    place = data
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ([], "expected an object, found a list"),
        ({"treadle": "plan"}, 'treadle: expected "compute graph", found "plan"'),
        (edited("version", value=9), "version: expected 1, found 9"),
        (edited("version", value=True), "version: expected an integer, found true"),
        (edited("atoms", value=None), "atoms: expected a list, found null"),
        (
            edited("atoms", 0, value=["a", -4]),
            r"atoms\[0\]\[1\]: expected 0 to 4611686018427387904, found -4",
        ),
        (edited("atoms", 0, value=["a", True]), r"atoms\[0\]\[1\]: expected an integer, found true"),
        (edited("nodes", 0, "kind", value="MAGIC"), "MAGIC"),
        (edited("nodes", 0, "name", value="mm"), "two nodes are called 'mm'"),
        (edited("nodes", 1, "operands", 0, 0, value=[1, 0]), "not there yet"),
        (edited("nodes", 1, "operands", 0, 0, value=[0, 1]), "not there yet"),
        (edited("nodes", 1, "operands", 0, 1, value=[[[0, 5]], [[0, 1]]]), "has not"),
        (edited("nodes", 1, "results", 0, 1, value=[[[0, 0]]]), "different base dimensions"),
        (edited("nodes", 0, "results", 0, value=[[[[7, 0]]], [[[7, 0]]], 4]), "not listed"),
        (edited("nodes", 2, "kind", value="REDUCTION"), "expected one OUTPUT"),
        (edited("gradients", value=[[[0, 0], [9, 0]]]), "compute graph: a tensor that is not there"),
    ],
)
def test_what_is_malformed_is_refused_in_one_line(data: object, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as caught:
        from_json(data, source="g.json")
    assert str(caught.value).startswith("g.json: ")
    assert "\n" not in str(caught.value)
