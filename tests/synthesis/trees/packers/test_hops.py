"""Hops through fabrics and down trees, against a plain search from every source."""

from __future__ import annotations

import random

import numpy as np

from treadle.engine import core
from treadle.synthesis.trees.packers.vertex_matching import height_bound


def farthest(n_nodes: int, links: list[tuple[int, int]], terminals: list[int], source: int) -> int:
    """Bellman-Ford: a link into a terminal is a hop, into a relay it is free."""
    hops = {source: 0}
    changed = True
    while changed:
        changed = False
        for tail, head in links:
            far = hops.get(tail, n_nodes) + (head in terminals)
            if tail in hops and far < hops.get(head, n_nodes + 1):
                hops[head] = far
                changed = True
    return max(hops[t] for t in terminals) if all(t in hops for t in terminals) else -1


def test_hops_agree_with_a_plain_search() -> None:
    unreached = 0
    for seed in range(150):
        chance = random.Random(seed)
        n_nodes = chance.randrange(2, 12)
        terminals = sorted(chance.sample(range(n_nodes), chance.randrange(1, n_nodes + 1)))
        links = [
            (chance.randrange(n_nodes), chance.randrange(n_nodes)) for _ in range(chance.randrange(1, 40))
        ]
        sources = chance.sample(terminals, chance.randrange(1, len(terminals) + 1))
        each = [farthest(n_nodes, links, terminals, source) for source in sources]
        expected = -1 if -1 in each else max(each)
        unreached += expected < 0
        tails, heads = np.array(links, dtype=np.int32).T.copy()
        found = height_bound(
            n_nodes, tails, heads, np.array(terminals, dtype=np.int32), np.array(sources, dtype=np.int32)
        )
        assert found == expected, seed
    assert 20 < unreached < 130


def test_more_sources_than_bits_of_a_word() -> None:
    """A path of 150 terminals with a relay between each two: the last of the sources is the farthest."""
    nodes = np.arange(299, dtype=np.int32)
    terminals = nodes[::2].copy()
    for sources, hops in ((terminals, 149), (terminals[75:], 149), (terminals[75:76], 75)):
        both = np.concatenate([nodes[:-1], nodes[1:]]), np.concatenate([nodes[1:], nodes[:-1]])
        assert height_bound(299, *both, terminals, sources) == hops


def test_height_of_random_trees() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        n_nodes, rows, expected = chance.randrange(1, 30), [], 0
        for _ in range(chance.randrange(1, 5)):
            order = chance.sample(range(n_nodes), n_nodes)
            depth, row = {order[0]: 0}, [-1] * n_nodes
            for place, node in enumerate(order[1:], start=1):
                row[node] = chance.choice(order[:place])
                depth[node] = depth[row[node]] + 1
            expected = max(expected, *depth.values())
            rows.append(row)
        assert core.forest_height(np.array(rows, dtype=np.int32).ravel(), n_nodes) == expected
