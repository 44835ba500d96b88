"""Plans of the small Llama as people lay it out, from the letters that each axis cuts."""

from __future__ import annotations

from collections.abc import Mapping

from parallelism.execution.drawn_plans import may_cut, operator_plan
from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, TensorRef, factors
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.fit import stored_inputs
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, Boundary, PartPlan, TensorPlan
from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.schedules.mesh import Mesh

HEAVY = (OperatorKind.EINSUM, OperatorKind.ATTENTION)


def laid_out(
    model: ModelGraph,
    mesh: Mesh,
    letters: Mapping[str, str],
    *,
    sharded: tuple[str, ...] = (),
    recompute: str = "none",
) -> ParallelPlan:
    """A plan in which each axis cuts the first of its letters that an operator can be cut by.

    Parameters
    ----------
    letters : mapping from axis to letters
    sharded : tuple of str
        Axes that parameters are stored in parts over, besides those that cut them.
    recompute : str
        ``none``, ``selective`` (all but products and attention) or ``full``.
    """
    sizes = axis_sizes(mesh)
    used = {axis: letters.get(axis, "") for axis in sizes}
    parts = {part.name: (_part(part, used, sharded, recompute, sizes),) for part in model.parts}
    block = next(part for part in model.parts if part.leaves is not None)
    assert block.leaves is not None
    names = [name for name, _ in block.factors(block.leaves)]
    at_rest: dict[str, tuple[str, ...]] = {}
    for axis, wanted in used.items():
        letter = next((one for one in wanted if one in names), None)
        if letter is not None:
            at_rest[letter] = (*at_rest.get(letter, ()), axis)
    state = Sharding(tuple(at_rest.get(name, ()) for name in names))
    return ParallelPlan(model.name, model.digest, mesh, Boundary(state, state), parts)


def _cuts(graph: ComputeGraph, roles, used: Mapping[str, str]):
    found: dict = {}
    for axis, wanted in used.items():
        for letter in wanted:
            role = next((r for r in roles if graph.atoms[r.atom].name == letter and not r.prime), None)
            if role is not None:
                found[role] = (*found.get(role, ()), axis)
                break
    return found


def _part(part: ModelPart, used, sharded, recompute: str, sizes) -> PartPlan:
    graph, operators, tensors, kept = part.graph, {}, {}, set()
    late = {o.tensor for node in graph.nodes[:-1] if node.phase is Phase.BACKWARD for o in node.operands}
    for number in reversed(range(len(graph.nodes))):
        node = graph.nodes[number]
        if node.kind in (OperatorKind.PLACEHOLDER, OperatorKind.OUTPUT):
            continue
        keep = None
        if node.phase is Phase.FORWARD:
            keep = (
                ActivationPolicy.UNUSED
                if all(tensor.node != number for tensor in late)
                else ActivationPolicy.SAVED
            )
            if keep is ActivationPolicy.SAVED and (
                recompute == "full" or (recompute == "selective" and node.kind not in HEAVY)
            ):
                keep = ActivationPolicy.RECOMPUTED
                late |= {operand.tensor for operand in node.operands}
        plan = operator_plan(node, _cuts(graph, may_cut(node), used), keep, None, sizes)
        operators[node.name] = plan
        if keep is ActivationPolicy.SAVED:
            kept |= {TensorRef(number, slot) for slot in range(len(node.results))}
    for tensor in kept & late:
        name, made = graph.spelled(tensor), operators[graph.nodes[tensor.node].name].outputs[tensor.slot]
        whole = Sharding(made.dims)  # not as summands
        tensors[name, Phase.FORWARD] = TensorPlan(name, Phase.FORWARD, None, whole)

    def stored(tensor: TensorRef, more: tuple[str, ...]) -> Sharding:
        flat = factors(graph.result(tensor).dims)
        dims = _cuts(graph, flat, used)
        first = next((index for index in flat if graph.atoms[index.atom].size > 1), None)
        if first is not None:
            dims[first] = (*dims.get(first, ()), *more)
        return Sharding(tuple(dims.get(index, ()) for index in flat))

    parameters = {path: stored(tensor, sharded) for path, tensor in part.parameters.items()}
    inputs = {name: stored(tensor, ()) for name, tensor in stored_inputs(part).items()}
    return PartPlan(operators, tensors, parameters, inputs)
