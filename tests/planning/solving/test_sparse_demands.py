"""All-to-alls with zeros in their demands: experts nobody asks for, ranks that send nothing, one pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reference.exact_rates import alltoall_rate
from samples.strategies import digraphs, symmetric_topologies, wide_bandwidths
from samples.table import GENERAL_ROUTES, GENERAL_STEPS
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import bound, compare, routes, solve
from treadle.program.any_schedule import lower
from treadle.program.program import MAX_CHUNKS
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.steps.unequal_steps import chunks_of_program
from treadle.topologies import Topology, TopologyBuilder, parse

Kind = Callable[[np.random.Generator, int], NDArray[np.int64]]

ROUND_OFF = ((0, 0, 1, 0), (0, 0, 0, 0), (0, 0, 0, 0), (5, 0, 6, 0))
"""On complete(4) the exact flow, in floats, leaves -4e-16 at a rank that is to get nothing."""


def collective_of(topology: Topology, matrix: Any) -> Collective:
    ranks = tuple(topology.compute_nodes.tolist())
    return Collective(CollectiveKind.ALLTOALL, ranks, demands=Demands(np.array(matrix, dtype=np.int64)))


@st.composite
def sparse(draw: Callable[..., Any], n: int) -> list[list[int]]:
    """Demands of which most are 0: whole rows and columns among them."""
    rows = draw(st.sets(st.integers(0, n - 1), min_size=1))
    columns = draw(st.sets(st.integers(0, n - 1), min_size=1))
    amount = st.one_of(st.just(0), st.integers(1, 9), st.integers(2**20 - 9, 2**20))
    matrix = [[draw(amount) if i in rows and j in columns else 0 for j in range(n)] for i in range(n)]
    if not any(matrix[i][j] for i in range(n) for j in range(n) if i != j):
        source = draw(st.integers(0, n - 1))
        matrix[source][(source + 1) % n] = 1
    return matrix


def test_round_off_at_a_rank_that_gets_nothing_is_no_error() -> None:
    fabric = parse("complete:4")
    for algorithm in (None, *GENERAL_STEPS, *GENERAL_ROUTES):
        result = solve(fabric, collective_of(fabric, ROUND_OFF), algorithm=algorithm)
        assert result.report.is_ok


def some_pairs(random: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Where queues of an optimal flow end 7% below it: tight links wait for what is to cross them."""
    return random.integers(1, 50, (n, n)) * (random.random((n, n)) < 0.1)


def even_pairs(random: np.random.Generator, n: int) -> NDArray[np.int64]:
    return (random.random((n, n)) < 0.3).astype(np.int64)


def permuted(random: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Full links feed full links, so that every schedule in few steps loses much."""
    matrix = np.zeros((n, n), dtype=np.int64)
    matrix[np.arange(n), np.roll(random.permutation(n), 1)] = random.integers(1, 50, n)
    return matrix


def bytes_of_half(random: np.random.Generator, n: int) -> NDArray[np.int64]:
    """More units of demand than programs have chunks."""
    return random.integers(1, 2**20, (n, n)) * (random.random((n, n)) < 0.5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("generalized_kautz(4, 32)", some_pairs),
        ("torus(6, 6)", even_pairs),
        ("generalized_kautz(4, 16)", permuted),
        ("jellyfish(20, 3)", bytes_of_half),
    ],
)
def test_unequal_and_sparse_demands_come_within_half_a_percent(name: str, kind: Kind) -> None:
    fabric = parse(name)
    matrix = kind(np.random.default_rng(1), len(fabric.compute_nodes))
    np.fill_diagonal(matrix, 0)
    result = solve(fabric, collective_of(fabric, matrix))
    assert result.report.is_ok
    assert result.plan.optimal_algbw is not None
    assert result.plan.algbw >= 0.995 * result.plan.optimal_algbw
    (schedule,) = (entry.schedule for entry in result.plan.entries)
    assert isinstance(schedule, ExchangeSchedule)
    is_fine = chunks_of_program(result.collective, schedule) > MAX_CHUNKS
    assert any("--chunks" in note for note in result.notes) == is_fine
    if not is_fine:
        assert lower(result.topology, result.collective, schedule).n_chunks <= MAX_CHUNKS


@pytest.mark.parametrize("name", ["ring:5", "hypercube:3", "torus:3,3", "leaf_spine(2,2)"])
def test_one_pair_is_served_by_every_algorithm(name: str) -> None:
    fabric = parse(name)
    n = len(fabric.compute_nodes)
    matrix = np.zeros((n, n), dtype=np.int64)
    matrix[n - 1, 0] = 7
    collective = collective_of(fabric, matrix)
    best = bound(fabric, collective).algbw
    names = GENERAL_ROUTES if fabric.switches.size else (*GENERAL_STEPS, *GENERAL_ROUTES)
    for algorithm in (None, *names):
        result = solve(fabric, collective, algorithm=algorithm)
        assert result.report.is_ok
        assert 0 < result.algbw <= best
    assert routes(fabric, demands=collective.demands).report.is_ok
    found = compare(fabric, collective)
    assert all(row.report.is_ok for row in found.rows if row.report is not None)
    assert all(row.algbw <= found.bound.algbw for row in found.rows if row.algbw is not None)


FABRICS = st.one_of(
    symmetric_topologies(compute=(2, 4), switches=(0, 1), bandwidths=wide_bandwidths(), extra_links=2),
    digraphs(compute=(2, 4), bandwidths=wide_bandwidths(), extra_links=3),
)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_sparse_demands_are_served_on_fabrics_of_all_sorts(data: st.DataObject) -> None:
    fabric = data.draw(FABRICS)
    collective = collective_of(fabric, data.draw(sparse(len(fabric.compute_nodes))))
    best = bound(fabric, collective)
    assert best.algbw == collective.pair_demands.buffer_units * alltoall_rate(fabric, collective)
    names = GENERAL_ROUTES if fabric.switches.size else (*GENERAL_STEPS, *GENERAL_ROUTES)
    for algorithm in (None, *names):
        result = solve(fabric, collective, algorithm=algorithm)
        assert result.report.is_ok
        assert 0 < result.algbw <= best.algbw


def test_ranks_need_not_reach_those_that_they_have_nothing_for() -> None:
    builder = TopologyBuilder("one way")
    for name in "abcd":
        builder.compute(name)
    for tail, head in ("ab", "bd", "ac", "cd"):
        builder.link(tail, head, 5)
    fabric = builder.build()
    matrix = [[0, 0, 0, 3], [0, 0, 0, 2], [0, 0, 0, 1], [0, 0, 0, 0]]
    for algorithm in (None, *GENERAL_STEPS, *GENERAL_ROUTES):
        assert solve(fabric, collective_of(fabric, matrix), algorithm=algorithm).report.is_ok
    matrix[3][0] = 1
    for algorithm in (None, *GENERAL_STEPS, *GENERAL_ROUTES):
        with pytest.raises(InfeasibleError, match="d"):
            solve(fabric, collective_of(fabric, matrix), algorithm=algorithm)


def test_relays_that_are_out_of_reach_are_left_out() -> None:
    builder = TopologyBuilder("relays")
    for name in "abcd":
        builder.compute(name)
    for name in "st":
        builder.switch(name)
    for tail, head, bandwidth in (
        *(("t", "d", 1), ("b", "d", 10**9), ("c", "t", 10**9), ("s", "b", 1), ("a", "d", 10**9)),
        *(("b", "s", 1), ("c", "s", 1), ("s", "t", 10**9), ("s", "t", 1), ("c", "s", 1)),
    ):
        builder.link(tail, head, bandwidth)
    fabric = builder.build()
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[:3, 3] = 861483, 387107, 344333
    assert solve(fabric, collective_of(fabric, matrix), algorithm="hierarchical-routes").report.is_ok


def test_lengths_that_vanish_beside_distances_make_no_circles() -> None:
    builder = TopologyBuilder("circle")
    for name in "abcd":
        builder.compute(name)
    builder.switch("s")
    for one, other, bandwidth in (
        *(("c", "a", 2**50 - 8), ("d", "s", 2**50 - 1), ("c", "a", 10000), ("d", "a", 100000)),
        *(("s", "b", 2), ("b", "c", 2**47)),
    ):
        builder.duplex(one, other, bandwidth)
    fabric = builder.build()
    matrix = [[0, 0, 0, 0], [0, 0, 0, 8], [0, 0, 0, 5], [0, 0, 0, 1048570]]
    assert solve(fabric, collective_of(fabric, matrix), algorithm="routes").report.is_ok


def test_very_many_chunks_set_out_in_runs_of_equal_rounds() -> None:
    fabric = parse("ring:3")
    matrix = [[0, 2**12, 0], [0, 0, 2**11], [0, 0, 0]]
    result = solve(fabric, collective_of(fabric, matrix), algorithm="routes", max_flows=1)
    assert result.report.is_ok


def test_nothing_to_send_is_refused() -> None:
    with pytest.raises(ScheduleError, match="no rank has data for another"):
        Demands(np.diag([3, 1, 2]))
