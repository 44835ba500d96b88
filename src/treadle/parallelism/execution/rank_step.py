"""One rank's execution of a plan: all parts forward, then all backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from treadle.parallelism.execution.counting import CountedCollective, RankHoldings, counted
from treadle.parallelism.execution.part_execution import Local, Move, PartExecution, as_local
from treadle.parallelism.execution.rank_exchanges import RankExchange
from treadle.parallelism.execution.reference import Make, RunValues, numbers_of
from treadle.parallelism.execution.tensor_blocks import BlockPosition
from treadle.parallelism.graph.compute_graph import Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.fit import boundary_state
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.transitions import Step, Transitions
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs


@dataclass(frozen=True)
class RankTask:
    """A plan and what it is for.

    Parameters
    ----------
    model : ModelGraph
        Captured from PyTorch.
    plan : ParallelPlan
    makes : function, or mapping from part name to function
        Makes the module and the arguments that the model was captured from, with numbers in them; or, of each
        part that was captured alone, those of the part.
    costs : Costs
        What routes between states are chosen by.
    """

    model: ModelGraph
    plan: ParallelPlan
    makes: Make | Mapping[str, Make]
    costs: Costs


@dataclass
class ReadTensor:
    """Result of one task on one rank.

    Parameters
    ----------
    values : dict from str to (Sharding, array)
        Outputs and gradients by name: the state, over factors of more than one element, and the rank's part.
    collectives : Counter of Collective
    holdings : (int, str)
        Bytes of the fullest moment, and which one it was.
    parameter_bytes : int
    """

    values: dict[str, tuple[Sharding, Any]]
    collectives: Counter[CountedCollective]
    holdings: tuple[int, str]
    parameter_bytes: int


Routes = Callable[[tuple[int, ...], int, Sharding, Sharding], tuple[Step, ...]]
"""From (the whole tensor's shape, bytes of an element, state before, state after) to the cheapest steps."""


def routes_of(mesh: Mesh, costs: Costs) -> Routes:
    """Return the routes on a mesh, each found once for all ranks."""

    @cache
    def transitions(shape: tuple[int, ...], element_bytes: int) -> Transitions:
        return Transitions(mesh, costs, shape, element_bytes)

    @cache
    def steps(
        shape: tuple[int, ...], element_bytes: int, before: Sharding, after: Sharding
    ) -> tuple[Step, ...]:
        return transitions(shape, element_bytes).cheapest(before, after).steps

    return steps


def run_step(task: RankTask, expected: list[RunValues], rank: int, routes: Routes) -> ReadTensor:
    """Run a plan at one rank of a job.

    Parameters
    ----------
    task : Task
    expected : list of RunValues
        Its parameters and inputs are used.
    rank : int
    routes : Routes
    """
    exchange = RankExchange(BlockPosition(task.plan.mesh, rank), _groups(task.plan.mesh, rank))
    return _run(task, expected, exchange.place, routes, exchange.follow)


def _groups(mesh: Mesh, rank: int) -> Callable[[tuple[str, ...]], Any]:
    """Return process groups by axes; all ranks make one when they first need it, at the same step."""
    import torch.distributed as dist

    @cache
    def group(axes: tuple[str, ...]) -> Any:
        made = {ranks: dist.new_group(sorted(ranks)) for ranks in map(tuple, mesh.groups(axes))}
        return next(one for ranks, one in made.items() if rank in ranks)

    return group


def find_routes(task: RankTask, expected: list[RunValues], routes: Routes) -> None:
    """Run a plan at rank 0 with nothing moved: for the routes that all ranks will take."""

    place = BlockPosition(task.plan.mesh, 0)

    def nothing(value: Any, shape: Sequence[int], steps: Sequence[Step]) -> Any:
        last = steps[-1].after if steps else None
        if not isinstance(last, Sharding):
            return value
        return value.new_zeros(last.local_shape(tuple(shape), place.sizes))

    _run(task, expected, place, routes, nothing)


def _run(
    task: RankTask,
    expected: list[RunValues],
    place: BlockPosition,
    routes: Routes,
    follow: Callable[[Any, Sequence[int], Sequence[Step]], Any],
) -> ReadTensor:
    def move(
        value: Any, shape: tuple[int, ...], element_bytes: int, before: Sharding, after: Sharding
    ) -> Any:
        # factors of one element only make routes longer to find
        places = [at for at, size in enumerate(shape) if size > 1]
        states = [Sharding(tuple(one.dims[at] for at in places), one.partial) for one in (before, after)]
        long = tuple(shape[at] for at in places)
        value = value.reshape(states[0].local_shape(long, place.sizes))
        value = follow(value, long, routes(long, element_bytes, states[0], states[1]))
        return value.reshape(after.local_shape(shape, place.sizes))

    holdings = RankHoldings()
    with counted() as collectives:
        runs, values = _all_forward(task, expected, place, move, holdings)
        flowing: Local | None = None
        for number, run in reversed(list(enumerate(runs))):
            tangent = None if run.part.leaves is None else run.graph.tangents[run.part.leaves]
            if tangent is not None and flowing is not None:
                run.stored[tangent] = _handed(flowing, run, tangent)
            gradients = run.backward()
            flowing = None if run.part.enters is None else gradients[run.part.enters]
            for owner, local in gradients.items():
                node = run.graph.nodes[owner.node]
                if owner != run.part.enters or node.path.isdigit():  # else between parts of one module
                    word = node.path if node.source is Source.PARAMETER else f"input {node.path}"
                    values[f"{number} {run.part.name}: {word}"] = local.state, numbers_of(local.value)
    stored_bytes = sum(
        local.value.numel() * local.value.element_size()
        for run in runs
        for tensor, local in run.stored.items()
        if run.graph.nodes[tensor.node].source is Source.PARAMETER
    )
    return ReadTensor(values, collectives, (holdings.peak_bytes, holdings.peak_at), stored_bytes)


def _all_forward(
    task: RankTask, expected: list[RunValues], place: BlockPosition, move: Move, holdings: RankHoldings
) -> tuple[list[PartExecution], dict[str, tuple[Sharding, Any]]]:
    """Run the forward pass of all parts, and return their outputs by name."""
    values: dict[str, tuple[Sharding, Any]] = {}
    runs: list[PartExecution] = []
    tied = {tie.second: tie.first for tie in task.model.ties}
    kept: dict[tuple[str, str], Local] = {}
    flowing: Local | None = None
    for number, (part, nth) in enumerate(task.model.runs()):
        plan, boundary = task.plan.plan_of(part.name, nth), task.plan.boundary_of(part.name, nth)
        run = PartExecution(part, plan, boundary, place=place, move=move, holdings=holdings)
        runs.append(run)
        for node, whole in expected[number].placeholders.items():
            tensor = TensorRef(node)
            if tensor == part.enters and flowing is not None:
                continue
            state, shape = run.stored_state(node), part.graph.factor_sizes(tensor)
            key = part.name, part.graph.nodes[node].path
            if (owner := tied.get(key)) is not None:  # stored once, as the first
                local_shape = state.local_shape(shape, place.sizes)
                run.stored[tensor] = Local(kept[owner].value.view(local_shape), state)
            else:
                run.stored[tensor] = kept[key] = as_local(whole, state, shape, place)
        if part.enters is not None and flowing is not None:
            run.stored[part.enters] = _handed(flowing, run, part.enters)
        outputs, flowing = run.forward(), None
        for nth_output, (operand, local) in enumerate(zip(run.outputs, outputs, strict=True)):
            values[f"{number} {part.name}: output {nth_output}"] = (local.state, numbers_of(local.value))
            if operand.tensor == part.leaves:
                flowing = local
    return runs, values


def _handed(flowing: Local, run: PartExecution, tensor: TensorRef) -> Local:
    """Return the output of one part in the state in which the next stores it."""
    shape = run.graph.factor_sizes(tensor)
    before = boundary_state(run.part, tensor, flowing.state)
    local = Local(flowing.value.reshape(before.local_shape(shape, run.place.sizes)), before)
    return run.moved(tensor, shape, local, run.stored_state(tensor.node))
