"""Boxes of direct links: few short trees in the box, direct messages between equal positions across boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Send, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction, Forest, Tree
from treadle.synthesis.scheduler import tried_with
from treadle.synthesis.sizes.box_phases import across_and_in_boxes
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies.topology import Topology

_NAME = "box-trees"
_MOST_TREES, _CHUNKS, _PARTS = 4, 8, 5


def _trials(_: Topology, collective: Collective) -> Sequence[Mapping[str, object]]:
    """Options to try: one tree and the best few, in one chunk and in several; sums in parts of steps too."""
    found: list[Mapping[str, object]] = [
        {"chunks": 1},
        {"trees": 1, "chunks": 1},
        {"trees": 1},
        {"chunks": 2 * _CHUNKS},
    ]
    if collective.kind is CollectiveKind.REDUCE_SCATTER:
        found += [{"chunks": chunks, "parts": _PARTS} for chunks in (_CHUNKS, 3 * _CHUNKS // 2)]
    return found


@tried_with(_trials)
def box_trees(
    topology: Topology,
    collective: Collective,
    *,
    trees: int | None = None,
    chunks: int = _CHUNKS,
    parts: int = 1,
) -> StepSchedule:
    """Across boxes directly among ranks of equal position, then over few short trees in each box.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards.
    trees : int, optional
        Per root in the box; default the best number up to 4.
    chunks : int, optional
        Chunks of the data that follow each other, default 8. Messages across of a chunk and in the boxes of
        others then go at the same time.
    parts : int, optional
        Of each step, default 1: of several, what others wait for most goes first (`urgent_first`).

    Raises
    ------
    ScheduleError
        If boxes differ in size, or links between ranks do not join them.
    """
    budget = TreeBudget(trees=trees) if trees is not None else TreeBudget(max_trees=_MOST_TREES)

    def gather(box: Topology) -> Steps:
        found = synthesise(box, on_all_ranks(box, CollectiveKind.ALLGATHER), budget=budget).trees
        assert found.broadcast is not None
        return steps_of_trees(found.broadcast)

    return across_and_in_boxes(_NAME, topology, collective, gather, chunks=chunks, parts=parts)


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
