"""The value, what it refuses, and quantities of a plan."""

from __future__ import annotations

import numpy as np
import pytest

from reference.parallelism.brute_force import every_plan, peak, seconds
from reference.parallelism.merging import merged
from reference.parallelism.random_graphs import random_graph
from treadle.errors import ScheduleError
from treadle.parallelism.search.factor_graph import Factor, FactorGraph, Quantities, factor
from treadle.parallelism.search.minimax import Overlap, peak_memory, step_time

NAMES = Quantities(n_sections=1, n_moments=1)


@pytest.mark.parametrize("seed", range(20))
def test_amounts_and_objectives_are_those_of_every_plan(seed: int) -> None:
    graph = random_graph(seed)
    plans = every_plan(graph)
    for plan in np.ndindex(*graph.sizes):
        assert graph.is_allowed(plan) == (plan in plans)
    for plan, exact in plans.items():
        amounts = graph.amounts(plan)
        assert amounts.tolist() == exact
        assert peak_memory(graph).value(amounts) == peak(graph, exact)
        for overlap in Overlap:
            assert step_time(graph, overlap=overlap).value(amounts) == seconds(graph, exact, overlap.value)


def test_a_scope_may_be_turned_and_infinity_forbids() -> None:
    made = factor([1, 0], {NAMES.serial(0): [[1, np.inf], [2, 3], [4, 5]]})
    assert made.scope == (0, 1)
    assert made.tables[0].tolist() == [[1, 2, 4], [0, 3, 5]]
    assert made.forbidden is not None
    assert np.argwhere(made.forbidden).tolist() == [[1, 0]]


def test_factors_over_one_scope_add_up() -> None:
    parts = [factor([0], {0: [1, np.inf]}), factor([0], {0: [2, 3], 1: [4, 5]})]
    (made,) = merged(parts)
    assert made.tables[0].tolist() == [3, 3]
    assert made.tables[1].tolist() == [4, 5]
    assert made.forbidden is not None
    assert made.forbidden.tolist() == [False, True]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([factor([0], {0: [1, 2, 3]})], r"expected \(2,\), found \(3,\)"),
        ([factor([0], {9: [1, 2]})], "no quantity 9"),
        ([factor([0], {0: [-1, 2]})], "not negative"),
        ([factor([0], {0: [np.nan, 2]})], "finite"),
        ([factor([2], {0: [1, 2]})], "names a node that is not there"),
        ([factor([0, 0], {0: [[1, 2], [3, 4]]})], "ascending"),
        ([Factor((1, 0), {0: np.ones((2, 2))})], "ascending"),
        ([factor([0], {0: [1, 2]})] * 2, "two factors"),
    ],
)
def test_what_does_not_fit_is_refused(parts: list[Factor], why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        FactorGraph((2, 2), NAMES, tuple(parts), (1,))


def test_repeats_are_one_per_section() -> None:
    with pytest.raises(ScheduleError, match="expected 1 repeats, found 2"):
        FactorGraph((2,), NAMES, (), (1, 2))


def test_a_factor_does_not_depend_on_the_order_of_its_scope() -> None:
    one = factor([0, 1], {0: [[1, 2], [3, np.inf]], 1: [[0, 5], [6, 0]]})
    turned = factor([1, 0], {0: [[1, 3], [2, np.inf]], 1: [[0, 6], [5, 0]]})
    assert one.scope == turned.scope
    assert all(np.array_equal(table, turned.tables[q]) for q, table in one.tables.items())
    assert np.array_equal(np.asarray(one.forbidden), np.asarray(turned.forbidden))


def test_the_shape_of_a_factor() -> None:
    assert factor([0, 1], {0: [[1, 2, 3], [3, 4, 5]]}).shape == (2, 3)
    assert Factor((0,), {}, np.zeros(3, dtype=np.bool_)).shape == (3,)
    assert Factor((0,), {}).shape is None


def test_equal_tables_of_a_factor_are_one_object_and_none_that_forbid_stay_empty() -> None:
    """Infinity in one quantity forbids in all; what then costs nothing is left out."""
    made = factor([0], {0: [np.inf, 2, 0], 1: [7, 0, 0], 2: [np.inf, 2, 0]})
    assert made.tables.keys() == {0, 2}
    assert made.tables[0] is made.tables[2]
    assert made.tables[0].tolist() == [0, 2, 0]
    assert made.forbidden is not None
    assert made.forbidden.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (factor([0], {0: [1, 2, 3]}), "factor graph: nodes (0,): expected (2,), found (3,)"),
        (factor([1], {3: [1, 2]}), "factor graph: nodes (1,): no quantity 4"),
        (factor([1], {0: [-1, 2]}), "factor graph: nodes (1,): amounts must be finite and not negative"),
        (factor([2], {0: [1, 2]}), "factor graph: (2,) names a node that is not there"),
        (Factor((-1,), {}), "factor graph: (-1,) names a node that is not there"),
        (Factor((), {}), "factor graph: expected one node or two in ascending order, found ()"),
        (Factor((0, 1, 2), {}), "factor graph: expected one node or two in ascending order, found (0, 1, 2)"),
    ],
)
def test_refusals_of_factors_in_full(part: Factor, words: str) -> None:
    if 3 in part.tables:
        FactorGraph((2, 2), NAMES, (part,), (1,))
        part = factor([1], {4: [1, 2]})
    with pytest.raises(ScheduleError) as caught:
        FactorGraph((2, 2), NAMES, (part,), (1,))
    assert str(caught.value) == words


def test_a_graph_refuses_nodes_without_states_and_scopes_that_stand_twice() -> None:
    with pytest.raises(ScheduleError) as caught:
        FactorGraph((2, 0), NAMES, (), (1,))
    assert str(caught.value) == "factor graph: a node has no states"
    twice = factor([0], {0: [1, 2]}), factor([0], {1: [1, 2]})
    with pytest.raises(ScheduleError) as caught:
        FactorGraph((2, 2), NAMES, twice, (1,))
    assert str(caught.value) == "factor graph: two factors over nodes (0,); merge them"
