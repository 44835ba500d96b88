"""Groups of ranks on small fabrics, and schedules for them that are correct and no more: random trees."""

from __future__ import annotations

from random import Random

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies import parse
from treadle.topologies.topology import Topology

GROUPED: tuple[tuple[str, tuple[int, ...], int, bool], ...] = (
    ("leaf_spine:2,2,gpus_per_leaf=4", (2, 4), 0, False),
    ("leaf_spine:2,2,gpus_per_leaf=4", (2, 4), 1, False),
    ("torus:4,4", (4, 4), 0, False),
    ("torus:4,4", (2, 8), 0, True),
    ("mesh:3,4", (3, 4), 0, True),
    ("dgx_a100:2", (4, 4), 0, False),
    ("generalized_kautz:3,12", (3, 4), 1, True),
)
"""Fabric, mesh, axis, and whether ranks of other groups forward."""


def grouped(
    kind: CollectiveKind, fabric: str, shape: tuple[int, ...], axis: int, ranks_forward: bool
) -> tuple[Topology, Collective]:
    """A fabric of `GROUPED` and a collective on it."""
    topology = parse(fabric)
    names = tuple("abcdef"[: len(shape)])
    return topology, Collective(
        kind,
        tuple(topology.compute_nodes.tolist()),
        root=1 if kind.is_rooted else None,
        groups=Mesh(shape, names).groups(names[axis]),
        ranks_forward=ranks_forward,
    )


def random_groups(topology: Topology, collective: Collective, seed: int) -> GroupSchedule:
    """Trees of every root of every group, joined anyhow along shortest ways that the group may take."""
    random = Random(seed)
    kind, schedules = collective.kind, []
    for group in range(collective.n_groups or 0):
        member = collective.member(group)
        per_root = random.randint(1, 3)
        roots = {
            rank: per_root if kind is not CollectiveKind.ALLREDUCE else random.randint(0, 2) + (rank == 0)
            for rank in range(member.n_ranks)
            if member.root in (None, rank)
        }
        parts = {
            way.value: _forest(topology, member, way, roots, random)
            for way, needed in ((Direction.REDUCE, kind.reduces), (Direction.BROADCAST, kind.broadcasts))
            if needed
        }
        schedules.append(ForestSchedule(kind, **parts))
    return GroupSchedule(kind, tuple(schedules))


def _forest(
    topology: Topology, member: Collective, way: Direction, roots: dict[int, int], random: Random
) -> Forest:
    trees = []
    for root, units in roots.items():
        while units:
            part = random.randint(1, units)
            trees.append(_tree(topology, member, way, root, part, random))
            units -= part
    return forest_from_trees(way, member.n_ranks, trees)


def _tree(
    topology: Topology, member: Collective, way: Direction, root: int, units: int, random: Random
) -> TreeSpec:
    """Each rank hangs on a random one that is in the tree already; some edges take two ways."""
    parent, paths = [-1] * member.n_ranks, {}
    inside, outside = [root], [rank for rank in range(member.n_ranks) if rank != root]
    random.shuffle(outside)
    while outside:
        ways = {}
        above = random.choice(inside)
        child = outside[0]
        for _attempt in range(100):
            ways = walks(topology, member, way, above, child, random)
            if ways:
                break
            above, child = random.choice(inside), random.choice(outside)
        parent[child] = above
        paths[child] = (
            [(ways, units)]
            if units == 1
            else [
                (ways, 1),
                (walks(topology, member, way, above, child, random), units - 1),
            ]
        )
        outside.remove(child)
        inside.append(child)
    return TreeSpec(root, units, parent, paths)


def walks(
    topology: Topology, member: Collective, way: Direction, above: int, child: int, random: Random
) -> tuple[int, ...]:
    """Links of a shortest way between two ranks through what passes on, as the data takes them; or none."""
    ends = member.ranks[above], member.ranks[child]
    start, goal = ends if way is Direction.BROADCAST else ends[::-1]
    passing = {*topology.switches.tolist(), *member.forwarders}
    came: dict[int, tuple[int, int]] = {}
    front = [start]
    while front and goal not in came:
        links = [e for e in range(topology.n_links) if topology.tails[e] in front]
        random.shuffle(links)
        reached = {}
        for e in links:
            head = int(topology.heads[e])
            if head not in came and head != start:
                reached.setdefault(head, (int(topology.tails[e]), e))
        came |= reached
        front = [node for node in reached if node in passing]
    found, node = [], goal
    while node != start:
        if node not in came:
            return ()
        node, link = came[node]
        found.append(link)
    return tuple(reversed(found))
