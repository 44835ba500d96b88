"""Every fabric of the catalogue is named by the expression that makes it."""

import pytest

from treadle import topologies as t
from treadle.errors import FormatError
from treadle.topologies import catalogue, catalogue_entries, parse

# At least one value per function, with keywords where it has any of its own.
SAMPLES = {
    "dgx_a100": [t.dgx_a100(2), t.dgx_a100(1, 4, pcie=True)],
    "dgx_a100_flat": [t.dgx_a100_flat(1)],
    "dgx_h100": [t.dgx_h100(2, nvls=True, sharp=True)],
    "dgx1_v100": [t.dgx1_v100()],
    "gb200_nvl72": [t.gb200_nvl72(1, 4)],
    "mi250": [t.mi250(2, 8)],
    "mi300x": [t.mi300x(1)],
    "leaf_spine": [t.leaf_spine(2, 2, gpus_per_leaf=3)],
    "fat_tree": [t.fat_tree(4)],
    "rail_optimized": [t.rail_optimized(2, 4, spines=1)],
    "pods": [t.pods(2, 1)],
    "ring": [t.ring(4), t.ring(5, bidirectional=False, bandwidth=7, latency=11)],
    "path": [t.path(3)],
    "star": [t.star(4)],
    "complete": [t.complete(4)],
    "complete_bipartite": [t.complete_bipartite(2, 3)],
    "torus": [t.torus(3, 2), t.torus(4)],
    "mesh": [t.mesh(2, 3)],
    "hypercube": [t.hypercube(3)],
    "hamming": [t.hamming(2, 3)],
    "kautz": [t.kautz(2, 2), t.kautz(2, 1, bandwidth=25 * 10**9, latency=10_000)],
    "generalized_kautz": [t.generalized_kautz(3, 7)],
    "de_bruijn": [t.de_bruijn(2, 3)],
    "modified_de_bruijn": [t.modified_de_bruijn(3, 2)],
    "diamond": [t.diamond(), t.diamond(latency=3)],
    "circulant": [t.circulant(8, 3), t.circulant(12, 2, 3, latency=5)],
    "directed_circulant": [t.directed_circulant(6, 1, 2, 3, 4)],
    "twisted_torus": [t.twisted_torus(2, 4), t.twisted_torus(2, 4, 2)],
    "twisted_hypercube": [t.twisted_hypercube(3)],
    "uni_ring": [t.uni_ring(2, 3)],
    "bi_ring": [t.bi_ring(4, 3)],
    "shifted_ring": [t.shifted_ring(8), t.shifted_ring(12, 7)],
    "double_binary_tree": [t.double_binary_tree(5)],
    "distance_regular": [t.distance_regular(4, 32)],
    "octahedron": [t.octahedron()],
    "paley": [t.paley(9)],
    "crown": [t.crown(3)],
    "heawood_distance_3": [t.heawood_distance_3()],
    "petersen_line": [t.petersen_line()],
    "heawood_line": [t.heawood_line()],
    "projective_plane": [t.projective_plane(2)],
    "affine_plane": [t.affine_plane(3)],
    "generalized_quadrangle": [t.generalized_quadrangle(2)],
    "generalized_hexagon": [t.generalized_hexagon(2)],
    "odd_graph": [t.odd_graph(3)],
    "doubled_odd_graph": [t.doubled_odd_graph(2)],
    "tutte_8_cage_line": [t.tutte_8_cage_line()],
    "tutte_12_cage_line": [t.tutte_12_cage_line(bandwidth=2)],
    "slimfly": [t.slimfly(3)],
    "dragonfly": [t.dragonfly(2, 1)],
    "abelian_cayley": [t.abelian_cayley("4x2", 1, 2, latency=1)],
    "metacyclic_cayley": [t.metacyclic_cayley(8, 2, 3, 2, 3)],
    "dihedral_cayley": [t.dihedral_cayley(4, 1, 2)],
    "plane_cayley": [t.plane_cayley(2, 2, 0, 1, 1, 0, 1, 2, 4)],
    "extension_cayley": [t.extension_cayley("4", "3", "2", 2, 1, 2)],
    "jellyfish": [t.jellyfish(10, 3), t.jellyfish(10, 3, seed=5, latency=2)],
    "random_regular_digraph": [t.random_regular_digraph(9, 2, seed=1)],
    "xpander": [t.xpander(3, 4, seed=2, bandwidth=4)],
    "line_graph": [t.line_graph(t.complete(3)), t.line_graph(t.kautz(2, 0), 2)],
    "degree_expansion": [t.degree_expansion(t.ring(3), 2)],
    "cartesian_power": [t.cartesian_power(t.diamond(), 2)],
    "cartesian_product": [t.cartesian_product(t.uni_ring(1, 4), t.bi_ring(2, 3))],
    "with_failed_links": [t.with_failed_links(t.ring(4), "n0->n1", "n2--n3")],
    "with_failed_nodes": [t.with_failed_nodes(t.ring(4), "n1")],
    "punctured": [t.punctured(t.ring(6), links=1, seed=3), t.punctured(t.torus(3, 3), nodes=2)],
    "subset": [t.subset(t.mi250(2, 8), "0-3", 5)],
    "trimmed": [t.trimmed(t.with_failed_links(t.dgx_a100(2), "box0.nic1->ib1"))],
    "with_parallel_links": [t.with_parallel_links(t.ring(4), 2)],
    "with_reverse_links": [t.with_reverse_links(t.uni_ring(1, 4))],
    "with_links": [
        t.with_links(t.ring(4), bandwidth=25),
        t.with_links(t.kautz(2, 1), bandwidth=9, latency=5),
    ],
}
DIRECT_CONNECT = {
    "graphs",
    "direct-connect graphs",
    "distance-regular graphs",
    "low-diameter networks",
    "random graphs",
    "Cayley graphs",
    "expansions",
}


def test_every_function_of_the_catalogue_has_a_sample():
    assert set(SAMPLES) == set(catalogue())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_fabric_is_named_by_the_expression_that_makes_it(name):
    for topology in SAMPLES[name]:
        assert topology.name.startswith(f"{name}(")
        again = parse(topology.name)
        assert again == topology
        assert again.name.replace("'", '"') == topology.name.replace("'", '"')


@pytest.mark.parametrize("entry", catalogue_entries(), ids=lambda entry: entry.name)
def test_entries_are_documented(entry):
    assert entry.summary.endswith(".")
    assert entry.signature.startswith(f"{entry.name}(")


@pytest.mark.parametrize(
    "name", [entry.name for entry in catalogue_entries() if entry.group in DIRECT_CONNECT]
)
def test_direct_connect_graphs_have_no_switches_and_unit_links(name):
    for topology in SAMPLES[name]:
        assert topology.is_compute.all()
        if "bandwidth=" not in topology.name:
            assert set(topology.bandwidths.tolist()) == {1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cartesian_product(ring(3), 4)", "factors must be a fabric, found an integer"),
        ("circulant(8, '1')", "offsets must be an integer, found a quoted string"),
        ("circulant(8, offsets=1)", "no keyword 'offsets'"),
        ("abelian_cayley(4, 1)", "moduli must be a quoted string, found an integer"),
        ("line_graph('ring(4)')", "topology must be a fabric, found a quoted string"),
        ("shifted_ring(8, None)", "expected an integer"),
        ("kautz:2", "missing a required argument: 'n'"),
        ("generalised_kautz(2, 3)", "did you mean generalized_kautz"),
    ],
)
def test_arguments_of_the_wrong_kind(text, message):
    with pytest.raises(FormatError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
