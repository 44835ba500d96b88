"""Random graphs: degrees, simplicity, connectedness, and that the seed decides everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import TopologyError
from treadle.finder.cabling import cables
from treadle.topologies.cables import named_cables
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.graphs import path, ring, torus
from treadle.topologies.catalogue.kautz import de_bruijn
from treadle.topologies.catalogue.platforms import dgx_a100
from treadle.topologies.catalogue.random_graphs import (
    failed_cables,
    jellyfish,
    punctured,
    random_regular_digraph,
    xpander,
)
from treadle.topologies.catalogue.rings import bi_ring, uni_ring
from treadle.topologies.distances import diameter
from treadle.topologies.properties import are_ranks_connected, is_symmetric
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


@settings(derandomize=True, max_examples=28, deadline=None)
@given(st.integers(2, 14), st.data())
def test_jellyfish_is_simple_regular_and_connected(n: int, data: st.DataObject) -> None:
    degrees = [d for d in range(1, n) if n * d % 2 == 0 and (d > 1 or n == 2)]
    d, seed = data.draw(st.sampled_from(degrees)), data.draw(st.integers(0, 99))
    graph = jellyfish(n, d, seed=seed)
    assert_simple_regular(graph, n, d)
    assert is_symmetric(graph)


@settings(derandomize=True, max_examples=80, deadline=None)
@given(st.integers(2, 12), st.data())
def test_random_digraphs_are_simple_regular_and_connected(n: int, data: st.DataObject) -> None:
    d, seed = data.draw(st.integers(1, n - 1)), data.draw(st.integers(0, 99))
    assert_simple_regular(random_regular_digraph(n, d, seed=seed), n, d)


@pytest.mark.parametrize(("n", "d"), [(300, 4), (60, 29), (61, 30), (60, 40), (500, 3), (500, 2)])
def test_larger_jellyfish(n: int, d: int) -> None:
    assert_simple_regular(jellyfish(n, d, seed=1), n, d)
    assert_simple_regular(random_regular_digraph(n, d, seed=1), n, d)


def test_every_graph_of_six_nodes_and_degree_three_is_drawn() -> None:
    """There are 70 labelled ones (10 of K3,3, 60 prisms); pairing and complement should reach them all."""
    drawn = Counter(jellyfish(6, 3, seed=seed).heads.tobytes() for seed in range(700))
    assert len(drawn) == 70
    assert max(drawn.values()) < 4 * 700 / 70


@pytest.mark.parametrize(("d", "lift"), [(3, 1), (3, 2), (4, 10), (7, 5)])
def test_xpander_is_a_lift_of_the_complete_graph(d: int, lift: int) -> None:
    graph = xpander(d, lift, seed=3)
    assert_simple_regular(graph, (d + 1) * lift, d)
    assert is_symmetric(graph)
    over = Counter(zip((graph.tails // lift).tolist(), (graph.heads // lift).tolist(), strict=True))
    assert over == {(v, w): lift for v in range(d + 1) for w in range(d + 1) if v != w}
    covered = set(zip(graph.tails.tolist(), (graph.heads // lift).tolist(), strict=True))
    assert len(covered) == graph.n_links


def test_disconnected_lifts_are_drawn_again() -> None:
    """One 2-lift of K4 in eight is two copies of K4."""
    assert all(are_ranks_connected(xpander(3, 2, seed=seed)) for seed in range(40))


def test_random_graphs_have_short_distances() -> None:
    """Singla et al., Jellyfish, section 4.1: mean paths about log n; a ring of 512 nodes would have 256."""
    assert diameter(jellyfish(512, 4)) <= 9
    assert diameter(xpander(4, 100)) <= 9


@pytest.mark.parametrize("make", [jellyfish, random_regular_digraph, xpander])
def test_the_seed_decides(make: Callable[..., Topology]) -> None:
    arguments = (4, 20) if make is xpander else (20, 4)
    assert make(*arguments, seed=5) == make(*arguments, seed=5)
    assert make(*arguments, seed=5) != make(*arguments, seed=6)
    assert make(*arguments) == make(*arguments, seed=0)
    called = f"{make.__name__}({arguments[0]}, {arguments[1]}"
    assert make(*arguments, seed=5, latency=3).name == f'{called}, seed=5, latency="3ns")'
    assert make(*arguments).name == f"{called})"


def test_draws_are_the_same_on_every_machine() -> None:
    assert jellyfish(8, 3, seed=1).heads.tolist() == [
        *(1, 4, 7),
        *(0, 2, 3),
        *(1, 5, 6),
        *(1, 5, 6),
        *(0, 6, 7),
        *(2, 3, 7),
        *(2, 3, 4),
        *(0, 4, 5),
    ]


def undirected_pairs(graph: Topology) -> Counter[tuple[str, str]]:
    names = graph.node_names
    return Counter(
        (min(names[tail], names[head]), max(names[tail], names[head]))
        for tail, head in zip(graph.tails.tolist(), graph.heads.tolist(), strict=True)
    )


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.integers(0, 8), st.integers(0, 4), st.integers(0, 1000))
def test_punctured_torus(links: int, nodes: int, seed: int) -> None:
    fabric = torus(4, 4)
    left = punctured(fabric, links=links, nodes=nodes, seed=seed)
    assert left.n_nodes == 16 - nodes
    assert is_symmetric(left)
    assert are_ranks_connected(left)
    survivors = {
        pair: count for pair, count in undirected_pairs(fabric).items() if set(pair) <= set(left.node_names)
    }
    assert undirected_pairs(left).items() <= survivors.items()
    assert len(survivors) - len(undirected_pairs(left)) == links


def test_punctured_takes_both_directions_and_one_of_parallel_cables() -> None:
    fabric = from_arcs("triangle", [0, 1, 0, 1, 1, 2, 2, 0], [1, 0, 1, 0, 2, 1, 0, 2], n=3)
    found = [punctured(fabric, links=1, seed=seed) for seed in range(20)]
    assert {left.n_links for left in found} == {6}
    assert {len(undirected_pairs(left)) for left in found} == {2, 3}
    for seed, left in enumerate(found):
        (cable,) = failed_cables(fabric, links=1, seed=seed)
        assert left == with_failed_links(fabric, cable.name)
    assert {punctured(fabric, links=2, seed=seed).n_links for seed in range(20)} == {4}


def test_cables_that_fail_are_those_of_the_cabling_list_between_two_nodes() -> None:
    for fabric in (de_bruijn(2, 3), uni_ring(3, 5), bi_ring(4, 3), torus(3, 3)):
        wires = [wire for wire in cables(fabric) if wire.tail != wire.head]
        assert {cable.links[0] for cable in named_cables(fabric)} == {wire.link for wire in wires}
        for cable in named_cables(fabric):
            kept = np.delete(np.arange(fabric.n_links), cable.links)
            left = with_failed_links(fabric, cable.name)
            assert left.n_links == len(kept)
            assert np.array_equal(left.tails, fabric.tails[kept])
            assert np.array_equal(left.heads, fabric.heads[kept])


def test_punctured_skips_what_would_disconnect() -> None:
    fabric = from_arcs("lollipop", [0, 1, 1, 2, 2, 3, 3, 1], [1, 0, 2, 1, 3, 2, 1, 3], n=4)
    for seed in range(20):
        left = punctured(fabric, links=1, seed=seed)
        assert ("n0", "n1") in undirected_pairs(left)
        assert punctured(fabric, nodes=1, seed=seed).n_nodes == 3
        assert "n1" in punctured(fabric, nodes=1, seed=seed).node_names


def test_punctured_directed_ring_with_chords_stays_strongly_connected() -> None:
    n = 12
    tails = np.repeat(np.arange(n), 2)
    fabric = from_arcs("chords", tails, (tails + np.tile([1, 5], n)) % n, n=n)
    for seed in range(10):
        left = punctured(fabric, links=3, seed=seed)
        assert left.n_links == 2 * n - 3
        arcs = zip(left.tails.tolist(), left.heads.tolist(), strict=True)
        assert nx.is_strongly_connected(nx.DiGraph(arcs))


def test_punctured_keeps_all_ranks_of_a_switched_fabric_together() -> None:
    fabric = dgx_a100(2)
    left = punctured(fabric, links=4, nodes=2, seed=2)
    assert len(left.compute_nodes) == len(fabric.compute_nodes) - 2
    assert are_ranks_connected(left)


def test_punctured_names_and_values() -> None:
    fabric = torus(4, 4)
    assert punctured(fabric).name == "punctured(torus(4, 4))"
    assert punctured(fabric) == fabric
    left = punctured(fabric, links=1, seed=9)
    assert left.name == "punctured(torus(4, 4), links=1, seed=9)"
    ((one, other),) = undirected_pairs(fabric).keys() - undirected_pairs(left).keys()
    assert left == with_failed_links(fabric, f"{one}--{other}")


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


def test_a_jellyfish_of_odd_degrees_and_nodes_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"n \* d must be even, found 5 \* 3; a link has two ends"):
        jellyfish(5, 3)


def test_punctured_leaves_one_node_if_asked() -> None:
    left = punctured(torus(3, 3), nodes=8, seed=1)
    assert (left.n_nodes, left.n_links) == (1, 0)
