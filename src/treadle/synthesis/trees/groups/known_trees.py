"""Trees of all concurrent groups as the optimum's vertex has them: no packing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import islice

from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.trees.groups.group_optimum import GroupOptimum, GroupTree
from treadle.synthesis.trees.instance import UNIT_LIMIT
from treadle.synthesis.trees.tree_parts import apportioned, in_largest_unit, schedule_of

_GRID = 2**24
"""Unit trees of each root where those of the vertex are too many to count: a part in 10^6 or so is lost."""


def forests_of_trees(optimum: GroupOptimum) -> GroupSchedule:
    """The schedule of an optimum that has its trees; rounded where these are too many units to count.

    Parameters
    ----------
    optimum : GroupOptimum
        With `has_trees`; of a collective in groups.
    """
    kind = optimum.collective.kind
    groups = range(optimum.collective.n_groups or 0)
    return GroupSchedule(kind, tuple(_of_group(optimum, kind, group) for group in groups))


def _of_group(optimum: GroupOptimum, kind: CollectiveKind, group: int) -> ForestSchedule:
    """Return in-trees or out-trees, or both, in the largest common unit."""
    trees = {reducing: list(optimum.trees(group, reducing=reducing)) for reducing in optimum.families}
    units = _exact_units(trees) or _rounded_units(trees)
    size = optimum.collective.group_size
    forests = []
    for reducing, family in trees.items():
        specs = (
            TreeSpec(tree.root, count, tree.parent, {at: [(path, count)] for at, path in tree.paths.items()})
            for tree, count in zip(family, units[reducing], strict=True)
            if count
        )
        forests.append(forest_from_trees(Direction.REDUCE if reducing else Direction.BROADCAST, size, specs))
    return schedule_of(kind, *forests)


def _exact_units(trees: Mapping[bool, Sequence[GroupTree]]) -> dict[bool, list[int]] | None:
    """Return the units of each tree, as few as possible; None if they are too many to count."""
    every = [tree for family in trees.values() for tree in family]
    units = in_largest_unit([tree.bandwidth for tree in every])
    longest = max(sum(map(len, tree.paths.values())) for tree in every)
    if sum(units) * max(longest, 1) >= UNIT_LIMIT:
        return None
    rest = iter(units)
    return {reducing: list(islice(rest, len(family))) for reducing, family in trees.items()}


def _rounded_units(trees: Mapping[bool, Sequence[GroupTree]]) -> dict[bool, list[int]]:
    """Return units near the exact ones, as many at each root in both directions."""
    sent = defaultdict[int, Fraction](Fraction)
    for tree in next(iter(trees.values())):
        sent[tree.root] += tree.bandwidth
    at_root = dict(zip(sent, apportioned(list(sent.values()), _GRID * len(sent)), strict=True))
    found = {reducing: [0] * len(family) for reducing, family in trees.items()}
    for reducing, family in trees.items():
        for root, total in at_root.items():
            mine = [number for number, tree in enumerate(family) if tree.root == root]
            parts = apportioned([family[number].bandwidth for number in mine], total)
            for number, count in zip(mine, parts, strict=True):
                found[reducing][number] = count
    return found
