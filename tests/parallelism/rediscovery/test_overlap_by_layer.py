"""Under a maximum over the whole model layers that differ cheat: what is claimed, and what they take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parallelism.problem.settings import NUMBERS, TIMES
from parallelism.rediscovery.small_settings import LINE, line_costs, model
from reference.parallelism.legality import violations
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.problem.mixing import mixed
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.one_plan import fastest_plan

LAYERS = 8
EFFORT = SearchEffort(gap=0.01, n_parts=60)


def cheapest_by_totals(problem: SearchProblem, found: Incumbent) -> tuple[float, int, int, int]:
    """Of layers by two plans of one boundary, the least max(sum of compute, sum of communication)."""
    names, sections = problem.graph.quantities, (0, 1, 2)
    amounts = np.array([problem.graph.amounts(plan) for plan in found.plans])
    both = [amounts[:, [kind(section) for section in sections]] for kind in (names.serial, names.overlapped)]
    boundary = np.array([[plan[node] for node in problem.table.boundary.values()] for plan in found.plans])
    counts = np.arange(LAYERS + 1)
    best = (np.inf, 0, 0, 0)
    for first in range(len(found.plans)):
        alike = np.flatnonzero((boundary == boundary[first]).all(axis=1))
        totals = [
            of[first, 0] + of[first, 2] + counts * of[first, 1] + (LAYERS - counts) * of[alike, 1][:, None]
            for of in both
        ]
        claimed = np.maximum(*totals)
        second, count = np.unravel_index(claimed.argmin(), claimed.shape)
        best = min(best, (float(claimed[second, count]), first, int(alike[second]), int(count)))
    return best


def test_a_maximum_over_the_whole_model_claims_what_no_layer_keeps() -> None:
    """Some layers only compute and wait for what they compute with; the others wait for their gradients."""
    graph, costs = model(8, 1024, layers=LAYERS), line_costs(50e9)
    problem = make_problem(graph, LINE, costs, TIMES)
    found = fastest_plan(problem.graph, effort=EFFORT)
    assert isinstance(found, Incumbent)
    claimed, first, second, count = cheapest_by_totals(problem, found)
    assert 0 < count < LAYERS
    one, other = (problem.decode(found.plans[at]) for at in (first, second))
    plan = replace(
        one,
        parts={**one.parts, "block": (*one.parts["block"], *other.parts["block"])},
        layers={"block": (0,) * count + (1,) * (LAYERS - count)},
    )
    assert violations(plan, graph) == ()
    by_model, by_layer = (
        evaluate(plan, graph, costs, NUMBERS, overlap=overlap) for overlap in ("model", "layer")
    )
    assert abs(by_model.seconds - claimed) <= 1e-9 * claimed
    blocks = sorted(part.overlapped_s() / part.serial_s() for part in by_layer.parts if part.part == "block")
    assert blocks[0] < 0.4 < 3 < blocks[1]
    assert by_model.seconds < 0.9 * found.value, "which is why it is tempting"
    assert by_model.seconds < found.bound, "less than any one plan for all layers takes"
    assert by_layer.seconds > 1.2 * found.value, "and no better than one plan for all of them"
    assert by_layer.seconds > 1.4 * by_model.seconds
    honest = mixed(problem, costs, list(found.plans), effort=replace(EFFORT, n_parts=4))
    assert honest is not None
    seconds = evaluate(honest[0], graph, costs, NUMBERS).seconds
    assert by_model.seconds < seconds <= found.value * (1 + 1e-9)
