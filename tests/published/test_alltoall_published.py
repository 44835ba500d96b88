"""Exact all-to-all rates against the values in print.

[A] Efficient all-to-all Collective Communication Schedules for Direct-connect Topologies (HPDC 2024).
[D] The dissertation's table A.1 (the column MCF) and section A.1.5.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, log10

import pytest

from shortcuts.exact_flows import exact_rate
from treadle import topologies as t
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.exact_columns import ExactRate
from treadle.topologies.moore import all_to_all_limit


def _exact(topology: t.Topology) -> ExactRate:
    found = exact_rate(topology, on_all_ranks(topology, CollectiveKind.ALLTOALL))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("expression", "rate"),
    [
        ("complete_bipartite(4, 4)", Fraction(2, 5)),
        ("hypercube(3)", Fraction(1, 4)),
        ("twisted_hypercube(3)", Fraction(1, 4)),
        ("torus(3, 3, 3)", Fraction(1, 9)),
        ('with_host_bottleneck(torus(3, 3, 3), bandwidth="4B/s")', Fraction(2, 27)),
        ('with_host_bottleneck(torus(3, 3, 3), bandwidth="4B/s", nic_forwards=True)', Fraction(1, 9)),
    ],
)
def test_testbed_fabrics(expression: str, rate: Fraction) -> None:
    """[A] figures 3 and 4 and section 5.2: 1/F is 2.5 and 4.0; f is 1/9, and 2/27 with the bottleneck."""
    topology = t.parse(expression)
    exact = _exact(topology)
    assert exact.rate == rate
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    assert exact.certificate.pair_rate_bound(topology, collective) == rate


def test_throughput_of_the_cluster_with_its_bottleneck() -> None:
    """[A] section 5.2: (N - 1) f b = 26 * 2/27 * 3.125 = 6.01 GB/s; hosts at 100, links at 25 Gbit/s."""
    torus = t.torus(3, 3, 3, bandwidth=3_125_000_000)
    rate = _exact(t.with_host_bottleneck(torus, bandwidth=12_500_000_000)).rate
    assert float(26 * rate) / 1e9 == pytest.approx(6.01, abs=0.01)
    assert 26 * rate == 26 * Fraction(2, 27) * 3_125_000_000


TABLE_A1 = [
    ("line_graph(complete_bipartite(4, 4))", 5.71e-2),
    ("distance_regular(4, 32)", 5.26e-2),
    ("generalized_kautz(4, 64)", 2.17e-2),
    ("cartesian_power(diamond(), 2)", 1.87e-2),
    ("line_graph(complete_bipartite(4, 4), 2)", 9.89e-3),
    ("line_graph(distance_regular(4, 32))", 9.26e-3),
    ("cartesian_product(bi_ring(2, 8), cartesian_power(uni_ring(1, 4), 2))", 5.21e-3),
    ("de_bruijn(4, 4)", 4.04e-3),
    ("line_graph(complete_bipartite(4, 4), 3)", 1.88e-3),
    ("line_graph(distance_regular(4, 32), 2)", 1.78e-3),
    ("line_graph(cartesian_product(cartesian_power(uni_ring(1, 4), 3), uni_ring(1, 2)))", 1.12e-3),
    ("cartesian_product(cartesian_power(uni_ring(1, 4), 3), uni_ring(1, 8))", 5.58e-4),
    ("cartesian_power(cartesian_product(uni_ring(1, 4), uni_ring(1, 8)), 2)", 2.79e-4),
]


@pytest.mark.parametrize(("expression", "printed"), TABLE_A1)
def test_table_a1(expression: str, printed: float) -> None:
    """[D] table A.1, d = 4, three digits; row BiRing(1, 4)^3 x UniRing(1, 2) is of one-way rings.

    A ring of four with one link per node is one-way: BiRing(1, 4) in the table stands for it.
    """
    topology = t.parse(expression)
    rate = _exact(topology).rate
    assert float(rate) == pytest.approx(printed, abs=0.00501 * 10 ** floor(log10(printed)))
    assert rate <= all_to_all_limit(topology.n_nodes, 4)


@pytest.mark.parametrize(
    ("n", "printed"), [(32, 5.80e-2), (64, 2.42e-2), (128, 1.00e-2), (256, 4.39e-3), (512, 1.90e-3)]
)
def test_theoretical_bounds_of_table_a1(n: int, printed: float) -> None:
    """[D] table A.1, rows Theoretical Bound; [A] theorem 1."""
    limit = float(all_to_all_limit(n, 4))
    assert limit == pytest.approx(printed, abs=0.00501 * 10 ** floor(log10(printed)))


@pytest.mark.parametrize(
    "expression",
    [
        *("generalized_kautz(4, 27)", "generalized_kautz(3, 20)", "kautz(2, 3)", "de_bruijn(2, 4)"),
        *("directed_circulant(6, 1, 2, 3, 4)", "random_regular_digraph(14, 3)", "diamond()"),
    ],
)
def test_theorem_1(expression: str) -> None:
    """[A] theorem 1: d / (sum of the distances in the ideal distribution) is never exceeded."""
    topology = t.parse(expression)
    degree = topology.n_links // topology.n_nodes
    assert _exact(topology).rate <= all_to_all_limit(topology.n_nodes, degree)


@pytest.mark.parametrize(
    "expression", ["torus(5, 5)", "hypercube(4)", "circulant(16, 3, 4)", "jellyfish(12, 3)", "odd_graph(3)"]
)
def test_theorem_1_of_bidirectional_graphs(expression: str) -> None:
    """[A] theorem 1 with the Moore bound of bidirectional graphs."""
    topology = t.parse(expression)
    degree = topology.n_links // topology.n_nodes
    assert _exact(topology).rate <= all_to_all_limit(topology.n_nodes, degree, bidirectional=True)


@pytest.mark.parametrize(
    ("expression", "rate"),
    [
        ("torus(10, 10, 10)", Fraction(1, 1250)),
        ("hypercube(10)", Fraction(1, 512)),
        ("circulant(1000, 22, 23)", Fraction(43, 160122)),
    ],
)
def test_symmetric_fabrics_near_a_thousand_nodes(expression: str, rate: Fraction) -> None:
    """Torus and cube: capacity over the sum of distances, as all links are alike (Scott; Johnsson and Ho)."""
    assert _exact(t.parse(expression)).rate == rate
