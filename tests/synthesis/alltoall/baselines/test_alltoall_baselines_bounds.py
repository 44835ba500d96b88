"""Cuts and the approximation scheme: known bisections, brute force, convergence to the optimum."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.bisection import best_cut, cut_rate
from treadle.topologies import parse
from treadle.topologies.catalogue.graphs import hypercube, mesh, ring, torus
from treadle.topologies.topology import Topology


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


@pytest.mark.parametrize(
    ("fabric", "rate"),
    [
        (torus(4, 8), Fraction(1, 32)),  # 8 links, 16 * 16 pairs
        (hypercube(5), Fraction(1, 16)),  # N / 2
        (mesh(6, 6), Fraction(1, 54)),  # 6^3 / 4, Scott (1991)
        (mesh(4, 4), Fraction(1, 16)),
        (ring(7), Fraction(2, 12)),
    ],
)
def test_cuts_of_grids(fabric: Topology, rate: Fraction) -> None:
    cut = best_cut(fabric, everyone(fabric))
    assert cut.pair_rate == rate == cut_rate(fabric, everyone(fabric), cut.nodes)
    assert cut.is_exact == (fabric.n_nodes <= 16)
    halves = best_cut(fabric, everyone(fabric), is_balanced=True)
    assert halves.pair_rate == rate
    assert abs(2 * len(halves.nodes) - fabric.n_nodes) <= 1
    assert cut.certificate(fabric).pair_rate_bound(fabric, everyone(fabric)) <= rate


def test_bisections_of_an_odd_torus_are_worse_than_its_best_cut() -> None:
    fabric = torus(3, 3, 3)
    assert best_cut(fabric, everyone(fabric)).pair_rate == Fraction(1, 9)  # one layer: 18 links, 9 * 18 pairs
    assert best_cut(fabric, everyone(fabric), is_balanced=True).pair_rate > Fraction(1, 9)


def test_boxes_are_cut_apart() -> None:
    fabric = parse("dgx_a100(2)")
    cut = best_cut(fabric, everyone(fabric))
    assert cut.pair_rate == Fraction(8 * 25 * 10**9, 8 * 8)
