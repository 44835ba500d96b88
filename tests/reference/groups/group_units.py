"""A slow judge of groups at once: every unit of every tree is followed along every link by itself."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, Tree
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology


def true_algbw(topology: Topology, collective: Collective, schedule: GroupSchedule) -> Fraction | None:
    """Bytes/s that every group gets with all groups at once; None if some group's collective is not done."""
    if collective.groups is None or len(collective.groups) != len(schedule.groups):
        return None
    ranks = {collective.ranks[rank] for group in collective.groups for rank in group}
    parts: list[tuple[int, Counter[int]]] = []
    for group, one in zip(collective.groups, schedule.groups, strict=True):
        own = [collective.ranks[rank] for rank in group]
        passing = {node for node in range(topology.n_nodes) if not topology.is_compute[node]}
        passing |= set(collective.forwarders)
        if collective.ranks_forward:
            passing |= ranks - set(own)
        loads: Counter[int] = Counter()
        roots = []
        for forest in one.forests:
            planted = _planted(topology, forest, own, passing, loads)
            if planted is None or planted != forest.root_multiplicity.tolist():
                return None
            roots.append(planted)
        total = sum(roots[0])
        if not total or any(planted != roots[0] for planted in roots) or min(roots[0]) < 0:
            return None
        if collective.kind is not CollectiveKind.ALLREDUCE:
            wanted = [collective.root in (None, place) for place in range(len(own))]
            if any(
                units != total * wants / sum(wanted) for units, wants in zip(roots[0], wanted, strict=True)
            ):
                return None
        parts.append((total, loads))
    share = {
        link: sum((Fraction(loads[link], total) for total, loads in parts), Fraction(0))
        for link in set().union(*(loads for _, loads in parts))
    }
    return min(int(topology.bandwidths[link]) / part for link, part in share.items())


def _planted(
    topology: Topology, forest: Forest, own: list[int], passing: set[int], loads: Counter[int]
) -> list[int] | None:
    """Unit trees at each rank; None if one of them is wrong."""
    if forest.n_ranks != len(own):
        return None
    planted = [0] * len(own)
    for root in range(len(own)):
        for tree in forest.trees(root):
            planted[root] += tree.multiplicity
            for unit in range(tree.multiplicity):
                if not _spreads(topology, forest, tree, unit, own, passing, loads):
                    return None
    return planted


def _spreads(
    topology: Topology,
    forest: Forest,
    tree: Tree,
    unit: int,
    own: list[int],
    passing: set[int],
    loads: Counter[int],
) -> bool:
    """Whether a unit gets from the root to all ranks (or, summed, from all to the root), each once."""
    came = {tree.root}
    edges = []
    for rank in range(len(own)):
        entries = range(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
        covered = [
            forest.path(int(tree.entry_path[entry])).tolist()
            for entry in entries
            for _ in range(int(tree.entry_units[entry]))
        ]
        parent = int(tree.parent[rank])
        if rank == tree.root:
            if covered or parent != -1:
                return False
            continue
        if len(covered) != tree.multiplicity or parent < 0:
            return False
        ends = own[parent], own[rank]
        start, goal = ends if forest.direction is Direction.BROADCAST else ends[::-1]
        node = start
        for place, link in enumerate(covered[unit]):
            if not 0 <= link < topology.n_links or topology.tails[link] != node:
                return False
            node = int(topology.heads[link])
            if topology.tails[link] == node:
                return False
            if place < len(covered[unit]) - 1 and node not in passing:
                return False
            loads[link] += 1
        if node != goal or not covered[unit]:
            return False
        edges.append((parent, rank))
    for _ in edges:
        came |= {rank for parent, rank in edges if parent in came}
    return len(came) == len(own)
