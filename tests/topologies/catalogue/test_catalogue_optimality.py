"""Column "Bandwidth Optimal" of table A.3, and what the docstrings add to it, by breadth-first broadcast."""

from fractions import Fraction

import numpy as np
import pytest

from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.topologies import (
    bandwidth_optimum,
    bi_ring,
    circulant,
    complete,
    complete_bipartite,
    de_bruijn,
    directed_circulant,
    distance_matrix,
    generalized_kautz,
    hamming,
    hypercube,
    kautz,
    parse,
    shifted_ring,
    torus,
    twisted_hypercube,
    twisted_torus,
    uni_ring,
)
from treadle.topologies.catalogue.direct import in_links


def optimal_families():
    yield from (complete(m) for m in (2, 3, 7))
    yield from (complete_bipartite(d, d) for d in (1, 2, 3, 6))
    yield from (hamming(n, q) for n, q in ((1, 4), (2, 3), (3, 3), (2, 5), (5, 2)))
    yield from (kautz(d, 0) for d in (2, 3, 5))
    yield from (generalized_kautz(d, d + 1) for d in (2, 3, 5))
    yield from (circulant(n, a, b) for n in (7, 12, 16, 23) for a, b in ((1, 2), (2, 3), (1, n // 2 - 1)))
    yield from (circulant(13, 5), circulant(13, 5, 5))
    yield from (directed_circulant(d + 2, *range(1, d + 1)) for d in (1, 2, 4, 7))
    yield from (directed_circulant(8, 1, 3), directed_circulant(8, 1, 7, 4))
    yield from (bi_ring(d, m) for d, m in ((2, 3), (2, 8), (4, 9), (6, 5)))
    yield from (uni_ring(d, m) for d, m in ((1, 2), (1, 9), (3, 6)))
    yield from (shifted_ring(n) for n in (3, 4, 6, 8, 12, 25))
    yield from (torus(5, 4), torus(3, 3, 2), torus(7, 2, 5), hypercube(5), twisted_hypercube(3))


@pytest.mark.parametrize("topology", list(optimal_families()), ids=lambda topology: topology.name)
def test_bandwidth_optimal_families_of_table_a3(topology):
    best = bandwidth_optimum(topology.n_nodes)
    assert bfb_value(topology).t_b == best
    assert bfb_reduce_scatter_value(topology).t_b == best


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kautz(4, 1)", Fraction(1)),
        ("kautz(4, 2)", Fraction(21, 20)),
        # Table 3.4: 1.332 for the generalized Kautz graph of 1024 nodes.
        ("generalized_kautz(4, 1024)", Fraction(341, 256)),
        # Bandwidth-optimal schedules of these exist, but are no breadth-first broadcasts (table A.3).
        ("diamond()", Fraction(1)),
        ("modified_de_bruijn(2, 3)", Fraction(5, 4)),
        ("modified_de_bruijn(2, 4)", Fraction(3, 2)),
        ("modified_de_bruijn(3, 2)", Fraction(10, 9)),
        ("modified_de_bruijn(4, 2)", Fraction(49, 48)),
        # Conjecture 1 of the dissertation fails; and two links between opposite nodes are not even.
        ("circulant(12, 1, 3, 4, 5)", Fraction(1)),
        ("circulant(15, 1, 4, 5)", Fraction(1)),
        ("circulant(8, 1, 4)", Fraction(1)),
        ("twisted_hypercube(4)", Fraction(17, 16)),
    ],
)
def test_breadth_first_broadcasts_that_are_not_bandwidth_optimal(text, expected):
    topology = parse(text)
    assert bfb_value(topology).t_b == expected > bandwidth_optimum(topology.n_nodes)


@pytest.mark.parametrize(("d", "n"), [(2, 1), (2, 4), (3, 1), (3, 3), (4, 1), (4, 4)])
def test_de_bruijn_pays_for_its_self_loops(d, n):
    # d^(t-1) shards per link at step t. Table A.3 calls n = 1 bandwidth-optimal; not with loops in d.
    t_b = bfb_value(de_bruijn(d, n)).t_b
    assert t_b == Fraction(d * (d**n - 1), d**n * (d - 1)) > bandwidth_optimum(d**n)


@pytest.mark.parametrize(("d", "n"), [(2, 1), (2, 3), (3, 2), (4, 2), (5, 3)])
def test_kautz_graphs_lose_little(d, n):
    assert bfb_value(kautz(d, n)).t_b == 1 + Fraction(d ** (n - 1) - 1, d ** (n - 1) * (d**2 - 1))


@pytest.mark.parametrize("d", [2, 4, 8, 16])
def test_generalized_kautz_is_within_twice_the_optimum(d):
    # Figure A.7, sampled.
    for m in (*range(d + 1, d + 20), 100, 128, 500, 999):
        assert bfb_value(generalized_kautz(d, m)).t_b <= 2 * bandwidth_optimum(m)


def is_orbit_optimal(topology):
    """Theorem 19 at node 0, which stands for all: any |P| in-links serve at most their share of the jobs."""
    (links,) = in_links(topology)[:1]
    rows = distance_matrix(topology, sources=[0, *topology.tails[links].tolist()])
    allowed = ((rows[1:] == rows[0] - 1) << np.arange(len(links))[:, None]).sum(axis=0)
    subsets = np.arange(2 ** len(links))
    sizes = np.array([int(p).bit_count() for p in subsets])
    for step in range(1, int(rows[0].max()) + 1):
        jobs = np.bincount(allowed[rows[0] == step], minlength=len(subsets))
        held = np.where((subsets & subsets[:, None]) == subsets, jobs, 0).sum(axis=1)
        if (held * len(links) > sizes * jobs.sum()).any():
            return False
    return True


def twisted_sizes(limit):
    for k in range(2, 71):
        for dims in ((k, 2 * k), (k, k, 2 * k), (k, 2 * k, 2 * k)):
            if np.prod(dims) <= limit:
                yield dims


def test_twisted_tori_are_bandwidth_optimal_to_ten_thousand_nodes():
    # "computationally verified to be BW-optimal for at least N <= 10^4" (3.6)
    sizes = list(twisted_sizes(10_000))
    assert len(sizes) == 97
    for dims in sizes:
        topology = twisted_torus(*dims)
        assert is_orbit_optimal(topology)
        if topology.n_nodes <= 100:
            assert bfb_value(topology).t_b == bandwidth_optimum(topology.n_nodes)


def test_the_orbit_check_can_fail():
    assert is_orbit_optimal(circulant(16, 3, 4))
    assert not is_orbit_optimal(circulant(12, 1, 3, 4, 5))
