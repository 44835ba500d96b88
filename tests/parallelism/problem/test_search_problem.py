"""Problems of small models: what is posed, and what plans of it cost by hand."""

from __future__ import annotations

import pytest

from parallelism.problem.settings import COSTS, MESH, TIMES, small_model
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.problem.variables import OperatorVariable


@pytest.fixture(scope="module")
def model() -> ModelGraph:
    return small_model()


@pytest.fixture(scope="module")
def problem(model: ModelGraph) -> SearchProblem:
    return make_problem(model, MESH, COSTS, TIMES)


def numbers(problem: SearchProblem) -> dict[str, int]:
    """Variables by their names."""
    return {variable.name: number for number, variable in enumerate(problem.table.variables)}


def test_every_operator_and_parameter_is_chosen_once(model: ModelGraph, problem: SearchProblem) -> None:
    members = [
        (one.part, member)
        for one in problem.table.variables
        if isinstance(one, OperatorVariable)
        for member in one.cluster.members
    ]
    nodes = [
        (part, number)
        for part, one in enumerate(model.parts)
        for number, node in enumerate(one.graph.nodes)
        if node.kind.value not in ("PLACEHOLDER", "OUTPUT")
    ]
    assert sorted(members) == nodes
    paths = {f"{one.name}/{path}" for one in model.parts for path in one.parameters}
    assert paths <= set(numbers(problem))
