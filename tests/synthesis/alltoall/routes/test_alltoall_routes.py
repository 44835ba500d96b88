"""Paths of an all-to-all: sets to choose from, the path LP, column generation, extraction, whole chunks."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.cycles import cancel_cycles
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.path_mcf import path_mcf
from treadle.synthesis.alltoall.routes.path_sets import (
    from_lists,
    shortest_path_set,
)
from treadle.synthesis.alltoall.routes.route_columns import generate_routes
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder


def everyone(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLTOALL)


def test_bounded_paths_keep_to_their_number() -> None:
    torus = parse("torus(4, 4)")
    paths = bounded_paths(torus, everyone(torus), slack=2, most=5)
    assert np.bincount(paths.source * 16 + paths.target).max() == 5
    assert paths.hops.sum() < bounded_paths(torus, everyone(torus), slack=2, most=9).hops.sum()
    with pytest.raises(ScheduleError, match="expected at least 0 and 1"):
        bounded_paths(torus, everyone(torus), slack=-1)


OPTIMA = [
    ("torus(3, 3, 3)", Fraction(1, 9), Fraction(1)),  # section 5.2: f = 1/9
    ("complete_bipartite(4, 4)", Fraction(2, 5), Fraction(1)),
    ("hypercube(3)", Fraction(1, 4), Fraction(1)),
    ("generalized_kautz(4, 16)", None, 1.083),
    ("generalized_kautz(4, 27)", 0.06701708, 1.020),
]


@pytest.mark.parametrize(("name", "optimum", "ratio"), OPTIMA)
def test_link_disjoint_paths_against_all_paths(name: str, optimum: Fraction | None, ratio: float) -> None:
    """The baseline "pMCF (disjoint)" of Fig. 8 and the optimum of column generation."""
    topology = parse(name)
    best = generate_routes(topology, everyone(topology))
    assert best.rate <= best.bound * (1 + 1e-9)
    assert best.gap < 1e-6
    if optimum is not None:
        assert best.rate == pytest.approx(float(optimum), rel=1e-6)
    pairs = topology.n_nodes * (topology.n_nodes - 1)
    assert best.routing.paths.n_paths <= min(pairs * 1.4, pairs + topology.n_links)
    disjoint = path_mcf(topology, everyone(topology), disjoint_paths(topology, everyone(topology)))
    assert best.rate / disjoint.rate == pytest.approx(float(ratio), abs=4e-3)
    if isinstance(optimum, Fraction):
        assert disjoint.exact == optimum
    assert disjoint.exact is not None
    assert float(disjoint.exact) == pytest.approx(disjoint.rate)


def test_the_exact_weights_are_exact() -> None:
    topology = parse("generalized_kautz(4, 16)")
    result = path_mcf(topology, everyone(topology), disjoint_paths(topology, everyone(topology)))
    assert result.exact_weights is not None
    load = [Fraction(0)] * topology.n_links
    for p, weight in enumerate(result.exact_weights):
        for link in result.routing.paths.links_of(p).tolist():
            load[link] += weight
    assert 1 / max(load) == result.exact == Fraction(5, 41)


@settings(derandomize=True, max_examples=14, deadline=None)
@given(digraphs(compute=(3, 6), extra_links=10), st.integers(0, 2**32 - 1))
def test_cycles_go_and_net_flows_stay(topology: Topology, seed: int) -> None:
    flows = np.random.default_rng(seed).exponential(size=(3, topology.n_links))
    left = cancel_cycles(topology, flows)
    assert (left <= flows + 1e-12).all()
    for before, after in zip(flows, left, strict=True):
        net = np.zeros(topology.n_nodes)
        np.add.at(net, topology.heads, before - after)
        np.subtract.at(net, topology.tails, before - after)
        assert np.abs(net).max() < 1e-9
        used = after > 1e-9
        graph = nx.DiGraph(zip(topology.tails[used].tolist(), topology.heads[used].tolist(), strict=True))
        assert nx.is_directed_acyclic_graph(graph)


def test_bad_flows_are_refused() -> None:
    topology = parse("hypercube(3)")
    collective = everyone(topology)
    with pytest.raises(ScheduleError, match="shape"):
        extract_paths(topology, collective, np.zeros((3, 3)))
    with pytest.raises(ScheduleError, match="finite"):
        extract_paths(topology, collective, np.full((8, 24), np.nan))
    with pytest.raises(InfeasibleError, match="rank 1 gets 0 from rank 0"):
        extract_paths(topology, collective, np.zeros((8, 24)))


def test_moving_chunks_helps() -> None:
    """All chunks on the first of four equal paths: most of them have to move."""
    topology = parse("complete_bipartite(4, 4)")
    collective = everyone(topology)
    paths = bounded_paths(topology, collective)
    weights = np.where(np.append(True, np.diff(paths.source * 8 + paths.target) != 0), 1.0, 1e-9)
    made = route_schedule(topology, collective, paths, weights, chunks=4)
    assert made.algbw >= Fraction(8, 3)
    assert made.loss < -1


def test_what_route_schedule_refuses() -> None:
    topology = parse("complete(3)")
    collective = everyone(topology)
    paths = shortest_path_set(topology, collective)
    one = np.ones(paths.n_paths)
    for arguments, words in (
        ({"chunks": 0}, "0 chunks"),
        ({"max_routes": 0}, "at most 0 routes"),
    ):
        with pytest.raises(ScheduleError, match=words):
            route_schedule(topology, collective, paths, one, **arguments)
    with pytest.raises(ScheduleError, match="not negative"):
        route_schedule(topology, collective, paths, -one)
    with pytest.raises(InfeasibleError, match="rank 0 has none to rank 1"):
        route_schedule(topology, collective, paths, np.where(np.arange(paths.n_paths) == 0, 0.0, 1.0))


def test_disconnected_fabrics_are_refused() -> None:
    builder = TopologyBuilder("one way")
    builder.compute("a"), builder.compute("b")
    builder.link("a", "b", 1)
    topology = builder.build()
    collective = everyone(topology)
    for function in (disjoint_paths, bounded_paths, shortest_path_set, generate_routes):
        with pytest.raises(InfeasibleError, match="no path leads from 'b' to 'a'"):
            function(topology, collective)
    with pytest.raises(InfeasibleError, match="rank 1 has none to rank 0"):
        path_mcf(topology, collective, from_lists([(0, 1, [0])]))
