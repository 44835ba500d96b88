"""Moves of one node in the core against moves that are priced anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reference.parallelism.brute_force import every_plan
from reference.parallelism.random_graphs import random_graph
from reference.parallelism.single_moves import moved
from treadle.engine import core
from treadle.parallelism.search.local_moves import improved
from treadle.parallelism.search.minimax import Overlap, peak_memory, step_time
from treadle.parallelism.search.slices import Slice, consistent, full_domains


@pytest.mark.parametrize("seed", range(24))
def test_compiled_moves_are_those_of_the_reference(seed: int) -> None:
    graph = random_graph(seed, most_nodes=6, most_states=7, ban=0.05)
    plans = list(every_plan(graph)) if np.prod(graph.sizes) < 5000 else []
    if not plans:
        return
    domains = consistent(graph, full_domains(graph))
    assert domains is not None
    part = Slice(graph, domains)
    pick = np.random.default_rng(seed)
    aims = [
        step_time(graph, overlap=overlap, memory_bytes=limit)
        for overlap in Overlap
        for limit in (30.0, math.inf)
    ]
    for aim in (*aims, peak_memory(graph)):
        for price in (0.25, math.inf):
            plan = list(plans[int(pick.integers(len(plans)))])
            labels = np.array(part.labels(plan), dtype=np.int32)
            found = core.improve_plan(graph.pair_tables, part.core_domains, aim.core_forms, labels, price, 10)
            assert list(part.plan(found.tolist())) == moved(graph, aim, plan, price=price, n_sweeps=10)


@pytest.mark.parametrize("seed", range(15))
def test_a_plan_gets_no_worse_and_stays_allowed(seed: int) -> None:
    graph = random_graph(seed)
    plans, domains = every_plan(graph), consistent(graph, full_domains(graph))
    if domains is None:
        return
    part, aim = Slice(graph, domains), step_time(graph, memory_bytes=40.0)
    for plan in plans:
        labels = part.labels(plan)
        assert labels is not None
        found = part.plan(improved(part, aim, labels, price=0.1))
        assert found in plans
        if aim.fits(graph.amounts(plan)):
            assert aim.fits(graph.amounts(found))
