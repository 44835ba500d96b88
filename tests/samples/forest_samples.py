"""Hand-made forests on tiny fabrics, and a slow checker that follows every unit by itself."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import (
    Direction,
    Forest,
    ForestSchedule,
    Tree,
    TreeSpec,
    forest_from_trees,
)
from treadle.topologies.topology import Topology, TopologyBuilder

Sample = tuple[Topology, Collective, ForestSchedule]


def ring(n: int = 4, bandwidth: int = 6) -> Topology:
    builder = TopologyBuilder("ring")
    names = [builder.compute(f"g{i}") for i in range(n)]
    for tail, head in zip(names, names[1:] + names[:1], strict=True):
        builder.link(tail, head, bandwidth)
    return builder.build()


def star(n: int = 4, bandwidth: int = 12, *, capable: bool = False, asked: bool = False) -> Topology:
    """Link i goes from rank i to the switch, link n + i back.

    A capable switch works by itself, or, if `asked`, for a rank that asks.
    """
    builder = TopologyBuilder("star")
    names = [builder.compute(f"g{i}") for i in range(n)]
    able = capable or asked
    builder.switch("w", multicast=able, aggregation=able, turns_round=able and not asked)
    for name in names:
        builder.link(name, "w", bandwidth)
    for name in names:
        builder.link("w", name, bandwidth)
    return builder.build()


def ring_allgather() -> Sample:
    topology, n = ring(), 4
    trees = []
    for root in range(n):
        paths = {(root + j) % n: [(((root + j - 1) % n,), 1)] for j in range(1, n)}
        parent = [-1 if v == root else (v - 1) % n for v in range(n)]
        trees.append(TreeSpec(root, 1, parent, paths))
    forest = forest_from_trees(Direction.BROADCAST, n, trees)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    return topology, collective, ForestSchedule(CollectiveKind.ALLGATHER, broadcast=forest)


# The slow checker: sets, dictionaries and one unit at a time.


def _entries(tree: Tree, rank: int) -> list[tuple[int, int]]:
    span = slice(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
    return list(zip(tree.entry_path[span].tolist(), tree.entry_units[span].tolist(), strict=True))


def _path_of_unit(tree: Tree, rank: int, unit: int) -> int | None:
    for path, units in _entries(tree, rank):
        if unit < units:
            return path
        unit -= units
    return None


def _nodes_of(topology: Topology, links: list[int]) -> list[int] | None:
    if not links or any(not 0 <= link < topology.n_links for link in links):
        return None
    nodes = [int(topology.tails[links[0]])]
    for link in links:
        if topology.tails[link] != nodes[-1] or topology.tails[link] == topology.heads[link]:
            return None
        nodes.append(int(topology.heads[link]))
    return nodes


def _group(topology: Topology, switch: int, nodes: tuple[int, ...]) -> set[int]:
    ends = set(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    return {node for node in nodes if (node, switch) in ends and (switch, node) in ends}


def unnamed_crossings(topology: Topology, forest: Forest, tree: Tree, unit: int) -> Iterator[int]:
    """Links that groups cross for a unit without a path that names them; ranks are the first nodes."""
    turned = forest.direction is Direction.REDUCE
    capable = topology.aggregation if turned else topology.multicast
    nodes = tuple(topology.compute_nodes.tolist()[: forest.n_ranks])
    crossed: dict[tuple[int, int], set[int]] = {}
    calls: dict[tuple[int, int], tuple[int, int]] = {}
    for rank in range(len(nodes)):
        path = _path_of_unit(tree, rank, unit)
        stops = None if path is None else _nodes_of(topology, forest.path(path).tolist())
        if stops is None:
            continue
        stops = stops[::-1] if turned else stops
        nearest = forest.path(path).tolist()[-1 if turned else 0]
        key = nodes[tree.parent[rank]], stops[-2]
        if stops[:-2] in ([], [key[0]]) and capable[key[1]] and not topology.turns_round[key[1]]:
            crossed.setdefault(key, set())
            if len(stops) == 2:
                crossed[key].add(stops[-1])
            else:
                calls[key] = min(calls.get(key, (stops[-1], nearest)), (stops[-1], nearest))
    for (asker, switch), served in crossed.items():
        if served and (asker, switch) in calls:
            child, link = calls[asker, switch]
            place = _parallel(topology, asker, switch, turned).index(link)
            for member in _group(topology, switch, nodes) - served - {child}:
                lanes = _parallel(topology, switch, member, turned)
                yield lanes[place % len(lanes)]


def _parallel(topology: Topology, one: int, other: int, turned: bool) -> list[int]:
    tail, head = (other, one) if turned else (one, other)
    return [e for e in range(topology.n_links) if topology.tails[e] == tail and topology.heads[e] == head]
