"""Plans in which every rank does everything, to be changed by tests."""

from __future__ import annotations

from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, TensorRef, factors
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.fit import OPERATORS, stored_inputs
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, Boundary, OperatorPlan, PartPlan, TensorPlan
from treadle.parallelism.state.sharding import replicated
from treadle.schedules.mesh import Mesh


def plain_plan(model: ModelGraph, mesh: Mesh) -> ParallelPlan:
    """Everything whole at every rank, and all that the backward pass reads saved."""
    ends = [(part, end) for part in model.parts for end in (part.enters, part.leaves) if end is not None]
    whole = replicated(len(ends[0][0].factors(ends[0][1])) if ends else 0)
    return ParallelPlan(
        model.name,
        model.digest,
        mesh,
        Boundary(whole, whole),
        {part.name: (plain_part(part),) for part in model.parts},
    )


def plain_part(part: ModelPart) -> PartPlan:
    graph, operators, tensors = part.graph, {}, {}
    for number, node in enumerate(graph.nodes):
        if node.kind not in OPERATORS:
            continue
        made = [TensorRef(number, slot) for slot in range(len(node.results))]
        read = [tensor for tensor in made if is_read_backward(graph, tensor)]
        is_forward = node.phase is Phase.FORWARD
        operators[node.name] = OperatorPlan(
            node.name,
            tuple(replicated(len(factors(operand.dims))) for operand in node.operands),
            tuple(replicated(len(factors(result.dims))) for result in node.results),
            keep=(ActivationPolicy.SAVED if read else ActivationPolicy.UNUSED) if is_forward else None,
        )
        for tensor in read if is_forward else ():
            name = graph.spelled(tensor)
            state = replicated(len(factors(graph.result(tensor).dims)))
            tensors[name, Phase.FORWARD] = TensorPlan(name, Phase.FORWARD, saved=state)
    return PartPlan(
        operators,
        tensors,
        {path: replicated(len(factors(graph.result(t).dims))) for path, t in part.parameters.items()},
        {name: replicated(len(factors(graph.result(t).dims))) for name, t in stored_inputs(part).items()},
    )


def is_read_backward(graph: ComputeGraph, tensor: TensorRef) -> bool:
    return any(
        node.phase is Phase.BACKWARD
        and node.kind is not OperatorKind.OUTPUT
        and any(operand.tensor == tensor for operand in node.operands)
        for node in graph.nodes
    )
