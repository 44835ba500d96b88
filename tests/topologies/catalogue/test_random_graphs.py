"""Random graphs: degrees, simplicity, connectedness, and that the seed decides everything."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import pytest

from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.graphs import path, ring, torus
from treadle.topologies.catalogue.platforms import dgx_a100
from treadle.topologies.catalogue.random_graphs import (
    failed_cables,
    jellyfish,
    punctured,
    random_regular_digraph,
    xpander,
)
from treadle.topologies.properties import are_ranks_connected
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links


def assert_simple_regular(graph: Topology, n: int, d: int) -> None:
    arcs = list(zip(graph.tails.tolist(), graph.heads.tolist(), strict=True))
    assert arcs == sorted(set(arcs))
    assert all(tail != head for tail, head in arcs)
    peer = nx.DiGraph(arcs)
    assert len(peer) == n == graph.n_nodes
    assert set(dict(peer.in_degree()).values()) == set(dict(peer.out_degree()).values()) == {d}
    assert nx.is_strongly_connected(peer)


@pytest.mark.parametrize(("n", "d"), [(300, 4), (60, 29), (61, 30), (60, 40), (500, 3), (500, 2)])
def test_larger_jellyfish(n: int, d: int) -> None:
    assert_simple_regular(jellyfish(n, d, seed=1), n, d)
    assert_simple_regular(random_regular_digraph(n, d, seed=1), n, d)


def test_every_graph_of_six_nodes_and_degree_three_is_drawn() -> None:
    """There are 70 labelled ones (10 of K3,3, 60 prisms); pairing and complement should reach them all."""
    drawn = Counter(jellyfish(6, 3, seed=seed).heads.tobytes() for seed in range(700))
    assert len(drawn) == 70
    assert max(drawn.values()) < 4 * 700 / 70


def test_disconnected_lifts_are_drawn_again() -> None:
    """One 2-lift of K4 in eight is two copies of K4."""
    assert all(are_ranks_connected(xpander(3, 2, seed=seed)) for seed in range(40))


def undirected_pairs(graph: Topology) -> Counter[tuple[str, str]]:
    names = graph.node_names
    return Counter(
        (min(names[tail], names[head]), max(names[tail], names[head]))
        for tail, head in zip(graph.tails.tolist(), graph.heads.tolist(), strict=True)
    )


def test_punctured_takes_both_directions_and_one_of_parallel_cables() -> None:
    fabric = from_arcs("triangle", [0, 1, 0, 1, 1, 2, 2, 0], [1, 0, 1, 0, 2, 1, 0, 2], n=3)
    found = [punctured(fabric, links=1, seed=seed) for seed in range(20)]
    assert {left.n_links for left in found} == {6}
    assert {len(undirected_pairs(left)) for left in found} == {2, 3}
    for seed, left in enumerate(found):
        (cable,) = failed_cables(fabric, links=1, seed=seed)
        assert left == with_failed_links(fabric, cable.name)
    assert {punctured(fabric, links=2, seed=seed).n_links for seed in range(20)} == {4}


def test_punctured_keeps_all_ranks_of_a_switched_fabric_together() -> None:
    fabric = dgx_a100(2)
    left = punctured(fabric, links=4, nodes=2, seed=2)
    assert len(left.compute_nodes) == len(fabric.compute_nodes) - 2
    assert are_ranks_connected(left)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(TopologyError, match="must be even, found 5"):
        jellyfish(5, 3)
    with pytest.raises(TopologyError, match="d must be at most 3"):
        jellyfish(4, 4)
    with pytest.raises(TopologyError, match="degree 1 cannot be connected"):
        jellyfish(4, 1)
    with pytest.raises(TopologyError, match="d must be at least 3"):
        xpander(2, 4)
    with pytest.raises(TopologyError, match="seed must be at least 0"):
        jellyfish(4, 2, seed=-1)
    with pytest.raises(TopologyError, match="builds at most"):
        random_regular_digraph(2**21, 5)
    with pytest.raises(TopologyError, match="only 1 cables of ring"):
        punctured(ring(5), links=2)
    with pytest.raises(TopologyError, match=r"no cable of ring.* can fail without"):
        punctured(ring(5, bidirectional=False), links=1)
    with pytest.raises(TopologyError, match=r"no node of ring.* can fail without"):
        punctured(ring(5, bidirectional=False), nodes=1)
    with pytest.raises(TopologyError, match="nodes must be at most 2"):
        punctured(path(3), nodes=3)
    with pytest.raises(TopologyError, match="not strongly connected to begin with"):
        punctured(from_arcs("pair", [0], [1], n=2), links=1)


def test_punctured_leaves_one_node_if_asked() -> None:
    left = punctured(torus(3, 3), nodes=8, seed=1)
    assert (left.n_nodes, left.n_links) == (1, 0)
