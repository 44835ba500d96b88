"""Layers that differ, of a small model, as the evaluator prices them."""

from __future__ import annotations

import pytest

from parallelism.problem.settings import COSTS, MESH, NUMBERS, TIMES, small_model
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.problem.mixing import mixed
from treadle.parallelism.problem.search_problem import make_problem
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan


def test_mixed_layers_are_priced_alike_and_no_slower() -> None:
    """Where memory is short: between the least that some plan needs and what the quickest takes."""
    model = small_model()
    problem = make_problem(model, MESH, COSTS, TIMES)
    effort = SearchEffort(gap=0.03, n_parts=5)
    least = fastest_plan(problem.graph, memory_bytes=1.0, effort=effort)
    assert isinstance(least, MemoryShortage)
    limit = 1.15 * least.least_bytes
    one = fastest_plan(problem.graph, memory_bytes=limit, effort=effort)
    assert one.plan is not None
    assert not isinstance(one, MemoryShortage)
    found = mixed(problem, COSTS, [one.plan, *one.plans], memory_bytes=limit, effort=effort)
    assert found is not None
    plan, mixture = found
    assert mixture.value <= one.value * (1 + 1e-9)
    told = evaluate(plan, model, COSTS, NUMBERS)
    assert told.seconds == pytest.approx(mixture.value, rel=0.01)
    assert told.peak_bytes <= 1.01 * limit
    assert len(mixture.layers) == 32
