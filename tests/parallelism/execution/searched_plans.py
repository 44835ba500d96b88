"""Plans that the search finds for captured models, as tasks for ranks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from parallelism.execution.drawn_plans import uneven_costs
from parallelism.exporting import small_model
from parallelism.problem.settings import TIMES
from treadle.parallelism.capture.joint import capture
from treadle.parallelism.execution.rank_step import RankTask
from treadle.parallelism.graph.folding.fold import folded
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.problem.variables import OperatorVariable
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.minimax import peak_memory
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs

EFFORT = SearchEffort(gap=0.2, n_parts=4, first_passes=6)


def quick_costs(mesh: Mesh) -> Costs:
    """A network so quick that even a model for tests is worth sharing out."""
    return uneven_costs(mesh, rate=10**12, alpha_s=0)


def problem_of(model: ModelGraph, mesh: Mesh) -> SearchProblem:
    """With contention: else it costs nothing to gather a table whole while something else is computed."""
    return make_problem(model, mesh, quick_costs(mesh), TIMES, kappa=1.2)


def found_within(problem: SearchProblem, share: float = np.inf) -> ParallelPlan:
    """The fastest plan in a share of the memory that the fastest of all takes."""
    free = fastest_plan(problem.graph, effort=EFFORT)
    assert isinstance(free, Incumbent)
    assert free.plan is not None
    limit = share * peak_memory(problem.graph).value(problem.graph.amounts(free.plan))
    found = fastest_plan(problem.graph, memory_bytes=limit, effort=EFFORT)
    assert isinstance(found, Incumbent), found
    assert found.plan is not None
    return problem.decode(problem.tidied(found.plan))


def without_loops(problem: SearchProblem) -> tuple[np.ndarray, ...]:
    """States of all plans that hold every tensor whole."""
    return tuple(
        np.array([state for state in range(one.size) if one.loop(state) is None])
        if isinstance(one, OperatorVariable)
        else np.arange(one.size)
        for one in problem.table.variables
    )


def searched(make, mesh: Mesh, shares: Mapping[str, float]) -> dict[str, RankTask]:
    """By name a plan within a share of memory."""
    model = folded(capture(make), name="searched")
    problem = problem_of(model, mesh)
    return {
        name: RankTask(model, found_within(problem, share), make, quick_costs(mesh))
        for name, share in shares.items()
    }


@cache
def chunked_loss(mesh: Mesh) -> RankTask:
    """128K words under a limit that no plan with whole logits keeps to."""
    model = folded(capture(small_model.make_wordy), name="wordy")
    problem = problem_of(model, mesh)
    least = fastest_plan(problem.graph, memory_bytes=1, within=without_loops(problem), effort=EFFORT)
    assert isinstance(least, MemoryShortage)
    limit = 0.8 * least.bound_bytes
    found = fastest_plan(problem.graph, memory_bytes=limit, effort=EFFORT)
    assert isinstance(found, Incumbent), found
    assert found.plan is not None
    plan = problem.decode(problem.tidied(found.plan))
    return RankTask(model, plan, small_model.make_wordy, quick_costs(mesh))
