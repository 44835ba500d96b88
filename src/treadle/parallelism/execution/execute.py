"""A plan executed on processes of this machine, and compared with the same step on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from treadle.brief import brief
from treadle.errors import MissingDependencyError, ScheduleError, TreadleError
from treadle.parallelism.execution.local_operators import LocalOperator
from treadle.parallelism.execution.rank_step import (
    RankTask,
    ReadTensor,
    find_routes,
    routes_of,
    run_step,
)
from treadle.parallelism.execution.ranks import apart, fork_ranks
from treadle.parallelism.execution.reference import reference_step
from treadle.parallelism.execution.run_comparison import (
    CollectiveKey,
    common_collectives,
    errors_of,
    precision_of,
)
from treadle.parallelism.execution.run_order import units_of
from treadle.parallelism.execution.tensor_blocks import BlockPosition
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase
from treadle.parallelism.graph.model_graph import ModelPart
from treadle.parallelism.plan.fit import check_fit
from treadle.parallelism.plan.part_plan import PartPlan

MOST_RANKS = 16
"""Processes of one machine."""


@brief("backend", "n_ranks", "largest_error", "n_collectives", "peak_bytes")
@dataclass(frozen=True)
class RankExecutions:
    """Measurements of an executed plan.

    Parameters
    ----------
    backend : str
    n_ranks : int
    errors : mapping from str to float
        By output and gradient (``block 0: wq.weight``) the largest difference from the step on one device,
        over the largest number there.
    collectives : mapping from (kind, axes, bytes) to int
        How often each rank called each.
    peak_bytes : int
        Of tensors that the fullest rank held simultaneously: parameters, inputs, what is saved, and at an
        operator what it takes and makes. Gradients where they are stored, and an optimizer's states, are not
        among them.
    peak_at : str
        Phase, part and operator.
    parameter_bytes : int
        Of these, stored parameters.
    precision : float
        The coarsest of the numbers' types: what is added to 1 without effect is smaller.
    """

    backend: str
    n_ranks: int
    errors: Mapping[str, float]
    collectives: Mapping[CollectiveKey, int]
    peak_bytes: int
    peak_at: str
    parameter_bytes: int
    precision: float = 0.0

    @property
    def largest_error(self) -> float:
        """Largest error of all outputs and gradients; not a number if one of them is."""
        return float(np.max(list(self.errors.values()) or [0.0]))

    @property
    def n_collectives(self) -> int:
        """Calls of each rank."""
        return sum(self.collectives.values())


def execute(
    tasks: Sequence[RankTask], *, backend: str = "gloo", seed: int = 0, timeout_s: float = 300
) -> list[RankExecutions]:
    """Run plans on as many processes as their mesh has ranks.

    Parameters
    ----------
    tasks : sequence of Task
        Of one number of ranks; they run one after the other in the same processes.
    backend : str
        Of torch.distributed: ``gloo`` or ``treadle``.
    seed : int
        Of parameters, inputs and tangents.
    timeout_s : float
        Of all tasks together.

    Raises
    ------
    TreadleError
        If a plan does not fit its model, cannot be run, or ranks differ in what they call.
    MissingDependencyError
        Without PyTorch.
    """
    if find_spec("torch") is None:
        raise MissingDependencyError("execution: PyTorch is missing; pip install 'treadle[torch]'")
    if not tasks:
        return []
    sizes = {task.plan.mesh.n_ranks for task in tasks}
    if len(sizes) > 1 or max(sizes) > MOST_RANKS:
        raise TreadleError(
            f"execution: meshes of {', '.join(map(str, sorted(sizes)))} ranks; expected one size of at most "
            f"{MOST_RANKS}"
        )
    for task in tasks:
        check_fit(task.plan, task.model)
        if task.plan.pipeline is not None:
            raise TreadleError("execution: stages of a pipeline are not run; expected a plan without")
        _check_operators(task)
    return apart(_run_tasks, list(tasks), backend, seed, timeout_s, timeout_s=timeout_s + 60)


def _check_operators(task: RankTask) -> None:
    """Reject what no rank could run, before any is started."""
    place = BlockPosition(task.plan.mesh, 0)
    for part in task.model.parts:
        for plan in task.plan.parts[part.name]:
            for node in [node for node in part.graph.nodes if node.name in plan.operators]:
                LocalOperator(part.graph, node, plan.operators[node.name], place)
            for phase in Phase:
                _check_sources(part, plan, phase)


def _check_sources(part: ModelPart, plan: PartPlan, phase: Phase) -> None:
    """Check that inputs of a phase's operators are made in it, stored or saved."""
    graph = part.graph
    numbers = [number for unit in units_of(graph, plan, phase) for number in unit.numbers]
    for node in (graph.nodes[number] for number in numbers):
        for tensor in (operand.tensor for operand in node.operands):
            is_there = tensor.node in numbers or graph.nodes[tensor.node].kind is OperatorKind.PLACEHOLDER
            if not is_there and plan.saved(graph.spelled(tensor)) is None:
                raise ScheduleError(
                    f"plan of {part.name}: {node.name} reads {graph.spelled(tensor)} in the "
                    f"{phase.value} pass, where it is neither saved nor recomputed"
                )


def _run_tasks(tasks: list[RankTask], backend: str, seed: int, timeout_s: float) -> list[RankExecutions]:
    import torch

    torch.set_num_threads(1)
    expected = [reference_step(task.model, task.makes, seed=seed) for task in tasks]
    runs = [
        (task, values, routes_of(task.plan.mesh, task.costs))
        for task, values in zip(tasks, expected, strict=True)
    ]
    with torch.no_grad():
        for run in runs:
            find_routes(*run)

    def work(rank: int) -> list[ReadTensor]:
        with torch.no_grad():
            return [run_step(task, values, rank, known) for task, values, known in runs]

    by_rank = fork_ranks(tasks[0].plan.mesh.n_ranks, backend, work, timeout_s=timeout_s)
    executions = []
    for task, values, found in zip(tasks, expected, zip(*by_rank, strict=True), strict=True):
        errors = errors_of(task.model, task.plan.mesh, values, found)
        collectives = common_collectives(found, task.plan.mesh)
        peak, at = max(one.holdings for one in found)
        stored, precision = max(one.parameter_bytes for one in found), precision_of(values)
        executions.append(
            RankExecutions(backend, len(found), errors, collectives, peak, at, stored, precision)
        )
    return executions
