"""Bounds hold for any weights, and the best of them is that of the local polytope."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reference.parallelism.brute_force import every_plan
from reference.parallelism.local_polytope import least_seconds
from reference.parallelism.random_graphs import random_graph
from treadle.parallelism.search.branching import SearchEffort, minimise
from treadle.parallelism.search.minimax import peak_memory, step_time
from treadle.parallelism.search.multipliers import Columns, climb, even_weights, theta
from treadle.parallelism.search.reweighted_trees import no_messages
from treadle.parallelism.search.slices import Slice, consistent, full_domains


@pytest.mark.parametrize("seed", range(24))
def test_bounds_hold_for_any_weights(seed: int) -> None:
    """Also with messages of other weights; slacks bound the plans that take a state."""
    graph, pick = random_graph(seed), np.random.default_rng(seed)
    plans = every_plan(graph)
    domains = consistent(graph, full_domains(graph))
    if domains is None:
        assert not plans
        return
    part, messages = Slice(graph, domains), no_messages(graph)
    aim = step_time(graph, memory_bytes=float(pick.integers(1, 100)))
    for _ in range(8):
        weights = np.zeros(len(aim.forms))
        for weight, forms in aim.groups:
            share = pick.random()
            weights[list(forms)] = weight * share, weight * (1 - share)
        weights[list(aim.limited)] = pick.exponential(1.0, len(aim.limited)) * (pick.random(2) < 0.6)
        found = theta(part, aim, weights, messages)
        messages = found.messages
        paid = weights[list(aim.limited)].sum() * aim.limit
        energies = {
            plan: float(weights @ aim.forms @ np.array([float(x) for x in a])) - paid
            for plan, a in plans.items()
        }
        assert all(found.bound <= energy + 1e-12 * abs(energy) for energy in energies.values())
        for node, (states, slack) in enumerate(zip(part.domains, found.slack, strict=True)):
            for state, more in zip(states.tolist(), slack.tolist(), strict=True):
                assert all(
                    found.bound + more <= energy + 1e-9
                    for plan, energy in energies.items()
                    if plan[node] == state
                )


LOOSER = {66: 0.025, 85: 0.025, 155: 0.02}
"""Of the first 200 seeds only these, 135 and 171 (both 0.014) lie more than 1% below the polytope."""


@pytest.mark.parametrize("seed", [*range(24), *LOOSER])
def test_the_bound_is_that_of_the_local_polytope(seed: int) -> None:
    """Within 1%, from a plan that is known and with steps along each weight, as the search begins."""
    graph = random_graph(1000 + seed, most_nodes=9, most_states=6, ban=0.05)
    domains = consistent(graph, full_domains(graph))
    if domains is None:
        return
    memory = 1.1 * minimise(graph, peak_memory(graph), effort=SearchEffort(gap=0.0)).value
    for limit in (math.inf, memory):
        aim = step_time(graph, memory_bytes=limit)
        lower, best = (least_seconds(graph, limit, is_integer=whole_ones) for whole_ones in (False, True))
        assert math.isfinite(best)
        exact = minimise(graph, aim, effort=SearchEffort(gap=0.0))
        assert exact.value == pytest.approx(best, rel=1e-6)
        assert exact.plan is not None
        columns = Columns(graph, aim)
        columns.add(exact.plan)
        found = climb(
            Slice(graph, domains),
            columns,
            even_weights(aim),
            no_messages(graph),
            cut_at=1e9,
            n_passes=400,
            tolerance=1e-6,
            probes_weights=True,
            prunes=False,
        )
        assert found.bound <= lower * (1 + 1e-7) + 1e-9
        assert found.bound >= (1 - LOOSER.get(seed, 0.01)) * lower - 1e-9
