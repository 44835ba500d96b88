"""Cuts and the approximation scheme: known bisections, brute force, convergence to the optimum."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.bisection import CutBound, _CutSearch, best_cut, cut_rate
from treadle.synthesis.alltoall.rate.fleischer import fleischer_rate
from treadle.synthesis.alltoall.rate.flow import check_flow
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths
from treadle.synthesis.alltoall.routes.path_mcf import path_mcf
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.graphs import hypercube, mesh, ring, star, torus
from treadle.topologies.topology import Topology


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


@st.composite
def exchanges(draw: st.DrawFn, most: int = 6) -> tuple[Topology, Collective]:
    fabric = draw(digraphs(compute=(2, most)))
    n = fabric.n_nodes
    matrix = np.array(draw(st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n))).reshape(n, n)
    matrix[0, 1] += 1
    demands = Demands(matrix) if draw(st.booleans()) else None
    return fabric, Collective(CollectiveKind.ALLTOALL, tuple(range(n)), demands=demands)


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


def test_cuts_without_demand_and_large_fabrics_are_refused() -> None:
    fabric = star(4)
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[0, 1] = 1
    some = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=Demands(matrix))
    with pytest.raises(ScheduleError, match="nothing is proved"):
        cut_rate(fabric, some, (1, 2))
    assert best_cut(fabric, some).pair_rate == 1
    with pytest.raises(ScheduleError, match="at most 2500"):
        best_cut(ring(2501), everyone(ring(2501)))


def _by_trying(fabric: Topology, collective: Collective, is_balanced: bool) -> Fraction | None:
    best = None
    n = fabric.n_nodes
    for bits in product([False, True], repeat=n):
        inside = tuple(node for node in range(n) if bits[node])
        if is_balanced and abs(2 * len(inside) - n) > 1:
            continue
        demand = sum(
            int(collective.pair_demands.matrix[i, j]) for i in inside for j in range(n) if not bits[j]
        )
        if demand:
            ends = zip(fabric.tails, fabric.heads, fabric.bandwidths, strict=True)
            rate = Fraction(sum(int(b) for u, v, b in ends if bits[u] and not bits[v]), demand)
            best = rate if best is None else min(best, rate)
    return best


@settings(max_examples=9, deadline=None, derandomize=True)
@given(exchanges(), st.booleans())
def test_enumeration_finds_the_least_cut(case: tuple[Topology, Collective], is_balanced: bool) -> None:
    fabric, collective = case
    expected = _by_trying(fabric, collective, is_balanced)
    if expected is None:
        with pytest.raises(ScheduleError, match="no cut"):
            best_cut(fabric, collective, is_balanced=is_balanced)
    else:
        assert best_cut(fabric, collective, is_balanced=is_balanced).pair_rate == expected


@settings(max_examples=9, deadline=None, derandomize=True)
@given(exchanges(), st.booleans())
def test_searched_cuts_are_what_they_seem(case: tuple[Topology, Collective], is_balanced: bool) -> None:
    """The search on fabrics whose cuts could be enumerated: never below the least, and mostly at it."""
    fabric, collective = case
    search = _CutSearch(fabric, collective, is_balanced)
    expected = _by_trying(fabric, collective, is_balanced)
    masks = [search.improve(mask) for mask in search.starts(4, np.random.default_rng(0))]
    rates = [
        cut_rate(fabric, collective, tuple(np.flatnonzero(mask).tolist()))
        for mask in masks
        if search.is_allowed(mask)
    ]
    if expected is not None:
        assert rates
        assert min(rates) == expected


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("torus(3, 3, 3)", 1 / 9),
        ("complete_bipartite(4, 4)", 0.4),
        ("generalized_kautz(4, 27)", 0.06701708),
    ],
)
@pytest.mark.parametrize("epsilon", [0.2, 0.05])
def test_the_scheme_comes_within_epsilon(name: str, rate: float, epsilon: float) -> None:
    fabric = parse(name)
    result = fleischer_rate(fabric, everyone(fabric), epsilon=epsilon)
    assert not result.is_late
    assert result.gap <= epsilon
    assert (1 - epsilon) * rate <= result.rate <= rate * (1 + 1e-7)
    assert rate * (1 - 1e-7) <= float(result.upper) <= rate / (1 - epsilon)
    assert check_flow(fabric, everyone(fabric), result.flow) == pytest.approx(result.rate)


@settings(max_examples=9, deadline=None, derandomize=True)
@given(exchanges(5))
def test_the_scheme_agrees_with_the_linear_program(case: tuple[Topology, Collective]) -> None:
    fabric, collective = case
    paths = bounded_paths(fabric, collective, slack=5, most=10000)
    best = path_mcf(fabric, collective, paths).rate
    result = fleischer_rate(fabric, collective, epsilon=0.03)
    assert 0.97 * float(result.upper) - 1e-9 <= result.rate <= best * (1 + 1e-6)
    assert best <= float(result.upper) * (1 + 1e-6)
    cut: CutBound = best_cut(fabric, collective)
    assert best <= float(cut.pair_rate) * (1 + 1e-6)


def test_the_scheme_stops_in_time_and_says_so() -> None:
    fabric = parse("generalized_kautz(4, 27)")
    result = fleischer_rate(fabric, everyone(fabric), epsilon=0.001, time_limit_s=0.05)
    assert result.is_late
    assert result.gap > 0.001
    assert result.rate > 0


def test_the_scheme_refuses_what_it_cannot_do() -> None:
    fabric = ring(4)
    for epsilon in (0.0, 1.0, float("nan")):
        with pytest.raises(ScheduleError, match="epsilon"):
            fleischer_rate(fabric, everyone(fabric), epsilon=epsilon)
    oneway = from_arcs("oneway", [0, 1], [1, 2], n=3)
    with pytest.raises(InfeasibleError, match="n1"):
        fleischer_rate(oneway, everyone(oneway))


def test_the_scheme_passes_switches_and_forwarders() -> None:
    fabric = parse("dgx_a100(1)")
    members = [int(node) for node in fabric.compute_nodes]
    some = Collective(CollectiveKind.ALLTOALL, tuple(members[:4]), forwarders=tuple(members[4:]))
    result = fleischer_rate(fabric, some, epsilon=0.05)
    assert result.rate == pytest.approx(300e9 / 3, rel=0.05)
