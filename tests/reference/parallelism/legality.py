"""All faults of a plan, where the evaluator raises the first."""

from __future__ import annotations

from treadle.parallelism.evaluation.model_run import ModelRun
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.unsupported import Unsupported


def violations(plan: ParallelPlan, model: ModelGraph) -> tuple[Unsupported, ...]:
    """Everything that makes a plan compute something else than its model does; nothing if it is legal.

    Raises
    ------
    ScheduleError
        If the plan is of another model (`check_fit`).
    """
    return tuple(ModelRun(plan, model).faults())
