"""How the ranks along one axis share out a cluster, and what follows for every tensor that it touches.

Along one axis all members of a cluster are cut by one letter; members without it do the same everywhere. What
a member makes and another takes in another way is moved within the cluster, at a price. Or tensors from
outside are summands, and all that is made of them is: where members are linear in them.
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
from treadle.parallelism.problem.operators import choices_of_node, is_everywhere, operator_of
from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.strategies import PARTIAL, WHOLE, Choice, Letter

Place: TypeAlias = "Index | str"
"""What an axis does to a tensor: it cuts this factor, leaves it `PARTIAL` or `WHOLE`."""


@dataclass(frozen=True)
class ClusterChoice:
    """What one axis does.

    Parameters
    ----------
    letter : int
        Of the cluster; -1: nothing is cut, -2 and below: summands.
    atom : str
        Name of the letter's atom, ``+`` for summands, empty where nothing is cut.
    taken : mapping from (node, operand) to Place
    made : mapping from TensorRef to Place
    divides : frozenset of int
        Members whose work is divided.
    """

    letter: int
    atom: str
    taken: Mapping[tuple[int, int], Place]
    made: Mapping[TensorRef, Place]
    divides: frozenset[int]


@dataclass(frozen=True, eq=False)
class ClusterStrategy:
    """What a cluster wants and makes on a mesh.

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
        """Tensors that a member takes and makes, how it sees them, and their states."""
        node = graph.nodes[member]
        for at, operand in enumerate(node.operands):
            yield operand.tensor, operand, self.operands[member, at]
        for tensor, result in zip(graph.results(member), node.results, strict=True):
            yield tensor, result, self.results[tensor]


def unsharded_dims(graph: ComputeGraph) -> frozenset[int]:
    """Atoms that attention needs whole and that no attention may cut: dimensions within heads."""
    seen: set[int] = set()
    cut: set[int] = set()
    for node in graph.nodes:
        if node.kind is OperatorKind.ATTENTION:
            seen.update(index.atom for index in (*node.read, *node.result_roles))
            letters = set().union(*(choice.dims for choice in choices_of_node(node)))
            cut.update(index.atom for index in letters if isinstance(index, Index))
    return frozenset(seen - cut)


def cluster_choices(
    graph: ComputeGraph, cluster: Cluster, uncut: frozenset[int]
) -> tuple[ClusterChoice, ...]:
    """All choices along one axis; the first is to do the same everywhere."""
    everywhere = {number: choices_of_node(graph.nodes[number])[-1] for number in cluster.members}
    if len(cluster.members) == 1:
        offered = list(_alone(graph, cluster))
    else:
        offered = [*_by_letter(graph, cluster), *_by_summands(graph, cluster)]
    found = (_choice(graph, cluster, one, number) for number, one in enumerate([everywhere, *offered], -1))
    return tuple(one for one in found if one is not None and (one.letter < 0 or not _cuts(one, uncut)))


def _cuts(choice: ClusterChoice, uncut: frozenset[int]) -> bool:
    places = (*choice.taken.values(), *choice.made.values())
    return any(isinstance(place, Index) and place.atom in uncut for place in places)


def _alone(graph: ComputeGraph, cluster: Cluster) -> Iterator[dict[int, Choice]]:
    (number,) = cluster.members
    node = graph.nodes[number]
    for choice in choices_of_node(node)[:-1]:
        # products of summands: all ranks would multiply whole matrices
        if node.kind is not OperatorKind.EINSUM or choice.divides:
            yield {number: choice}


def _by_letter(graph: ComputeGraph, cluster: Cluster) -> Iterator[dict[int, Choice]]:
    letters = dims_of(graph, cluster)
    by_letter: dict[int, dict[int, set[Index]]] = {}
    for (number, role), letter in letters.of_role.items():
        by_letter.setdefault(letter, {}).setdefault(number, set()).add(role)
    for letter, roles in by_letter.items():
        found = {number: _cut(graph, number, roles.get(number, set())) for number in cluster.members}
        whole = {number: choice for number, choice in found.items() if choice is not None}
        if letters.sizes[letter] > 1 and len(whole) == len(found):
            yield whole


def _cut(graph: ComputeGraph, number: int, roles: set[Index]) -> Choice | None:
    offered = choices_of_node(graph.nodes[number])
    if not roles:
        return offered[-1]
    if len(roles) > 1:
        return None
    return next((one for one in offered if one.divides and roles <= one.dims), None)


def _by_summands(graph: ComputeGraph, cluster: Cluster) -> Iterator[dict[int, Choice]]:
    """Each tensor from outside by itself, and all of them."""
    stored = (Source.PARAMETER, Source.BUFFER)
    outer = [tensor for tensor in cluster.takes if graph.nodes[tensor.node].source not in stored]
    for partial in [{tensor} for tensor in outer] + ([set(outer)] if len(outer) > 1 else []):
        found: dict[int, Choice] = {}
        for number in cluster.members:
            node = graph.nodes[number]
            summands = tuple(at for at, one in enumerate(node.operands) if one.tensor in partial)
            if not summands:
                found[number] = choices_of_node(node)[-1]
            elif summands in operator_of(node).linear:
                places = tuple(PARTIAL if at in summands else WHOLE for at in range(len(node.operands)))
                found[number] = Choice(places, (PARTIAL,) * len(node.results), divides=False)
                partial.update(graph.results(number))
            else:
                break
        else:
            yield found


def _choice(
    graph: ComputeGraph, cluster: Cluster, by_member: Mapping[int, Choice], number: int
) -> ClusterChoice | None:
    """The choice in terms of factors of tensors; None if it takes a tensor from outside in two ways."""
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
    cut = {place for place in (*taken.values(), *made.values()) if isinstance(place, Index)}
    names = sorted({graph.dim_name(index) for index in cut})
    return ClusterChoice(
        -1 if is_nothing else number, ",".join(names) or ("" if is_nothing else PARTIAL), taken, made, divides
    )


def _factor_of(side: Operand | Result, place: Letter) -> Place:
    """The factor of a tensor that plays a role."""
    if place in (PARTIAL, WHOLE):
        return str(place)
    return next(index for index, role in pairs(side) if role == place)


def cluster_strategies(
    graph: ComputeGraph,
    cluster: Cluster,
    choices: tuple[ClusterChoice, ...],
    sizes: Mapping[str, int],
) -> list[ClusterStrategy]:
    """A choice for each axis, where factors divide; axes that cut one factor in the order of the mesh.

    Parameters
    ----------
    graph : ComputeGraph
    cluster : Cluster
    choices : tuple of ClusterChoice
    sizes : mapping from axis to its ranks
    """
    dims = {tensor: graph.factors(tensor) for tensor in (*cluster.takes, *cluster.makes, *cluster.inner)}
    found: dict[tuple[object, ...], ClusterStrategy] = {}
    for combination in product(choices, repeat=len(sizes)):
        by_axis = dict(zip(sizes, combination, strict=True))
        if _divides(graph, by_axis, sizes):
            one = _strategy(graph, cluster, dims, by_axis, sizes)
            found.setdefault((*one.operands.values(), *one.results.values(), *one.parts.values()), one)
    return list(found.values())


def _divides(graph: ComputeGraph, by_axis: Mapping[str, ClusterChoice], sizes: Mapping[str, int]) -> bool:
    cut: dict[tuple[str, int, int, Index], int] = {}
    for axis, choice in by_axis.items():
        for side, places in (("taken", choice.taken), ("made", choice.made)):
            for (node, at), place in places.items():
                if isinstance(place, Index):
                    key = side, node, at, place
                    cut[key] = cut.get(key, 1) * sizes[axis]
    return all(graph.size(key[3]) % n == 0 for key, n in cut.items())


def _strategy(
    graph: ComputeGraph,
    cluster: Cluster,
    dims: Mapping[TensorRef, tuple[Index, ...]],
    by_axis: Mapping[str, ClusterChoice],
    sizes: Mapping[str, int],
) -> ClusterStrategy:
    operands = {}
    results = {}
    for member in cluster.members:
        for at, operand in enumerate(graph.nodes[member].operands):
            places = {axis: choice.taken[member, at] for axis, choice in by_axis.items()}
            operands[member, at] = _sharding(dims[operand.tensor], places)
        for tensor in graph.results(member):
            places = {axis: choice.made[tensor] for axis, choice in by_axis.items()}
            results[tensor] = _sharding(dims[tensor], places)
    parts = {
        member: prod(sizes[axis] for axis, choice in by_axis.items() if member in choice.divides)
        for member in cluster.members
    }
    return ClusterStrategy(tuple(by_axis.values()), operands, results, parts)


def _sharding(dims: tuple[Index, ...], places: Mapping[str, Place]) -> Sharding:
    return Sharding(
        tuple(tuple(axis for axis, place in places.items() if place == index) for index in dims),
        frozenset(axis for axis, place in places.items() if place == PARTIAL),
    )
