"""Spreading of a rank's data: links with their number of hops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction, ForestSchedule, Tree, Trees
from treadle.spelling import counted


def hops_of(plan: Plan, root: int) -> tuple[dict[int, int], str]:
    """Return links of a rank's heaviest tree by hop, or of its shards by step, from 1; and what this is.

    Raises
    ------
    ScheduleError
        If the plan has no trees and no steps, or none of this rank.
    """
    schedule = plan.entries[-1].schedule
    if isinstance(schedule, ForestSchedule | FactoredSchedule):
        return _tree_hops(schedule.forests[-1], root)
    if isinstance(schedule, StepSchedule):
        steps = schedule.phases[-1]
        own = np.flatnonzero(np.asarray(steps.homes)[steps.shard] == root)
        hops: dict[int, int] = {}
        for step in range(steps.n_steps):
            span = steps.span(step)
            for send in own[(own >= span.start) & (own < span.stop)].tolist():
                for link in steps.links_of(send).tolist():
                    hops.setdefault(link, step + 1)
        return hops, f"{counted(steps.n_steps, 'step')}; the first step on each link"
    raise ScheduleError("draw: this plan has no trees; expected trees or steps")


def _tree_hops(forest: Trees, root: int) -> tuple[dict[int, int], str]:
    trees = list(forest.trees(root))
    if not trees:
        raise ScheduleError(f"draw: no tree has rank {root} for its root")
    chosen = max(trees, key=lambda tree: tree.multiplicity)
    units = sum(tree.multiplicity for tree in trees)
    hops: dict[int, int] = {}
    for depth, links in links_by_hop(forest, chosen):
        hops |= {link: min(depth, hops.get(link, depth)) for link in links}
    way = "to" if forest.direction is Direction.REDUCE else "from"
    share = f"{100 * chosen.multiplicity / units:.3g}% of its data"
    height = counted(max(tree_depths(chosen)), "hop")
    return hops, f"one of {counted(len(trees), 'tree')} {way} it, with {share}; {height}"


def links_by_hop(forest: Trees, tree: Tree) -> Iterator[tuple[int, list[int]]]:
    """Yield the hops from the root to each rank, with the links of each path that leads there."""
    for child, depth in enumerate(tree_depths(tree)):
        for entry in range(int(tree.entry_offset[child]), int(tree.entry_offset[child + 1])):
            yield depth, forest.path(int(tree.entry_path[entry])).tolist()


def tree_depths(tree: Tree) -> list[int]:
    """Return the hops from a tree's root to each rank."""
    depth = [-1] * len(tree.parent)
    depth[tree.root] = 0
    for rank in range(len(depth)):
        chain = []
        while depth[rank] < 0:
            chain.append(rank)
            rank = int(tree.parent[rank])
        for above, child in enumerate(reversed(chain), start=1):
            depth[child] = depth[rank] + above
    return depth
