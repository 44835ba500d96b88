"""Out-trees over links as steps: each edge in the step of its depth."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.schedules.steps.steps import Send, Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction, Forest, Tree


def steps_of_trees(forest: Forest) -> Steps:
    """Broadcasting steps that send every unit of a root's shard over its unit tree.

    Parameters
    ----------
    forest : Forest
        Out-trees whose edges are single links; as many unit trees for every root.

    Raises
    ------
    ScheduleError
        If roots differ in trees, or an edge takes several links.
    """
    units = set(forest.root_multiplicity.tolist())
    if forest.direction is not Direction.BROADCAST or len(units) != 1:
        raise ScheduleError("steps of trees: expected as many out-trees for every root")
    sends: list[Send] = []
    for root in range(forest.n_ranks):
        first = 0
        for tree in forest.trees(root):
            sends += _sends(forest, tree, first)
            first += tree.multiplicity
    return steps_from_sends(Direction.BROADCAST, forest.n_ranks, units.pop(), sends)


def _sends(forest: Forest, tree: Tree, first: int) -> list[Send]:
    """The sends of a tree whose units are the chunks from `first` on."""
    found: list[Send] = []
    for rank, depth in _depths(tree).items():
        low = first
        for entry in range(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1])):
            links, high = forest.path(int(tree.entry_path[entry])), low + int(tree.entry_units[entry])
            if len(links) != 1:
                raise ScheduleError(f"steps of trees: an edge takes {len(links)} links, expected 1")
            found.append((tree.root, int(links[0]), depth - 1, low, high))
            low = high
    return found


def _depths(tree: Tree) -> dict[int, int]:
    """Edges between the root and each other rank."""
    above = tree.parent.tolist()
    found = {tree.root: 0}
    for rank in range(len(above)):
        way = []
        at = rank
        while at not in found:
            way.append(at)
            at = above[at]
        for step, passed in enumerate(reversed(way), 1):
            found[passed] = found[at] + step
    del found[tree.root]
    return found
