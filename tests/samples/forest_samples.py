"""Hand-made forests on tiny fabrics, and a slow checker that follows every unit by itself."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import (
    Direction,
    Forest,
    ForestSchedule,
    Tree,
    TreeSpec,
    forest_from_trees,
)
from treadle.schedules.trees.forest_transforms import reverse
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


def star_reduce_scatter() -> Sample:
    """Two weighted trees per root, unequal shares (rank 3 has none)."""
    topology, n = star(), 4
    weights = (2, 4, 6, 0)
    trees = []
    for root in range(3):
        for kind in range(2):
            units = weights[root] // 2 + (1 if kind else -1) * (root > 0)
            order = [root, *(v for v in range(n) if v != root)]
            above = {v: order[(j if kind else 0)] for j, v in enumerate(order[1:])}
            parent = [above.get(v, -1) for v in range(n)]
            trees.append(TreeSpec(root, units, parent, {v: [((v, n + p), units)] for v, p in above.items()}))
    forest = forest_from_trees(Direction.REDUCE, n, trees)
    collective = on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER, weights=weights)
    return topology, collective, ForestSchedule(CollectiveKind.REDUCE_SCATTER, reduce=forest)


def boxes() -> Topology:
    """Two boxes of two ranks; each box has a switch, the boxes are joined by two rails and a forwarder."""
    builder = TopologyBuilder("boxes")
    for name in ("a0", "a1", "b0", "b1", "relay"):
        builder.compute(name)
    for name in ("wa", "wb", "rail0", "rail1"):
        builder.switch(name)
    for one, other in (("a0", "wa"), ("a1", "wa"), ("b0", "wb"), ("b1", "wb")):
        builder.duplex(one, other, 10)
    for one, other in (("wa", "rail0"), ("rail0", "wb"), ("wa", "rail1"), ("rail1", "wb")):
        builder.duplex(one, other, 3)
    builder.duplex("a0", "relay", 2)
    builder.duplex("relay", "b0", 2)
    return builder.build()


def walk(topology: Topology, *names: str) -> tuple[int, ...]:
    """The first link that joins each pair of neighbours."""
    ends = list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    return tuple(ends.index((topology.node_index(a), topology.node_index(b))) for a, b in pairwise(names))


def boxes_allreduce() -> Sample:
    """One tree of 5 units: its edge a0-b0 takes two rails and the forwarder; in-trees are the mirror."""
    topology = boxes()
    across = [
        (walk(topology, "a0", "wa", "rail0", "wb", "b0"), 2),
        (walk(topology, "a0", "wa", "rail1", "wb", "b0"), 2),
        (walk(topology, "a0", "relay", "b0"), 1),
    ]
    paths = {1: [(walk(topology, "a0", "wa", "a1"), 5)], 2: across}
    paths[3] = [(walk(topology, "b0", "wb", "b1"), 5)]
    out = forest_from_trees(Direction.BROADCAST, 4, [TreeSpec(0, 5, [-1, 0, 0, 2], paths)])
    mirrored = {v: [(_mirror(topology, links), units) for links, units in row] for v, row in paths.items()}
    into = forest_from_trees(Direction.REDUCE, 4, [TreeSpec(0, 5, [-1, 0, 0, 2], mirrored)])
    collective = Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3), forwarders=(4,))
    return topology, collective, ForestSchedule(CollectiveKind.ALLREDUCE, reduce=into, broadcast=out)


def _mirror(topology: Topology, links: tuple[int, ...]) -> tuple[int, ...]:
    nodes = [topology.tails[links[0]], *(topology.heads[e] for e in links)]
    return walk(topology, *(topology.node_names[v] for v in reversed(nodes)))


def pruned_broadcast() -> Sample:
    """A chain of two multicasting switches; two units that reach the second switch by different edges."""
    builder = TopologyBuilder("chain")
    for name in ("a", "b", "c", "d"):
        builder.compute(name)
    for name in ("v", "w"):
        builder.switch(name, multicast=True, turns_round=True)
    for one, other in (("a", "v"), ("b", "v"), ("v", "w"), ("c", "w"), ("d", "w"), ("b", "w")):
        builder.duplex(one, other, 4)
    topology = builder.build()
    paths = {
        1: [(walk(topology, "a", "v", "b"), 3)],
        2: [(walk(topology, "v", "w", "c"), 2), (walk(topology, "b", "w", "c"), 1)],
        3: [(walk(topology, "w", "d"), 3)],
    }
    forest = forest_from_trees(Direction.BROADCAST, 4, [TreeSpec(0, 3, [-1, 0, 1, 1], paths)])
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    return topology, collective, ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest)


def pruned_reduce() -> Sample:
    """`pruned_broadcast` on the transposed fabric."""
    topology, _, schedule = pruned_broadcast()
    assert schedule.broadcast is not None
    turned = topology.transpose()
    collective = on_all_ranks(turned, CollectiveKind.REDUCE, root=0)
    return turned, collective, ForestSchedule(CollectiveKind.REDUCE, reduce=reverse(schedule.broadcast))


def asked_allreduce() -> Sample:
    """Five ranks at a switch that works for those that ask; rank 1 has a way to rank 4 of its own.

    Three units of root 0: two that rank 0 sums and stores, one for which rank 1 does.
    """
    builder = TopologyBuilder("asked")
    names = [builder.compute(f"g{i}") for i in range(5)]
    builder.switch("w", multicast=True, aggregation=True)
    for name in names:
        builder.duplex(name, "w", 30)
    builder.duplex("g1", "g4", 12)
    topology = builder.build()
    by_root = {v: [(walk(topology, "w", f"g{v}"), 2)] for v in (2, 3)}
    by_root[1] = [(walk(topology, "g0", "w", "g1"), 2)]
    by_root[4] = [(walk(topology, "g1", "g4"), 2)]
    by_other = {v: [(walk(topology, "w", f"g{v}"), 1)] for v in (2, 4)}
    by_other[1] = [(walk(topology, "g0", "w", "g1"), 1)]
    by_other[3] = [(walk(topology, "g1", "w", "g3"), 1)]
    specs = [(2, [-1, 0, 0, 0, 1], by_root), (1, [-1, 0, 1, 1, 1], by_other)]
    out = [TreeSpec(0, units, parent, paths) for units, parent, paths in specs]
    into = [
        TreeSpec(
            0, units, parent, {v: [(_mirror(topology, path), u) for path, u in row] for v, row in p.items()}
        )
        for units, parent, p in specs
    ]
    return (
        topology,
        on_all_ranks(topology, CollectiveKind.ALLREDUCE),
        ForestSchedule(
            CollectiveKind.ALLREDUCE,
            reduce=forest_from_trees(Direction.REDUCE, 5, into),
            broadcast=forest_from_trees(Direction.BROADCAST, 5, out),
        ),
    )


SAMPLES = {
    sample.__name__: sample
    for sample in (
        ring_allgather,
        star_reduce_scatter,
        boxes_allreduce,
        pruned_broadcast,
        pruned_reduce,
        asked_allreduce,
    )
}


# The slow checker: sets, dictionaries and one unit at a time.


def is_correct(topology: Topology, collective: Collective, schedule: ForestSchedule) -> bool:
    """Every unit of every root gets to (or is gathered from) every rank exactly once, in due proportion."""
    shares: list[list[int]] = []
    for forest in schedule.forests:
        planted = [0] * collective.n_ranks
        for root in range(collective.n_ranks):
            for tree in forest.trees(root):
                planted[root] += tree.multiplicity
                if not all(
                    _unit_works(topology, collective, forest, tree, unit) for unit in range(tree.multiplicity)
                ):
                    return False
                if not _covers(tree):
                    return False
        if planted != forest.root_multiplicity.tolist():
            return False
        shares.append(planted)
    if collective.kind is not CollectiveKind.ALLREDUCE:
        weights = collective.shard_weights
        wanted = [Fraction(w, sum(weights)) for w in weights]
        return all([Fraction(p, sum(planted)) for p in planted] == wanted for planted in shares)
    return all(sum(planted) > 0 for planted in shares)


def _entries(tree: Tree, rank: int) -> list[tuple[int, int]]:
    span = slice(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
    return list(zip(tree.entry_path[span].tolist(), tree.entry_units[span].tolist(), strict=True))


def _covers(tree: Tree) -> bool:
    return all(
        sum(units for _, units in _entries(tree, rank)) == (0 if rank == tree.root else tree.multiplicity)
        for rank in range(len(tree.parent))
    )


def _path_of_unit(tree: Tree, rank: int, unit: int) -> int | None:
    for path, units in _entries(tree, rank):
        if unit < units:
            return path
        unit -= units
    return None


def _ancestry(tree: Tree, rank: int) -> Iterator[int]:
    for _ in range(len(tree.parent) + 1):
        yield rank
        rank = int(tree.parent[rank])
        if rank < 0:
            return


def _unit_works(topology: Topology, collective: Collective, forest: Forest, tree: Tree, unit: int) -> bool:
    nodes = collective.ranks
    if tree.parent[tree.root] != -1:
        return False
    walks: dict[int, list[int]] = {}
    for rank in range(len(tree.parent)):
        if rank == tree.root:
            continue
        if list(_ancestry(tree, rank))[-1] != tree.root:
            return False
        path = _path_of_unit(tree, rank, unit)
        nodes_on_path = None if path is None else _nodes_of(topology, forest.path(path).tolist())
        if nodes_on_path is None:
            return False
        if forest.direction is Direction.REDUCE:
            nodes_on_path.reverse()
        walks[rank] = nodes_on_path
    return _flows(topology, collective, forest.direction, tree, walks, nodes)


def _nodes_of(topology: Topology, links: list[int]) -> list[int] | None:
    if not links or any(not 0 <= link < topology.n_links for link in links):
        return None
    nodes = [int(topology.tails[links[0]])]
    for link in links:
        if topology.tails[link] != nodes[-1] or topology.tails[link] == topology.heads[link]:
            return None
        nodes.append(int(topology.heads[link]))
    return nodes


def _flows(
    topology: Topology,
    collective: Collective,
    direction: Direction,
    tree: Tree,
    walks: dict[int, list[int]],
    nodes: tuple[int, ...],
) -> bool:
    """Send the unit out from the root (in-trees run backwards) until nothing more moves."""
    capable = topology.multicast if direction is Direction.BROADCAST else topology.aggregation
    for rank, stops in walks.items():
        if capable[stops[0]] and not topology.turns_round[stops[0]]:
            group = _group(topology, stops[0], nodes)
            asker = nodes[tree.parent[rank]]
            stores = [
                w for other, w in walks.items() if tree.parent[other] == tree.parent[rank] and w[0] == asker
            ]
            if len(stops) != 2 or not {stops[1], asker} <= group:
                return False
            if not any(w[1] == stops[0] and len(w) == 3 for w in stores):
                return False
    holders = {nodes[tree.root]}
    for _ in range(len(walks) + 1):
        for rank, stops in walks.items():
            origin = nodes[tree.parent[rank]]
            if stops[-1] != nodes[rank] or (stops[0] != origin and not capable[stops[0]]):
                return False
            if any(topology.is_compute[v] and v not in collective.forwarders for v in stops[1:-1]):
                return False
            if stops[0] in holders:
                holders.add(stops[-1])
                holders.update(v for v in stops[1:-1] if capable[v])
    return all(stops[0] in holders for stops in walks.values())


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


def slow_algbw(topology: Topology, schedule: ForestSchedule) -> Fraction:
    loads = [0] * topology.n_links
    for forest in schedule.forests:
        for root in range(forest.n_ranks):
            for tree in forest.trees(root):
                for path, units in zip(tree.entry_path, tree.entry_units, strict=True):
                    for link in forest.path(int(path)):
                        loads[link] += int(units)
                for unit in range(tree.multiplicity):
                    for link in unnamed_crossings(topology, forest, tree, unit):
                        loads[link] += 1
    rates = [Fraction(int(b), load) for b, load in zip(topology.bandwidths, loads, strict=True) if load]
    for node, cap in enumerate(topology.injection_bytes_per_s.tolist()):
        for ends in (topology.tails, topology.heads):
            load = sum(loads[e] for e in range(topology.n_links) if ends[e] == node)
            if cap and load:
                rates.append(Fraction(cap, load))
    return sum(schedule.root_multiplicity.tolist()) * min(rates)
