"""Routes by local search: near the optimum, correct, within their limits, in layers that cannot deadlock."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from treadle import planning
from treadle.context import Context, under
from treadle.engine import core
from treadle.errors import InfeasibleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.synthesis.alltoall import optimal_rate
from treadle.synthesis.alltoall.rate.remaining_rate import rate_with_routes
from treadle.synthesis.alltoall.searched import layer_search
from treadle.synthesis.alltoall.searched.layer_search import (
    LayeredSubflows,
    first_fit,
    layered_search,
)
from treadle.synthesis.alltoall.searched.path_search import search_paths
from treadle.synthesis.alltoall.searched.searched_routes import SearchedRoutes, searched_routes
from treadle.synthesis.alltoall.searched.subflows import cut_demands
from treadle.synthesis.core_values.column_values import DependencyPaths
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.verification.routes.route_check import verify_routes


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


def with_demands(fabric: Topology, matrix: np.ndarray) -> Collective:
    group = everyone(fabric)
    return Collective(CollectiveKind.ALLTOALL, group.ranks, demands=Demands(matrix))


def below_the_bound(fabric: Topology, collective: Collective, algbw: Fraction) -> float:
    bound = optimal_rate(fabric, collective, cards_forward=True).upper
    return float(1 - algbw / (collective.pair_demands.buffer_units * bound))


def judged(fabric: Topology, collective: Collective, found: SearchedRoutes, **limits: int) -> float:
    """How far below the bound, after the verifier accepted it."""
    report = verify_routes(fabric, collective, found.schedule, **limits)
    assert report.is_ok, report.violations[:3]
    assert report.algbw is not None
    return below_the_bound(fabric, collective, report.algbw)


def test_layers_of_first_fit_stay_where_time_is_up() -> None:
    fabric = parse("generalized_kautz(4, 72)")
    with under(Context(deadline=0.0)):
        found = searched_routes(fabric, everyone(fabric))
    assert found.is_late
    assert found.schedule.n_layers > 4
    assert not found.layer_rates


def test_256_nodes_in_5_layers_with_a_route_a_pair() -> None:
    """Accepted: at most 1% below the bound with one route a pair."""
    fabric = parse("generalized_kautz(4, 256)")
    found = searched_routes(fabric, everyone(fabric), max_layers=5)
    assert judged(fabric, everyone(fabric), found, max_layers=5, max_routes=1, max_hops=7) <= 0.008


def test_unequal_and_sparse_demands_come_near_the_optimum() -> None:
    fabric = parse("generalized_kautz(4, 100)")
    rng = np.random.default_rng(3)
    matrix = rng.integers(0, 50, (100, 100)) * (rng.random((100, 100)) < 0.3)
    collective = with_demands(fabric, matrix)
    found = searched_routes(fabric, collective)
    assert judged(fabric, collective, found) <= 0.005


def test_links_of_unequal_bandwidth_are_filled_alike() -> None:
    fabric = parse("torus(6, 6)")
    width = np.where(np.arange(fabric.n_links) % 3 == 0, 3, 1)
    fabric = Topology(
        "uneven", fabric.node_names, fabric.is_compute, fabric.tails, fabric.heads, width, fabric.latencies_ns
    )
    found = searched_routes(fabric, everyone(fabric))
    assert judged(fabric, everyone(fabric), found) <= 0.01


def test_the_limit_on_hops_is_kept_or_refused() -> None:
    fabric = parse("generalized_kautz(4, 64)")
    found = searched_routes(fabric, everyone(fabric), max_hops=3, max_layers=8)
    assert verify_routes(fabric, everyone(fabric), found.schedule, max_hops=3, max_layers=8).is_ok
    assert int(found.schedule.hops.max()) == 3
    assert not verify_routes(fabric, everyone(fabric), found.schedule, max_hops=2).is_ok
    with pytest.raises(
        InfeasibleError, match=r"is 3 hops, at most 2 are allowed \(--max-hops, or --max-steps\)"
    ):
        searched_routes(fabric, everyone(fabric), max_hops=2)


def test_too_few_layers_name_pairs_and_a_number_that_does() -> None:
    fabric = parse("directed_circulant(6, 1)")
    with pytest.raises(InfeasibleError, match=r"pairs have no way .* in 2 layers \(ranks .*\); 3 layers do"):
        searched_routes(fabric, everyone(fabric), max_layers=2)
    found = searched_routes(fabric, everyone(fabric), max_layers=3)
    assert verify_routes(fabric, everyone(fabric), found.schedule, max_layers=3).is_ok


@pytest.mark.parametrize("sequence", [[0], [0, 0], [0, 2], [-1, 0]])
def test_a_sequence_without_every_path_is_refused(sequence: list[int]) -> None:
    ends = [np.array(values, dtype=np.int32) for values in ([0, 1], [1, 0])]
    offset, links = np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32)
    given = DependencyPaths(2, *ends, offset, links, np.array(sequence), 0, False)
    with pytest.raises(ValueError, match="has to name every path once"):
        core.first_fit_layers(given, np.zeros(3, dtype=np.int64))


def test_the_bound_beside_routes_is_proved_and_near() -> None:
    """Lengths judged by another program: hop by hop distances over them."""
    fabric = parse("jellyfish(80, 4)")
    routes = searched_routes(fabric, everyone(fabric)).schedule
    found = rate_with_routes(fabric, everyone(fabric), routes)
    assert 0 < found.gap <= 2e-3
    graph = nx.DiGraph()
    for tail, head, length in zip(
        fabric.tails.tolist(), fabric.heads.tolist(), found.certificate.lengths.tolist(), strict=True
    ):
        graph.add_edge(
            tail, head, length=min(length, graph.get_edge_data(tail, head, {"length": length})["length"])
        )
    far = sum(sum(row.values()) for _, row in nx.all_pairs_dijkstra_path_length(graph, weight="length"))
    assert found.upper == Fraction(int(found.certificate.lengths.sum()), far)


def test_pieces_have_no_way_where_no_order_has_one() -> None:
    """In the order that goes round against the ring, only neighbours have a way."""
    fabric = parse("directed_circulant(5, 1)")
    pieces = cut_demands(fabric, everyone(fabric))
    free, _ = search_paths(pieces)
    order = np.arange(fabric.n_links, dtype=np.int32)[::-1][None]
    found = layered_search(pieces, free, 1, orders=np.ascontiguousarray(order), sweeps=0)
    assert found.lost.size


def test_short_paths_come_first_where_layers_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = parse("jellyfish(48, 4)")
    pieces = cut_demands(fabric, everyone(fabric), max_routes=1)
    free, _ = search_paths(pieces, sweeps=5)
    short, long = (first_fit(pieces, free, max_layers=2, short_first=is_so) for is_so in (True, False))
    assert short.lost.size < long.lost.size
    asked = []

    def noted(*given: Any, short_first: bool, **named: Any) -> LayeredSubflows:
        asked.append(short_first)
        return first_fit(*given, short_first=short_first, **named)

    monkeypatch.setattr(layer_search, "first_fit", noted)
    for may_rise in (False, True):  # those that may rise are hardly ever lost
        layered_search(pieces, free, 2, may_rise=may_rise, sweeps=0)
    assert asked == [True, False]


def test_the_same_seed_gives_the_same_routes_and_a_deadline_correct_ones() -> None:
    fabric = parse("jellyfish(48, 4)")
    first, second = (searched_routes(fabric, everyone(fabric), max_layers=4, seed=5) for _ in range(2))
    assert first.schedule == second.schedule
    with under(Context(deadline=0.0)):
        late = searched_routes(fabric, everyone(fabric), max_layers=4)
    assert late.is_late
    assert judged(fabric, everyone(fabric), late, max_layers=4) <= 0.2


@pytest.mark.parametrize(
    ("expression", "layers", "most"),
    [
        ("generalized_kautz(4, 128)", 3, 0.006),
        ("torus(6, 6)", 2, 0.01),
    ],
)
def test_layers_that_may_rise_on_the_way_cost_less(expression: str, layers: int, most: float) -> None:
    fabric = parse(expression)
    found = searched_routes(fabric, everyone(fabric), max_layers=layers, layer_changes=True)
    assert judged(fabric, everyone(fabric), found, max_layers=layers) <= most
    assert found.schedule.hop_layer.size


def test_waits_between_layers_are_judged() -> None:
    """Layers that go up and down again can deadlock: a ring whose routes change them at will."""
    fabric = parse("directed_circulant(4, 1)")
    found = searched_routes(fabric, everyone(fabric), max_layers=2, layer_changes=True).schedule
    assert verify_routes(fabric, everyone(fabric), found, max_layers=2).is_ok
    at = np.arange(len(found.path_links)) - np.repeat(found.path_offset[:-1], found.hops)
    turned = replace(found, layer=np.ones_like(found.layer), hop_layer=((at + 1) % 2).astype(np.int32))
    faults = verify_routes(fabric, everyone(fabric), turned).violations
    assert any("wait for each other" in str(fault) and "in layer" in str(fault) for fault in faults)
    assert not verify_routes(fabric, everyone(fabric), found, max_layers=1).is_ok


@pytest.mark.parametrize("seed", range(3))
def test_mutants_of_the_layers_are_rejected_or_free_of_cycles(seed: int) -> None:
    """A hop in another layer: the judge says what a search for a cycle among all channels says."""
    fabric = parse("generalized_kautz(3, 12)")
    found = searched_routes(fabric, everyone(fabric), max_layers=2, layer_changes=True).schedule
    rng = np.random.default_rng(seed)
    rejected = 0
    for _ in range(20):
        layer = found.hop_layer.copy()
        layer[rng.integers(len(layer), size=6)] ^= 1
        mutant = replace(found, layer=layer[found.path_offset[:-1]], hop_layer=layer)
        graph = nx.DiGraph()
        for path in range(mutant.n_paths):
            begin, end = mutant.path_offset[path : path + 2].tolist()
            channels = list(
                zip(layer[begin:end].tolist(), mutant.path_links[begin:end].tolist(), strict=True)
            )
            graph.add_edges_from(pairwise(channels))
        is_ok = verify_routes(fabric, everyone(fabric), mutant).is_ok
        assert is_ok == nx.is_directed_acyclic_graph(graph)
        rejected += not is_ok
    assert rejected


def test_rising_layers_are_kept_in_plans(tmp_path: Path) -> None:
    found = planning.routes("generalized_kautz:3,12", max_layers=2, layer_changes=True)
    save_plan(tmp_path / "plan", found.plan)
    again = load_plan(tmp_path / "plan")
    assert again.entries == found.plan.entries
    assert planning.verify(again).is_ok
