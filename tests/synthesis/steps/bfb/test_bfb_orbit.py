"""Values of Cayley graphs from one node's distances, against those of all nodes."""

from __future__ import annotations

import pytest

from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value, orbit_value
from treadle.topologies import parse
from treadle.topologies.catalogue.cayley import cayley_graph

TORUS = 'abelian_cayley("4x5", 15, 5, 4, 1)'
CUBE = 'abelian_cayley("2x2x2x2", 8, 4, 2, 1)'
CIRCULANT = 'abelian_cayley("15", 1, 14, 4, 11, 5, 10)'
EXPRESSIONS = [
    TORUS,
    CUBE,
    CIRCULANT,
    'abelian_cayley("9", 2, 7, 3, 6)',
    "metacyclic_cayley(16, 2, 7, 28, 2, 20, 5)",
    "metacyclic_cayley(8, 2, 3, 2, 3)",
    "metacyclic_cayley(5, 4, 2, 1, 7)",
    "metacyclic_cayley(7, 3, 2, 19, 3)",  # here s v and v s lie at other distances
    "dihedral_cayley(7, 1, 2)",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_one_node_stands_for_all(expression: str) -> None:
    graph = cayley_graph(expression)
    topology = graph.topology()
    assert orbit_value(graph).loads == bfb_value(topology).loads
    reducing = orbit_value(graph, direction=Direction.REDUCE)
    assert reducing.loads == bfb_reduce_scatter_value(topology).loads
    assert reducing.t_b == bfb_reduce_scatter_value(topology).t_b


@pytest.mark.parametrize(
    ("expression", "name"),
    [(TORUS, "torus(4, 5)"), (CUBE, "hypercube(4)"), (CIRCULANT, "circulant(15, 1, 4, 5)")],
)
def test_catalogue_graphs_have_the_same_value(expression: str, name: str) -> None:
    assert orbit_value(cayley_graph(expression)).loads == bfb_value(parse(name)).loads


def test_a_hundred_thousand_nodes() -> None:
    value = orbit_value(cayley_graph('abelian_cayley("316x317", 99855, 317, 316, 1)'))
    assert value.n_ranks > 10**5
    assert value.is_bw_optimal
    assert value.diameter == 316 // 2 + 317 // 2


@pytest.mark.parametrize("direction", Direction)
def test_found_graph_of_1024_nodes_meets_its_figures(direction: Direction) -> None:
    """Measured: Z128 :15 Z8 with {251, 7, 788, 445} has T_L 7 and T_B .999 in both directions."""
    graph = cayley_graph("metacyclic_cayley(128, 8, 15, 251, 7, 788, 445)")
    value = orbit_value(graph, direction=direction)
    assert (value.diameter, f"{float(value.t_b):.3f}") == (7, "0.999")
