"""Execution of a parallelization plan of a user's module, on processes of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

from treadle.api.capture import capture, maker
from treadle.api.run import available_bytes
from treadle.brief import brief
from treadle.checking import checked, left_alone
from treadle.errors import FormatError, MemoryLimitError
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.problem import resolve_topology
from treadle.parallelism.execution.execute import RankExecutions, execute
from treadle.parallelism.execution.prediction import (
    Prediction,
    UntiedCosts,
    disagreements,
    predicted,
    tolerance,
)
from treadle.parallelism.execution.rank_step import RankTask
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.plan_json import read_plan
from treadle.parallelism.state.sharding import axis_sizes
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts, Costs, Seconds, Traffic
from treadle.training.prices.fabric_costs import FabricCosts, scheduler_named
from treadle.training.prices.message_costs import message_costs
from treadle.units import format_size
from treadle.unsupported import Unsupported

BACKENDS = ("gloo", "treadle")
_EVEN_RATE = 10**10
_OUTPUT = ": output "


@brief("model", "execution", "prediction")
@dataclass(frozen=True)
class PlanExecution:
    """Executed parallelization plan, and its prediction.

    Parameters
    ----------
    model : str
    mesh : tuple of (str, int)
        Axes and ranks.
    execution : RankExecutions
    prediction : Prediction

    Examples
    --------
    >>> from treadle import planning
    >>> from treadle.parallelism.execution.execute import RankExecutions
    >>> from treadle.parallelism.execution.prediction import Prediction
    >>> did = RankExecutions("gloo", 2, {"weight": 2e-5}, {}, 154, "forward model", 64)
    >>> found = planning.PlanExecution("model", (("dp", 2),), did, Prediction({}, 152, "forward model"))
    >>> [str(one.reason) for one in found.faults], f"{found.memory_error:+.1%}"
    (['off by 2.0e-05 of its largest number; expected 1e-06'], '+1.3%')
    """

    model: str
    mesh: tuple[tuple[str, int], ...]
    execution: RankExecutions
    prediction: Prediction

    @cached_property
    def faults(self) -> tuple[Unsupported, ...]:
        """Outputs and gradients with errors above `tolerance`, and collectives that were not predicted."""
        return tuple(disagreements(self.execution, self.prediction))

    @property
    def tolerance(self) -> float:
        """Largest error that is not a fault: 1e-6, or 16 roundings of the coarsest element type."""
        return tolerance(self.execution)

    @property
    def output_errors(self) -> dict[str, float]:
        """Largest error of each output, by name."""
        return {name: error for name, error in self.execution.errors.items() if _OUTPUT in name}

    @property
    def gradient_errors(self) -> dict[str, float]:
        """Largest error of each gradient, by name."""
        return {name: error for name, error in self.execution.errors.items() if _OUTPUT not in name}

    @property
    def memory_error(self) -> float:
        """Excess of the measured memory peak over the predicted one, as a fraction of the latter."""
        return self.execution.peak_bytes / self.prediction.peak_bytes - 1


@checked(plan=left_alone, source=left_alone, fabric=left_alone)
def execute_plan(
    plan: ParallelPlan | str | Path,
    source: Any,
    *,
    repeats: int | None = None,
    fabric: FabricLike | None = None,
    backend: str = "gloo",
    seed: int = 0,
    timeout_s: float = 300,
) -> PlanExecution:
    """Run one step of a module by a plan, on as many processes of this machine as the plan's mesh has ranks.

    Outputs and all gradients are compared with the same step on one device by PyTorch's autograd; collectives
    and the memory peak with the predictions of the evaluator of plans.

    Parameters
    ----------
    plan : ParallelPlan, str or Path
        For a mesh of at most 16 ranks; or its file.
    source : callable or str
        Function that the plan's graph was captured from, or ``MODULE.py:make``: here it must make a small
        module with real values.
    repeats : int, optional
        Repetitions of the module, as for `capture`.
    fabric : Topology, str, ..., optional
        Fabric whose costs choose among collectives; default: all axes and kinds are equally fast.
    backend : str
        Backend of torch.distributed: ``gloo`` or ``treadle``.
    seed : int
        Seed of parameters, inputs and tangents.
    timeout_s : float

    Raises
    ------
    TreadleError
        If the plan is for another model, illegal, or has stages; if the source is not a module or draws
        random numbers.
    MemoryLimitError
        If all ranks together need more memory than the machine has.
    MissingDependencyError
        Without PyTorch.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.planning.execute_plan("plan.json", "model.py:make")
    >>> found.faults, found.execution.largest_error < found.tolerance
    ((), True)
    """
    if backend not in BACKENDS:
        raise FormatError(f"backend {backend[:40]!r}; expected {' or '.join(BACKENDS)}")
    known = plan if isinstance(plan, ParallelPlan) else read_plan(str(plan))
    if not callable(source) and ".py:" not in str(source):
        raise FormatError(
            f"{str(source)[:60]}: cannot be run; expected the module that the plan's graph was "
            "captured from, as MODULE.py:FUNCTION (treadle capture MODULE.py:FUNCTION -o graph.json, then "
            "treadle parallelize graph.json ... -o plan.json)"
        )
    model = capture(source, repeats=repeats)
    make: Callable[[], Any] = source if callable(source) else partial(_made, str(source))
    makes = make if repeats is None else {"block": make}
    costs = _even_costs(known.mesh) if fabric is None else _costs(fabric, known.mesh)
    task = RankTask(model, known, makes, UntiedCosts(costs))
    prediction = predicted(task)
    _check_memory(task, prediction)
    (execution,) = execute([task], backend=backend, seed=seed, timeout_s=timeout_s)
    axes = tuple(zip(known.mesh.axis_names, known.mesh.shape, strict=True))
    return PlanExecution(model.name, axes, execution, prediction)


def _check_memory(task: RankTask, prediction: Prediction) -> None:
    """Raise MemoryLimitError if all ranks do not fit together with a step of the entire model."""
    if (available := available_bytes()) is None:
        return
    ranks = task.plan.mesh.n_ranks
    whole = sum(
        part.repeats * part.graph.nbytes(tensor)
        for part in task.model.parts
        for tensor in part.parameters.values()
    )
    least = ranks * prediction.peak_bytes + 2 * whole
    if least > available:
        raise MemoryLimitError(
            f"execution: {ranks} ranks of {format_size(prediction.peak_bytes)}, besides parameters and "
            f"gradients of {format_size(whole)}, take {format_size(least)} at least; this machine has "
            f"{format_size(available)}; make the module smaller (layers, batch), and plan for that"
        )


def _made(source: str) -> Any:
    """Call the function of a file, in the calling process."""
    found = maker(source)
    assert found is not None
    return found()


def _costs(fabric: FabricLike, mesh: Mesh) -> Costs:
    topology = resolve_topology(as_fabric(fabric, "fabric"))
    return FabricCosts(topology, mesh, scheduler_named("treadle"), messages=message_costs(topology))


def _even_costs(mesh: Mesh) -> AlphaBetaCosts:
    """Rates that make no difference between axes, and none but a factor of 2 between kinds."""
    names = list(axis_sizes(mesh))
    subsets = [axes for n in range(1, len(names) + 1) for axes in combinations(names, n)]
    rates: dict[Traffic, Seconds] = {
        (kind, axes): _EVEN_RATE // (1 + (kind is CollectiveKind.ALLREDUCE))
        for kind in CollectiveKind
        for axes in subsets
    }
    return AlphaBetaCosts(1e-6, rates, summary="even prices")
