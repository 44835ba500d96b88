"""Whether a plan and a model graph belong together: names, numbers of factors, equal shards.

What operators do is not looked at here: `evaluation` rejects plans that compute something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Dims,
    Node,
    OperatorKind,
    Phase,
    Source,
    TensorRef,
    factors,
)
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import Boundary, OperatorPlan, PartPlan
from treadle.parallelism.state.sharding import Sharding

OPERATORS = frozenset(OperatorKind) - {OperatorKind.PLACEHOLDER, OperatorKind.OUTPUT}


def boundary_state(part: ModelPart, tensor: TensorRef, state: Sharding) -> Sharding:
    """Return A boundary's state for a tensor of a part: factors of one element come in between."""
    given, sizes = iter(state.dims), part.graph.factor_sizes(tensor)
    return Sharding(tuple(next(given) if size > 1 else () for size in sizes), state.partial)


def over_factors(graph: ComputeGraph, tensor: TensorRef, dims: Dims, state: Sharding) -> Sharding:
    """Return a state over some dimensions as one over the factors of a tensor of these base dimensions."""
    axes = dict(zip(factors(dims), state.dims, strict=True))
    return Sharding(tuple(axes.get(index, ()) for index in graph.factors(tensor)), state.partial)


def stored_state(part: ModelPart, plan: PartPlan, boundary: Boundary, tensor: TensorRef) -> Sharding:
    """Return the state of a placeholder."""
    graph, leaves = part.graph, part.leaves
    node = graph.nodes[tensor.node]
    if tensor == part.enters:
        return boundary_state(part, tensor, boundary.activation)
    if leaves is not None and tensor == graph.tangents[leaves]:
        state = boundary_state(part, leaves, boundary.gradient)
        return over_factors(graph, tensor, graph.result(leaves).dims, state)
    return plan.parameters[node.path] if node.source is Source.PARAMETER else plan.inputs[node.name]


def stored_inputs(part: ModelPart) -> dict[str, TensorRef]:
    """Return placeholders that are neither parameters nor at the boundary, by node name."""
    at_boundary = {part.enters, None if part.leaves is None else part.graph.tangents[part.leaves]}
    return {
        node.name: TensorRef(number)
        for number, node in enumerate(part.graph.nodes)
        if node.kind is OperatorKind.PLACEHOLDER
        and node.source is not Source.PARAMETER
        and TensorRef(number) not in at_boundary
    }


def check_fit(plan: ParallelPlan, model: ModelGraph) -> None:
    """Raise unless the plan is one of this model.

    Raises
    ------
    ScheduleError
        Naming the part, and the operator or tensor that lacks a state, has none, or one that its shape does
        not allow.
    """
    if plan.digest != model.digest:
        raise ScheduleError(
            f"plan of model {plan.model}, graph {plan.digest[:12]}; expected that of {model.name}, "
            f"{model.digest[:12]}: it was made for another size, batch or version of the model"
        )
    _same_names(plan.parts, [part.name for part in model.parts], "plan: part")
    for name, choice in plan.layers.items():
        if len(choice) != model.part(name).repeats:
            raise ScheduleError(
                f"plan: {len(choice)} layers of {name}; expected {model.part(name).repeats}, as in the model"
            )
    if plan.pipeline is not None and sum(plan.pipeline.layers) != model.layers:
        raise ScheduleError(
            f"plan: stages of {sum(plan.pipeline.layers)} layers; expected {model.layers}, as in the model"
        )
    for part in model.parts:
        for one in plan.parts[part.name]:
            _check_part(plan, part, one)
    for tie in model.ties:
        states, cuts = [], []
        for name, path in (tie.first, tie.second):
            part = model.part(name)
            states.append(plan.plan_of(name).parameters[path])
            sizes = part.graph.factor_sizes(part.parameters[path])
            # factors of one element are cut by nothing
            cuts.append([axes for axes, size in zip(states[-1].dims, sizes, strict=True) if size > 1])
        if cuts[0] != cuts[1]:
            names, stored = f"{tie.first[1]} and {tie.second[1]}", f"{states[0]} and {states[1]}"
            raise ScheduleError(f"plan: {names} are one parameter, but stored as {stored}")


def _check_part(plan: ParallelPlan, part: ModelPart, one: PartPlan) -> None:
    graph, place = part.graph, f"plan of {part.name}"
    nodes = {node.name: node for node in graph.nodes if node.computes}
    _same_names(one.operators, nodes, f"{place}: operator")
    _same_names(one.parameters, part.parameters, f"{place}: parameter")
    inputs = stored_inputs(part)
    _same_names(one.inputs, inputs, f"{place}: input")
    for name, node in nodes.items():
        _check_operator(plan, graph, node, one.operators[name], place)
    tensors = {graph.spelled(tensor): tensor for tensor in graph.tensors()}
    for (name, _), entry in one.tensors.items():
        if name not in tensors:
            raise ScheduleError(f"{place}: no tensor {name[:60]!r}")
        for state in (entry.shared, entry.saved):
            if state is not None:
                _check_state(plan, graph, graph.result(tensors[name]).dims, state, f"{place}: {name}")
    stored = [(one.parameters[path], tensor) for path, tensor in part.parameters.items()]
    stored += [(one.inputs[name], tensor) for name, tensor in inputs.items()]
    for state, tensor in stored:
        _check_state(plan, graph, graph.result(tensor).dims, state, f"{place}: {graph.spelled(tensor)}")
    boundary = one.boundary or plan.boundary
    for tensor in [end for end in (part.enters, part.leaves) if end is not None]:
        n_factors = len(part.factors(tensor))
        for state in (boundary.activation, boundary.gradient):
            if len(state.dims) != n_factors:
                raise ScheduleError(
                    f"plan: boundary {state} has {len(state.dims)} factors; expected the {n_factors} of "
                    f"{part.name}'s {graph.spelled(tensor)}"
                )
            own = boundary_state(part, tensor, state)
            _check_state(plan, graph, graph.result(tensor).dims, own, f"plan: boundary at {part.name}")


def _check_operator(
    plan: ParallelPlan, graph: ComputeGraph, node: Node, one: OperatorPlan, place: str
) -> None:
    where = f"{place}: {node.name}"
    if (one.keep is None) != (node.phase is Phase.BACKWARD):
        raise ScheduleError(f"{where}: keep is {one.keep}; expected one in the forward pass, and there only")
    if len(one.inputs) != len(node.operands) or len(one.outputs) != len(node.results):
        raise ScheduleError(
            f"{where}: {len(one.inputs)} inputs, {len(one.outputs)} outputs; expected "
            f"{len(node.operands)} and {len(node.results)}"
        )
    for operand, state in zip(node.operands, one.inputs, strict=True):
        _check_state(plan, graph, operand.dims, state, f"{where} takes {graph.spelled(operand.tensor)}")
    for result, state in zip(node.results, one.outputs, strict=True):
        _check_state(plan, graph, result.dims, state, f"{where} makes")


def _check_state(plan: ParallelPlan, graph: ComputeGraph, dims: Dims, state: Sharding, place: str) -> None:
    indices = factors(dims)
    if len(state.dims) != len(indices):
        raise ScheduleError(f"{place}: state {state} for {len(indices)} factors")
    for index, axes in zip(indices, state.dims, strict=True):
        size, shards = graph.size(index), prod(plan.sizes[axis] for axis in axes)
        if size % shards:
            raise ScheduleError(
                f"{place}: {graph.dim_name(index)}={size} over {shards} ranks ({', '.join(axes)}); expected "
                "equal shards"
            )


def _same_names(found: Iterable[str], expected: Iterable[str], place: str) -> None:
    left, right = set(found), set(expected)
    for name in sorted(left - right):
        raise ScheduleError(f"{place} {name[:60]!r} is not in the model")
    for name in sorted(right - left):
        raise ScheduleError(f"{place} {name[:60]!r} is missing")
