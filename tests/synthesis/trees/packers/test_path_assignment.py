"""Paths between sets, dealt out anew: loads stay, links are shared evenly, trees leave where they came in."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from treadle.schedules.factored import no_crossings
from treadle.schedules.trees.forest import Direction, Forest
from treadle.synthesis.trees.switch_removal import LogicalGraph
from treadle.synthesis.trees.tight_cuts.alignment import NOBODY, EgressPorts, aligned_rows
from treadle.synthesis.trees.tight_cuts.subproblem_tables import balanced_over_links


def parallel_graph(seed: int) -> tuple[LogicalGraph, np.ndarray, np.ndarray]:
    """Arcs among 4 nodes through relay 4, over 2 to 4 parallel links each way; 0 to 1 directly too."""
    chance = np.random.default_rng(seed)
    ends = [(0, 1)] * 2
    for node in range(4):
        ends += [(node, 4)] * int(chance.integers(2, 5)) + [(4, node)] * int(chance.integers(2, 5))
    tails, heads = np.array(ends, dtype=np.int32).T.copy()
    arcs = [(u, v) for u in range(4) for v in range(4) if u != v]
    paths, units, offset = [], [], [0]
    for u, v in arcs:
        ways = [(0,), (1,)] if (u, v) == (0, 1) else []
        up, down = np.flatnonzero((tails == u) & (heads == 4)), np.flatnonzero((tails == 4) & (heads == v))
        ways += [
            (int(chance.choice(up)), int(chance.choice(down))) for _ in range(int(chance.integers(1, 4)))
        ]
        paths += ways
        units += [int(chance.integers(1, 50)) for _ in ways]
        offset.append(len(paths))
    graph = LogicalGraph(
        np.array([u for u, _ in arcs], dtype=np.int32),
        np.array([v for _, v in arcs], dtype=np.int32),
        np.array([sum(units[a:b]) for a, b in pairwise(offset)], dtype=np.int64),
        np.array(offset, dtype=np.int64),
        np.arange(len(paths), dtype=np.int32),
        np.array(units, dtype=np.int64),
        np.cumsum([0, *map(len, paths)]).astype(np.int64),
        np.array([link for path in paths for link in path], dtype=np.int32),
    )
    return graph, tails, heads


def uses(graph: LogicalGraph) -> Counter[tuple[int, tuple[int, ...]]]:
    """Units by arc and links."""
    found: Counter[tuple[int, tuple[int, ...]]] = Counter()
    arcs = np.repeat(np.arange(len(graph.tails)), np.diff(graph.segment_offset)).tolist()
    columns = (arcs, graph.segment_path.tolist(), graph.segment_units.tolist())
    for arc, path, units in zip(*columns, strict=True):
        links = graph.path_links[graph.path_offset[path] : graph.path_offset[path + 1]]
        found[arc, tuple(links.tolist())] += units
    return found


@pytest.mark.parametrize("seed", range(20))
def test_parallel_links_are_shared_in_proportion(seed: int) -> None:
    graph, tails, heads = parallel_graph(seed)
    before, after = uses(graph), uses(balanced_over_links(graph, tails, heads))
    load, routes = [Counter[int](), Counter[int]()], [Counter[object](), Counter[object]()]
    for side, found in enumerate((before, after)):
        for (arc, links), units in found.items():
            routes[side][arc, tuple((tails[link], heads[link]) for link in links)] += units
            for link in links:
                load[side][link] += units
    assert load[0] == load[1]  # of every link
    assert routes[0] == routes[1]  # and every arc keeps its ways, but for which of parallel links
    for place in (0, -1):
        of_arc: Counter[tuple[int, int, int]] = Counter()
        of_link: Counter[int] = Counter()
        for (arc, links), units in after.items():
            of_arc[arc, tails[links[place]], heads[links[place]]] += units
            of_link[links[place]] += units
        for (arc, tail, head), units in of_arc.items():
            group = [link for link in of_link if (tails[link], heads[link]) == (tail, head)]
            total = sum(of_link[link] for link in group)
            for link in group:
                mine = sum(n for (a, links), n in after.items() if a == arc and links[place] == link)
                assert mine >= units * of_link[link] // total


def two_children(native: list[int], starts: list[int], units: list[int]) -> tuple[Forest, EgressPorts]:
    """A tree from child 0 to child 1 over paths that start at members of child 0."""
    forest = Forest(
        direction=Direction.BROADCAST,
        root_multiplicity=np.array([sum(units), 0]),
        tree_root=np.array([0]),
        tree_multiplicity=np.array([sum(units)]),
        parent=np.array([[-1, 0]]),
        entry_offset=np.array([0, 0, len(units)]),
        entry_path=np.arange(len(units)),
        entry_units=np.array(units),
        path_offset=np.arange(len(units) + 1),
        path_links=np.arange(len(units)),
    )
    leaves = np.array(starts, dtype=np.int32)
    none = np.zeros(0, dtype=np.int64)
    return forest, EgressPorts(leaves, np.full(len(units), NOBODY, dtype=np.int32), (np.array(native), none))


def test_trees_leave_by_the_member_that_is_their_root() -> None:
    forest, gateways = two_children([3, 4], starts=[1, 0], units=[4, 3])
    roots, units, parents, paths = aligned_rows(forest, gateways, no_crossings())
    assert roots.tolist() == [0, 0]
    assert units.tolist() == [3, 4]
    assert parents.tolist() == [[-1, 0], [-1, 0]]
    assert paths.tolist() == [[-1, 1], [-1, 0]]  # the 3 trees of member 0 by path 1, which starts there


def test_trees_whose_member_has_no_path_left_take_the_member_with_most() -> None:
    forest, gateways = two_children([6, 0, 0], starts=[1, 2, 2], units=[2, 1, 3])
    _, units, _, paths = aligned_rows(forest, gateways, no_crossings())
    # member 2 has two paths, of which the wider one goes first; then both members have one, and 1 comes first
    assert list(zip(paths[:, 1].tolist(), units.tolist(), strict=True)) == [(2, 3), (0, 2), (1, 1)]
