"""Operators that are shared out as one: pointwise operators with what they feed on.

A cluster is the unit of choice. Matrix products, attention and what carries tokens to experts are clusters of
their own. A pointwise operator (elementwise, a reduction, a slice, a concatenation) joins the cluster of a
pointwise operator that it reads, where nothing is lost by it but the freedom to cut the two differently:

- in the forward pass both must read one and the same tensor from outside, so that the residual stream, whose
  state is worth a choice, begins a cluster of its own after each sum, and so do gates;
- in the backward pass, where nothing is saved or computed again, any may join; but a sum of products by
  itself, whose summands may stay partial, is only joined by sums.

Letters of a cluster are its members' roles, identified through the tensors that run between them and through
tensors that several of them read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Source,
    TensorRef,
)

POINTWISE = (OperatorKind.ELEMENTWISE, OperatorKind.REDUCTION)
_LIGHT = (*POINTWISE, OperatorKind.GATHER, OperatorKind.SCATTER)


@dataclass(frozen=True)
class Letters:
    """Letters of a cluster.

    Parameters
    ----------
    of_role : dict of (node, role) to int
    of_factor : dict of (tensor, index) to int
        For every tensor that members read or make.
    sizes : tuple of int
        Elements, by letter.
    """

    of_role: dict[tuple[int, Index], int]
    of_factor: dict[tuple[TensorRef, Index], int]
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
        Results that only members read, or nobody.
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


def flat(operand: Operand) -> Iterator[tuple[Index, Index]]:
    """Factors of the tensor and the roles that they play."""
    for dim, roles in zip(operand.dims, operand.roles, strict=True):
        yield from zip(dim, roles, strict=True)


def factors(graph: ComputeGraph, tensor: TensorRef) -> tuple[Index, ...]:
    """Flat factors of a tensor, the outermost first."""
    return tuple(index for dim in graph.result(tensor).dims for index in dim)


class _Grouping:
    """Which group each node is in, while groups grow."""

    def __init__(self, graph: ComputeGraph, stateful: frozenset[TensorRef]) -> None:
        self.graph, self.stateful = graph, stateful
        self.group: dict[int, int] = {}
        self.members: dict[int, list[int]] = {}
        self.ancestors: list[int] = []
        """By node a bit for each node that it depends on, itself among them."""
        for number, node in enumerate(graph.nodes):
            bits = 1 << number
            for operand in node.operands:
                bits |= self.ancestors[operand.tensor.node]
            self.ancestors.append(bits)
            if node.kind in (OperatorKind.OUTPUT, OperatorKind.PLACEHOLDER):
                continue
            self.members[number], self.group[number] = [number], number
            if self.is_light(node):
                for joined in self._offers(number, node):
                    if self._may_be_one(joined):
                        self._merge(joined)
                        break

    def is_light(self, node: Node) -> bool:
        """Pointwise, a slice or a concatenation; but no look-up of parameters, nor its gradient."""
        if node.kind in POINTWISE:
            return True
        if node.kind not in _LIGHT or "embedding" in (node.operator or node.name):
            return False
        return not any(
            self.graph.nodes[operand.tensor.node].source is Source.PARAMETER for operand in node.operands
        )

    def _offers(self, number: int, node: Node) -> Iterator[list[int]]:
        """Sets of groups that the node might join, the largest first."""
        near = [
            self.group[operand.tensor.node]
            for operand in node.operands
            if operand.tensor.node in self.group and self._is_of(operand.tensor.node, node.phase)
        ]
        if node.phase is Phase.FORWARD:
            mine = self.read([number])
            if len(mine) == 1:
                near += [
                    home
                    for home, nodes in self.members.items()
                    if home != number and self._is_of(home, node.phase) and self.read(nodes) == mine
                ]
        else:
            mine = self.read([number])
            near += [
                home
                for home, nodes in self.members.items()
                if home != number and self._is_of(home, node.phase) and self._share(mine, nodes)
            ]
        homes = sorted(set(near), reverse=True)
        if len(homes) > 1:
            yield [number, *homes]
        for home in homes:
            yield [number, home]

    def _share(self, mine: frozenset[TensorRef], nodes: Iterable[int]) -> bool:
        """Whether both read what the backward pass makes."""
        common = mine & self.read(nodes)
        return any(
            self.graph.nodes[one.node].phase is Phase.BACKWARD and one not in self.stateful for one in common
        )

    def _is_of(self, number: int, phase: Phase) -> bool:
        node = self.graph.nodes[number]
        return node.phase is phase and self.is_light(node)

    def read(self, nodes: Iterable[int]) -> frozenset[TensorRef]:
        """Tensors with a state that these nodes read of others, but parameters."""
        own = set(nodes)
        found = set()
        for number in own:
            for operand in self.graph.nodes[number].operands:
                producer = operand.tensor.node
                if producer in own:
                    continue
                if self.graph.nodes[producer].kind is OperatorKind.PLACEHOLDER:
                    if operand.tensor in self.stateful:
                        found.add(operand.tensor)
                elif self.is_made_of_tensors(producer):
                    found.add(operand.tensor)
        return frozenset(found)

    def is_made_of_tensors(self, number: int) -> bool:
        """Whether any tensor with a state, or a parameter, goes into a node."""
        bits = self.ancestors[number]
        given = [tensor.node for tensor in self.stateful]
        given += [n for n, node in enumerate(self.graph.nodes) if node.source is Source.PARAMETER]
        return any(bits >> one & 1 for one in given)

    def _may_be_one(self, homes: list[int]) -> bool:
        nodes = {member for home in homes for member in self.members[home]}
        bits = sum(1 << node for node in nodes)
        for number in nodes:
            for operand in self.graph.nodes[number].operands:
                outside = operand.tensor.node
                if outside not in nodes and self.ancestors[outside] & bits:
                    return False  # what lies between would have to run within
        phase = self.graph.nodes[homes[0]].phase
        if phase is Phase.FORWARD:
            return len(self.read(nodes)) <= 1
        sums = [self._adds(self.graph.nodes[number]) for number in nodes]
        return all(sums) or not any(sums)

    def _adds(self, node: Node) -> bool:
        """Whether a node adds tensors that no pointwise operator makes but by adding."""
        if node.kind is not OperatorKind.ELEMENTWISE or len(node.operands) < 2:
            return False
        if not (node.operator or node.name).removeprefix("aten.").startswith(("add", "tied")):
            return False
        producers = [self.graph.nodes[operand.tensor.node] for operand in node.operands]
        return all(
            one.kind is not OperatorKind.PLACEHOLDER and (not self.is_light(one) or self._adds(one))
            for one in producers
        )

    def _merge(self, homes: list[int]) -> None:
        into = min(homes)
        for home in homes:
            if home != into:
                self.members[into] += self.members.pop(home)
        for member in self.members[into]:
            self.group[member] = into
        self.members[into].sort()


def clusters_of(graph: ComputeGraph, stateful: frozenset[TensorRef]) -> tuple[Cluster, ...]:
    """The clusters of a graph, by their first members.

    Parameters
    ----------
    graph : ComputeGraph
    stateful : frozenset of TensorRef
        Placeholders, beside parameters, whose state is a choice: activations that enter, a gradient.
    """
    members = list(_Grouping(graph, stateful).members.values())
    readers: dict[TensorRef, set[int]] = {}
    owner = {node: at for at, nodes in enumerate(members) for node in nodes}
    for number, node in enumerate(graph.nodes):
        for operand in node.operands:
            readers.setdefault(operand.tensor, set()).add(owner.get(number, -1))
    for tensor in (*graph.gradients.values(), *graph.tangents):
        readers.setdefault(tensor, set()).add(-1)
    found = []
    for at, nodes in enumerate(members):
        made = [TensorRef(node, slot) for node in nodes for slot in range(len(graph.nodes[node].results))]
        outer = tuple(tensor for tensor in made if readers.get(tensor, set()) - {at})
        takes = dict.fromkeys(
            operand.tensor
            for node in nodes
            for operand in graph.nodes[node].operands
            if owner.get(operand.tensor.node) != at
        )
        inner = tuple(tensor for tensor in made if tensor not in outer)
        found.append(Cluster(tuple(nodes), graph.nodes[nodes[0]].phase, tuple(takes), outer, inner))
    return tuple(found)


def letters_of(graph: ComputeGraph, cluster: Cluster) -> Letters:
    """The letters of a cluster: roles of members, identified where a tensor joins them."""
    parent: dict[object, object] = {}

    def find(key: object) -> object:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    sizes: dict[object, int] = {}
    for number in cluster.members:
        node = graph.nodes[number]
        pairs: list[tuple[TensorRef, Index, Index]] = [
            (operand.tensor, index, role) for operand in node.operands for index, role in flat(operand)
        ]
        pairs += [
            (TensorRef(number, slot), index, role)
            for slot, result in enumerate(node.results)
            for dim, roles in zip(result.dims, result.roles, strict=True)
            for index, role in zip(dim, roles, strict=True)
        ]
        is_alone = len(cluster.members) == 1
        for at, (tensor, index, role) in enumerate(pairs):
            mine = ("role", number, role)
            # alone, an operator may read one tensor twice by different roles
            other = ("factor", tensor, index, at) if is_alone else ("factor", tensor, index)
            parent[find(mine)] = find(other)
            sizes[find(other)] = graph.atoms[index.atom].size
    numbers: dict[object, int] = {}
    of_role: dict[tuple[int, Index], int] = {}
    of_factor: dict[tuple[TensorRef, Index], int] = {}
    by_number: list[int] = []
    for key in list(parent):
        assert isinstance(key, tuple)
        root = find(key)
        if root not in numbers:
            numbers[root] = len(numbers)
            by_number.append(0)
        number = numbers[root]
        by_number[number] = max(by_number[number], sizes.get(key, 0), sizes.get(root, 0))
        if key[0] == "role":
            of_role[key[1], key[2]] = number
        else:
            of_factor[key[1], key[2]] = number
    return Letters(of_role, of_factor, tuple(by_number))


def shown(graph: ComputeGraph, cluster: Cluster) -> str:
    """A cluster's name: its first and last member."""
    names = [graph.nodes[member].name for member in cluster.members]
    return names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}"
