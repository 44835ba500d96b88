"""The search against every plan, with and without limits of memory."""

from __future__ import annotations

import math

import pytest

from reference.parallelism.brute_force import every_plan, peak, seconds
from reference.parallelism.random_graphs import random_graph
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.minimax import Overlap
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan

EXACT = SearchEffort(gap=0.0)


def limits(graph_seed: int) -> tuple[float, ...]:
    """Below every plan, among them, and above."""
    peaks = sorted({peak(random_graph(graph_seed), a) for a in every_plan(random_graph(graph_seed)).values()})
    return (math.inf, *(float(peaks[i]) for i in {0, len(peaks) // 3} if peaks))


@pytest.mark.parametrize("seed", range(200))
def test_the_best_plan_of_all(seed: int) -> None:
    graph, overlap = random_graph(seed), list(Overlap)[seed % 3]
    plans = every_plan(graph)
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


@pytest.mark.parametrize("seed", range(200))
def test_too_little_memory_is_named_with_the_least_that_fits(seed: int) -> None:
    graph = random_graph(seed)
    peaks = [float(peak(graph, a)) for a in every_plan(graph).values()]
    if not peaks or min(peaks) == 0:
        return
    found = fastest_plan(graph, memory_bytes=0.9 * min(peaks), effort=EXACT)
    assert isinstance(found, MemoryShortage)
    assert found.least_bytes == min(peaks)
    assert 0.9 * min(peaks) < found.bound_bytes <= min(peaks)
    assert found.plan is not None
    assert float(peak(graph, every_plan(graph)[found.plan])) == min(peaks)


def test_a_named_plan_is_never_beaten_by_what_is_found() -> None:
    graph = random_graph(3)
    plans = every_plan(graph)
    for plan, amounts in plans.items():
        found = fastest_plan(graph, named=[plan], effort=SearchEffort(n_parts=0))
        assert isinstance(found, Incumbent)
        assert found.value <= float(seconds(graph, amounts, "layer"))
        assert found.bound <= min(float(seconds(graph, a, "layer")) for a in plans.values())
