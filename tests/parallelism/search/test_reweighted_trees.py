"""The compiled message passing against its readable twin."""

from __future__ import annotations

import numpy as np
import pytest

from reference.parallelism.message_passing import passes
from treadle.engine import core
from treadle.parallelism.search.core_search_values import PairEnergies


@pytest.mark.parametrize("seed", range(15))
def test_compiled_passes_are_those_of_the_reference(seed: int) -> None:
    """Domains above and below the width of the core's lanes, some pairs forbidden, some nodes alone."""
    pick = np.random.default_rng(seed)
    n = int(pick.integers(1, 9))
    sizes = pick.integers(1, 30, n)
    scopes = [(u, v) for u in range(n) for v in range(u + 1, n) if pick.random() < 0.4]
    unary = [pick.random(size) * 10 for size in sizes]
    pairs = [pick.random((sizes[u], sizes[v])) * 10 for u, v in scopes]
    for table in pairs:
        table[pick.random(table.shape) < 0.1] = np.inf
        table[np.isinf(table).all(axis=1)] = 3.0
        table[:, np.isinf(table).all(axis=0)] = 3.0
    sent = [[pick.normal(size=sizes[u]), pick.normal(size=sizes[v])] for u, v in scopes]
    none: list[np.ndarray] = [np.zeros(0)]
    (now, before, magnitude), labels, slack, moved = core.reweighted_trees(
        PairEnergies(
            sizes.astype(np.int32),
            np.array([u for u, _ in scopes], np.int32),
            np.array([v for _, v in scopes], np.int32),
            np.concatenate(unary),
            np.concatenate([*none, *(table.ravel() for table in pairs)]),
        ),
        np.concatenate([*none, *(part for edge in sent for part in edge)]),
        6,
        1e-9,
    )
    sums, chosen, lacking = passes(scopes, unary, pairs, sent, n_passes=6, tolerance=1e-9)
    assert (now, before) == pytest.approx(sums, rel=1e-9)
    assert labels.tolist() == chosen
    assert slack == pytest.approx(np.concatenate(lacking), abs=1e-9)
    flat = np.concatenate([*none, *(part for edge in sent for part in edge)])
    assert moved == pytest.approx(flat, abs=1e-9)
    assert magnitude == pytest.approx(sum(np.abs(part).max() for edge in sent for part in edge))
