"""Theorems 17 to 19, by their definitions, against the value that decides."""

from __future__ import annotations

import pytest

from reference.bfb_conditions import (
    distance_constants,
    meets_theorem_17,
    meets_theorem_18,
    meets_theorem_19,
)
from samples.greedy_steps import with_chunks
from treadle.synthesis.steps.bfb import bfb_allgather, bfb_value
from treadle.topologies import parse

NAMES = [
    "hypercube(4)",
    "torus(3, 4)",
    "complete(6)",
    "complete_bipartite(3, 3)",
    "circulant(12, 1, 3, 4, 5)",
    "circulant(15, 1, 4, 5)",
    "circulant(13, 2, 3)",
    "generalized_kautz(3, 20)",
    "kautz(2, 1)",
    "de_bruijn(2, 3)",
    "twisted_torus(2, 4)",
    "bi_ring(4, 5)",
    "uni_ring(2, 5)",
]


@pytest.mark.parametrize("name", NAMES)
def test_theorems_agree_with_the_value(name: str) -> None:
    topology = parse(name)
    value = bfb_value(topology)
    optimal = value.is_bw_optimal
    assert meets_theorem_19(topology, value.loads) == optimal
    assert meets_theorem_17(topology, bfb_allgather(topology)) == optimal
    assert optimal or not meets_theorem_18(topology)


def test_theorem_17_is_about_the_schedule() -> None:
    topology = parse("hypercube(4)")
    assert not meets_theorem_17(topology, with_chunks(topology, 1))


def test_theorem_18_on_distance_regular_graphs() -> None:
    """Section A.6.3: distance-regular graphs have all three constants."""
    for name in ("hypercube(5)", "complete(7)", "complete_bipartite(4, 4)", "hamming(2, 4)", "ring(9)"):
        assert meets_theorem_18(parse(name))
        degree = parse(name).n_links // parse(name).n_nodes
        for found in distance_constants(parse(name)):
            assert found.sources is not None
            assert found.served is not None
            assert found.usable is not None
            assert found.sources * found.usable == degree * found.served


def test_theorem_18_needs_the_right_two_constants() -> None:
    """As printed, any two of N_x, a_x, b_x: this graph has N_x and b_x, and no BW-optimal schedule."""
    topology = parse("circulant(12, 1, 3, 4, 5)")
    assert [(c.sources, c.served, c.usable) for c in distance_constants(topology)] == [
        (8, 1, 1),
        (3, None, 6),
    ]
    assert not bfb_value(topology).is_bw_optimal
    assert not meets_theorem_18(topology)


def test_directed_graphs_do_not_meet_theorem_18() -> None:
    assert not meets_theorem_18(parse("uni_ring(1, 5)"))


def test_self_loops_cost_optimality() -> None:
    topology = parse("de_bruijn(2, 2)")
    assert not meets_theorem_18(topology)
    value = bfb_value(topology)
    assert not value.is_bw_optimal
    assert not meets_theorem_19(topology, value.loads)
