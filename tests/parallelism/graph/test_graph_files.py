"""Graphs that are written by hand: JSON, and what constructors and readers refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from parallelism.plan.small_models import small_model
from samples.training.parsed_values import from_json
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
from treadle.parallelism.graph.graph_files import to_json
from treadle.parallelism.graph.model_files import read_model_graph
from treadle.parallelism.graph.model_graph import model_to_json

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


def test_roles_are_primed_in_print() -> None:
    graph = squared()
    assert "mm: EINSUM \"aa',a'a''->aa''\"(w, w) -> [aa'']" in str(graph)
    assert graph.shape(TensorRef(1)) == (16, 16)
    assert graph.nbytes(TensorRef(1)) == 1024


def test_json_brings_it_back() -> None:
    assert from_json(json.loads(json.dumps(to_json(squared())))) == squared()


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
        (edited("nodes", 1, "results", 0, 1, value=[[[0, 0]]]), "different atoms"),
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


def test_what_is_tied_has_equal_atoms() -> None:
    graph = squared()
    scalar = Node("s", OperatorKind.REDUCTION, (graph.nodes[2].operands[0],), (Result((ROW,), (ROW,), 4),))
    with pytest.raises(TreadleError, match="w and s are tied, but made of unequal atoms"):
        ComputeGraph(graph.atoms, (*graph.nodes[:2], scalar, graph.nodes[2]), {TensorRef(0): TensorRef(2)})


HOSTILE = (
    None, True, -1, 2**63, 10**30, 10**3000, 1.5, float("nan"), float("inf"), "", "x" * 100_000, "a\nb",
    "\ud800", [], [[]], {}, {"a": 1}, [-1, 0], [10**9, 0], [[[0, 0]] * 1000],
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        yield from places(one, (*path, key))


def mutant(data: Any, path: tuple[Any, ...], value: object) -> Any:
    made = place = deepcopy(data)
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return made


@pytest.mark.parametrize("seed", range(4))
def test_hostile_files_are_refused_in_one_line_or_read(seed: int) -> None:
    """Six hundred of them: anything anywhere; what is read can be printed, counted and written."""
    rng = Random(seed)
    good = model_to_json(small_model())
    found = sorted(list(places(good))[1:], key=len)
    n_refused, words = 0, []
    for _ in range(150):
        path = found[int(len(found) * rng.random() ** 3)]
        text = json.dumps(mutant(good, path, rng.choice(HOSTILE)))
        try:
            model = read_model_graph(text, source="g.json")
        except FormatError as error:
            n_refused += 1
            words.append((path, str(error)))
            continue
        assert len(str(model)) < 100_000
        assert model.parameters >= 0
        assert len(model.digest) == 64
    assert n_refused > 90
    assert [(path, message) for path, message in words if "\n" in message or len(message) > 300] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        ("{", "malformed JSON"),
        (
            '{"treadle": "model graph", "version": ' + "9" * 5000 + "}",
            "integer of 5000 digits",
        ),
        ("null", "expected an object, found null"),
    ],
)
def test_texts_that_are_no_graphs_are_refused(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as caught:
        read_model_graph(text, source="g.json")
    assert len(str(caught.value)) < 120
