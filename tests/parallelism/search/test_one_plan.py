"""The search against every plan, with and without limits of memory."""

from __future__ import annotations

import math
import time
from functools import cache

import numpy as np
import pytest

from reference.parallelism.brute_force import Priced, every_plan, peak, seconds
from reference.parallelism.random_graphs import random_graph
from treadle.context import Context, under
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


@pytest.mark.parametrize("seed", range(60))
def test_a_limit_within_the_gap_of_the_least_memory_is_decided(seed: int) -> None:
    """By the search for memory, which goes on beyond the gap that is asked for, as far as it must."""
    graph, plans = tiny(seed)
    least = min((float(peak(graph, a)) for a in plans.values()), default=0.0)
    for share in (0.6, 0.9, 1.0):
        found = fastest_plan(graph, memory_bytes=share * least, effort=SearchEffort(gap=0.5))
        if share == 1.0 or least == 0:
            assert isinstance(found, Incumbent) or not plans
            continue
        assert isinstance(found, MemoryShortage)
        assert share * least < found.bound_bytes <= least <= found.least_bytes < math.inf


def test_a_named_plan_is_never_beaten_by_what_is_found() -> None:
    graph = random_graph(13)
    plans = every_plan(graph)
    for plan, amounts in plans.items():
        found = fastest_plan(graph, named=[plan], effort=SearchEffort(n_parts=0))
        assert isinstance(found, Incumbent)
        assert found.value <= float(seconds(graph, amounts, "layer"))
        assert found.bound <= min(float(seconds(graph, a, "layer")) for a in plans.values())


@pytest.mark.parametrize("seed", range(0, 60, 4))
def test_the_best_plan_within_domains(seed: int) -> None:
    """A named plan is a restriction of the same graph; plans outside neither count nor help."""
    graph, plans = tiny(seed)
    pick = np.random.default_rng(seed)
    within = tuple(
        np.flatnonzero(pick.random(size) < 0.6) if pick.random() < 0.5 else np.arange(size)
        for size in graph.sizes
    )
    inside = [a for p, a in plans.items() if all(s in w for s, w in zip(p, within, strict=True))]
    outside = [p for p in plans if any(s not in w for s, w in zip(p, within, strict=True))]
    found = fastest_plan(graph, within=within, named=outside, effort=EXACT)
    if not inside:
        assert found == MemoryShortage(math.inf, math.inf, math.inf, None)
        return
    best = float(min(seconds(graph, a, "layer") for a in inside))
    assert isinstance(found, Incumbent)
    assert found.value == pytest.approx(best)
    assert best * (1 - 1e-6) - 1e-9 <= found.bound <= best


def test_a_search_out_of_time_says_what_it_knows() -> None:
    graph, plans = tiny(13)
    late = Context(deadline=time.monotonic() - 1)
    with under(late):
        found = fastest_plan(graph, named=plans)
    assert isinstance(found, Incumbent)
    assert found.n_passes == 1
    assert found.bound <= float(min(seconds(graph, a, "layer") for a in plans.values())) <= found.value
