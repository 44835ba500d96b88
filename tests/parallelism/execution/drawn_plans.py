"""Plans drawn at random, from what operators may be cut by; no search."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import prod
from random import Random

from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    Node,
    OperatorKind,
    Phase,
    TensorRef,
    factors,
)
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.fit import stored_inputs
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, Boundary, OperatorPlan, PartPlan, TensorPlan
from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

Cuts = dict[Index, tuple[str, ...]]
_SUMS = ("aten.sum", "aten.mm", "aten.bmm", "aten.embedding", "aten.slice", "aten.split", "aten.gather")


def uneven_costs(mesh: Mesh, *, rate: int = 10**8, alpha_s: float = 1e-7) -> AlphaBetaCosts:
    """No two ways between states cost the same."""
    names = list(axis_sizes(mesh))
    kinds = (
        CollectiveKind.ALLGATHER,
        CollectiveKind.REDUCE_SCATTER,
        CollectiveKind.ALLREDUCE,
        CollectiveKind.ALLTOALL,
    )
    places = [axes for n in range(1, len(names) + 1) for axes in combinations(names, n)]
    rates = {
        (kind, axes): rate * (61 + 7 * at + 5 * names.index(axes[0])) // len(axes)
        for at, kind in enumerate(kinds)
        for axes in places
    }
    return AlphaBetaCosts(alpha_s, rates)


def may_cut(node: Node) -> list[Index]:
    """Roles that ranks may share an operator by."""
    roles = [role for role in dict.fromkeys((*node.read, *node.result_roles)) if role not in node.whole]
    if node.kind is OperatorKind.ATTENTION:
        queries = node.operands[1 if node.phase is Phase.BACKWARD else 0].roles
        return [role for dim in queries[:-1] for role in dim if role in roles]
    if node.operator.startswith(_SUMS):
        return roles
    made = [set(factors(result.roles)) for result in node.results]
    return [role for role in roles if all(role in one for one in made)]


def draw_cuts(
    graph: ComputeGraph,
    roles: list[Index],
    sizes: dict[str, int],
    random: Random,
    idle: float,
    liked: dict[str, int] | None = None,
) -> Cuts:
    """By role axes that cut it; an axis takes the atom that it likes in three of four cases where it can."""
    found: Cuts = {}
    for axis in random.sample(list(sizes), len(sizes)):
        fits = [
            role
            for role in roles
            if graph.atoms[role.atom].size % (prod(sizes[a] for a in found.get(role, ())) * sizes[axis]) == 0
        ]
        if fits and random.random() > idle:
            favourites = [role for role in fits if role.atom == (liked or {}).get(axis)]
            role = random.choice(favourites if favourites and random.random() < 0.75 else fits)
            found[role] = (*found.get(role, ()), axis)
    return found


def operator_plan(
    node: Node, cuts: Cuts, keep: ActivationPolicy | None, chunk=None, sizes: dict[str, int] | None = None
) -> OperatorPlan:
    def state(roles, partial: bool) -> Sharding:
        flat = factors(roles)
        lacking = {axis for role, axes in cuts.items() if role not in flat for axis in axes}
        return Sharding(tuple(cuts.get(role, ()) for role in flat), frozenset(lacking if partial else ()))

    parts = prod(sizes[axis] for axes in cuts.values() for axis in axes) if sizes else 1
    return OperatorPlan(
        node.name,
        tuple(state(operand.roles, False) for operand in node.operands),
        tuple(state(result.roles, True) for result in node.results),
        parts,
        keep,
        chunk,
    )


def draw_state(
    graph: ComputeGraph, tensor: TensorRef, sizes, random: Random, liked=None, idle: float = 0.3
) -> Sharding:
    flat = factors(graph.result(tensor).dims)
    long = [index for index in flat if graph.atoms[index.atom].size > 1]
    cuts = draw_cuts(graph, long, sizes, random, idle, liked)
    return Sharding(tuple(cuts.get(index, ()) for index in flat))


def draw_part(
    part: ModelPart, sizes: dict[str, int], random: Random, *, chosen=None, chunks=None
) -> PartPlan:
    """A plan of a part.

    Parameters
    ----------
    chosen : function from (graph, node) to Cuts, optional
        In place of drawing.
    chunks : function from node to (Chunk or None), optional
        Those in loops are recomputed.
    """
    graph, operators, tensors = part.graph, {}, {}
    long = [number for number, atom in enumerate(graph.atoms) if atom.size > 1]
    liked = {axis: random.choice(long) for axis in sizes}
    late = [n for n in graph.nodes[:-1] if n.phase is Phase.BACKWARD]
    backward = {operand.tensor for node in late for operand in node.operands}
    keeps: dict[int, ActivationPolicy] = {}
    for number in reversed(range(len(graph.nodes))):
        node = graph.nodes[number]
        if node.kind in (OperatorKind.PLACEHOLDER, OperatorKind.OUTPUT):
            continue
        keep = None
        if node.phase is Phase.FORWARD:
            is_needed = any(tensor.node == number for tensor in backward)
            keep = (
                ActivationPolicy.UNUSED
                if not is_needed
                else random.choice((ActivationPolicy.SAVED, ActivationPolicy.RECOMPUTED))
            )
            if keep is ActivationPolicy.SAVED and chunks is not None and chunks(node) is not None:
                keep = ActivationPolicy.RECOMPUTED
            keeps[number] = keep
            if keep is ActivationPolicy.RECOMPUTED:
                backward |= {operand.tensor for operand in node.operands}
            if keep is ActivationPolicy.SAVED:
                for slot in range(len(node.results)):
                    tensor = TensorRef(number, slot)
                    if tensor in backward:
                        saved = draw_state(graph, tensor, sizes, random, liked)
                        tensors[graph.spelled(tensor), Phase.FORWARD] = TensorPlan(
                            graph.spelled(tensor), Phase.FORWARD, None, saved
                        )
        cuts = chosen(graph, node) if chosen else draw_cuts(graph, may_cut(node), sizes, random, 0.2, liked)
        operators[node.name] = operator_plan(node, cuts, keep, chunks(node) if chunks else None, sizes)
    for tensor in graph.tensors():
        for phase in Phase:
            readers = [
                n
                for n, node in enumerate(graph.nodes)
                if (
                    node.phase is phase
                    or (phase is Phase.BACKWARD and keeps.get(n) is ActivationPolicy.RECOMPUTED)
                )
                and any(o.tensor == tensor for o in node.operands)
            ]
            if len(readers) > 1 and random.random() < 0.5:
                name = graph.spelled(tensor)
                before = tensors.get((name, phase))
                tensors[name, phase] = TensorPlan(
                    name,
                    phase,
                    draw_state(graph, tensor, sizes, random, liked),
                    before.saved if before else None,
                )
    return PartPlan(
        operators,
        tensors,
        {path: draw_state(graph, tensor, sizes, random, liked) for path, tensor in part.parameters.items()},
        {
            name: draw_state(graph, tensor, sizes, random, liked)
            for name, tensor in stored_inputs(part).items()
        },
    )


def draw_plan(model: ModelGraph, mesh: Mesh, seed: int, **how) -> ParallelPlan:
    """A plan of a model; ``how`` goes to `draw_part`."""
    random, sizes = Random(seed), axis_sizes(mesh)
    parts = {part.name: (draw_part(part, sizes, random, **how),) for part in model.parts}
    for tie in model.ties:  # one parameter lies in one state
        first, second = (parts[name][0] for name, _ in (tie.first, tie.second))
        stored = {**second.parameters, tie.second[1]: first.parameters[tie.first[1]]}
        parts[tie.second[0]] = (replace(second, parameters=stored),)
    part = next((one for one in model.parts if one.leaves is not None), None)
    states = [Sharding(()), Sharding(())]
    if part is not None and part.leaves is not None:
        flat = factors(part.graph.result(part.leaves).dims)
        for at in range(2):
            drawn = draw_state(part.graph, part.leaves, sizes, random).dims
            long = [part.graph.atoms[index.atom].size > 1 for index in flat]
            states[at] = Sharding(tuple(axes for axes, is_long in zip(drawn, long, strict=True) if is_long))
    return ParallelPlan(model.name, model.digest, mesh, Boundary(*states), parts)


def replaced(plan: ParallelPlan, part: str, operator: OperatorPlan) -> ParallelPlan:
    """The plan with another one of an operator."""
    (one,) = plan.parts[part]
    changed = replace(one, operators={**one.operators, operator.node: operator})
    return replace(plan, parts={**plan.parts, part: (changed,)})
