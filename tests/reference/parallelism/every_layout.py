"""Every plan of a small problem, as the independent evaluator prices it: no table of the problem's is used.

Which pairs of states no plan has is all that is taken from the factor graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.reshardings import Reshardings
from treadle.parallelism.problem.search_problem import SearchProblem
from treadle.parallelism.search.factor_graph import FactorGraph
from treadle.training.costs import Costs


def has_more_plans(graph: FactorGraph, n: int) -> bool:
    """Whether more than so many are allowed."""
    return next(islice(allowed_plans(graph), n, None), None) is not None


def allowed_plans(graph: FactorGraph) -> Iterator[tuple[int, ...]]:
    """All that no factor forbids, node after node."""
    masks: list[list[tuple[tuple[int, ...], np.ndarray]]] = [[] for _ in graph.sizes]
    for part in graph.factors:
        if part.forbidden is not None:
            masks[max(part.scope)].append((part.scope, part.forbidden))

    def beyond(plan: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        node = len(plan)
        if node == len(graph.sizes):
            yield plan
            return
        for state in range(graph.sizes[node]):
            longer = (*plan, state)
            if not any(mask[tuple(longer[one] for one in scope)] for scope, mask in masks[node]):
                yield from beyond(longer)

    return beyond(())


def every_evaluation(
    problem: SearchProblem, costs: Costs, numbers: DeviceNumbers, overlap: str
) -> list[Evaluation]:
    """Of each plan once; those of which nobody needs a state count as the plan without it."""
    reshardings = Reshardings(problem.table.sizes, costs)
    plans = {problem.tidied(labels) for labels in allowed_plans(problem.graph)}
    return [
        evaluate(plan, problem.model, costs, numbers, overlap=overlap, reshardings=reshardings)
        for plan in map(problem.decode, sorted(plans))
    ]
