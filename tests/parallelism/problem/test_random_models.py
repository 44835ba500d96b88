"""Random compute graphs, posed and searched, against all plans as the independent evaluator prices them.

More of them, with up to 2000 plans each: ``PYTHONPATH=tests python -m parallelism.problem.test_random_models
200``. All of these 200 take the same seconds; under the tightest limit, graphs 192, 628 and 743 hold two
or four bytes more than was posed, at a moment that is not (`lifetimes`: while a tensor is computed again).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import count, islice

import pytest

from parallelism.problem.settings import NUMBERS, TIMES, costs
from reference.parallelism.every_layout import every_evaluation, has_more_plans
from reference.parallelism.random_models import random_model
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.problem.search_problem import SearchProblem, pose
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.minimax import Overlap
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan
from treadle.schedules.mesh import Mesh

MESH = Mesh((2, 2), ("ib", "nv"))
COSTS = costs(MESH, slow=2e11, fast=3e12, within=("nv",), alpha_s=1e-9)
"""So quick that it is worth sharing out what these graphs do."""
EXACT = SearchEffort(gap=0.0)
LEAST_PLANS, MOST_PLANS = 8, 250


def problems(most_plans: int = MOST_PLANS) -> Iterator[tuple[int, SearchProblem]]:
    """Without end, of graphs with few enough plans and more than a handful."""
    for seed in count():
        model = random_model(seed)
        if model is not None:
            problem = pose(model, MESH, COSTS, TIMES)
            if has_more_plans(problem.graph, LEAST_PLANS) and not has_more_plans(problem.graph, most_plans):
                yield seed, problem


def check(seed: int, problem: SearchProblem) -> None:
    """Without a limit, under two that fewer and fewer plans keep to, and under one that none keeps to."""
    overlap = list(Overlap)[seed % 3]
    plans = every_evaluation(problem, COSTS, NUMBERS, overlap.value)
    peaks = sorted({one.peak_bytes for one in plans})
    for limit in (math.inf, peaks[len(peaks) // 3], peaks[0]):
        found = fastest_plan(problem.graph, memory_bytes=limit, overlap=overlap, effort=EXACT)
        assert isinstance(found, Incumbent)
        assert found.plan is not None
        plan = problem.decode(problem.tidied(found.plan))
        told = evaluate(plan, problem.model, COSTS, NUMBERS, overlap=overlap.value)
        best = min(one.seconds for one in plans if one.peak_bytes <= limit)
        assert told.peak_bytes <= limit
        assert told.seconds == pytest.approx(best, rel=1e-9)
        assert found.value == pytest.approx(best, rel=1e-9)
        assert best * (1 - 1e-6) <= found.bound <= best * (1 + 1e-9)
    short = fastest_plan(problem.graph, memory_bytes=0.99 * peaks[0], overlap=overlap, effort=EXACT)
    assert isinstance(short, MemoryShortage)
    assert short.least_bytes == peaks[0]


def test_the_plan_found_is_the_best_of_all() -> None:
    for seed, problem in islice(problems(), 30):
        check(seed, problem)


if __name__ == "__main__":
    n_equal, n_graphs = 0, int(sys.argv[1])
    for seed, problem in islice(problems(2000), n_graphs):
        try:
            check(seed, problem)
            n_equal += 1
        except AssertionError as error:
            print(f"graph {seed}: {error}")
    print(f"{n_equal} of {n_graphs} equal")
