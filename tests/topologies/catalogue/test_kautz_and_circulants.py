"""Kautz graphs and circulants: line graphs, and theorems 21 and 22."""

from math import ceil, gcd, sqrt

import networkx as nx
import numpy as np
import pytest

from reference.multigraphs import are_isomorphic, networkx_graph
from treadle.topologies import (
    circulant,
    complete,
    diameter,
    generalized_kautz,
    kautz,
    moore_bound,
    moore_steps,
)


@pytest.mark.parametrize(("d", "n"), [(1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)])
def test_kautz_is_the_iterated_line_graph_of_the_complete_graph(d, n):
    graph = networkx_graph(complete(d + 1))
    for _ in range(n):
        graph = nx.line_graph(nx.DiGraph(graph))
    relabelled = nx.MultiDiGraph(nx.convert_node_labels_to_integers(graph))
    assert are_isomorphic(networkx_graph(kautz(d, n)), relabelled)


@pytest.mark.parametrize(("d", "n"), [(2, 0), (2, 3), (3, 1), (5, 0)])
def test_the_line_graph_of_a_kautz_graph_is_the_next_one_link_by_link(d, n):
    small, large = kautz(d, n), kautz(d, n + 1)
    expected = [
        (e, f) for e in range(small.n_links) for f in range(small.n_links) if small.heads[e] == small.tails[f]
    ]
    assert list(zip(large.tails.tolist(), large.heads.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("d", "n"), [(2, 1), (2, 3), (3, 1), (4, 1)])
def test_generalized_kautz_is_kautz_where_the_size_fits(d, n):
    # A.6.2: if m = d^(n+1) + d^n, then the graph is K(d, n).
    assert are_isomorphic(
        networkx_graph(generalized_kautz(d, d ** (n + 1) + d**n)), networkx_graph(kautz(d, n))
    )


def test_generalized_kautz_arcs_of_definition_16():
    topology = generalized_kautz(3, 7)
    expected = [(x, (-3 * x - a) % 7) for x in range(7) for a in (1, 2, 3)]
    assert list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)) == expected


def kautz_diameter(d, m):
    """Diameter by arithmetic: after t steps from x one stands anywhere in an interval of d^t numbers."""
    begins = np.arange(m)[:, None]
    for step in range(1, moore_steps(m, d) + 2):
        # x -> -d x - a stretches the interval and turns it round: it begins at the image of its last number.
        last = begins[:, -1] + d ** (step - 1) - 1
        begins = np.column_stack([begins, (-d * last - d) % m])
        lengths = d ** np.arange(step + 1)
        order = np.argsort(begins, axis=1, kind="stable")
        # Round the circle twice: a gap shows in the second turn as a beginning beyond all earlier ends.
        turn = np.take_along_axis(begins, order, axis=1)
        starts = np.concatenate([turn, turn + m], axis=1)
        ends = np.maximum.accumulate(starts + np.tile(lengths[order], 2), axis=1)
        if (starts[:, step + 1 :] <= ends[:, step:-1]).all():
            return step
    raise AssertionError(f"no diameter up to T_L* + 1 for d={d}, m={m}")


@pytest.mark.parametrize("d", [2, 4])
def test_theorem_21_generalized_kautz_is_one_step_from_moore_optimal(d):
    sizes = {False: 0, True: 0}
    for m in (*range(d + 1, 250), *range(500, 2001, 37)):
        k = kautz_diameter(d, m)
        assert m > moore_bound(d, k - 2)
        assert moore_steps(m, d) <= k <= moore_steps(m, d) + 1
        sizes[k == moore_steps(m, d)] += 1
        if m % 29 == 0 or m < 40:
            assert diameter(generalized_kautz(d, m)) == k
    assert min(sizes.values()) > 0


def least_offset(n):
    """The m of theorem 22."""
    return ceil((-1 + sqrt(2 * n - 1)) / 2)


def test_theorem_22_two_offsets_of_least_diameter():
    for n in (*range(7, 250), *range(500, 2001, 37)):
        m = least_offset(n)
        assert diameter(circulant(n, m, m + 1), sources=[0]) == m


@pytest.mark.parametrize("n", [7, 8, 12, 13, 14, 20, 25, 26])
def test_theorem_22_no_two_offsets_are_better(n):
    pairs = ((a, b) for a in range(1, n // 2 + 1) for b in range(a + 1, n // 2 + 1) if gcd(n, a, b) == 1)
    assert min(diameter(circulant(n, a, b), sources=[0]) for a, b in pairs) == least_offset(n)
