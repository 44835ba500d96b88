"""Compute graphs as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treadle.errors import FormatError, TreadleError
from treadle.parallelism.graph.compute_graph import (
    Atom,
    ComputeGraph,
    Dims,
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    Source,
)
from treadle.parallelism.graph.graph_values import brief_of, table_of, tensor_of, text_of, whole_number

VERSION = 1
_MOST_PRIMES = 63
"""Appearances of an atom in one tensor or operator."""


def to_json(graph: ComputeGraph) -> dict[str, object]:
    """A graph as a value of JSON; dimensions are lists of [atom, prime]."""
    return {
        "treadle": "compute graph",
        "version": VERSION,
        "atoms": [[atom.name, atom.size] for atom in graph.atoms],
        "nodes": [_node_json(node) for node in graph.nodes],
        "gradients": [[list(first), list(second)] for first, second in graph.gradients.items()],
        "tangents": [[list(first), list(second)] for first, second in graph.tangents.items()],
    }


def from_json(data: object, *, source: str = "") -> ComputeGraph:
    """A graph from ``to_json``.

    Parameters
    ----------
    data : object
        Parsed JSON.
    source : str
        Its file, for messages.

    Raises
    ------
    FormatError
        If it is no compute graph of this version, or a malformed one.
    """
    if not isinstance(data, dict) or data.get("treadle") != "compute graph":
        raise FormatError('no compute graph: expected "treadle": "compute graph"', source=source)
    if type(data.get("version")) is not int or data["version"] != VERSION:
        raise FormatError(
            f"version {brief_of(data.get('version'))} of a compute graph; expected {VERSION}", source=source
        )
    try:
        return ComputeGraph(
            tuple(Atom(text_of(name), whole_number(size)) for name, size in data["atoms"]),
            tuple(_node(table_of(node, "node of a compute graph")) for node in data["nodes"]),
            {tensor_of(first): tensor_of(second) for first, second in data["gradients"]},
            {tensor_of(first): tensor_of(second) for first, second in data["tangents"]},
        )
    except TreadleError as error:
        raise FormatError(str(error), source=source) from error
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(
            f"malformed compute graph: {type(error).__name__}: {' '.join(str(error).split())[:80]}",
            source=source,
        ) from error


def _node_json(node: Node) -> dict[str, object]:
    found: dict[str, object] = {"name": node.name, "kind": node.kind.value, "phase": node.phase.value}
    if node.operands:
        found["operands"] = [[list(o.tensor), _listed(o.dims), _listed(o.roles)] for o in node.operands]
    if node.results:
        found["results"] = [[_listed(r.dims), _listed(r.roles), r.element_bytes] for r in node.results]
    if node.whole:
        found["whole"] = [list(index) for index in sorted(node.whole)]
    if node.source is not None:
        found["source"] = node.source.value
    if node.linear:
        found["linear"] = [list(places) for places in node.linear]
    if node.arguments:
        found["arguments"] = dict(node.arguments)
    found.update({key: text for key in ("operator", "path", "line") if (text := getattr(node, key))})
    return found


def _node(data: Mapping[str, Any]) -> Node:
    source = data.get("source")
    return Node(
        text_of(data["name"]),
        OperatorKind(data["kind"]),
        tuple(
            Operand(tensor_of(t), _dims(dims), _dims(roles)) for t, dims, roles in data.get("operands", [])
        ),
        tuple(
            Result(_dims(dims), _dims(roles), whole_number(size))
            for dims, roles, size in data.get("results", [])
        ),
        Phase(data["phase"]),
        text_of(data.get("operator", "")),
        frozenset(_index(pair) for pair in data.get("whole", [])),
        None if source is None else Source(source),
        text_of(data.get("path", "")),
        text_of(data.get("line", "")),
        tuple(tuple(whole_number(place) for place in places) for places in data.get("linear", [])),
        {text_of(name): value for name, value in dict(data.get("arguments", {})).items()},
    )


def _listed(dims: Dims) -> list[list[list[int]]]:
    return [[list(index) for index in dim] for dim in dims]


def _dims(data: Sequence[Sequence[Sequence[int]]]) -> Dims:
    return tuple(tuple(_index(pair) for pair in dim) for dim in data)


def _index(pair: Sequence[int]) -> Index:
    atom, prime = pair
    return Index(whole_number(atom), whole_number(prime, most=_MOST_PRIMES))
