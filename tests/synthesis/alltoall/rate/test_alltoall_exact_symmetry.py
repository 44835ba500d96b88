"""Orbits of sources and links, known and found."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shortcuts.exact_flows import exact_rate
from treadle import topologies as t
from treadle.errors import TopologyError
from treadle.math.symmetry import orbits
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.automorphisms import proposed_automorphisms
from treadle.synthesis.alltoall.rate.box_rotations import box_rotations
from treadle.synthesis.alltoall.rate.exact_rate import solve_exactly, suitable_symmetry
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import find_symmetry, known_symmetry, symmetry_of
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.topologies.isomorphism import link_map


def _instance(topology: t.Topology) -> FlowInstance:
    return flow_instance(topology, on_all_ranks(topology, CollectiveKind.ALLTOALL))


@pytest.mark.parametrize(
    ("expression", "sources", "link_orbits"),
    [
        ("torus(4, 4, 4)", 1, 1),
        ("torus(3, 4)", 1, 2),
        ("hypercube(5)", 1, 1),
        ("hamming(2, 3)", 1, 1),
        ("circulant(20, 2, 3)", 1, 2),
        ("complete_bipartite(4, 4)", 1, 1),
        ("metacyclic_cayley(8, 2, 3, 2, 3)", 1, 2),
        ("generalized_kautz(4, 1000)", 100, 400),
        ("generalized_kautz(3, 10)", 3, 7),
        ("de_bruijn(3, 2)", 2, 4),
        ("cartesian_power(ring(5), 2)", 1, 1),
        ("degree_expansion(ring(4), 2)", 1, 1),
        ("line_graph(complete(4))", 1, 2),
        ("mesh(3, 3)", 3, 4),
        ("generalized_kautz(4, 4)", 1, 1),
        ("generalized_kautz(4, 128)", 14, 41),
        ("generalized_kautz(4, 1024)", 51, 186),
        ("generalized_kautz(4, 320)", 5, 15),
        ("kautz(4, 3)", 5, 15),
        ("de_bruijn(4, 4)", 15, 50),
        ("line_graph(complete_bipartite(4, 4), 3)", 4, 10),
        ("dgx_h100(3)", 1, 4),
        ("dgx_a100(2)", 1, 6),
        ("rail_optimized(3)", 1, 4),
        ("pods(2, 3)", 1, 6),
        ("leaf_spine(3, 2)", 1, 4),
        ("fat_tree(4)", 1, 14),
        ("mi250(2)", 16, 88),
        ("twisted_torus(4, 8)", 1, 2),
        ("twisted_torus(3, 6, 3)", 1, 2),
        ("twisted_torus(4, 8, 8)", 1, 2),
    ],
)
def test_orbits_of_the_catalogue(expression: str, sources: int, link_orbits: int) -> None:
    symmetry = known_symmetry(_instance(t.parse(expression)))
    assert (symmetry.n_sources, symmetry.n_orbits) == (sources, link_orbits)
    assert symmetry.multiplicities.sum() == len(symmetry.sender_orbit)
    assert symmetry.orbit_sizes.sum() == len(symmetry.link_orbit)


def test_every_generator_is_an_automorphism() -> None:
    graph = t.parse("line_graph(complete_bipartite(3, 3), 2)")
    for node_map in proposed_automorphisms(graph):
        links = link_map(graph, graph, node_map.astype(np.int32))
        assert np.array_equal(graph.tails[links], node_map[graph.tails])
        assert np.array_equal(graph.heads[links], node_map[graph.heads])


def test_a_fabric_that_is_not_what_its_name_says_has_no_symmetry() -> None:
    graph = t.ring(6)
    bandwidths = graph.bandwidths.copy()
    bandwidths[0] = 2
    assert not proposed_automorphisms(replace(graph, bandwidths=bandwidths))
    assert known_symmetry(_instance(replace(graph, bandwidths=bandwidths))).is_trivial


def test_boxes_that_differ_do_not_turn() -> None:
    """A box with a slow link: the others are alike still, but no rotation of boxes says so."""
    fabric = t.parse("dgx_h100(3)")
    bandwidths = fabric.bandwidths.copy()
    bandwidths[0] += 1
    assert not proposed_automorphisms(replace(fabric, bandwidths=bandwidths))
    assert [one.tolist() for one in box_rotations(["a0.b0", "a0.b1", "a1.b0", "top"])] == []


def test_a_thousand_ranks_in_boxes_have_an_exact_rate() -> None:
    """What leaves a box crosses its eight NICs of 50 GB/s: 1016 of 1024 parts; nothing else binds."""
    fabric = t.parse("dgx_h100(128)")
    found = optimal_rate(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    assert found.exact == Fraction(50 * 10**9, 1016)


def test_a_search_finds_what_no_name_tells() -> None:
    graph = t.distance_regular(4, 32)
    instance = _instance(graph)
    assert known_symmetry(instance).n_sources == 32
    assert find_symmetry(instance).n_sources == 1
    assert find_symmetry(instance, work_limit=10).n_sources == 32


def test_demands_break_symmetry() -> None:
    graph = t.ring(4)
    demands = np.ones((4, 4), dtype=np.int64)
    demands[0, 1] = 2
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=Demands(demands))
    instance = flow_instance(graph, collective)
    assert known_symmetry(instance).is_trivial
    with pytest.raises(TopologyError, match="changes what the ranks have"):
        symmetry_of(instance, [[1, 2, 3, 0]])


def test_a_map_that_is_no_automorphism_is_refused() -> None:
    with pytest.raises(TopologyError, match="links do not become links"):
        symmetry_of(_instance(t.ring(5)), [[1, 0, 2, 3, 4]])


def test_orbits_of_long_cycles() -> None:
    turn = (np.arange(1000) + 3) % 1000
    assert not orbits(1000, [turn]).any()
    assert np.array_equal(orbits(1000, [(np.arange(1000) + 10) % 1000]), np.arange(1000) % 10)
    assert np.array_equal(orbits(4, []), np.arange(4))


@pytest.mark.parametrize(
    "expression",
    ["generalized_kautz(3, 12)", "de_bruijn(2, 4)", "line_graph(complete_bipartite(2, 2), 2)", "mesh(3, 3)"],
)
def test_symmetry_does_not_change_the_rate(expression: str) -> None:
    graph = t.parse(expression)
    instance = _instance(graph)
    rates = {
        found.rate
        for symmetry in (symmetry_of(instance), known_symmetry(instance), find_symmetry(instance))
        if (found := solve_exactly(instance, symmetry)) is not None
    }
    assert len(rates) == 1


def test_large_symmetric_fabrics_are_solved_in_moments() -> None:
    graph = t.circulant(1000, 22, 23)
    collective = on_all_ranks(graph, CollectiveKind.ALLTOALL)
    began = time.process_time()
    exact = exact_rate(graph, collective)
    assert time.process_time() - began < 1
    assert exact is not None
    assert float(exact.rate) == pytest.approx(2.685452e-4, rel=1e-6)
    assert np.unique(exact.certificate.lengths).tolist() == [21, 22]


def nameless(expression: str, seed: int = 0) -> t.Topology:
    """The fabric with its nodes and links in another order, under a name that says nothing."""
    fabric = t.parse(expression)
    rng = np.random.default_rng(seed)
    place, links = rng.permutation(fabric.n_nodes), rng.permutation(fabric.n_links)
    return replace(
        fabric,
        name="from a file",
        tails=place[fabric.tails[links]].astype(np.int32),
        heads=place[fabric.heads[links]].astype(np.int32),
        bandwidths=fabric.bandwidths[links],
    )


@pytest.mark.parametrize(
    ("expression", "rate"),
    [
        ("torus(6, 6, 6)", Fraction(6, 216 * 9 // 2)),  # 6 links a node, distances 216 * 4.5
        ("hypercube(8)", Fraction(8, 8 * 2**7)),
        ("circulant(200, 1, 14)", None),
        ("metacyclic_cayley(8, 2, 7, 4, 7, 9, 6)", None),
    ],
)
def test_symmetry_is_found_without_a_name(expression: str, rate: Fraction | None) -> None:
    fabric = nameless(expression)
    found = optimal_rate(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    named = t.parse(expression)
    expected = optimal_rate(named, on_all_ranks(named, CollectiveKind.ALLTOALL)).exact
    assert expected is not None
    assert found.exact == expected
    assert rate is None or found.exact == rate


def test_no_search_where_nodes_have_distances_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random graph of a hundred nodes; a torus that lost a link still has its mirror images."""

    def searched(expression: str) -> bool:
        fabric = nameless(expression)
        calls: list[FlowInstance] = []
        monkeypatch.setattr(
            "treadle.synthesis.alltoall.rate.exact_rate.find_symmetry",
            lambda one: calls.append(one) or known_symmetry(one),
        )
        suitable_symmetry(_instance(fabric))
        return bool(calls)

    assert not searched("jellyfish(100, 3)")
    assert searched("punctured(torus(10, 10), links=1)")


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("dgx_h100(8192)", Fraction(50 * 10**9, 65536 - 8)),
        ("pods(256, 32, oversubscription=2)", Fraction(25 * 10**9, 65536 - 256)),
        ("torus(100, 100)", Fraction(1, 125_000)),
    ],
)
def test_one_source_of_many_thousand(name: str, rate: Fraction) -> None:
    """What leaves a box, or a pod, over its uplinks; half of all pairs cross the middle of a torus."""
    graph = t.parse(name)
    found = optimal_rate(graph, on_all_ranks(graph, CollectiveKind.ALLTOALL))
    assert found.exact == found.upper == rate
    assert found.rate == pytest.approx(float(rate))
