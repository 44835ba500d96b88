"""Orbits of sources and links, known and found."""

from __future__ import annotations

import pytest

from treadle import topologies as t
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import known_symmetry


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
