"""Loops around large intermediate tensors, which then are never there as a whole.

A tensor between operators that is much larger than what layers give on (scores of attention, a loss's logits)
need not be in memory: the operators that make it and those that read it run in a loop over chunks of one of
its dimensions. In the backward pass each chunk is computed again within the loop. Such a region is offered
only

- where each of its operators has the dimension and may be sharded on it. A dimension is one factor of each
  tensor of the region, and whatever role that is of each operator (queries of scores may be ``s`` of one and
  ``s'`` of the next): it is followed from tensor to tensor;
- where nothing outside of it lies between two of its operators in one phase: a loop that is claimed is one.
  Pointwise operators on small tensors there (the logarithm of a sum that is subtracted from its terms) run
  in the loop themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    OperatorKind,
    Phase,
    Source,
    TensorRef,
)
from treadle.parallelism.problem.operator_clusters import POINTWISE, tensor_pairs
from treadle.parallelism.problem.operators import choices_of_node
from treadle.parallelism.problem.values import PartValues

TIMES_LARGER = 4
"""Size relative to layer outputs from which a loop is offered."""
N_CHUNKS = (8, 64)
MOST_LETTERS = 2


@dataclass(frozen=True, eq=False)
class Region:
    """Operators that may run in a loop.

    Parameters
    ----------
    number : int
        Distinguishes a part's regions.
    tensors : frozenset of TensorRef
        Of which only a chunk is there.
    letters : tuple of mapping from node to Index
        For each dimension that the loop may run over, its role in each operator.
    """

    number: int
    tensors: frozenset[TensorRef]
    letters: tuple[Mapping[int, Index], ...]

    @property
    def nodes(self) -> frozenset[int]:
        """Its operators."""
        return frozenset(self.letters[0])


@dataclass(frozen=True)
class LoopChoice:
    """A loop that a cluster runs in: the dimension of its region, and the number of chunks."""

    region: int
    letter: int
    n_chunks: int


def regions_of(values: PartValues) -> tuple[Region, ...]:
    """Return the regions of a part."""
    graph = values.graph
    large = _large(values)
    readers: dict[TensorRef, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        for operand in node.operands:
            if operand.tensor in large and node.kind is not OperatorKind.OUTPUT:
                readers.setdefault(operand.tensor, []).append(number)
    found: list[Region] = []
    for tensors in _connected(large, readers):
        nodes = {tensor.node for tensor in tensors} | {at for one in tensors for at in readers.get(one, ())}
        between = _between(graph, nodes)
        nodes |= between
        linked = [*tensors, *_links(graph, nodes, between)]
        letters = [roles for roles in _letters(graph, linked, nodes) if set(roles) == nodes]
        letters = _of_tokens(values, letters)[:MOST_LETTERS]
        # no operator outside may depend on one inside, and one inside on it, in one phase; in the backward
        # pass those of the forward pass run again that make the region's tensors, and no others
        makers = {one.node for one in tensors}
        by_phase = ([at for at, node in enumerate(graph.nodes) if node.phase is phase] for phase in Phase)
        is_convex = not any(_is_left(graph, steps, nodes, nodes & {*steps, *makers}) for steps in by_phase)
        is_read = all(readers.get(one) for one in tensors)
        is_left = bool(between) and _is_left(graph, range(len(graph.nodes)), nodes, nodes)
        if letters and is_read and is_convex and not is_left:
            found.append(Region(len(found), frozenset(tensors), tuple(letters)))
    return tuple(found)


def _ends(values: PartValues) -> list[TensorRef]:
    """Return the inputs and outputs of a part; for a single part its inputs."""
    nodes = values.graph.nodes
    inputs = [TensorRef(number) for number, node in enumerate(nodes) if node.source is Source.INPUT]
    return [one for one in (values.part.enters, values.part.leaves) if one is not None] or inputs


def _of_tokens(values: PartValues, letters: list[Mapping[int, Index]]) -> list[Mapping[int, Index]]:
    """Return the dimensions of a part's inputs and outputs, samples and tokens, the largest first."""
    graph = values.graph
    atoms = {index.atom for one in _ends(values) for index in graph.factors(one)}
    found = [roles for roles in letters if next(iter(roles.values())).atom in atoms]
    return sorted(found, key=lambda roles: -graph.size(next(iter(roles.values()))))


def _large(values: PartValues) -> set[TensorRef]:
    graph = values.graph
    least = TIMES_LARGER * max((graph.nbytes(one) for one in _ends(values)), default=0)
    leaving = {operand.tensor for operand in graph.nodes[-1].operands} | set(graph.gradients.values())
    return {
        tensor
        for tensor in graph.tensors()
        if graph.nodes[tensor.node].computes and graph.nbytes(tensor) > least and tensor not in leaving
    }


def _connected(large: set[TensorRef], readers: Mapping[TensorRef, list[int]]) -> Iterator[list[TensorRef]]:
    """Yield the sets of tensors that operators join."""
    left = sorted(large)
    while left:
        found, waiting = [left[0]], [left[0]]
        left = left[1:]
        while waiting:
            one = waiting.pop()
            around = {one.node, *readers.get(one, ())}
            near = [other for other in left if around & {other.node, *readers.get(other, ())}]
            left = [other for other in left if other not in near]
            found += near
            waiting += near
        yield sorted(found)


def _letters(graph: ComputeGraph, tensors: list[TensorRef], nodes: set[int]) -> Iterator[Mapping[int, Index]]:
    """Yield for each factor of the first tensor the roles that it plays."""
    inner = set(tensors)
    sides = {node: [row for row in tensor_pairs(graph, node) if row[0] in inner] for node in nodes}
    for start in graph.factors(tensors[0]):
        if graph.size(start) < N_CHUNKS[0]:
            continue
        known: dict[TensorRef, Index] = {tensors[0]: start}
        roles_of: dict[int, Index] = {}
        changed = True
        while changed:
            changed = False
            for node, rows in sides.items():
                for tensor, index, role in rows:
                    if known.get(tensor) == index and node not in roles_of:
                        roles_of[node], changed = role, True
                for tensor, index, role in rows:
                    if roles_of.get(node) == role and tensor not in known:
                        known[tensor], changed = index, True
        is_clear = all(
            (roles_of.get(node) == role) == (known.get(tensor) == index)
            for node, rows in sides.items()
            for tensor, index, role in rows
        )
        allowed = all(
            any(role in choice.dims and choice.divides for choice in choices_of_node(graph.nodes[node]))
            for node, role in roles_of.items()
        )
        if is_clear and allowed and len(known) == len(inner):
            yield roles_of


def _between(graph: ComputeGraph, nodes: set[int]) -> set[int]:
    """Return small operators on small tensors between what the region makes and what it reads, in one phase.

    A loss that is captured subtracts the logarithm of a sum from what it summed.
    """
    found: set[int] = set()
    for phase in Phase:
        own = [at for at, node in enumerate(graph.nodes) if node.phase is phase]
        after, before = {at for at in own if at in nodes}, set[int]()
        for at in own:
            if any(operand.tensor.node in after for operand in graph.nodes[at].operands):
                after.add(at)
        for at in reversed(own):
            if at in nodes or at in before:
                before.update(operand.tensor.node for operand in graph.nodes[at].operands)
        found |= (after & before) - nodes
    return {at for at in found if graph.nodes[at].kind in POINTWISE}


def _links(graph: ComputeGraph, nodes: set[int], between: set[int]) -> list[TensorRef]:
    """Return the tensors that such operators read and make within the region."""
    read = {operand.tensor for at in nodes for operand in graph.nodes[at].operands}
    links = {operand.tensor for at in between for operand in graph.nodes[at].operands}
    links.update(tensor for at in between for tensor in graph.results(at))
    return sorted(one for one in links & read if one.node in nodes)


def _is_left(graph: ComputeGraph, steps: Iterable[int], nodes: set[int], inside: set[int]) -> bool:
    """Whether something goes out of a region, through operators that are not in it, and comes back."""
    after: set[int] = set()
    for number in steps:
        before = {operand.tensor.node for operand in graph.nodes[number].operands}
        if number in nodes and before & after:
            return True
        if number not in nodes and before & (after | inside):
            after.add(number)
    return False
