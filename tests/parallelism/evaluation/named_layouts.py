"""Plans as people lay models out by hand: a letter for each axis and operator, weights stored as told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod

from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Dims,
    Index,
    Node,
    OperatorKind,
    Phase,
    TensorRef,
    factors,
)
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.fit import OPERATORS, stored_inputs
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, Boundary, OperatorPlan, PartPlan, TensorPlan
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.mesh import Mesh

Cut = Callable[[Node, frozenset[str]], Mapping[str, str]]
"""By operator and its letters: axis -> letter that it cuts; other axes do the same everywhere."""


def by_letter(axis: str, *letters: str) -> Cut:
    """The first of these letters that an operator has."""

    def cut(node: Node, own: frozenset[str]) -> Mapping[str, str]:
        del node
        return next(({axis: letter} for letter in letters if letter in own), {})

    return cut


def both(*cuts: Cut) -> Cut:
    """Several axes."""
    return lambda node, own: {axis: letter for cut in cuts for axis, letter in cut(node, own).items()}


def laid_out(
    model: ModelGraph,
    mesh: Mesh,
    cut: Cut,
    *,
    boundary: Mapping[str, str],
    stored: Callable[[str, tuple[str, ...]], Sharding],
    recomputed: Callable[[Node], bool] = lambda node: False,
) -> ParallelPlan:
    """A plan.

    Parameters
    ----------
    model, mesh
    cut
    boundary : axis -> letter
    stored : (path, letters of the parameter) -> Sharding
    recomputed
        Operators of the forward pass that run once more; others are saved where the backward pass reads them.
    """
    sizes = {name: size for name, size in zip(mesh.axis_names, mesh.shape, strict=True) if size > 1}
    parts = {}
    for part in model.parts:
        parts[part.name] = (_part(part, sizes, cut, stored, recomputed),)
    ends = [(part, end) for part in model.parts for end in (part.enters, part.leaves) if end is not None]
    letters = [name for name, _ in ends[0][0].factors(ends[0][1])]
    state = Sharding(tuple(tuple(a for a in sizes if boundary.get(a) == letter) for letter in letters))
    return ParallelPlan(model.name, model.digest, mesh, Boundary(state, state), parts)


def _part(
    part: ModelPart,
    sizes: Mapping[str, int],
    cut: Cut,
    stored: Callable[[str, tuple[str, ...]], Sharding],
    recomputed: Callable[[Node], bool],
) -> PartPlan:
    graph = part.graph
    operators: dict[str, OperatorPlan] = {}
    cuts: dict[int, dict[str, str]] = {}
    for number, node in enumerate(graph.nodes):
        if node.kind not in OPERATORS:
            continue
        own = frozenset(
            graph.atoms[role.atom].name for role in (*node.read, *node.result_roles) if not role.prime
        ) - {graph.atoms[role.atom].name for role in node.whole}
        cuts[number] = {axis: letter for axis, letter in cut(node, own).items() if axis in sizes}
        state = partial(_state, graph, _linked(node), sizes, cuts[number])
        operators[node.name] = OperatorPlan(
            node.name,
            tuple(state(o.roles, made=False) for o in node.operands),
            tuple(state(r.roles, made=True) for r in node.results),
            parts=prod(sizes[axis] for axis in cuts[number]),
            keep=None if node.phase is Phase.BACKWARD else ActivationPolicy.UNUSED,
        )
    operators = _with_sums(part, operators, sizes)
    tensors = _waiting(part, operators, recomputed)
    for number, node in enumerate(graph.nodes):
        if node.kind in OPERATORS and node.phase is Phase.FORWARD:
            saved = any(
                (graph.spelled(TensorRef(number, s)), Phase.FORWARD) in tensors
                and tensors[graph.spelled(TensorRef(number, s)), Phase.FORWARD].saved is not None
                for s in range(len(node.results))
            )
            keep = (
                ActivationPolicy.RECOMPUTED
                if recomputed(node)
                else ActivationPolicy.SAVED
                if saved
                else ActivationPolicy.UNUSED
            )
            operators[node.name] = replace(operators[node.name], keep=keep)
    whole = {
        name: Sharding(((),) * len(factors(graph.result(tensor).dims)))
        for name, tensor in stored_inputs(part).items()
    }
    parameters = {
        path: stored(path, tuple(graph.atoms[i.atom].name for i in factors(graph.result(tensor).dims)))
        for path, tensor in part.parameters.items()
    }
    return PartPlan(operators, tensors, parameters, whole)


def _state(
    graph: ComputeGraph,
    linked: Mapping[str, str],
    sizes: Mapping[str, int],
    places: Mapping[str, str],
    roles: Dims,
    *,
    made: bool,
) -> Sharding:
    """Cut where a letter stands; of what is made, summands along axes whose letter it has not."""

    def stands(axis: str, role: Index) -> bool:
        name = graph.atoms[role.atom].name
        return axis in places and not role.prime and places[axis] in (name, linked.get(name))

    lists = tuple(tuple(axis for axis in sizes if stands(axis, role)) for role in factors(roles))
    used = {axis for axes in lists for axis in axes}
    return Sharding(lists, frozenset(places) - used if made else frozenset())


def _linked(node: Node) -> dict[str, str]:
    """Cutting tokens cuts places of experts."""
    return {"c": "s"} if node.kind in (OperatorKind.DISPATCH, OperatorKind.COMBINE) else {}


def _with_sums(
    part: ModelPart, operators: dict[str, OperatorPlan], sizes: Mapping[str, int]
) -> dict[str, OperatorPlan]:
    """Sums of which all summands are partial take them so, and are partial."""
    graph = part.graph
    for node in graph.nodes:
        if node.operator != "add" or node.phase is not Phase.BACKWARD:
            continue
        makers = [operators.get(graph.nodes[o.tensor.node].name) for o in node.operands]
        states = {
            maker.outputs[o.tensor.slot] for maker, o in zip(makers, node.operands, strict=True) if maker
        }
        if len(states) == 1 and all(makers) and next(iter(states)).partial:
            (one,) = states
            operators[node.name] = replace(
                operators[node.name],
                inputs=(one,) * len(node.operands),
                outputs=(one,),
                parts=prod(sizes[axis] for axis in one.axes),
            )
    return operators


def _waiting(
    part: ModelPart, operators: Mapping[str, OperatorPlan], recomputed: Callable[[Node], bool]
) -> dict[tuple[str, Phase], TensorPlan]:
    """What several readers of a phase want is shared; what the backward pass reads is saved as made."""
    graph = part.graph
    takers: dict[tuple[TensorRef, Phase], list[Sharding]] = {}
    for node in graph.nodes:
        if node.kind not in OPERATORS:
            continue
        phases = [node.phase] + ([Phase.BACKWARD] if node.phase is Phase.FORWARD and recomputed(node) else [])
        for operand, state in zip(node.operands, operators[node.name].inputs, strict=True):
            axes = dict(zip(factors(operand.dims), state.dims, strict=True))
            own = Sharding(
                tuple(axes.get(i, ()) for i in factors(graph.result(operand.tensor).dims)), state.partial
            )
            for phase in phases:
                takers.setdefault((operand.tensor, phase), []).append(own)
    found: dict[tuple[str, Phase], TensorPlan] = {}
    for (tensor, phase), states in takers.items():
        name, node = graph.spelled(tensor), graph.nodes[tensor.node]
        fullest = min(states, key=lambda state: (len(state.partial), len(state.axes)))
        if states.count(fullest) > 1:
            found[name, phase] = TensorPlan(name, phase, shared=fullest)  # others cut it by themselves
        is_read_later = phase is Phase.BACKWARD and node.phase is Phase.FORWARD
        if is_read_later and node.kind in OPERATORS and not recomputed(node):
            before = found.get((name, Phase.FORWARD))
            made = operators[node.name].outputs[tensor.slot]
            found[name, Phase.FORWARD] = TensorPlan(
                name, Phase.FORWARD, shared=None if before is None else before.shared, saved=made
            )
    return found
