"""Seconds that operators compute, by the roofline, and bytes that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    Node,
    OperatorKind,
    TensorRef,
    factors,
)
from treadle.parallelism.problem.operator_clusters import POINTWISE
from treadle.parallelism.problem.operators import choices_of_node
from treadle.parallelism.state.sharding import Sharding
from treadle.training.compute_times import FUSED_ATTENTION_BACKWARD, RooflineTimes


def flops_of(graph: ComputeGraph, node: Node) -> float:
    """Return the floating-point operations of an operator; 0 for all but products and attention."""
    roles = {*node.read, *node.result_roles}
    if node.kind is OperatorKind.EINSUM:
        return 2.0 * max(1, len(node.operands) - 1) * _elements(graph, roles)
    if node.kind is not OperatorKind.ATTENTION:
        return 0.0
    # two products, of queries with keys and of scores with values; in the backward pass 2.5 times
    letters = {letter for choice in choices_of_node(node) for letter in choice.dims}
    cut = {letter for letter in letters if isinstance(letter, Index)}
    tensors = [set(factors(roles)) for roles in node.all_roles]
    within = {frozenset(roles - cut) for roles in tensors if cut <= roles} - {frozenset()}
    keys = roles - cut - set().union(*within)
    heads = [_elements(graph, group) for group in within]
    if len(heads) == 1:
        heads *= 2
    flops = 2.0 * _elements(graph, cut) * _elements(graph, keys) * sum(heads)
    flops *= node.score_ratio(_elements(graph, keys))
    is_backward = len(node.results) > 2 or len(node.operands) > 4
    return flops * (FUSED_ATTENTION_BACKWARD if is_backward else 1)


def _elements(graph: ComputeGraph, indices: Iterable[Index]) -> int:
    return prod(map(graph.size, indices))


def fused_tensors(graph: ComputeGraph) -> frozenset[TensorRef]:
    """Return the tensors that only pointwise operators of one phase make and read."""
    found = {tensor for tensor in graph.tensors() if graph.nodes[tensor.node].kind in POINTWISE}
    for node in graph.nodes:
        for operand in node.operands:
            producer = graph.nodes[operand.tensor.node]
            if node.kind not in POINTWISE or node.phase is not producer.phase:
                found.discard(operand.tensor)
    return frozenset(found)


def adds_products(graph: ComputeGraph, node: Node) -> bool:
    """Return whether a node is a sum of products, which their kernels add up by themselves."""
    terms = [graph.nodes[operand.tensor.node] for operand in node.operands]
    if node.kind is not OperatorKind.ELEMENTWISE or len(terms) < 2:
        return False
    return (
        len(node.linear) == 1
        and len(node.linear[0]) == len(terms)
        and all(term.kind is OperatorKind.EINSUM for term in terms)
    )


def local_bytes(graph: ComputeGraph, tensor: TensorRef, state: Sharding, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a tensor at one rank."""
    return graph.nbytes(tensor) // state.n_shards(sizes)


def seconds_of(times: RooflineTimes, flops: float, moved_bytes: float, is_attention: bool = False) -> float:
    """Return the seconds of one operator at one rank."""
    return times.seconds(flops, moved_bytes, is_attention) + times.kernel_s
