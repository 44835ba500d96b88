"""Division of a cluster among the ranks along one axis, and its effect on every tensor.

Along one axis all members of a cluster are sharded on one dimension; members without it do the same
everywhere. What a member makes and another takes in another way is moved within the cluster, at a price. Or
tensors from outside are partial, and so are their results, where members are linear in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    Operand,
    OperatorKind,
    Result,
    Source,
    TensorRef,
    pairs,
)
from treadle.parallelism.problem.operator_clusters import Cluster, dims_of
from treadle.parallelism.problem.operators import choices_of_node, is_everywhere
from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.strategies import PARTIAL, WHOLE, Choice, Letter

Place: TypeAlias = "Index | str"
"""Effect of an axis on a tensor: shards this factor, or leaves it `PARTIAL` or `WHOLE`."""


@dataclass(frozen=True)
class ClusterChoice:
    """Effect of one axis.

    Parameters
    ----------
    letter : int
        Of the cluster; -1: nothing is sharded, -2 and below: partial.
    atom : str
        Name of the base dimension, ``+`` for partial, empty where nothing is sharded.
    cut_dims : frozenset of int
        Numbers of the sharded base dimensions.
    taken : mapping from (node, operand) to Place
    made : mapping from TensorRef to Place
    divides : frozenset of int
        Members whose work is divided.
    """

    letter: int
    atom: str
    cut_dims: frozenset[int]
    taken: Mapping[tuple[int, int], Place]
    made: Mapping[TensorRef, Place]
    divides: frozenset[int]


@dataclass(frozen=True, eq=False)
class ClusterStrategy:
    """Input and result states of a cluster on a mesh.

    Parameters
    ----------
    choices : tuple of ClusterChoice
        One for each axis.
    operands : mapping from (node, operand) to Sharding
        Over the flat factors of the tensor.
    results : mapping from TensorRef to Sharding
    parts : mapping from node to int
        Each rank does 1 / parts of its work.
    """

    choices: tuple[ClusterChoice, ...]
    operands: Mapping[tuple[int, int], Sharding]
    results: Mapping[TensorRef, Sharding]
    parts: Mapping[int, int]

    def sides(
        self, graph: ComputeGraph, member: int
    ) -> Iterator[tuple[TensorRef, Operand | Result, Sharding]]:
        """Yield the tensors that a member takes and makes, how it sees them, and their states."""
        node = graph.nodes[member]
        for at, operand in enumerate(node.operands):
            yield operand.tensor, operand, self.operands[member, at]
        for tensor, result in zip(graph.results(member), node.results, strict=True):
            yield tensor, result, self.results[tensor]


def unsharded_dims(graph: ComputeGraph) -> frozenset[int]:
    """Return the base dimensions that attention cannot shard: those within heads."""
    attention = [node for node in graph.nodes if node.kind is OperatorKind.ATTENTION]
    seen = {role.atom for node in attention for role in (*node.read, *node.result_roles)}
    roles = {role for node in attention for choice in choices_of_node(node) for role in choice.dims}
    return frozenset(seen - {role.atom for role in roles if isinstance(role, Index)})


def cluster_choices(
    graph: ComputeGraph, cluster: Cluster, uncut: frozenset[int]
) -> tuple[ClusterChoice, ...]:
    """Return all choices along one axis; the first is to do the same everywhere."""
    everywhere = {number: choices_of_node(graph.nodes[number])[-1] for number in cluster.members}
    (first, *others), offered = cluster.members, [everywhere]
    if others:
        offered += [*_by_dim(graph, cluster), *_by_partial_inputs(graph, cluster)]
    else:
        # of a product of partial inputs all ranks would multiply whole matrices
        is_product = graph.nodes[first].kind is OperatorKind.EINSUM
        choices = choices_of_node(graph.nodes[first])[:-1]
        offered += [{first: choice} for choice in choices if choice.divides or not is_product]
    found = []
    for number, by_member in enumerate(offered, -1):
        choice = _choice(graph, cluster, by_member, number)
        if choice is not None and (choice.letter < 0 or uncut.isdisjoint(choice.cut_dims)):
            found.append(choice)
    return tuple(found)


def _by_dim(graph: ComputeGraph, cluster: Cluster) -> Iterator[dict[int, Choice]]:
    """Yield a choice for each dimension of more than one element that all members may shard or lack."""
    dims = dims_of(graph, cluster)
    by_dim: dict[int, dict[int, set[Index]]] = {}
    for (number, role), dim in dims.of_role.items():
        by_dim.setdefault(dim, {}).setdefault(number, set()).add(role)
    for dim, roles in by_dim.items():
        found = {number: _cut(graph, number, roles.get(number, set())) for number in cluster.members}
        possible = {number: choice for number, choice in found.items() if choice is not None}
        if dims.sizes[dim] > 1 and len(possible) == len(found):
            yield possible


def _cut(graph: ComputeGraph, number: int, roles: set[Index]) -> Choice | None:
    offered = choices_of_node(graph.nodes[number])
    if not roles:
        return offered[-1]
    if len(roles) > 1:
        return None
    return next((one for one in offered if one.divides and roles <= one.dims), None)


def _by_partial_inputs(graph: ComputeGraph, cluster: Cluster) -> Iterator[dict[int, Choice]]:
    """Yield the choices with one tensor from outside partial, and with all of them partial."""
    stored = (Source.PARAMETER, Source.BUFFER)
    outer = [tensor for tensor in cluster.takes if graph.nodes[tensor.node].source not in stored]
    for partial in [{tensor} for tensor in outer] + ([set(outer)] if len(outer) > 1 else []):
        found: dict[int, Choice] = {}
        for number in cluster.members:
            node = graph.nodes[number]
            terms = tuple(at for at, one in enumerate(node.operands) if one.tensor in partial)
            if not terms:
                found[number] = choices_of_node(node)[-1]
            elif terms in node.linear:
                places = tuple(PARTIAL if at in terms else WHOLE for at in range(len(node.operands)))
                found[number] = Choice(places, (PARTIAL,) * len(node.results), divides=False)
                partial.update(graph.results(number))
            else:
                break
        else:
            yield found


def _choice(
    graph: ComputeGraph, cluster: Cluster, by_member: Mapping[int, Choice], number: int
) -> ClusterChoice | None:
    """Return the choice by factors of tensors; None if it takes an outside tensor in two ways."""
    taken: dict[tuple[int, int], Place] = {}
    made: dict[TensorRef, Place] = {}
    outside: dict[TensorRef, Place] = {}
    for member in cluster.members:
        node, choice = graph.nodes[member], by_member[member]
        for at, (operand, place) in enumerate(zip(node.operands, choice.inputs, strict=True)):
            taken[member, at] = place = _factor_of(operand, place)
            is_outside = operand.tensor.node not in cluster.member_set
            if is_outside and outside.setdefault(operand.tensor, place) != place:
                return None
        for tensor, result, place in zip(graph.results(member), node.results, choice.outputs, strict=True):
            made[tensor] = _factor_of(result, place)
    divides = frozenset(m for m, choice in by_member.items() if choice.divides)
    is_nothing = all(is_everywhere(choice) for choice in by_member.values())
    cut = frozenset(place for place in (*taken.values(), *made.values()) if isinstance(place, Index))
    names = ",".join(sorted({graph.dim_name(index) for index in cut}))
    atom = names or ("" if is_nothing else PARTIAL)
    cut_dims = frozenset(index.atom for index in cut)
    return ClusterChoice(-1 if is_nothing else number, atom, cut_dims, taken, made, divides)


def _factor_of(side: Operand | Result, place: Letter) -> Place:
    """Return the factor of a tensor that plays a role."""
    if place in (PARTIAL, WHOLE):
        return str(place)
    return next(index for index, role in pairs(side) if role == place)


def cluster_strategies(
    graph: ComputeGraph,
    cluster: Cluster,
    choices: tuple[ClusterChoice, ...],
    sizes: Mapping[str, int],
) -> list[ClusterStrategy]:
    """Return the strategies: a choice for each axis, where factors divide.

    Parameters
    ----------
    graph : ComputeGraph
    cluster : Cluster
    choices : tuple of ClusterChoice
    sizes : mapping from axis to its ranks
    """
    dims = {tensor: graph.factors(tensor) for tensor in (*cluster.takes, *cluster.makes, *cluster.inner)}
    operand_dims = {
        (member, at): dims[operand.tensor]
        for member in cluster.members
        for at, operand in enumerate(graph.nodes[member].operands)
    }
    made = [tensor for member in cluster.members for tensor in graph.results(member)]
    found: dict[tuple[object, ...], ClusterStrategy] = {}
    for combination in product(choices, repeat=len(sizes)):
        by_axis = dict(zip(sizes, combination, strict=True))
        if not _divides(graph, by_axis, sizes):
            continue
        operands = {
            key: _sharding(own, {axis: choice.taken[key] for axis, choice in by_axis.items()})
            for key, own in operand_dims.items()
        }
        results = {
            tensor: _sharding(dims[tensor], {axis: choice.made[tensor] for axis, choice in by_axis.items()})
            for tensor in made
        }
        parts = {
            member: prod(sizes[axis] for axis, choice in by_axis.items() if member in choice.divides)
            for member in cluster.members
        }
        key = (*operands.values(), *results.values(), *parts.values())
        found.setdefault(key, ClusterStrategy(combination, operands, results, parts))
    return list(found.values())


def _divides(graph: ComputeGraph, by_axis: Mapping[str, ClusterChoice], sizes: Mapping[str, int]) -> bool:
    """Whether the axes that shard one factor of a tensor divide its size."""
    ranks: dict[tuple[bool, tuple[int, int], Index], int] = {}
    for axis, choice in by_axis.items():
        for is_made, places in ((False, choice.taken), (True, choice.made)):
            for at, place in places.items():
                if isinstance(place, Index):
                    key = is_made, at, place
                    ranks[key] = ranks.get(key, 1) * sizes[axis]
    return all(graph.size(place) % n == 0 for (_, _, place), n in ranks.items())


def _sharding(dims: tuple[Index, ...], places: Mapping[str, Place]) -> Sharding:
    return Sharding(
        tuple(tuple(axis for axis, place in places.items() if place == index) for index in dims),
        frozenset(axis for axis, place in places.items() if place == PARTIAL),
    )
