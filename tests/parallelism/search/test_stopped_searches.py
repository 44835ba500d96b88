"""A search that is stopped early, or keeps to some states, still has a bound: against all plans."""

from __future__ import annotations

import math
from time import monotonic

import numpy as np
import pytest

from reference.parallelism.brute_force import every_plan
from reference.parallelism.random_graphs import random_graph
from treadle.context import Context, under
from treadle.parallelism.search.branching import SearchEffort, minimise
from treadle.parallelism.search.minimax import step_time
from treadle.parallelism.search.one_plan import least_persistent
from treadle.parallelism.search.slices import full_domains


@pytest.mark.parametrize("seed", range(15))
def test_no_plan_lies_below_the_bound_of_a_stopped_search(seed: int) -> None:
    graph = random_graph(seed)
    pick = np.random.default_rng(seed)
    kept = tuple(np.flatnonzero(pick.random(size) < 0.8).astype(np.int64) for size in graph.sizes)
    plans = [(plan, graph.amounts(plan)) for plan in every_plan(graph)]
    for within in (full_domains(graph), kept):
        inside = [
            amounts
            for plan, amounts in plans
            if all(state in some for state, some in zip(plan, within, strict=True))
        ]
        for limit in (40.0, math.inf):
            aim = step_time(graph, memory_bytes=limit)
            least = min((aim.value(one) for one in inside if aim.fits(one)), default=math.inf)
            for n_parts, gap in ((1, 0.0), (2, 0.0), (3, 0.3), (1, 0.3)):
                effort = SearchEffort(gap=gap, n_parts=n_parts, first_passes=2, other_passes=1)
                found = minimise(graph, aim, within=within, effort=effort)
                assert found.bound <= least * (1 + 1e-12)
                assert found.value >= least * (1 - 1e-12)
            with under(Context(None, monotonic() - 1)):
                late = minimise(graph, aim, within=within)
            assert late.bound <= least * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_no_plan_holds_less_than_what_persists_at_least(seed: int) -> None:
    graph = random_graph(seed)
    held = [graph.amounts(plan)[graph.quantities.persistent] for plan in every_plan(graph)]
    assert least_persistent(graph, full_domains(graph)) <= min(held, default=math.inf)
    if not held:
        return
    assert least_persistent(graph, full_domains(graph)) >= 0
