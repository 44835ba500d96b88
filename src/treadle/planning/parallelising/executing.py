"""A plan of a user's own module, executed on processes of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

from treadle.brief import brief
from treadle.checking import checked, left_alone
from treadle.errors import FormatError
from treadle.parallelism.execution.execute import RankExecutions, execute
from treadle.parallelism.execution.prediction import Prediction, disagreements, predicted
from treadle.parallelism.execution.rank_step import RankTask
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.plan_json import read_plan
from treadle.parallelism.state.sharding import axis_sizes
from treadle.planning.fabrics_and_plans import FabricLike, as_fabric
from treadle.planning.measuring.simulation import default_alpha_ns
from treadle.planning.parallelising.capture import capture
from treadle.planning.problem import resolve_topology
from treadle.planning.training.fabric_costs import FabricCosts, scheduler_named
from treadle.refusal import Refusal
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts, Costs, Seconds, Traffic

BACKENDS = ("gloo", "treadle")
_EVEN_RATE = 10**10


@brief("execution", "prediction")
@dataclass(frozen=True)
class PlanExecution:
    """A plan that was executed, and what was predicted of it.

    Parameters
    ----------
    execution : RankExecutions
    prediction : Prediction
    """

    execution: RankExecutions
    prediction: Prediction

    @cached_property
    def faults(self) -> tuple[Refusal, ...]:
        """Outputs and gradients off by more than 1e-6, and collectives that were not predicted; none: all is
        well.
        """
        return tuple(disagreements(self.execution, self.prediction))

    @property
    def memory_error(self) -> float:
        """How much more than predicted was held at the fullest moment, as a share of what was predicted."""
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
    and the fullest moment of memory with what the evaluator of plans predicts.

    Parameters
    ----------
    plan : ParallelPlan, str or Path
        For a mesh of at most 16 ranks; or its file.
    source : callable or str
        The function that the plan's graph was captured from, or ``MODULE.py:make``: here it must make a small
        module, with numbers in it.
    repeats : int, optional
        As it was captured with.
    fabric : Topology, str, ..., optional
        By whose prices collectives are chosen; default: all axes and kinds are equally quick.
    backend : str
        Of torch.distributed: ``gloo``, or ``treadle``.
    seed : int
        Of parameters, inputs and tangents.
    timeout_s : float

    Raises
    ------
    TreadleError
        If the plan is of another model, illegal, or has stages; or the module draws random numbers.
    MissingDependencyError
        Without PyTorch.
    """
    if backend not in BACKENDS:
        raise FormatError(f"backend {backend[:40]!r}; expected {' or '.join(BACKENDS)}")
    known = plan if isinstance(plan, ParallelPlan) else read_plan(str(plan))
    model = capture(source, repeats=repeats)
    make: Callable[[], Any] = source if callable(source) else partial(_made, str(source))
    makes = make if repeats is None else {"block": make}
    costs = _even_costs(known.mesh) if fabric is None else _costs(fabric, known.mesh)
    task = RankTask(model, known, makes, costs)
    prediction = predicted(task)
    (execution,) = execute([task], backend=backend, seed=seed, timeout_s=timeout_s)
    return PlanExecution(execution, prediction)


def _made(source: str) -> Any:
    """What the function of a file makes, in whichever process this is called."""
    from treadle.planning.parallelising.capture import maker

    found = maker(source)
    assert found is not None
    return found()


def _costs(fabric: FabricLike, mesh: Mesh) -> Costs:
    topology = resolve_topology(as_fabric(fabric, "fabric"))
    alpha_ns = default_alpha_ns(topology)
    return FabricCosts(topology, mesh, scheduler_named("treadle"), alpha_ns=alpha_ns)


def _even_costs(mesh: Mesh) -> AlphaBetaCosts:
    """Rates that make no difference between axes, and none but a factor of 2 between kinds."""
    names = list(axis_sizes(mesh))
    subsets = [axes for n in range(1, len(names) + 1) for axes in combinations(names, n)]
    rates: dict[Traffic, Seconds] = {
        (kind, axes): _EVEN_RATE // (1 + (kind is CollectiveKind.ALLREDUCE))
        for kind in CollectiveKind
        for axes in subsets
    }
    return AlphaBetaCosts(1e-6, rates, words="even prices")
