"""Fixed number of trees per root, and trees of a given height, as a scheduler.

Without a height the trees are ForestColl's with this k. With one they are chosen among those that a
linear program of trees within the height makes; where ranks are too many for that, each shard goes to the
rank of its position in every other box directly, and on over trees that are chosen for the boxes.
"""

from __future__ import annotations

from dataclasses import replace

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.forest_cost import algbw, height_max
from treadle.synthesis.scheduler import tried_with
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.embedding import GATHERING, check_supported, compose
from treadle.synthesis.trees.few.bounded_height_lp import BoundedHeightTrees, bounded_height_trees
from treadle.synthesis.trees.few.chosen_trees import choose_trees
from treadle.synthesis.trees.few.trees_across import trees_across
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies.topology import Topology

MOST_RANKS = 64
"""Most ranks of one bounded-height program; more ranks have to be in boxes."""

MOST_UNITS = 2**14
"""Unit trees within a height: they are chosen one by one."""

_NAME = "few-trees"


@tried_with([{"trees": 2}, {"trees": 4}])
def fixed_k_trees(
    topology: Topology, collective: Collective, *, trees: int | None = None, height: int | None = None
) -> ForestSchedule:
    """Exact number of trees per root, within a height or as high as the best throughput needs.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce.
    trees : int, optional
        Per unit of a root's weight; default 1.
    height : int, optional
        Hops from rank to rank at most, in either half of an allreduce.

    Raises
    ------
    ScheduleError
        If a number is less than 1, or there are too many ranks in boxes of different sizes.
    InfeasibleError
        If no trees are that low.
    """
    check_supported(_NAME, topology, collective, GATHERING)
    for what, number in (("trees", trees), ("height", height)):
        if number is not None and number < 1:
            raise ScheduleError(f"{_NAME}: {what} {number}, expected at least 1")

    def build(fabric: Topology, there: Collective) -> Forest:
        gather, wanted = replace(there, kind=CollectiveKind.ALLGATHER), trees or 1
        if height is None:
            return _plain(fabric, gather, wanted)
        return within_height(fabric, gather, wanted, height)

    return compose(topology, collective, build)


def within_height(
    topology: Topology,
    gather: Collective,
    trees: int,
    height: int,
    *,
    found: BoundedHeightTrees | None = None,
) -> Forest:
    """Return out-trees of an allgather within a height: those chosen for it, or ForestColl's if better.

    `found` are the trees of the linear program within this height, if they are known.

    Raises
    ------
    ScheduleError
        If there are too many ranks in boxes of different sizes, or too many trees.
    InfeasibleError
        If no trees are that low.
    """
    is_across = found is None and gather.n_ranks > MOST_RANKS
    # across boxes the unit trees of a shard are equal
    units = trees * (gather.n_ranks if is_across else sum(gather.shard_weights))
    if units > MOST_UNITS:
        raise ScheduleError(
            f"{_NAME}: {units} unit trees within a height, at most {MOST_UNITS} are chosen; use fewer "
            f"--trees, or leave out --height"
        )
    if is_across:
        boxes = find_boxes(topology, gather)
        if len(boxes) == 1 or max(map(len, boxes)) > MOST_RANKS:
            raise ScheduleError(
                f"{_NAME}: trees of bounded height are limited to {MOST_RANKS} ranks, or as many in a box; "
                f"found {gather.n_ranks} in {len(boxes)}; leave out --height"
            )
        specs = trees_across(topology, gather, boxes, trees_per_root=trees, height=height)
    else:
        found = found or bounded_height_trees(instance_of(topology, gather), height)
        specs = []
        for tree, times in choose_trees(found, trees):
            paths = {rank: [(path, times)] for rank, path in enumerate(tree.paths) if path}
            specs.append(TreeSpec(tree.root, times, tree.parent.tolist(), paths))
    low = ForestSchedule(gather.kind, broadcast=forest_from_trees(Direction.BROADCAST, gather.n_ranks, specs))
    try:
        plain = ForestSchedule(gather.kind, broadcast=_plain(topology, gather, trees))
    except InfeasibleError:  # unbalanced switches, which trees of bounded height allow
        plain = low
    is_better = height_max(plain) <= height and algbw(topology, plain) > algbw(topology, low)
    (forest,) = (plain if is_better else low).forests
    return forest


def _plain(topology: Topology, gather: Collective, trees: int) -> Forest:
    """Return ForestColl's trees."""
    found = synthesise(topology, gather, budget=TreeBudget(trees=trees)).trees.broadcast
    assert found is not None
    return found
