"""Cuts of a joint graph: places that one tensor crosses forward, and one backward.

A place in the forward pass is identified by the tensor that crosses it, the residual stream of a transformer.
The backward pass runs through layers in reverse, so that the place belongs to one there: what runs before it
reads only results at or after the tensor, what runs after it only results before or at it.

What depends on no parameter (positions, masks) is not included: every part makes its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, Source, TensorRef

_ADD = "aten.add.Tensor"


@dataclass(frozen=True)
class PartCut:
    """A place between two parts.

    Parameters
    ----------
    forward, gradient : TensorRef
        The tensors that cross it.
    last : int
        Node of the backward pass after which it lies; that of the forward pass is the one of ``forward``.
    """

    forward: TensorRef
    gradient: TensorRef
    last: int


class Anatomy:
    """A joint graph by what depends on parameters: steps of both passes, users of tensors, shared parameters.

    Parameters
    ----------
    graph : ComputeGraph
    """

    def __init__(self, graph: ComputeGraph) -> None:
        self.graph = graph
        self.is_constant: list[bool] = []
        self.users: dict[TensorRef, list[int]] = {}
        for number, node in enumerate(graph.nodes):
            is_trained = node.source in (Source.PARAMETER, Source.TANGENT)
            is_constant = not is_trained and TensorRef(number) not in graph.gradients
            if node.kind is not OperatorKind.PLACEHOLDER:
                is_constant = all(self.is_constant[operand.tensor.node] for operand in node.operands)
            self.is_constant.append(is_constant)
            for operand in node.operands:
                self.users.setdefault(operand.tensor, []).append(number)
        self.pieces: dict[TensorRef, GradientSlices] = {}
        """Terms of the gradients of parameters that are used in several places."""
        for parameter, gradient in graph.gradients.items():
            is_parameter = graph.nodes[parameter.node].source is Source.PARAMETER
            if is_parameter and len(self.parameter_users(parameter)) > 1:
                self.pieces[parameter] = GradientSlices([], [])
                self._unfold(gradient, self.pieces[parameter], is_root=True)
        sums = {tensor.node for pieces in self.pieces.values() for tensor in pieces.sums}
        steps = [n for n, node in enumerate(graph.nodes) if node.computes and not self.is_constant[n]]
        self.forward = [n for n in steps if graph.nodes[n].phase is Phase.FORWARD]
        self.backward = [n for n in steps if graph.nodes[n].phase is Phase.BACKWARD and n not in sums]

    def _unfold(self, tensor: TensorRef, pieces: GradientSlices, *, is_root: bool) -> None:
        node = self.graph.nodes[tensor.node]
        users = [n for n in self.users.get(tensor, []) if self.graph.nodes[n].kind is not OperatorKind.OUTPUT]
        if node.operator == _ADD and len(node.operands) == 2 and len(users) == (0 if is_root else 1):
            pieces.sums.append(tensor)
            for operand in node.operands:
                self._unfold(operand.tensor, pieces, is_root=False)
        else:
            pieces.terms.append(tensor)

    def parameter_users(self, parameter: TensorRef) -> list[int]:
        """Return the nodes of the forward pass that read a parameter."""
        return [n for n in self.users.get(parameter, []) if self.graph.nodes[n].phase is Phase.FORWARD]


@dataclass
class GradientSlices:
    """A parameter's gradient as sums, and what they add."""

    sums: list[TensorRef]
    terms: list[TensorRef]


def cuts_of(anatomy: Anatomy) -> list[PartCut]:
    """Return all places where a graph can be cut, in the order of the forward pass."""
    graph = anatomy.graph
    forward = {t.node: t for at, t in _crossings(anatomy, anatomy.forward) if at == t.node}
    least, most = _reach(anatomy)
    found: list[PartCut] = []
    place_of = {number: place for place, number in enumerate(anatomy.backward)}
    places = [(place_of[at], at, tensor) for at, tensor in _crossings(anatomy, anatomy.backward)]
    for number in sorted(forward, reverse=True):  # as the backward pass meets them
        tensor = forward[number]
        for index, (place, at, gradient) in enumerate(places):
            if least[place] < number:
                break
            if most[place + 1] <= number and graph.factors(gradient) == graph.factors(tensor):
                found.append(PartCut(tensor, gradient, at))
                del places[: index + 1]
                break
    return found[::-1]


def _crossings(anatomy: Anatomy, steps: list[int]) -> Iterator[tuple[int, TensorRef]]:
    """Yield (node, tensor) wherever one tensor alone is made up to a step and read by later ones."""
    inside = set(steps)
    last: dict[TensorRef, int] = {}
    for number in steps:
        for operand in anatomy.graph.nodes[number].operands:
            if operand.tensor.node in inside:
                last[operand.tensor] = number
    ends: dict[int, list[TensorRef]] = {}
    for tensor, number in last.items():
        ends.setdefault(number, []).append(tensor)
    live: set[TensorRef] = set()
    for number in steps:
        live.difference_update(ends.get(number, ()))
        live.update(tensor for tensor in anatomy.graph.results(number) if tensor in last)
        if len(live) == 1:
            yield number, next(iter(live))


def _reach(anatomy: Anatomy) -> tuple[list[float], list[float]]:
    """Return for each backward place the first node of the forward pass whose tensors steps up to it read,
    and the last one that it and later ones read; a parameter lies just before the node that reads it.
    """
    graph = anatomy.graph
    lows: list[float] = []
    highs: list[float] = []
    for number in anatomy.backward:
        reads: list[tuple[float, float]] = []
        for tensor in (operand.tensor for operand in graph.nodes[number].operands):
            node = graph.nodes[tensor.node]
            if node.source is Source.PARAMETER:
                users = anatomy.parameter_users(tensor) or [0]
                reads.append((max(users) - 0.5, min(users) - 0.5))
            elif node.phase is Phase.FORWARD and not anatomy.is_constant[tensor.node]:
                reads.append((tensor.node, tensor.node))
        lows.append(min((earliest for earliest, _ in reads), default=inf))
        highs.append(max((latest for _, latest in reads), default=-inf))
    return list(accumulate(lows, min)), [*list(accumulate(highs[::-1], max))[::-1], -inf]
