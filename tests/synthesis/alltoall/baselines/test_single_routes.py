"""One path a pair: limits of the program, its bound, Dijkstra's weights; small enough to reckon by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from time import monotonic

import numpy as np
import pytest

from treadle.context import Context, under
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.baselines import single_path_ilp
from treadle.synthesis.alltoall.baselines.equal_weight import (
    EqualSplit,
    _common_multiple,
    equal_weight_shortest_paths,
)
from treadle.synthesis.alltoall.baselines.single_path_ilp import SinglePathResult, _seconds, best_single_paths
from treadle.synthesis.alltoall.baselines.sssp import single_source_shortest_paths
from treadle.synthesis.alltoall.routes.path_sets import PathSet, from_lists
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

ALLTOALL = CollectiveKind.ALLTOALL


def ways() -> tuple[Topology, Collective, PathSet]:
    """From 0 to 3 by 1 or 2, over links of 3 and of 2 B/s; 0 has 5 for 3, 2 has 4 for 3, 1 nothing."""
    graph = from_arcs("ways", [0, 1, 0, 2], [1, 3, 2, 3], n=4)
    graph = replace(graph, bandwidths=np.array([3, 3, 2, 2]))
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[0, 3], matrix[2, 3] = 5, 4
    some = Collective(ALLTOALL, (0, 1, 2, 3), demands=Demands(matrix))
    return graph, some, from_lists([(0, 3, [2, 3]), (0, 3, [0, 1]), (2, 3, [3])])


def test_the_better_way_its_time_and_the_bound_of_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 over links of 3 beside 4 over one of 2: 2 s; without a program 14 hops over 10 B/s are the bound."""
    graph, some, paths = ways()
    found = best_single_paths(graph, some, paths)
    assert found.schedule.path_links.tolist() == [0, 1, 3]
    assert found.schedule.units.tolist() == [5, 4]
    assert found.time == 2
    assert not found.is_late
    assert found.bound == pytest.approx(2)
    quick = best_single_paths(graph, some, paths, time_limit_s=0)
    assert quick.time == 2
    assert quick.bound == pytest.approx(1.4)
    assert quick.is_late
    assert quick.gap == pytest.approx(0.3)
    # five links and three paths are the entries of the program
    monkeypatch.setattr(single_path_ilp, "MAX_PROGRAM", 8)
    assert not best_single_paths(graph, some, paths).is_late
    monkeypatch.setattr(single_path_ilp, "MAX_PROGRAM", 7)
    assert best_single_paths(graph, some, paths).is_late


def test_a_bound_that_is_met_is_not_late() -> None:
    """Over one link each way hops are the bound already."""
    pair = parse("complete(2)")
    everyone = on_all_ranks(pair, ALLTOALL)
    found = best_single_paths(pair, everyone, from_lists([(0, 1, [0]), (1, 0, [1])]), time_limit_s=0)
    assert found.time == found.bound == 1
    assert not found.is_late
    assert found.gap == 0
    schedule = found.schedule
    assert SinglePathResult(schedule, Fraction(4), 3.0, False).gap == 0.25
    assert SinglePathResult(schedule, Fraction(4), 5.0, False).gap == 0


def test_seconds_for_the_program() -> None:
    assert _seconds() == 10
    with under(Context(deadline=monotonic() + 1000)):
        assert _seconds() == 10
    with under(Context(deadline=monotonic() + 5)):
        assert 0 < _seconds() <= 5
    with under(Context(deadline=monotonic() - 5)):
        assert _seconds() == 0


def test_whole_times_where_links_are_equal() -> None:
    """Two equal ways for three pairs of one node: 2 is the least time, though 3/2 would be on average."""
    graph = from_arcs("fan", [0, 0, 1, 2, 1, 2, 1, 2], [1, 2, 3, 3, 4, 4, 5, 5], n=6)
    matrix = np.zeros((6, 6), dtype=np.int64)
    matrix[0, 3:] = 1
    some = Collective(ALLTOALL, tuple(range(6)), demands=Demands(matrix))
    paths = from_lists([(0, t, [w, 2 * (t - 2) + w]) for t in (3, 4, 5) for w in (0, 1)])
    found = best_single_paths(graph, some, paths)
    assert found.time == found.bound == 2


def test_routes_shun_what_earlier_sources_loaded() -> None:
    """Two ways of two hops from 0 and from 4 to 3; 0 goes first, 4 then takes the other way."""
    graph = from_arcs("two", [0, 0, 4, 4, 1, 2], [1, 2, 1, 2, 3, 3], n=5)
    matrix = np.zeros((5, 5), dtype=np.int64)
    matrix[0, 3], matrix[4, 3] = 2, 1
    some = Collective(ALLTOALL, tuple(range(5)), demands=Demands(matrix))
    found = single_source_shortest_paths(graph, some)
    assert [found.path(p).tolist() for p in range(2)] == [[0, 4], [3, 5]]
    assert found.units.tolist() == [2, 1]
    # with the second way wider by four, both take it: 2 units there weigh a quarter
    wide = replace(graph, bandwidths=np.array([1, 4, 1, 4, 1, 4]))
    first = Collective(ALLTOALL, (4, 0, 1, 2, 3), demands=Demands(np.array([
        [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0] * 5, [0] * 5, [0] * 5,
    ])))  # fmt: skip
    found = single_source_shortest_paths(wide, first)
    assert [found.path(p).tolist() for p in range(2)] == [[2, 4], [1, 5]]


def test_all_targets_of_a_source_are_routed_before_their_weights_count() -> None:
    """0 has something for 3 and 4, both behind 1 and 2: both go by 1, as nothing is loaded before."""
    graph = from_arcs("tree", [0, 0, 1, 2, 1, 2], [1, 2, 3, 3, 4, 4], n=5)
    matrix = np.zeros((5, 5), dtype=np.int64)
    matrix[0, 3] = matrix[0, 4] = 1
    some = Collective(ALLTOALL, tuple(range(5)), demands=Demands(matrix))
    found = single_source_shortest_paths(graph, some)
    assert [found.path(p).tolist() for p in range(2)] == [[0, 2], [0, 4]]


def test_equal_shares_of_all_paths() -> None:
    """Three paths from 0 to 4 for 2 units: by 1, and by 3 over two links; 5 units from 0 to 3 on one."""
    graph = from_arcs("three", [0, 0, 1, 3, 3, 4, 4, 2], [1, 3, 4, 4, 4, 0, 2, 4], n=5)
    matrix = np.zeros((5, 5), dtype=np.int64)
    matrix[0, 4], matrix[0, 3] = 2, 5
    # rank 0 is node 4, rank 1 node 0 and so on
    some = Collective(ALLTOALL, (4, 0, 1, 2, 3), demands=Demands(np.roll(np.roll(matrix, 1, 0), 1, 1)))
    dag = EqualSplit(graph, some)
    assert (dag.source.tolist(), dag.target.tolist()) == ([1, 1], [0, 4])
    assert dag.number.tolist() == [3, 1]
    third = 2 / 3
    assert dag.loads().tolist() == pytest.approx([third, 2 * third + 5, third, third, third, 0, 0, 0])
    assert dag.hops(1) == 2 * 2 + 1  # as many paths as chunks
    assert dag.hops(2) == 3 * 2 + 1
    exact = equal_weight_shortest_paths(graph, some)
    assert (exact.schedule.n_chunks, exact.loss, exact.algbw) == (3, 0, Fraction(21, 19))
    assert exact.schedule.units.tolist() == [2, 2, 2, 15]
    coarse = equal_weight_shortest_paths(graph, some, max_chunks=1)
    # the first and the last of three in the order of links; 6 units over the busiest link instead of 19/3
    assert [coarse.schedule.path(p).tolist() for p in range(3)] == [[0, 2], [1, 4], [1]]
    assert coarse.schedule.units.tolist() == [1, 1, 5]
    assert coarse.loss == pytest.approx(1 - 19 / 18)


def test_common_multiples_up_to_a_limit() -> None:
    assert _common_multiple(np.array([2.0, 3.0, 4.0, 2.0]), 12) == 12
    assert _common_multiple(np.array([2.0, 3.0, 4.0]), 11) is None
    assert _common_multiple(np.array([1.0]), 1) == 1
