"""A part of a joint graph as its own graph, and a key that is equal for equal parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from treadle.errors import TreadleError
from treadle.parallelism.graph.compute_graph import (
    BaseDim,
    ComputeGraph,
    Dims,
    Index,
    Node,
    OperatorKind,
    Phase,
    Source,
    TensorRef,
    output_of,
)
from treadle.parallelism.graph.folding.cuts import Anatomy, PartCut
from treadle.parallelism.graph.graph_files import to_json
from treadle.parallelism.graph.model_graph import ModelPart


def extracted(anatomy: Anatomy, before: PartCut | None, after: PartCut | None, name: str) -> ModelPart:
    """Return the part between two cuts; None: the model's beginning or end.

    Raises
    ------
    TreadleError
        If a parameter that it shares with other parts has several gradients in it.
    """
    return _Extraction(anatomy, before, after).part(name)


class _Extraction:
    def __init__(self, anatomy: Anatomy, before: PartCut | None, after: PartCut | None) -> None:
        self._anatomy, self._before, self._after = anatomy, before, after
        self._graph = anatomy.graph
        first = -1 if before is None else before.forward.node
        last = len(self._graph.nodes) if after is None else after.forward.node
        begin = -1 if after is None else after.last
        end = len(self._graph.nodes) if before is None else before.last
        self._own = {n for n in anatomy.forward if first < n <= last}
        self._own |= {n for n in anatomy.backward if begin < n <= end}
        self._at: dict[TensorRef, TensorRef] = {}
        self._nodes: list[Node] = []

    def part(self, name: str) -> ModelPart:
        """Make it."""
        enters = None
        needed = sorted(self._needed())
        kinds = [self._graph.nodes[number].kind for number in needed]
        first = next(n for n, kind in zip(needed, kinds, strict=True) if kind is not OperatorKind.PLACEHOLDER)
        late = next((n for n in needed if self._graph.nodes[n].phase is Phase.BACKWARD), None)
        for number in needed:
            if number == first and self._before is not None:
                enters = self._crossing(self._before.forward, Source.INPUT)
            if number == late and self._after is not None:
                # its dimensions are grouped as the output's: which operator makes it is another part's affair
                shape = self._graph.result(self._after.forward).dims
                self._crossing(self._after.gradient, Source.TANGENT, shape)
            node = self._graph.nodes[number]
            operands = tuple(replace(operand, tensor=self._at[operand.tensor]) for operand in node.operands)
            self._nodes.append(replace(node, operands=operands))
            for tensor in self._graph.results(number):
                # the crossing gradient of a part that begins before it is the tangent's, not a copy
                self._at.setdefault(tensor, TensorRef(len(self._nodes) - 1, tensor.slot))
        gradients = self._gradients(enters)
        outputs = [tensor for tensor in self._graph.tangents if tensor.node in self._own]
        tangents = {self._at[tensor]: self._at[self._graph.tangents[tensor]] for tensor in outputs}
        leaves = None
        if self._after is not None:
            leaves = self._at[self._after.forward]
            tangents = {leaves: self._at[self._after.gradient]} | tangents
        self._nodes.append(output_of(self._nodes, [*tangents, *gradients.values()]))
        graph = _compact(self._graph.atoms, self._nodes, gradients, tangents)
        return ModelPart(name, graph, 1, enters, leaves)

    def _crossing(self, tensor: TensorRef, source: Source, shape: Dims | None = None) -> TensorRef:
        """Add a placeholder for what comes from another part."""
        node, result = self._graph.nodes[tensor.node], self._graph.result(tensor)
        phase = Phase.FORWARD if source is Source.INPUT else Phase.BACKWARD
        own = replace(result, dims=shape or result.dims, roles=shape or result.dims)
        name = self._graph.spelled(tensor).replace(".", "_")
        kind = OperatorKind.PLACEHOLDER
        self._nodes.append(Node(name, kind, (), (own,), phase, source=source, path=name, line=node.line))
        self._at[tensor] = TensorRef(len(self._nodes) - 1)
        return self._at[tensor]

    def _needed(self) -> set[int]:
        """Return own nodes, and the placeholders and constants that they read."""
        tangents = [tangent.node for t, tangent in self._graph.tangents.items() if t.node in self._own]
        found, stack = set(self._own), [*sorted(self._own), *tangents]
        crossing = {self._before and self._before.forward, self._after and self._after.gradient}
        while stack:
            number = stack.pop()
            found.add(number)
            read = [operand.tensor for operand in self._graph.nodes[number].operands]
            stack += [one.node for one in read if one.node not in found and one not in crossing]
        return found

    def _gradients(self, enters: TensorRef | None) -> dict[TensorRef, TensorRef]:
        found: dict[TensorRef, TensorRef] = {}
        if enters is not None and self._before is not None:
            found[enters] = self._at[self._before.gradient]
        for owner, gradient in self._graph.gradients.items():
            if owner not in self._at:
                continue
            pieces = self._anatomy.pieces.get(owner)
            mine = [gradient] if pieces is None else [t for t in pieces.terms if t.node in self._own]
            if len(mine) != 1 or mine[0].node not in self._own:
                raise TreadleError(
                    f"capture: {self._graph.nodes[owner.node].path} has {len(mine)} gradients in one part"
                )
            found[self._at[owner]] = self._at[mine[0]]
        return {owner: found[owner] for owner in sorted(found)}


def _compact(
    atoms: tuple[BaseDim, ...],
    nodes: Iterable[Node],
    gradients: Mapping[TensorRef, TensorRef],
    tangents: Mapping[TensorRef, TensorRef],
) -> ComputeGraph:
    """Return a graph of its nodes' base dimensions, numbered by appearance."""
    numbers: dict[int, int] = {}

    def one(index: Index) -> Index:
        return Index(numbers.setdefault(index.atom, len(numbers)), index.prime)

    def many(dims: Dims) -> Dims:
        return tuple(tuple(one(index) for index in dim) for dim in dims)

    def argument_key(value: object) -> object:
        """Renumber the dimensions of operands in arguments."""
        if isinstance(value, Mapping):
            return {
                key: [[list(one(Index(*pair))) for pair in dim] for dim in part]
                if key == "dims" and "operand" in value
                else argument_key(part)
                for key, part in value.items()
            }
        return [argument_key(part) for part in value] if isinstance(value, list) else value

    copied = []
    for node in nodes:
        operands = tuple(replace(o, dims=many(o.dims), roles=many(o.roles)) for o in node.operands)
        results = tuple(replace(r, dims=many(r.dims), roles=many(r.roles)) for r in node.results)
        whole = frozenset(one(index) for index in sorted(node.whole))
        arguments = {key: argument_key(value) for key, value in node.arguments.items()}
        copied.append(replace(node, operands=operands, results=results, whole=whole, arguments=arguments))
    return ComputeGraph(tuple(atoms[number] for number in numbers), tuple(copied), gradients, tangents)


def signature(part: ModelPart, *, shared: Iterable[str] = ()) -> str:
    """Return the key of a part: everything but names, lines and paths, except those of shared parameters."""
    data = to_json(part.graph)
    paths = set(shared)
    nodes = data["nodes"]
    assert isinstance(nodes, list)
    for node in nodes:
        node.pop("line", None)
        node["name"] = ""
        if node.get("path") not in paths:
            node.pop("path", None)
    data["atoms"] = [atom.size for atom in part.graph.atoms]
    return json.dumps([data, part.enters, part.leaves])
