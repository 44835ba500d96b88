"""Searches in graphs, against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from treadle.math import graphs


@pytest.mark.parametrize("seed", range(8))
def test_searches_agree_with_another_library(seed: int) -> None:
    chance, n = np.random.default_rng(seed), 40
    tails, heads = chance.integers(0, n, (2, (20, 45, 90)[seed % 3]))
    length = chance.integers(1, 9, len(tails)).tolist()
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(n))
    graph.add_weighted_edges_from(zip(tails.tolist(), heads.tolist(), length, strict=True))
    label = graphs.components(n, tails, heads)
    for part in nx.weakly_connected_components(graph):
        assert {int(label[node]) for node in part} == {min(part)}
    far = graphs.hops(n, tails, heads, np.arange(n))
    lengths = graphs.shortest_lengths(n, (tails, heads, np.array(length)), np.arange(n), far=10**6)
    out: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for arc, (tail, head) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
        out[tail].append((arc, head))
    for source in range(n):
        known = nx.single_source_shortest_path_length(graph, source)
        assert {node: int(far[source, node]) for node in np.flatnonzero(far[source] >= 0)} == known
        assert set(np.flatnonzero(graphs.reached(n, tails, heads, source)).tolist()) == set(known)
        into, order = graphs.shortest_tree(out, length, source)
        weighted = nx.single_source_dijkstra_path_length(graph, source)
        assert lengths[source].tolist() == [weighted.get(node, 10**6) for node in range(n)]
        assert order[0] == source
        assert [weighted[node] for node in order] == sorted(weighted.values())
        for node in order[1:]:
            assert weighted[node] == weighted[int(tails[into[node]])] + length[into[node]]


def test_long_paths_and_several_starts() -> None:
    tails = np.arange(99)
    assert graphs.reached(100, tails, tails + 1, 7).tolist() == [node >= 7 for node in range(100)]
    assert graphs.reached(100, tails + 1, tails, np.array([3, 5])).tolist() == [n <= 5 for n in range(100)]
    assert graphs.hops(100, tails, tails + 1, np.array([98])).tolist() == [[-1] * 98 + [0, 1]]
