"""Tiny factor graphs at random, as small integers: sums are exact, ties common."""

from __future__ import annotations

import numpy as np

from reference.parallelism.merging import merged
from treadle.parallelism.search.factor_graph import FactorGraph, Quantities, factor


def random_graph(seed: int, *, most_nodes: int = 5, most_states: int = 4, ban: float = 0.15) -> FactorGraph:
    """Two sections, two moments; about `ban` of the pairs of states are forbidden."""
    pick = np.random.default_rng(seed)
    n = int(pick.integers(1, most_nodes + 1))
    names = Quantities(n_sections=2, n_moments=2)
    sizes = tuple(int(size) for size in pick.integers(1, most_states + 1, n))
    parts = []
    for node, size in enumerate(sizes):
        s = int(pick.integers(2))
        compute = pick.integers(0, 20, size).astype(float)
        compute[pick.random(size) < ban / 3] = np.inf
        parts.append(
            factor(
                [node],
                {
                    names.compute(s): compute,
                    names.persistent: pick.integers(0, 30, size),
                    names.transient(int(pick.integers(2))): pick.integers(0, 30, size),
                },
            )
        )
    for u in range(n):
        for v in range(n):
            if u == v or pick.random() > 0.5:
                continue
            s, shape = int(pick.integers(2)), (sizes[u], sizes[v])
            wire = pick.integers(0, 20, shape).astype(float)
            wire[pick.random(shape) < ban] = np.inf
            tables = {names.communication(s): wire, names.transient(0): pick.integers(0, 10, shape)}
            if pick.random() < 0.3:
                tables[names.compute(s)] = pick.integers(0, 5, shape)
            parts.append(factor([u, v], tables))
    return FactorGraph(sizes, names, merged(parts), (int(pick.integers(1, 5)), 1))
