"""Problems of small models: what is posed, and what plans of it cost by hand."""

from __future__ import annotations

import numpy as np
import pytest

from parallelism.problem.settings import COSTS, MESH, TIMES, small_model
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.fit import check_fit
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.problem.variables import OperatorVariable, StateVariable
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.search.one_plan import fastest_plan


@pytest.fixture(scope="module")
def model() -> ModelGraph:
    return small_model()


@pytest.fixture(scope="module")
def problem(model: ModelGraph) -> SearchProblem:
    return make_problem(model, MESH, COSTS, TIMES)


def best(problem: SearchProblem) -> tuple[int, ...]:
    found = fastest_plan(problem.graph, effort=SearchEffort(gap=0.05, n_parts=20))
    assert found.plan is not None
    return found.plan


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


def test_a_plan_of_the_search_is_allowed_and_its_states_fit(problem: SearchProblem) -> None:
    plan = best(problem)
    assert problem.graph.is_allowed(plan)
    for label, one in zip(plan, problem.table.variables, strict=True):
        if isinstance(one, StateVariable):
            graph = problem.table.values[one.part].graph
            shape = [graph.atoms[i.atom].size for dim in graph.result(one.tensor).dims for i in dim]
            if len(shape) == len(one.states[label].dims):
                one.states[label].local_shape(tuple(shape), problem.table.sizes)


def test_the_work_of_a_step_is_divided_among_all_ranks(model: ModelGraph, problem: SearchProblem) -> None:
    """Six operations per weight and token at half the peak: no plan is quicker, a good one hardly slower."""
    amounts = problem.graph.amounts(best(problem))
    names = problem.graph.quantities
    block = model.part("block")
    weights = sum(
        block.graph.elements(tensor) for path, tensor in block.parameters.items() if "norm" not in path
    )
    least = 6 * weights * model.tokens / 8 / (TIMES.device.peak("bf16") * TIMES.efficiency)
    computed = amounts[names.serial(1)]
    assert least < computed < 1.3 * least


def test_every_state_of_a_variable_is_distinct(problem: SearchProblem) -> None:
    for one in problem.table.variables:
        rows = {tuple(row) for row in one.state_keys.tolist()}
        assert len(one.state_keys) == one.size
        if isinstance(one, StateVariable):
            assert len(set(zip(one.states, one.early.tolist(), strict=True))) == one.size == len(rows)


def test_amounts_are_finite_and_tables_have_the_shape_of_their_variables(problem: SearchProblem) -> None:
    sizes = tuple(one.size for one in problem.table.variables)
    assert problem.graph.sizes == sizes
    for factor in problem.graph.factors:
        for table in factor.tables.values():
            assert table.shape == tuple(sizes[node] for node in factor.scope)
            assert np.isfinite(table).all()


def test_a_decoded_plan_fits_its_model_and_says_what_was_chosen(
    model: ModelGraph, problem: SearchProblem
) -> None:
    labels = best(problem)
    plan = problem.decode(labels)
    check_fit(plan, model)
    weight = numbers(problem)["block/layers.*.attention.wq.weight"]
    label, stored = labels[weight], problem.table.variables[weight]
    assert isinstance(stored, StateVariable)
    assert plan.plan_of("block").parameters["layers.*.attention.wq.weight"] == stored.states[label]
    number = numbers(problem)["block/query"]
    query = problem.table.variables[number]
    assert isinstance(query, OperatorVariable)
    strategy = query.strategy(labels[number])
    decoded = plan.plan_of("block").operators["query"]
    assert decoded.outputs == tuple(strategy.results.values())
    assert decoded.parts == next(iter(strategy.parts.values()))
