"""Nodes of a compute graph as operators with rules: which roles may be cut, and in what they are linear."""

from __future__ import annotations

from treadle.parallelism.graph.compute_graph import Node, OperatorKind, factors
from treadle.parallelism.state.strategies import WHOLE, Choice, Operator, choices_of

_EXTREMES = ("amax", "amin", "max", "min", "all", "any", "argmax", "linalg_vector_norm", "var", "var_mean")
"""Reductions that do not add."""


def operator_of(node: Node) -> Operator:
    """Return the operator of a node, its roles as dimensions.

    Raises
    ------
    ScheduleError
        For a kind without a rule (placeholders and the output have none).
    """
    name = node.operator.partition(".")[2].partition(".")[0]  # aten.amax.default
    summed = node.kind is not OperatorKind.REDUCTION or name not in _EXTREMES
    read = tuple(factors(operand.roles) for operand in node.operands)
    made = tuple(factors(result.roles) for result in node.results)
    return Operator(node.kind.value, read, made, node.linear, summed)


def choices_of_node(node: Node) -> tuple[Choice, ...]:
    """Return the ways to share out a node along one axis, without those that cut what it needs whole."""
    return tuple(choice for choice in choices_of(operator_of(node)) if not choice.dims & node.whole)


def is_everywhere(choice: Choice) -> bool:
    """Whether all ranks along the axis do the same with whole tensors."""
    return all(place == WHOLE for place in (*choice.inputs, *choice.outputs))
