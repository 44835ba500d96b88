"""Groups and Cayley digraphs: axioms against dense tables, graph symmetry, refusals."""

from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import TopologyError
from treadle.topologies.catalogue.cayley import (
    abelian_cayley,
    cayley_graph,
    cayley_graph_of,
    dihedral_cayley,
    extension_cayley,
    metacyclic_cayley,
    plane_cayley,
)
from treadle.topologies.catalogue.direct import in_links
from treadle.topologies.catalogue.finite_groups import FiniteGroup, abelian_group, metacyclic_group
from treadle.topologies.catalogue.graphs import hypercube

GROUPS = {
    "cyclic": abelian_group(12),
    "product": abelian_group(4, 3, 2),
    "trivial factor": abelian_group(1),
    "dihedral": metacyclic_group(7, 2, 6),
    "metacyclic": metacyclic_group(8, 2, 3),
    "Frobenius": metacyclic_group(7, 3, 2),
    "negative action": metacyclic_group(9, 2, -1),
    "quaternion": FiniteGroup((4,), 2, ((3,),), (2,)),
    "plane": FiniteGroup((3, 3), 4, ((0, 2), (1, 0)), (0, 0)),
    "cube": FiniteGroup((2, 2, 2), 7, ((0, 0, 1), (1, 0, 1), (0, 1, 0)), (0, 0, 0)),
    "uneven moduli": FiniteGroup((4, 2), 2, ((1, 2), (0, 1)), (2, 0)),
}
GRAPHS = (
    'abelian_cayley("16x4", 1, 4)',
    "metacyclic_cayley(8, 2, 3, 2, 3)",
    "metacyclic_cayley(16, 2, 7, 28, 2, 20, 5)",
    "dihedral_cayley(6, 1, 3)",
    "plane_cayley(3, 4, 0, 2, 1, 0, 1, 4)",
    'extension_cayley("4", "3", "2", 2, 1, 2)',
    'abelian_cayley("5", 2, 2, 4)',
)


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_groups_satisfy_the_axioms(group: FiniteGroup) -> None:
    table, elements = group.table(), np.arange(group.order)
    assert np.array_equal(table[0], elements)
    assert np.array_equal(table[:, 0], elements)
    assert np.array_equal(np.sort(table, axis=1), np.broadcast_to(elements, table.shape))
    assert np.array_equal(table[table], table[:, table])
    assert not table[elements, group.inverse(elements)].any()
    assert not table[group.inverse(elements), elements].any()


def test_element_numbers() -> None:
    # (x, y) = x k + y and (x, y)(x', y') = (x + r^y x', y + y').
    group = metacyclic_group(16, 4, 3)
    for (x, y), (u, v) in permutations([(1, 0), (5, 3), (15, 2), (7, 1)], 2):
        expected = (x + 3**y * u) % 16 * 4 + (y + v) % 4
        assert int(group.multiply(x * 4 + y, u * 4 + v)) == expected
    assert int(abelian_group(16, 4).multiply(15 * 4 + 3, 2 * 4 + 2)) == 1 * 4 + 1


def test_the_quaternion_group_has_one_involution() -> None:
    group = GROUPS["quaternion"]
    assert np.flatnonzero(group.multiply(np.arange(8), np.arange(8)) == 0).tolist() == [0, 4]


@pytest.mark.parametrize("name", GRAPHS)
def test_links_run_from_products_with_generators(name: str) -> None:
    graph = cayley_graph(name)
    topology = graph.topology()
    d = graph.degree
    assert topology.name == name
    assert np.array_equal(topology.heads, np.repeat(np.arange(graph.n_nodes), d))
    assert np.array_equal(in_links(topology).ravel(), np.arange(graph.n_nodes * d))
    for i, generator in enumerate(graph.generators):
        expected = [int(graph.group.multiply(x, generator)) for x in range(graph.n_nodes)]
        assert topology.tails[i::d].tolist() == expected


@pytest.mark.parametrize("name", GRAPHS)
def test_translations_are_automorphisms(name: str) -> None:
    graph = cayley_graph(name)
    topology = graph.topology()
    links = np.arange(topology.n_links)
    for element in range(graph.n_nodes):
        moved = graph.translate_links(element, links)
        assert np.array_equal(np.sort(moved), links)
        assert np.array_equal(topology.tails[moved], graph.translate(element, topology.tails))
        assert np.array_equal(topology.heads[moved], graph.translate(element, topology.heads))
        assert int(graph.translate(element, 0)) == element


def test_same_graphs_as_the_named_ones() -> None:
    cube = abelian_cayley("2x2x2", 4, 2, 1)
    ours = sorted(zip(cube.tails.tolist(), cube.heads.tolist(), strict=True))
    other = hypercube(3)
    assert ours == sorted(zip(other.tails.tolist(), other.heads.tolist(), strict=True))
    assert dihedral_cayley(8, 1, 3) == metacyclic_cayley(8, 2, 7, 1, 3)
    assert plane_cayley(3, 4, 0, 2, 1, 0, 1, 4) == extension_cayley("3x3", "0,2/1,0", "0,0", 4, 1, 4)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.data())
def test_disconnected_sets_are_refused(data: st.DataObject) -> None:
    group = data.draw(st.sampled_from([group for group in GROUPS.values() if group.order > 1]))
    generators = data.draw(st.lists(st.integers(1, group.order - 1), min_size=1, max_size=3))
    moduli = "x".join(map(str, group.moduli))
    action = "/".join(",".join(map(str, row)) for row in group.action)
    carry = ",".join(map(str, group.carry))
    digraph = nx.DiGraph()
    digraph.add_nodes_from(range(group.order))
    nodes = np.arange(group.order)
    for generator in generators:
        digraph.add_edges_from(zip(group.multiply(nodes, generator).tolist(), nodes.tolist(), strict=True))
    if nx.is_strongly_connected(digraph):
        assert extension_cayley(moduli, action, carry, group.k, *generators).n_nodes == group.order
    else:
        with pytest.raises(TopologyError, match="do not reach every node"):
            extension_cayley(moduli, action, carry, group.k, *generators)


def test_bidirectional_sets() -> None:
    assert cayley_graph('abelian_cayley("5", 1, 4)').is_bidirectional
    assert cayley_graph("dihedral_cayley(5, 1, 3)").is_bidirectional
    assert not cayley_graph('abelian_cayley("5", 1, 1, 4)').is_bidirectional
    assert not cayley_graph("metacyclic_cayley(8, 2, 3, 2, 3)").is_bidirectional


def test_the_graph_of_a_fabric_is_confirmed_not_believed() -> None:
    graph = cayley_graph("metacyclic_cayley(8, 2, 3, 2, 3)")
    fabric = graph.topology(bandwidth=7, latency=3)
    assert fabric.name == 'metacyclic_cayley(8, 2, 3, 2, 3, bandwidth="7B/s", latency="3ns")'
    assert cayley_graph_of(fabric) == graph
    assert cayley_graph_of(hypercube(3)) is None
    # Same name, other links.
    assert cayley_graph_of(fabric.transpose()) is None
    lying = metacyclic_cayley(8, 2, 3, 3, 2)
    object.__setattr__(lying, "name", fabric.name)
    assert cayley_graph_of(lying) is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('abelian_cayley("16x4", 1, 0)', "each generator must be at least 1"),
        ('abelian_cayley("16x4", 1, 64)', "each generator must be at most 63"),
        ('abelian_cayley("16x4", 1)', "do not reach every node"),
        ('abelian_cayley("16x", 1)', "must be numbers joined by 'x'"),
        ('abelian_cayley("99999999", 1)', "must be numbers joined by 'x'"),
        ('abelian_cayley("4x1", 1)', "moduli of at least 2"),
        ("abelian_cayley(16, 1)", "must be numbers joined by 'x'"),
        ("metacyclic_cayley(8, 2, 2, 1, 2)", "must be the identity modulo"),
        ("metacyclic_cayley(1000000, 1000000, 1, 1, 2)", "order is above"),
        ("metacyclic_cayley(0, 2, 1, 1)", "m must be at least 1"),
        ("metacyclic_cayley(1, 1, 1, 1)", "number of nodes must be at least 2"),
        ("dihedral_cayley(4)", "number of generators must be at least 1"),
        ("dihedral_cayley(4, True)", "expected a Cayley digraph"),
        ("dihedral_cayley()", "expected a Cayley digraph"),
        (
            'extension_cayley("4x2", "1,1/0,1", "0,0", 2, 1)',
            "is not a map of the moduli|must be the identity",
        ),
        ('extension_cayley("4", "3", "1", 2, 1)', "must fix the carry"),
        ('extension_cayley("4", "3,1", "1", 2, 1)', "expected a 1 by 1 action"),
        ('extension_cayley("4", 3, "1", 2, 1)', "action must be numbers"),
        ("plane_cayley(3, 3, 1, 1, 0, 1, 1, -3)", "each generator must be at least 1"),
        ("torus(3, 3)", "expected a Cayley digraph"),
        ("__import__('os')", "expected a Cayley digraph"),
        ("dihedral_cayley(4, 1, 3", "expected a Cayley digraph"),
    ],
)
def test_refusals(expression: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as refusal:
        cayley_graph(expression)
    assert "\n" not in str(refusal.value)
