"""Operators that are shared out as one: pointwise operators with what they feed on.

A cluster is the unit of choice. Matrix products, attention and what carries tokens to experts are clusters of
their own. A pointwise operator (elementwise, a reduction, a slice, a concatenation) joins the cluster of a
pointwise operator that it reads, where nothing is lost by it but the freedom to cut the two differently:

- in the forward pass both must read one and the same tensor from outside, so that the residual stream, whose
  state is worth a choice, begins a cluster of its own after each sum, and so do gates;
- in the backward pass, where nothing is saved or computed again, any may join; but a sum of products by
  itself, whose terms may stay partial, is only joined by sums.

Dimensions of a cluster are its members' roles, identified through the tensors that run between them and
through tensors that several of them read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    Node,
    OperatorKind,
    Phase,
    Source,
    TensorRef,
    pairs,
)

POINTWISE = (OperatorKind.ELEMENTWISE, OperatorKind.REDUCTION)
_LIGHT = (*POINTWISE, OperatorKind.GATHER, OperatorKind.SCATTER)


@dataclass(frozen=True)
class Dims:
    """Dimensions of a cluster.

    Parameters
    ----------
    of_role : dict of (node, role) to int
    sizes : tuple of int
        Sizes of the dimensions.
    """

    of_role: dict[tuple[int, Index], int]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Cluster:
    """Operators that are shared out as one.

    Parameters
    ----------
    members : tuple of int
        Nodes of the graph, ascending.
    phase : Phase
    takes : tuple of TensorRef
        What members read of others, parameters and inputs among it.
    makes : tuple of TensorRef
        Results that others read, or that leave the graph.
    inner : tuple of TensorRef
        Results that only members read, or that are unread.
    """

    members: tuple[int, ...]
    phase: Phase
    takes: tuple[TensorRef, ...]
    makes: tuple[TensorRef, ...]
    inner: tuple[TensorRef, ...]

    @cached_property
    def member_set(self) -> frozenset[int]:
        """Its members."""
        return frozenset(self.members)


def tensor_pairs(graph: ComputeGraph, number: int) -> Iterator[tuple[TensorRef, Index, Index]]:
    """Yield the tensors that a node reads and makes, their factors, and the roles that these play."""
    node = graph.nodes[number]
    for operand in node.operands:
        yield from ((operand.tensor, index, role) for index, role in pairs(operand))
    for tensor, result in zip(graph.results(number), node.results, strict=True):
        yield from ((tensor, index, role) for index, role in pairs(result))


class _Grouping:
    """Group of each node, while groups are merged."""

    def __init__(self, graph: ComputeGraph, stateful: frozenset[TensorRef]) -> None:
        self.graph, self.stateful = graph, stateful
        self.group: dict[int, int] = {}
        self.members: dict[int, list[int]] = {}
        given = {tensor.node for tensor in stateful}
        given |= {number for number, node in enumerate(graph.nodes) if node.source is Source.PARAMETER}
        self.given = sum(1 << number for number in given)
        """A bit for each tensor with a state, and each parameter."""
        self.ancestors: list[int] = []
        """Bits of the nodes that each node depends on, itself included."""
        for number, node in enumerate(graph.nodes):
            bits = 1 << number
            for operand in node.operands:
                bits |= self.ancestors[operand.tensor.node]
            self.ancestors.append(bits)
            if node.computes:
                self.members[number], self.group[number] = [number], number
                offers = self._offers(number, node) if self.is_light(node) else ()
                if (homes := next(filter(self._may_be_one, offers), None)) is not None:
                    into, joined = min(homes), sorted(one for home in homes for one in self.members[home])
                    for home in {*homes} - {into}:
                        del self.members[home]
                    self.members[into] = joined  # where it was: clusters keep the order of the graph
                    self.group.update(dict.fromkeys(joined, into))

    def is_light(self, node: Node) -> bool:
        """Whether a node is pointwise, a slice or a concatenation, but not a look-up of parameters."""
        if node.kind in POINTWISE:
            return True
        if node.kind not in _LIGHT or "embedding" in (node.operator or node.name):
            return False
        producers = (self.graph.nodes[operand.tensor.node] for operand in node.operands)
        return all(one.source is not Source.PARAMETER for one in producers)

    def _offers(self, number: int, node: Node) -> Iterator[list[int]]:
        """Yield sets of groups that the node might join, the largest first."""
        near = {
            self.group[operand.tensor.node]
            for operand in node.operands
            if operand.tensor.node in self.group and self._is_of(operand.tensor.node, node.phase)
        }
        mine = self.read([number])
        for home, nodes in self.members.items():
            if home != number and self._is_of(home, node.phase) and self._share(mine, node.phase, nodes):
                near.add(home)
        homes = sorted(near, reverse=True)
        if len(homes) > 1:
            yield [number, *homes]
        for home in homes:
            yield [number, home]

    def _share(self, mine: frozenset[TensorRef], phase: Phase, nodes: Iterable[int]) -> bool:
        """Whether nodes also read one and the same tensor, or anything that the backward pass makes."""
        if phase is Phase.FORWARD:
            return len(mine) == 1 and self.read(nodes) == mine
        return any(
            self.graph.nodes[one.node].phase is Phase.BACKWARD and one not in self.stateful
            for one in mine & self.read(nodes)
        )

    def _is_of(self, number: int, phase: Phase) -> bool:
        node = self.graph.nodes[number]
        return node.phase is phase and self.is_light(node)

    def read(self, nodes: Iterable[int]) -> frozenset[TensorRef]:
        """Return the tensors with a state that these nodes read of others, but parameters."""
        own = set(nodes)
        tensors = {operand.tensor for number in own for operand in self.graph.nodes[number].operands}
        return frozenset(one for one in tensors if one.node not in own and self._has_state(one))

    def _has_state(self, tensor: TensorRef) -> bool:
        """Whether a tensor's state is a choice, or it depends on such a tensor or a parameter."""
        if self.graph.nodes[tensor.node].kind is OperatorKind.PLACEHOLDER:
            return tensor in self.stateful
        return bool(self.ancestors[tensor.node] & self.given)

    def _may_be_one(self, homes: list[int]) -> bool:
        nodes = {member for home in homes for member in self.members[home]}
        bits = sum(1 << node for node in nodes)
        read = {operand.tensor.node for number in nodes for operand in self.graph.nodes[number].operands}
        if any(self.ancestors[outside] & bits for outside in read - nodes):
            return False  # what lies between would have to run within
        if self.graph.nodes[homes[0]].phase is Phase.FORWARD:
            return len(self.read(nodes)) <= 1
        sums = [self._adds(self.graph.nodes[number]) for number in nodes]
        return all(sums) or not any(sums)

    def _adds(self, node: Node) -> bool:
        """Whether a node adds tensors that no pointwise operator makes but by adding."""
        if node.kind is not OperatorKind.ELEMENTWISE or len(node.operands) < 2:
            return False
        if not (node.operator or node.name).removeprefix("aten.").startswith(("add", "tied")):
            return False
        producers = (self.graph.nodes[operand.tensor.node] for operand in node.operands)
        return all(one.computes and (not self.is_light(one) or self._adds(one)) for one in producers)


def clusters_of(graph: ComputeGraph, stateful: frozenset[TensorRef]) -> tuple[Cluster, ...]:
    """Return the clusters of a graph, by their first members.

    Parameters
    ----------
    graph : ComputeGraph
    stateful : frozenset of TensorRef
        Placeholders, besides parameters, whose state is a choice: entering activations, a gradient.
    """
    members = list(_Grouping(graph, stateful).members.values())
    readers: dict[TensorRef, set[int]] = {t: {-1} for t in (*graph.gradients.values(), *graph.tangents)}
    owner = {node: at for at, nodes in enumerate(members) for node in nodes}
    for number, node in enumerate(graph.nodes):
        for operand in node.operands:
            readers.setdefault(operand.tensor, set()).add(owner.get(number, -1))
    found = []
    for at, nodes in enumerate(members):
        made = [tensor for node in nodes for tensor in graph.results(node)]
        outer = tuple(tensor for tensor in made if readers.get(tensor, set()) - {at})
        inner = tuple(tensor for tensor in made if tensor not in outer)
        read = [operand.tensor for node in nodes for operand in graph.nodes[node].operands]
        takes = dict.fromkeys(tensor for tensor in read if owner.get(tensor.node) != at)
        found.append(Cluster(tuple(nodes), graph.nodes[nodes[0]].phase, tuple(takes), outer, inner))
    return tuple(found)


def dims_of(graph: ComputeGraph, cluster: Cluster) -> Dims:
    """Return the dimensions of a cluster: roles of members, identified where a tensor joins them."""
    parent: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def find(key: tuple[Any, ...]) -> tuple[Any, ...]:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    sizes: dict[tuple[Any, ...], int] = {}
    # alone, an operator may read one tensor twice by different roles
    is_alone = len(cluster.members) == 1
    for number in cluster.members:
        for at, (tensor, index, role) in enumerate(tensor_pairs(graph, number)):
            factor = find((tensor, index, at) if is_alone else (tensor, index))
            parent[find((number, role))] = factor
            sizes[find(factor)] = graph.size(index)
    numbers: dict[tuple[Any, ...], int] = {}
    of_role: dict[tuple[int, Index], int] = {}
    largest: dict[int, int] = {}
    for key in list(parent):
        root = find(key)
        number = numbers.setdefault(root, len(numbers))
        largest[number] = max(largest.get(number, 0), sizes.get(key, 0), sizes.get(root, 0))
        if isinstance(key[0], int):
            of_role[key[0], key[1]] = number
    return Dims(of_role, tuple(largest.values()))


def format_cluster(graph: ComputeGraph, cluster: Cluster) -> str:
    """Return a cluster's name: its first and last member."""
    names = [graph.nodes[member].name for member in cluster.members]
    return names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}"
