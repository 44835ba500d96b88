"""Optima are exact over the whole range of bandwidths: 1 to 2**50 bytes/s in one fabric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.exact_rates import allreduce_rate, alltoall_rate
from reference.exact_simplex import maximum
from reference.optimum import optimal_algbw
from samples.strategies import digraphs, eulerian_topologies, symmetric_topologies, wide_bandwidths
from treadle.errors import TopologyError
from treadle.math.columns import RestrictedMaster
from treadle.planning import bound, solve
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.topologies import Topology, TopologyBuilder

SMALL = {"compute": (2, 4), "switches": (0, 1), "bandwidths": wide_bandwidths()}
FABRICS = st.one_of(
    eulerian_topologies(**SMALL, extra_cycles=2),
    symmetric_topologies(**SMALL, extra_links=2),
    digraphs(compute=(2, 4), bandwidths=wide_bandwidths(), extra_links=3),
)


def path(*bandwidths: int) -> Topology:
    builder = TopologyBuilder("path")
    builder.compute("0")
    for i, bandwidth in enumerate(bandwidths):
        builder.compute(str(i + 1))
        builder.duplex(str(i), str(i + 1), bandwidth)
    return builder.build()


@pytest.mark.parametrize("widest", [10**11, 2**50])
def test_a_path_is_as_fast_as_its_narrowest_link(widest: int) -> None:
    for bandwidths in ((widest, 7, 3), (3, widest, 7), (7, 3, widest)):
        result = solve(path(*bandwidths), "allreduce")
        assert (result.algbw, result.is_optimal, result.report.is_ok) == (3, True, True)


@st.composite
def programs(draw: Callable[..., int]) -> tuple[list[int], list[dict[int, int]], list[int]]:
    """Bounded programs in few variables, with right-hand sides far apart."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(0, 5))
    costs = [draw(st.integers(0, 5)) for _ in range(n)]
    rows = [{j: draw(st.integers(-3, 3)) for j in range(n)} for _ in range(m)]
    rhs = [draw(st.one_of(st.just(0), wide_bandwidths())) for _ in range(m)]
    rows += [{j: 1} for j in range(n)]
    return costs, rows, rhs + [draw(wide_bandwidths()) for _ in range(n)]


@given(programs())
@settings(max_examples=21, deadline=None)
def test_programs_are_solved_exactly(program: tuple[list[int], list[dict[int, int]], list[int]]) -> None:
    costs, rows, rhs = program
    lp = RestrictedMaster(max(rhs))
    for cost in costs:
        lp.add_column(cost)
    for row, right in zip(rows, rhs, strict=True):
        lp.add_row({j: a for j, a in row.items() if a}, right)
    lp.near_optimum()
    vertex = lp.exact_optimum()
    assert vertex is not None
    best, _ = maximum(costs, rows, rhs)
    assert sum(c * x for c, x in zip(costs, vertex.primal, strict=True)) == best
    assert sum(b * y for b, y in zip(rhs, vertex.dual, strict=True)) == best


@given(FABRICS)
@settings(max_examples=18, deadline=None)
def test_allreduce_optima_are_exact(topology: Topology) -> None:
    collective = on_all_ranks(topology, CollectiveKind.ALLREDUCE)
    found = bound(topology, collective)
    assert found.algbw == allreduce_rate(topology, collective.ranks)
    assert found.bound.is_tight


@given(FABRICS, st.data())
@settings(max_examples=14, deadline=None)
def test_optima_of_trees_are_exact(topology: Topology, data: st.DataObject) -> None:
    n = len(topology.compute_nodes)
    assert bound(topology, "allgather").algbw == optimal_algbw(topology)
    assert bound(topology, "reduce-scatter").algbw == optimal_algbw(topology.transpose())
    root = data.draw(st.integers(0, n - 1))
    alone = tuple(int(rank == root) for rank in range(n))
    for kind, whole in (("broadcast", "allgather"), ("reduce", "reduce-scatter")):
        weighted = on_all_ranks(topology, CollectiveKind(whole), weights=alone)
        assert bound(topology, kind, root=root).algbw == bound(topology, weighted).algbw


@given(FABRICS, st.data())
@settings(max_examples=14, deadline=None)
def test_alltoall_optima_are_exact(topology: Topology, data: st.DataObject) -> None:
    n = len(topology.compute_nodes)
    amounts = st.one_of(st.just(0), st.integers(0, 9), st.integers(2**20 - 1, 2**20))
    matrix = data.draw(st.lists(st.lists(amounts, min_size=n, max_size=n), min_size=n, max_size=n))
    matrix[0][1] += not any(matrix[i][j] for i in range(n) for j in range(n) if i != j)
    ranks = tuple(topology.compute_nodes.tolist())
    for demands in (None, Demands(np.array(matrix, dtype=np.int64))):
        collective = Collective(CollectiveKind.ALLTOALL, ranks, demands=demands)
        found = bound(topology, collective)
        units = collective.pair_demands.buffer_units
        assert found.algbw == units * alltoall_rate(topology, collective)
        assert found.rate is not None
        assert found.rate.gap == 0


def test_a_slow_leaf_limits_an_alltoall_over_wide_links() -> None:
    builder = TopologyBuilder("slow leaf")
    for name in "abcde":
        builder.compute(name)
    for one, other, bandwidth in (
        ("d", "e", 2**50 - 8),
        ("d", "e", 44217493931010),
        ("a", "d", 259355),
        ("b", "e", 3581),
        ("c", "e", 3),
    ):
        builder.duplex(one, other, bandwidth)
    found = bound(builder.build(), "alltoall")
    assert found.algbw == Fraction(5 * 3, 4)
    assert found.rate is not None
    assert found.rate.gap == 0


@given(FABRICS, st.sampled_from(CollectiveKind))
@settings(max_examples=21, deadline=None)
def test_schedules_are_verified_and_claim_no_more_than_they_reach(
    topology: Topology, kind: CollectiveKind
) -> None:
    result = solve(topology, kind)
    assert result.report.is_ok
    assert result.optimal_algbw is not None
    assert 0 < result.algbw <= result.optimal_algbw
    assert result.is_optimal in ((True,) if result.algbw == result.optimal_algbw else (False, None))


def test_beyond_the_range_a_fabric_is_refused() -> None:
    for bandwidth in (0, 2**50 + 1):
        with pytest.raises(TopologyError, match=r"expected 1 to 2\*\*50"):
            path(3, bandwidth)
    widest = path(*[2**50] * 4)
    assert bound(widest, "allreduce").algbw == 2**50
    many = np.full(2**12, 2**50)
    ends = np.arange(2**12) % 2
    pair = replace(path(1), tails=ends[1:], heads=1 - ends[1:], bandwidths=many[1:], latencies_ns=many[1:])
    assert bound(pair, "allgather").algbw == 2 * (2**61 - 2**50)
    with pytest.raises(
        TopologyError, match=r"add up to 4611686018427387904 bytes/s, expected less than 2\*\*62"
    ):
        replace(pair, tails=ends, heads=1 - ends, bandwidths=many, latencies_ns=many)
    with pytest.raises(TopologyError, match=r"injection cap 1125899906842625 bytes/s, expected 0 \(none\)"):
        replace(pair, injection_bytes_per_s=np.array([2**50 + 1, 0]))
