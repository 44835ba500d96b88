"""Compute graphs as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import asdict

from treadle.errors import FormatError
from treadle.parallelism.graph.compute_graph import (
    BaseDim,
    ComputeGraph,
    Dims,
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    Source,
    TensorRef,
)
from treadle.typed_files import Table

VERSION = 1
_MOST_PRIMES = 63
"""Appearances of a base dimension in one tensor or operator."""


def to_json(graph: ComputeGraph) -> dict[str, object]:
    """Convert a graph to JSON; dimensions are lists of [base dimension, prime]."""
    return {
        "treadle": "compute graph",
        "version": VERSION,
        "atoms": [[atom.name, atom.size] for atom in graph.atoms],
        "nodes": [_node_json(node) for node in graph.nodes],
        "gradients": [[list(first), list(second)] for first, second in graph.gradients.items()],
        "tangents": [[list(first), list(second)] for first, second in graph.tangents.items()],
    }


Number = Annotated[int, Meta(ge=0, le=2**62)]
Tensor = tuple[Number, Number]
_Index = tuple[Number, Annotated[int, Meta(ge=0, le=_MOST_PRIMES)]]
_Dims = tuple[tuple[_Index, ...], ...]


class _NodeTable(Table, frozen=True, forbid_unknown_fields=False):
    name: str
    kind: OperatorKind
    phase: Phase
    operands: list[tuple[Tensor, _Dims, _Dims]] = field(default_factory=list)
    results: list[tuple[_Dims, _Dims, Number]] = field(default_factory=list)
    whole: tuple[_Index, ...] = ()
    source: Source | None = None
    linear: tuple[tuple[Number, ...], ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)
    operator: str = ""
    path: str = ""
    line: str = ""

    def value(self) -> Node:
        operands = tuple(
            Operand(TensorRef(*tensor), _indices(dims), _indices(roles))
            for tensor, dims, roles in self.operands
        )
        results = tuple(Result(_indices(dims), _indices(roles), size) for dims, roles, size in self.results)
        whole = frozenset(Index(*pair) for pair in self.whole)
        return Node(**asdict(self) | {"operands": operands, "results": results, "whole": whole})


class GraphTable(Table, frozen=True, forbid_unknown_fields=False):
    """A compute graph as its file has it."""

    treadle: Literal["compute graph"]
    version: Literal[1]
    atoms: list[tuple[str, Number]]
    nodes: list[_NodeTable]
    gradients: list[tuple[Tensor, Tensor]]
    tangents: list[tuple[Tensor, Tensor]]

    def value(self) -> ComputeGraph:
        """Return the graph; TreadleError if its parts do not fit."""
        gradients, tangents = (
            {TensorRef(*first): TensorRef(*second) for first, second in pairs}
            for pairs in (self.gradients, self.tangents)
        )
        atoms = tuple(BaseDim(name, size) for name, size in self.atoms)
        try:
            return ComputeGraph(atoms, tuple(node.value() for node in self.nodes), gradients, tangents)
        except IndexError:
            raise FormatError("compute graph: a tensor that is not there") from None


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


def _listed(dims: Dims) -> list[list[list[int]]]:
    return [[list(index) for index in dim] for dim in dims]


def _indices(dims: _Dims) -> Dims:
    return tuple(tuple(Index(*pair) for pair in dim) for dim in dims)
