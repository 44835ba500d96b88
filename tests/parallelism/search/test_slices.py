"""Parts of a factor graph as the core reads them, against sums and pairs that are looked at one by one."""

from __future__ import annotations

import numpy as np
import pytest

from reference.parallelism.random_graphs import random_graph
from treadle.errors import ScheduleError
from treadle.parallelism.search.factor_graph import Factor, FactorGraph, Quantities, factor
from treadle.parallelism.search.slices import Domains, Slice, consistent, full_domains


def some_states(graph: FactorGraph, seed: int) -> Domains:
    pick = np.random.default_rng(seed)
    return tuple(
        np.sort(pick.choice(size, size=int(pick.integers(1, size + 1)), replace=False)).astype(np.int64)
        for size in graph.sizes
    )


@pytest.mark.parametrize("seed", range(12))
def test_energies_are_weighted_sums_of_tables(seed: int) -> None:
    graph = random_graph(seed, most_nodes=5, most_states=6, ban=0.1)
    domains = consistent(graph, some_states(graph, seed))
    if domains is None:
        return
    weights = np.random.default_rng(seed).random(graph.quantities.count)
    found, start = Slice(graph, domains).energies(weights), 0
    for part in graph.edges:
        u, v = part.scope
        for i in domains[u]:
            for j in domains[v]:
                expected = sum(weights[q] * table[i, j] for q, table in part.tables.items())
                if part.forbidden is not None and part.forbidden[i, j]:
                    expected = np.inf
                assert found.pair[start] == pytest.approx(expected, rel=1e-14)
                start += 1
    assert start == len(found.pair)
    alone = [
        graph.node_amounts[graph.starts[node] + i] @ weights
        for node, some in enumerate(domains)
        for i in some
    ]
    np.testing.assert_allclose(found.unary, alone, rtol=1e-14)
    finite = found.pair[np.isfinite(found.pair)]
    assert max(found.unary.max(), finite.max(initial=0)) <= found.largest * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(24))
def test_states_that_are_left_have_partners_and_those_that_went_have_none(seed: int) -> None:
    graph = random_graph(seed, most_nodes=5, most_states=6, ban=0.4)
    start = some_states(graph, seed)
    left = [set(states.tolist()) for states in start]
    for part in graph.factors:
        if len(part.scope) == 1 and part.forbidden is not None:
            left[part.scope[0]] -= set(np.flatnonzero(part.forbidden).tolist())
    changed = True
    while changed:  # one state at a time
        changed = False
        for part in graph.edges:
            if part.forbidden is None:
                continue
            for axis, mask in ((0, part.forbidden), (1, part.forbidden.T)):
                mine, theirs = part.scope[axis], part.scope[1 - axis]
                alone = {i for i in left[mine] if all(mask[i, j] for j in left[theirs])}
                left[mine] -= alone
                changed |= bool(alone)
    found = consistent(graph, start)
    if all(left):
        assert found is not None
        assert [set(states.tolist()) for states in found] == left
        assert all((np.diff(states) > 0).all() for states in found)
    else:
        assert found is None


def test_equal_tables_are_kept_once_and_count_for_each_of_their_quantities() -> None:
    names = Quantities(1, 2)
    table = np.arange(6.0).reshape(2, 3)
    turned = factor((1, 0), {names.transient(0): table.T, names.transient(1): table.T.copy(), 0: table.T + 1})
    assert turned.scope == (0, 1)
    assert turned.tables[names.transient(0)] is turned.tables[names.transient(1)]
    graph = FactorGraph((2, 3), names, (turned,), (1,))
    amounts = graph.amounts((1, 2))
    assert amounts.tolist() == [6, 0, 0, 5, 5]
    assert len(graph.pair_tables.amount) == 2


def test_tables_that_the_core_could_not_read_are_refused() -> None:
    names = Quantities(1, 0)
    turned = Factor((0, 1), {0: np.ones((3, 2)).T})
    with pytest.raises(ScheduleError, match="made by `factor`"):
        FactorGraph((2, 3), names, (turned,), (1,))
    flags = Factor((0, 1), {0: np.ones((2, 3))}, np.zeros((3, 2), bool).T)
    with pytest.raises(ScheduleError, match="flags must be made by `factor`"):
        FactorGraph((2, 3), names, (flags,), (1,))


def test_all_states_are_left_where_nothing_is_forbidden() -> None:
    names = Quantities(1, 0)
    graph = FactorGraph((2, 3), names, (factor((0, 1), {0: np.ones((2, 3))}),), (1,))
    found = consistent(graph, full_domains(graph))
    assert found is not None
    assert [states.tolist() for states in found] == [[0, 1], [0, 1, 2]]
