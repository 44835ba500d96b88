"""Trees of others as forests of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treadle.planning.problem import Problem
from treadle.program.foreign.placing import Placement, place_messages
from treadle.program.foreign.traffic import NamedTree, NamedTrees, Way
from treadle.program.foreign.ways import Links
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import (
    Direction,
    Forest,
    ForestSchedule,
    TreeSpec,
    forest_from_trees,
)


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
    for direction in directions:
        for tree in used:
            for child, parent in sorted(tree.parents.items()):
                sender, receiver, way = parent, child, tree.ways[child]
                if direction is Direction.REDUCE:
                    sender, receiver, way = child, parent, way[::-1]
                messages.append((sender, receiver, way, tree.units))
                places.setdefault((sender, way, receiver), tree.place)
    placement = place_messages(problem.topology, collective, messages, places)
    if placement.faults:
        return placement
    ways: Iterator[Links | None] = iter(placement.ways)
    forests = {
        direction: forest_from_trees(
            direction, collective.n_ranks, [_spec(tree, collective.n_ranks, ways) for tree in used]
        )
        for direction in directions
    }
    found: dict[Direction, Forest] = forests
    schedule = ForestSchedule(
        collective.kind, reduce=found.get(Direction.REDUCE), broadcast=found.get(Direction.BROADCAST)
    )
    return schedule, placement.notes


def _spec(tree: NamedTree, n_ranks: int, ways: Iterator[Links | None]) -> TreeSpec:
    """A tree with the next ways, one for each edge in the order of the children."""
    parents = [tree.parents.get(rank, -1) for rank in range(n_ranks)]
    paths: dict[int, list[tuple[Links, int]]] = {}
    for child in sorted(tree.parents):
        way = next(ways)
        assert way is not None
        paths[child] = [(way, tree.units)]
    return TreeSpec(tree.root, tree.units, parents, paths)
