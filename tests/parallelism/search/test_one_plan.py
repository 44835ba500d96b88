"""The search against every plan, with and without limits of memory."""

from __future__ import annotations

import math
from functools import cache

import pytest

from reference.parallelism.brute_force import Priced, every_plan, peak, seconds
from reference.parallelism.random_graphs import random_graph
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.factor_graph import FactorGraph
from treadle.parallelism.search.minimax import Overlap
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan

EXACT = SearchEffort(gap=0.0)


@cache
def tiny(seed: int) -> tuple[FactorGraph, Priced]:
    graph = random_graph(seed)
    return graph, every_plan(graph)


def limits(seed: int) -> tuple[float, ...]:
    """None, one that only the smallest plans keep to, and one between."""
    graph, plans = tiny(seed)
    peaks = sorted({peak(graph, amounts) for amounts in plans.values()})
    return (math.inf, *(float(peaks[i]) for i in {0, len(peaks) // 3} if peaks))


@pytest.mark.parametrize("seed", range(200))
def test_the_best_plan_of_all(seed: int) -> None:
    (graph, plans), overlap = tiny(seed), list(Overlap)[seed % 3]
    for memory in limits(seed):
        fitting = [a for a in plans.values() if peak(graph, a) <= memory]
        found = fastest_plan(graph, memory_bytes=memory, overlap=overlap, effort=EXACT)
        if not fitting:
            assert found == MemoryShortage(memory, math.inf, math.inf, None)
            continue
        best = float(min(seconds(graph, a, overlap.value) for a in fitting))
        assert isinstance(found, Incumbent)
        assert found.plan is not None
        assert float(seconds(graph, plans[found.plan], overlap.value)) == pytest.approx(found.value)
        assert peak(graph, plans[found.plan]) <= memory
        assert found.value == pytest.approx(best)
        assert best * (1 - 1e-6) - 1e-9 <= found.bound <= best


@pytest.mark.parametrize("seed", range(60))
def test_too_little_memory_is_named_with_the_least_that_fits(seed: int) -> None:
    graph, plans = tiny(seed)
    peaks = [float(peak(graph, a)) for a in plans.values()]
    if not peaks or min(peaks) == 0:
        return
    found = fastest_plan(graph, memory_bytes=0.9 * min(peaks), effort=EXACT)
    assert isinstance(found, MemoryShortage)
    assert found.least_bytes == min(peaks)
    assert 0.9 * min(peaks) < found.bound_bytes <= min(peaks)
    assert found.plan is not None
    assert float(peak(graph, plans[found.plan])) == min(peaks)
