"""Isomorphisms: against networkx, on relabelled fabrics, and table A.3's reverse symmetry."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import TopologyError
from treadle.topologies.catalogue.circulants import circulant
from treadle.topologies.catalogue.direct import from_arcs, from_edges
from treadle.topologies.catalogue.distance_regular import distance_regular
from treadle.topologies.catalogue.graphs import complete, hypercube, path, ring, torus
from treadle.topologies.catalogue.kautz import diamond, generalized_kautz, kautz, modified_de_bruijn
from treadle.topologies.catalogue.platforms import dgx_a100, dgx_h100
from treadle.topologies.isomorphism import (
    UndecidedError,
    find_automorphism,
    find_isomorphism,
    is_reverse_symmetric,
    is_vertex_transitive,
    link_map,
    transpose_isomorphism,
)
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.expansions import degree_expansion, line_graph


def relabelled(topology: Topology, seed: int) -> Topology:
    """The fabric with its nodes and its links shuffled."""
    rng = np.random.default_rng(seed)
    images, order = rng.permutation(topology.n_nodes), rng.permutation(topology.n_links)
    places = np.argsort(images)
    return replace(
        topology,
        name=f"relabelled({topology.name})",
        is_compute=topology.is_compute[places],
        tails=images[topology.tails[order]],
        heads=images[topology.heads[order]],
        bandwidths=topology.bandwidths[order],
        latencies_ns=topology.latencies_ns[order],
        multicast=topology.multicast[places],
        aggregation=topology.aggregation[places],
        turns_round=topology.turns_round[places],
        injection_bytes_per_s=topology.injection_bytes_per_s[places],
    )


def links(topology: Topology, images: list[int]) -> Counter[tuple[int, int, int, int]]:
    columns = (topology.tails, topology.heads, topology.bandwidths, topology.latencies_ns)
    return Counter(
        (images[tail], images[head], bandwidth, latency)
        for tail, head, bandwidth, latency in zip(*(column.tolist() for column in columns), strict=True)
    )


def is_isomorphism(one: Topology, other: Topology, mapping: np.ndarray) -> bool:
    """Slow and plain: the links, one by one, become the other fabric's."""
    images = mapping.tolist()
    assert sorted(images) == list(range(other.n_nodes))
    kinds = [one.is_compute[v] == other.is_compute[images[v]] for v in range(one.n_nodes)]
    return all(kinds) and links(one, images) == links(other, list(range(other.n_nodes)))


@st.composite
def small_digraphs(draw: st.DrawFn) -> Topology:
    """Digraphs of up to 6 nodes with loops, parallel arcs and two bandwidths."""
    n = draw(st.integers(1, 6))
    arc = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(1, 2))
    arcs = draw(st.lists(arc, max_size=10))
    tails, heads, bandwidths = zip(*arcs, strict=True) if arcs else ((), (), ())
    graph = from_arcs("random", tails, heads, n=n)
    return replace(graph, bandwidths=np.array(bandwidths, dtype=np.int64))


def peer(topology: Topology) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    for tail, head, bandwidth in zip(
        topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True
    ):
        graph.add_edge(tail, head, bandwidth=bandwidth)
    return graph


def peer_isomorphic(one: Topology, other: Topology) -> bool:
    matches = nx.algorithms.isomorphism.numerical_multiedge_match("bandwidth", 1)
    return bool(nx.is_isomorphic(peer(one), peer(other), edge_match=matches))


@settings(derandomize=True, max_examples=35, deadline=None)
@given(small_digraphs())
def test_reverse_symmetry_agrees_with_networkx(graph: Topology) -> None:
    mapping = transpose_isomorphism(graph)
    assert (mapping is not None) == peer_isomorphic(graph.transpose(), graph)
    assert mapping is None or is_isomorphism(graph.transpose(), graph, mapping)


@settings(derandomize=True, max_examples=35, deadline=None)
@given(small_digraphs(), st.integers(0, 5), st.integers(0, 5), st.integers(0, 100))
def test_moved_links_agree_with_networkx(graph: Topology, old: int, new: int, seed: int) -> None:
    heads = graph.heads.copy()
    heads[old : old + 1] = new % graph.n_nodes
    other = relabelled(replace(graph, heads=heads), seed)
    mapping = find_isomorphism(graph, other)
    assert (mapping is not None) == peer_isomorphic(graph, other)
    assert mapping is None or is_isomorphism(graph, other, mapping)


@settings(derandomize=True, max_examples=18, deadline=None)
@given(small_digraphs())
def test_transitivity_agrees_with_all_automorphisms(graph: Topology) -> None:
    matches = nx.algorithms.isomorphism.numerical_multiedge_match("bandwidth", 1)
    matcher = nx.algorithms.isomorphism.MultiDiGraphMatcher(peer(graph), peer(graph), edge_match=matches)
    images = {mapping[0] for mapping in matcher.isomorphisms_iter()}
    assert is_vertex_transitive(graph) == (len(images) == graph.n_nodes)
    for node in range(graph.n_nodes):
        mapping = find_automorphism(graph, 0, node)
        assert (mapping is not None) == (node in images)
        assert mapping is None or (mapping[0] == node and is_isomorphism(graph, graph, mapping))


def test_switches_that_turn_sums_round_are_of_a_kind_of_their_own() -> None:
    by_itself = dgx_h100(2, 2, sharp=True)
    for_askers = replace(by_itself, turns_round=by_itself.turns_round & False)
    assert find_isomorphism(by_itself, relabelled(by_itself, 3)) is not None
    assert find_isomorphism(by_itself, relabelled(for_askers, 3)) is None


FABRICS = [
    torus(8, 16),
    torus(2, 3, 4),
    hypercube(7),
    complete(12),
    ring(64, bidirectional=False),
    kautz(4, 2),
    generalized_kautz(3, 100),
    degree_expansion(ring(12), 3),
    line_graph(degree_expansion(ring(4), 2)),
    distance_regular(4, 189),
    dgx_a100(2),
]


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_relabelled_fabrics_are_found(fabric: Topology) -> None:
    other = relabelled(fabric, 1)
    mapping = find_isomorphism(fabric, other)
    assert mapping is not None
    assert is_isomorphism(fabric, other, mapping)
    assert not mapping.flags.writeable


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_a_fabric_is_mapped_to_itself_by_the_identity(fabric: Topology) -> None:
    mapping = find_isomorphism(fabric, fabric)
    assert mapping is not None
    assert mapping.tolist() == list(range(fabric.n_nodes))


def shrikhande() -> Topology:
    """Strongly regular like the 4x4 rook's graph: Z4 x Z4 with the steps +-(0, 1), +-(1, 0), +-(1, 1)."""
    steps = [(0, 1), (1, 0), (1, 1)]
    edges = [
        (4 * x + y, 4 * ((x + a) % 4) + (y + b) % 4) for x in range(4) for y in range(4) for a, b in steps
    ]
    return from_edges("shrikhande", edges, n=16)


def rook() -> Topology:
    edges = [(i, j) for i in range(16) for j in range(i) if i // 4 == j // 4 or i % 4 == j % 4]
    return from_edges("rook", edges, n=16)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (rook(), shrikhande()),
        (torus(4, 16), torus(8, 8)),
        (circulant(64, 3, 10), circulant(64, 5, 10)),
        (ring(6), from_edges("triangles", [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)], n=6)),
    ],
)
def test_what_refinement_alone_cannot_tell_apart(one: Topology, other: Topology) -> None:
    assert find_isomorphism(one, other) is None
    assert find_isomorphism(other, one) is None


@pytest.mark.parametrize("key", ["bandwidths", "latencies_ns", "injection_bytes_per_s"])
def test_attributes_count(key: str) -> None:
    fabric = ring(5)
    values = getattr(fabric, key).copy()
    values[0] += 1
    changed = replace(fabric, **{key: values})
    assert find_isomorphism(fabric, changed) is None
    values = np.roll(values, 2 if key == "injection_bytes_per_s" else 4)
    moved = find_isomorphism(changed, replace(fabric, **{key: values}))
    assert moved is not None
    assert moved[0] == 2


def test_bandwidths_and_latencies_guide_the_search() -> None:
    """Some nodes apart by their links alone: one refinement of 64 nodes and 512 links settles the rest."""
    fabric = hypercube(6)
    for key in ("bandwidths", "latencies_ns"):
        marked = replace(fabric, **{key: np.arange(1, fabric.n_links + 1)})
        assert find_isomorphism(marked, relabelled(marked, 3), work_limit=6000) is not None


def test_different_sizes_are_not_isomorphic() -> None:
    assert find_isomorphism(ring(4), ring(5)) is None
    assert find_isomorphism(ring(4), complete(4)) is None


# Table A.3, column Reverse-Symmetric.
@pytest.mark.parametrize(
    ("fabric", "symmetric"),
    [
        (complete(5), True),
        (kautz(2, 2), True),
        (line_graph(complete(4), 2), True),
        (circulant(16, 3, 4), True),
        (distance_regular(4, 32), True),
        (ring(6, bidirectional=False), True),
        (diamond(), False),
        (modified_de_bruijn(2, 3), True),
        (modified_de_bruijn(2, 4), False),
        (modified_de_bruijn(3, 2), False),
        (modified_de_bruijn(4, 2), False),
    ],
    ids=lambda value: value.name if isinstance(value, Topology) else "",
)
def test_table_a3_reverse_symmetry(fabric: Topology, symmetric: bool) -> None:
    assert is_reverse_symmetric(fabric) == symmetric


def test_not_transitive() -> None:
    assert not is_vertex_transitive(path(3))
    assert not is_vertex_transitive(line_graph(torus(3, 4)))
    assert not is_vertex_transitive(generalized_kautz(2, 11))


def test_link_map_keeps_the_order_of_parallel_links() -> None:
    one = from_arcs("one", [0, 1, 0, 0], [1, 0, 1, 0], n=2)
    other = from_arcs("other", [1, 1, 0, 1], [0, 1, 1, 0], n=2)
    assert link_map(one, other, np.array([1, 0], dtype=np.int32)).tolist() == [0, 2, 3, 1]


def test_link_map_tells_bandwidths_apart() -> None:
    one = replace(from_arcs("one", [0, 0], [1, 1], n=2), bandwidths=np.array([2, 1]))
    other = replace(from_arcs("other", [1, 1], [0, 0], n=2), bandwidths=np.array([1, 2]))
    assert link_map(one, other, np.array([1, 0], dtype=np.int32)).tolist() == [1, 0]


@settings(derandomize=True, max_examples=40, deadline=None)
@given(small_digraphs(), st.integers(0, 100))
def test_link_map_follows_every_link(graph: Topology, seed: int) -> None:
    other = relabelled(graph, seed)
    mapping = find_isomorphism(graph, other)
    assert mapping is not None
    images = link_map(graph, other, mapping)
    assert sorted(images.tolist()) == list(range(graph.n_links))
    assert (other.tails[images] == mapping[graph.tails]).all()
    assert (other.heads[images] == mapping[graph.heads]).all()
    assert (other.bandwidths[images] == graph.bandwidths).all()


def test_maps_that_are_no_isomorphism_are_refused() -> None:
    with pytest.raises(TopologyError, match="links do not become links"):
        link_map(path(3), path(3), np.array([1, 0, 2], dtype=np.int32))
    with pytest.raises(TopologyError, match="expected each of 3 nodes once"):
        link_map(path(3), path(3), np.array([0, 0, 1], dtype=np.int32))
    with pytest.raises(TopologyError, match="node 3 does not exist"):
        find_automorphism(path(3), 0, 3)


def test_the_work_limit_is_a_distinct_outcome() -> None:
    with pytest.raises(UndecidedError, match="not decided within 1000 visits"):
        find_isomorphism(circulant(64, 3, 10), circulant(64, 5, 10), work_limit=1000)
