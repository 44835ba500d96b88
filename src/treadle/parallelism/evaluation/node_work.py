"""Costs of single operators: floating-point operations, bytes of memory, seconds.

From the graph alone: a product of two tensors takes 2 operations for each combination of its dimensions,
attention two products (scores; scores with values), half of it where tokens only see those before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, prod

from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    Node,
    OperatorKind,
    Phase,
    TensorRef,
    factors,
)
from treadle.parallelism.plan.part_plan import OperatorPlan
from treadle.training.compute_times import RooflineTimes

_POINTWISE = (OperatorKind.ELEMENTWISE, OperatorKind.REDUCTION)
_ATTENTION_BACKWARD = 2.5
"""In forwards: five products for two, one of them computed again."""


@dataclass(frozen=True)
class DeviceNumbers:
    """Rates of a device, and costs of an optimizer.

    Parameters
    ----------
    flops_per_s : float
        Of matrix products, as reached.
    memory_bytes_per_s : float
        As reached.
    kernel_s : float
        Seconds that each operator takes more.
    optimizer_bytes : int
        Moved by its step, per parameter.
    stored_bytes : int
        Held per parameter: weight and gradient of 2 bytes, master and two moments of 4.
    kappa : float
        While the device computes and communicates, both take this factor longer: 1 to 2.
    spread_bytes : tuple of three ints
        Of these, what ZeRO-0, 1 and 2 shard over ranks that hold the same parameters.
    attention_flops_per_s : float, optional
        Of attention, as reached; None: as of products.

    Raises
    ------
    ScheduleError
        For a rate that is not above 0, or other numbers below.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    kernel_s: float = 0.0
    optimizer_bytes: int = 30
    stored_bytes: int = 16
    kappa: float = 1.0
    spread_bytes: tuple[int, int, int] = (0, 12, 14)
    attention_flops_per_s: float | None = None

    def __post_init__(self) -> None:
        attention = self.flops_per_s if self.attention_flops_per_s is None else self.attention_flops_per_s
        if not (self.flops_per_s > 0 and self.memory_bytes_per_s > 0 and attention > 0):
            raise ScheduleError("device: expected FLOP/s and bytes/s above 0")
        if not (self.kernel_s >= 0 and self.optimizer_bytes >= 0 and self.stored_bytes >= 0):
            raise ScheduleError("device: expected seconds and bytes of 0 or more")

    @classmethod
    def of(cls, times: RooflineTimes, kappa: float = 1.0) -> DeviceNumbers:
        """Return the numbers of an accelerator at fractions of its peak and its memory bandwidth."""
        device, share = times.device, times.memory_efficiency
        return cls(
            device.peak(times.precision) * times.efficiency,
            inf if share is None else device.memory_bytes_per_s * share,
            times.kernel_s,
            attention_flops_per_s=times.attention_flops_per_s,
            kappa=kappa,
        )


def operations(graph: ComputeGraph, node: Node) -> float:
    """Return the floating-point operations of an operator; 0 for all but products and attention."""
    if node.kind is OperatorKind.EINSUM:
        return 2.0 * max(len(node.operands) - 1, 1) * _elements(graph, (*node.read, *node.result_roles))
    if node.kind is not OperatorKind.ATTENTION:
        return 0.0
    first = 1 if node.phase is Phase.BACKWARD else 0  # after the gradient of what it gave
    queries, keys, values = (set(factors(node.operands[first + at].roles)) for at in range(3))
    within = queries & keys - values  # what scores are summed over
    scores = (queries | keys) - within
    found = 2.0 * (_elements(graph, scores | within) + _elements(graph, scores | values))
    found *= node.score_ratio(_elements(graph, (keys & values) - queries))
    return found * (_ATTENTION_BACKWARD if node.phase is Phase.BACKWARD else 1.0)


def _elements(graph: ComputeGraph, roles: Iterable[Index]) -> int:
    return prod(map(graph.size, set(roles)))


def unmoved(graph: ComputeGraph) -> frozenset[TensorRef]:
    """Return the tensors that never reach memory: only pointwise operators of one phase touch them."""
    moved = {
        operand.tensor
        for reader in graph.nodes
        for operand in reader.operands
        if reader.kind not in _POINTWISE or reader.phase is not graph.nodes[operand.tensor.node].phase
    }
    made = (tensor for tensor in graph.tensors() if graph.nodes[tensor.node].kind in _POINTWISE)
    return frozenset(made) - moved


def is_accumulated(graph: ComputeGraph, node: Node) -> bool:
    """Return whether a node only adds up products: kernels of products add to what the one before wrote."""
    makers = {graph.nodes[operand.tensor.node].kind for operand in node.operands}
    is_sum = node.kind is OperatorKind.ELEMENTWISE and node.linear == (tuple(range(len(node.operands))),)
    return is_sum and len(node.operands) > 1 and makers == {OperatorKind.EINSUM}


def operator_seconds(
    graph: ComputeGraph,
    number: int,
    plan: OperatorPlan,
    *,
    sizes: Mapping[str, int],
    numbers: DeviceNumbers,
    fused: frozenset[TensorRef],
) -> float:
    """Return the seconds of one rank's part of an operator.

    Parameters
    ----------
    graph, number, plan
        A node by its number, and its plan.
    sizes : mapping from axis to its ranks
    numbers : DeviceNumbers
    fused : frozenset of TensorRef
        As by `unmoved`.
    """
    node = graph.nodes[number]
    if is_accumulated(graph, node):
        return 0.0
    tensors = [*(operand.tensor for operand in node.operands), *graph.results(number)]
    held = [
        0 if tensor in fused else graph.nbytes(tensor) // state.n_shards(sizes)
        for tensor, state in zip(tensors, (*plan.inputs, *plan.outputs), strict=True)
    ]
    # of a table only the rows that are looked up, or added to, are read and written
    n_read = len(node.operands)
    rows = {OperatorKind.GATHER: held[n_read:], OperatorKind.SCATTER: held[:n_read]}.get(node.kind)
    moved = sum(held) if rows is None else 2 * max(rows)
    work = operations(graph, node) / plan.parts
    chunks = 1 if plan.chunk is None else plan.chunk.n_chunks
    flops_per_s = numbers.flops_per_s
    if node.kind is OperatorKind.ATTENTION and numbers.attention_flops_per_s is not None:
        flops_per_s = numbers.attention_flops_per_s
    return max(work / flops_per_s, moved / numbers.memory_bytes_per_s) + chunks * numbers.kernel_s
