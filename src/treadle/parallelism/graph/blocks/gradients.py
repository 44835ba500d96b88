"""The backward pass, derived from the forward one operator by operator.

An einsum's gradients are einsums; a sum hands its gradient on; a lookup's is an addition to rows; tokens that
were sent to experts come back, and those that came back are sent. Any other operator has one operator for all
of its gradients, which reads the gradients of its results and those of its tensors that `READS` names, and
adds over what an operand was repeated over. Several gradients of one tensor are added in one operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from treadle.errors import TreadleError
from treadle.parallelism.graph.blocks.forward import Forward
from treadle.parallelism.graph.compute_graph import (
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
    factors,
    output_of,
    pairs,
)

READS: MappingProxyType[str, tuple[tuple[int, ...], tuple[int, ...]]] = MappingProxyType(
    {
        "rms_norm": ((0, 1), ()),
        "layer_norm": ((0, 1), ()),
        "rotary": ((), ()),
        "concatenate": ((), ()),
        "gated_silu": ((0, 1), ()),
        "gelu": ((0,), ()),
        "gated_sigmoid": ((0, 1), ()),
        "attention": ((0, 1, 2), (0, 1)),
        "route": ((0,), (1,)),
        "sum_exp_and_pick": ((0, 1), ()),
        "mean_loss": ((0,), ()),
    }
)
"""For each operator the operands and results that its gradient reads, besides gradients."""
Gradients = list[TensorRef | None]
"""Gradient of each operand, or of each result; None without one."""


def joint_graph(forward: Forward, *, leaves: TensorRef, entered: TensorRef | None = None) -> ComputeGraph:
    """Return the joint graph of a forward pass.

    Parameters
    ----------
    forward : Forward
        All of its operators; it is used up.
    leaves : TensorRef
        Its output.
    entered : TensorRef, optional
        The input whose gradient is wanted besides those of all parameters.
    """
    return _Backward(forward, leaves, entered).graph()


class _Backward:
    def __init__(self, forward: Forward, leaves: TensorRef, entered: TensorRef | None) -> None:
        self._forward = forward
        self._leaves = leaves
        self._count = len(forward.nodes)
        self._parts: dict[TensorRef, Gradients] = {}  # what there is of a tensor's gradient so far
        self._users = Counter(operand.tensor for node in forward.nodes for operand in node.operands)
        self._wanted = {entered} if entered is not None else set()
        for number, node in enumerate(forward.nodes):
            if node.source is Source.PARAMETER or any(o.tensor in self._wanted for o in node.operands):
                self._wanted |= {TensorRef(number, slot) for slot in range(len(node.results))}

    def graph(self) -> ComputeGraph:
        """Derive it, the last operator first."""
        name = f"d_{self._forward.nodes[self._leaves.node].name}"
        kind = OperatorKind.PLACEHOLDER
        tangent = self._like(self._leaves, name, kind, (), source=Source.TANGENT, path=name)
        self._parts[self._leaves] = [tangent]
        owners: dict[TensorRef, TensorRef] = {}
        for number in reversed(range(self._count)):
            node = self._forward.nodes[number]
            slots = [TensorRef(number, slot) for slot in range(len(node.results))]
            gradients = [self._gradient(tensor) for tensor in slots]
            if node.kind is OperatorKind.PLACEHOLDER:
                if gradients[0] is not None:
                    owners[slots[0]] = gradients[0]
            elif any(gradient is not None for gradient in gradients):
                rule = _RULES.get(node.operator, _Backward.of_any)
                for operand, part in zip(node.operands, rule(self, number, gradients), strict=True):
                    if part is not None:
                        self._parts.setdefault(operand.tensor, []).append(part)
        ordered = {tensor: owners[tensor] for tensor in sorted(owners)}
        self._forward.add(output_of(self._forward.nodes, [self._leaves, *ordered.values()]))
        return ComputeGraph(
            self._forward.base_dims, tuple(self._forward.nodes), ordered, {self._leaves: tangent}
        )

    def _gradient(self, tensor: TensorRef) -> TensorRef | None:
        """Return a tensor's gradient: its only term, or a sum."""
        parts = [part for part in self._parts.get(tensor, []) if part is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        name, linear = self._name(tensor), (tuple(range(len(parts))),)
        return self._like(tensor, name, OperatorKind.ELEMENTWISE, parts, operator="add", linear=linear)

    def _like(
        self, tensor: TensorRef, name: str, kind: OperatorKind, read: Sequence[TensorRef], **notes: Any
    ) -> TensorRef:
        """Add a node of the backward pass that reads and makes tensors of the dimensions of another."""
        made = self._forward.result(tensor)
        operands = tuple(Operand(one, made.dims, made.dims) for one in read)
        result = Result(made.dims, made.dims, made.element_bytes)
        return self._forward.add(Node(name, kind, operands, (result,), Phase.BACKWARD, **notes))[0]

    def of_einsum(self, number: int, gradients: Gradients) -> Gradients:
        """Derive products: each gradient is a product of the result's and the other tensors."""
        node = self._forward.nodes[number]
        found: Gradients = [None] * len(node.operands)
        for at, operand in enumerate(node.operands):
            others = [_read(other) for place, other in enumerate(node.operands) if place != at]
            read = [(gradients[0], node.results[0].roles), *others]
            if operand.tensor in self._wanted:
                linear = ((0,), (1,))
                made = self._add(node, OperatorKind.EINSUM, read, [operand], operator="einsum", linear=linear)
                found[at] = made[0]
        return found

    def of_sum(self, number: int, gradients: Gradients) -> Gradients:
        """Hand on a sum's gradient to its terms, added over repeated dimensions."""
        node = self._forward.nodes[number]
        found: Gradients = [None] * len(node.operands)
        read, kind = [(gradients[0], node.results[0].roles)], OperatorKind.REDUCTION
        for at, operand in enumerate(node.operands):
            if operand.tensor in self._wanted and set(factors(operand.roles)) == set(node.result_roles):
                found[at] = gradients[0]
            elif operand.tensor in self._wanted:
                found[at] = self._add(node, kind, read, [operand], operator="sum", linear=((0,),))[0]
        return found

    def of_any(self, number: int, gradients: Gradients) -> Gradients:
        """Add one operator for all gradients of any other operator."""
        node = self._forward.nodes[number]
        if node.operator not in READS:
            raise TreadleError(f"graph: no gradient is known of the operator {node.operator!r}")
        operands, results = READS[node.operator]
        by_result = zip(gradients, node.results, strict=True)
        given = [(gradient, result.roles) for gradient, result in by_result if gradient is not None]
        read = [*given, *(_read(node.operands[at]) for at in operands)]
        read += [(TensorRef(number, slot), node.results[slot].roles) for slot in results]
        wanted = [operand for operand in node.operands if operand.tensor in self._wanted]
        kind = node.kind if node.kind is OperatorKind.ATTENTION else OperatorKind.ELEMENTWISE
        name, linear = f"{node.operator}_backward", (tuple(range(len(given))),)
        left = iter(self._add(node, kind, read, wanted, operator=name, linear=linear))
        return [next(left) if operand.tensor in self._wanted else None for operand in node.operands]

    def of_lookup(self, number: int, gradients: Gradients) -> Gradients:
        """Add the gradients of rows to those of their table."""
        node = self._forward.nodes[number]
        table, *index = node.operands
        read = [*map(_read, index), (gradients[0], node.results[0].roles)]
        linear = ((len(read) - 1,),)
        made = self._add(node, OperatorKind.SCATTER, read, [table], operator="lookup_backward", linear=linear)
        return [made[0], *(None for _ in index)]

    def of_dispatch(self, number: int, gradients: Gradients) -> Gradients:
        """Return the gradients of tokens from their experts."""
        node = self._forward.nodes[number]
        tokens, choices = node.operands
        read, name = [(gradients[0], node.results[0].roles), _read(choices)], "dispatch_backward"
        made = self._add(node, OperatorKind.COMBINE, read, [tokens], operator=name, linear=((0,),))
        return [made[0], None]

    def of_combine(self, number: int, gradients: Gradients) -> Gradients:
        """Send gradients of tokens to their experts; weights meet the results of experts."""
        node = self._forward.nodes[number]
        places, weights, choices = node.operands
        given, chosen = (gradients[0], node.results[0].roles), _read(choices)
        read, name = [given, _read(weights), chosen], "combine_backward"
        sent = self._add(node, OperatorKind.DISPATCH, read, [places], operator=name, linear=((0,),))
        read, name = [_read(places), given, chosen], "combine_weights_backward"
        weighed = self._add(node, OperatorKind.COMBINE, read, [weights], operator=name, linear=((0,), (1,)))
        return [sent[0], weighed[0], None]

    def _add(
        self,
        node: Node,
        kind: OperatorKind,
        read: Sequence[tuple[TensorRef | None, Dims]],
        wanted: Sequence[Operand],
        *,
        operator: str,
        linear: tuple[tuple[int, ...], ...],
    ) -> tuple[TensorRef, ...]:
        """Add an operator that makes gradients of operands, each as its tensor is, seen by that operand."""
        operands = []
        for tensor, roles in read:
            assert tensor is not None, node.name
            # of a tensor, in which every letter is listed once
            dims = tuple(tuple(Index(index.atom) for index in dim) for dim in roles)
            operands.append(Operand(tensor, dims, roles))
        results = []
        for operand in wanted:
            made, role_of = self._forward.result(operand.tensor), dict(pairs(operand))
            own = tuple(tuple(role_of[index] for index in dim) for dim in made.dims)
            results.append(Result(made.dims, own, made.element_bytes))
        met_roles = [*(one.roles for one in results), *(one.roles for one in operands)]
        met = {index for one in met_roles for index in factors(one)}
        name = self._name(wanted[0].tensor)
        if len(wanted) > 1:
            name = f"{node.name}_backward"
        elif self._users[wanted[0].tensor] > 1:
            name += f"_{node.name}"
        notes: dict[str, Any] = {"operator": operator, "linear": linear, "arguments": node.arguments}
        sides = tuple(operands), tuple(results)
        return self._forward.add(Node(name, kind, *sides, Phase.BACKWARD, whole=node.whole & met, **notes))

    def _name(self, tensor: TensorRef) -> str:
        name = self._forward.nodes[tensor.node].name
        return f"d_{name}" + (f"_{tensor.slot}" if tensor.slot else "")


_RULES: dict[str, Callable[[_Backward, int, Gradients], Gradients]] = {
    "einsum": _Backward.of_einsum,
    "add": _Backward.of_sum,
    "lookup": _Backward.of_lookup,
    "dispatch": _Backward.of_dispatch,
    "combine": _Backward.of_combine,
}


def _read(operand: Operand) -> tuple[TensorRef | None, Dims]:
    return operand.tensor, operand.roles
