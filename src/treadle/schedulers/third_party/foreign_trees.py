"""Trees of others as forests of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem
from treadle.program.foreign.physical_paths import Links
from treadle.program.foreign.placing import Placement, route_messages
from treadle.program.foreign.traffic import NamedRings, NamedTree, NamedTrees, Way
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import (
    Direction,
    Forest,
    ForestSchedule,
    TreeSpec,
    forest_from_trees,
)

_MOST_EDGES = 10**6
"""Limit for all trees that rings are cut into."""


def forest_of_trees(
    trees: NamedTrees, problem: Problem
) -> tuple[ForestSchedule, tuple[str, ...]] | Placement:
    """A schedule of the trees, and what is to be said of its ways; the placement, where it has faults.

    Out-trees serve an allgather as they are and a reduce-scatter turned round; an allreduce takes them turned
    round first. A broadcast or reduce takes those of its root.
    """
    collective = problem.collective
    used: Sequence[NamedTree] = trees.trees
    if collective.kind is CollectiveKind.ALLTOALL:
        return Placement([], (f"it holds spanning trees, asked for is {collective.kind}",), ())
    if collective.root is not None:
        used = [tree for tree in used if tree.root == collective.root]
        if not used:
            return Placement([], (f"it has no trees of root {collective.root}",), ())
    directions = [Direction.REDUCE] if collective.kind.reduces else []
    directions += [Direction.BROADCAST] if collective.kind.broadcasts else []
    messages = []
    places: dict[tuple[int, Way, int], str] = {}
    turned = [tree for tree in trees.reducing if collective.root in (None, tree.root)] or used
    of = {Direction.REDUCE: turned, Direction.BROADCAST: used}
    for direction in directions:
        for tree in of[direction]:
            for child, parent in sorted(tree.parents.items()):
                sender, receiver, way = parent, child, tree.ways[child]
                if direction is Direction.REDUCE:
                    sender, receiver, way = child, parent, way[::-1]
                messages.append((sender, receiver, way, tree.units))
                places.setdefault((sender, way, receiver), tree.place)
    placement = route_messages(problem.topology, collective, messages, places if trees.names_ways else None)
    if placement.faults:
        return placement
    ways: Iterator[Links | None] = iter(placement.ways)
    forests = {
        direction: forest_from_trees(
            direction, collective.n_ranks, [_spec(tree, collective.n_ranks, ways) for tree in of[direction]]
        )
        for direction in directions
    }
    found: dict[Direction, Forest] = forests
    schedule = ForestSchedule(
        collective.kind, reduce=found.get(Direction.REDUCE), broadcast=found.get(Direction.BROADCAST)
    )
    return schedule, placement.notes


def trees_of_rings(rings: NamedRings, boxes: Sequence[Sequence[int]]) -> NamedTrees:
    """The trees that rings are cut into: from each root along its ring, and to it.

    NCCL joins the boxes in their order, each along its chain of the channel; all channels carry as much.

    Raises
    ------
    ScheduleError
        If boxes have another number of ranks than the file's, or there are too many trees.
    """
    size, n = len(rings.chains[0]), sum(map(len, boxes))
    if wrong := sorted({len(box) for box in boxes} - {size}):
        raise ScheduleError(f"the file is of boxes of {size} GPUs, the fabric has boxes of {wrong[0]}")
    counts = Counter(tuple(box[place] for box in boxes for place in chain) for chain in rings.chains)
    if n * n * len(counts) > _MOST_EDGES:
        raise ScheduleError(f"{len(counts)} rings of {n} ranks: more than {_MOST_EDGES} edges of trees")
    following = [
        (dict(zip(ring, (*ring[1:], ring[0]), strict=True)), units) for ring, units in counts.items()
    ]
    preceding = [({after: rank for rank, after in ring.items()}, units) for ring, units in following]
    made = [
        tuple(
            NamedTree(
                root,
                units,
                {rank: parent for rank, parent in parents.items() if rank != root},
                dict.fromkeys(parents, ()),
                "",
            )
            for root in range(n)
            for parents, units in each
        )
        for each in (preceding, following)
    ]
    return NamedTrees(tuple(map(str, range(n))), made[0], made[1], names_ways=False)


def _spec(tree: NamedTree, n_ranks: int, ways: Iterator[Links | None]) -> TreeSpec:
    """A tree with the next ways, one for each edge in the order of the children."""
    parents = [tree.parents.get(rank, -1) for rank in range(n_ranks)]
    paths: dict[int, list[tuple[Links, int]]] = {}
    for child in sorted(tree.parents):
        way = next(ways)
        assert way is not None
        paths[child] = [(way, tree.units)]
    return TreeSpec(tree.root, tree.units, parents, paths)
