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
    made = factor([1, 0], {NAMES.compute(0): [[1, np.inf], [2, 3], [4, 5]]})
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
