"""Tiny factor graphs at random, as small integers: sums are exact, ties common."""

from __future__ import annotations

import numpy as np

from reference.parallelism.merging import merged
from treadle.parallelism.search.factor_graph import FactorGraph, Quantities, factor
from treadle.parallelism.search.layer_columns import Layering

X, G, OPS, HEAD = 0, 1, (2, 3), 4
"""Nodes of `random_layering`."""


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
                    names.serial(s): compute,
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
            tables = {names.overlapped(s): wire, names.transient(0): pick.integers(0, 10, shape)}
            if pick.random() < 0.3:
                tables[names.serial(s)] = pick.integers(0, 5, shape)
            parts.append(factor([u, v], tables))
    return FactorGraph(sizes, names, merged(parts), (int(pick.integers(1, 5)), 1))


def random_layering(seed: int) -> Layering:
    """X and G, two operators of a block and one of the ends; few states: all mixtures can be tried."""
    pick = np.random.default_rng(seed)
    names = Quantities(2, 2)
    sizes = (2, int(pick.integers(1, 3)), 2, int(pick.integers(1, 3)), 2)

    def table(*nodes: int, most: int, ban: float = 0.0) -> np.ndarray:
        made = pick.integers(0, most, [sizes[node] for node in nodes]).astype(float)
        made[pick.random(made.shape) < ban] = np.inf
        return made

    parts = [factor([X], {names.persistent: table(X, most=10)})]
    for u, v in ((X, 2), (2, 3), (G, 3), (X, 3)):
        parts.append(factor([u, v], {names.overlapped(0): table(u, v, most=20, ban=0.1)}))
    for u, v in ((X, HEAD), (G, HEAD)):
        parts.append(factor([u, v], {names.overlapped(1): table(u, v, most=20)}))
    for node in (*OPS, HEAD):
        amounts = {
            names.serial(int(node == HEAD)): table(node, most=20),
            names.persistent: table(node, most=60),
            names.transient(int(pick.integers(2))): table(node, most=20),
        }
        parts.append(factor([node], amounts))
    repeats = (int(pick.integers(2, 4)), 1)
    switches = []
    for node in (X, G):
        seconds = table(node, node, most=6)
        np.fill_diagonal(seconds, 0)
        switches.append(seconds)
    graph = FactorGraph(sizes, names, merged(parts), repeats, first=(X, G))
    return Layering(graph, 0, (X, G), tuple(switches), frozenset(OPS))
