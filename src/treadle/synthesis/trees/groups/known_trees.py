"""Trees of all groups at once as the optimum's vertex has them: no packing."""

from __future__ import annotations

from math import gcd, lcm

from treadle.errors import InfeasibleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.trees.groups.group_optimum import GroupOptimum, GroupTree
from treadle.synthesis.trees.instance import UNIT_LIMIT


def forests_of_trees(optimum: GroupOptimum) -> GroupSchedule:
    """The schedule of an optimum that has its trees.

    Parameters
    ----------
    optimum : GroupOptimum
        With `has_trees`; of a collective in groups.

    Raises
    ------
    InfeasibleError
        If a group needs more unit trees than can be counted.
    """
    kind = optimum.collective.kind
    groups = range(optimum.collective.n_groups or 0)
    return GroupSchedule(kind, tuple(_of_group(optimum, kind, group) for group in groups))


def _of_group(optimum: GroupOptimum, kind: CollectiveKind, group: int) -> ForestSchedule:
    """In-trees or out-trees, or both, in the largest common unit."""
    trees = {reducing: list(optimum.trees(group, reducing=reducing)) for reducing in optimum.families}
    every = [tree.bandwidth for family in trees.values() for tree in family]
    scale = lcm(*(bandwidth.denominator for bandwidth in every))
    divisor = gcd(*(int(bandwidth * scale) for bandwidth in every))
    links = max(
        sum(len(path) for path in tree.paths.values()) for family in trees.values() for tree in family
    )
    units = int(sum(every) * scale) // divisor
    if units * max(links, 1) >= UNIT_LIMIT:
        raise InfeasibleError(
            f"{optimum.topology.name}: group {group}: its exact optimum takes {units} unit trees, too many "
            f"to count; round the bandwidths of the fabric, say to whole GB/s"
        )
    size = optimum.collective.group_size

    def forest(direction: Direction, *, reducing: bool) -> Forest | None:
        if reducing not in trees:
            return None
        specs = (_spec(tree, int(tree.bandwidth * scale) // divisor) for tree in trees[reducing])
        return forest_from_trees(direction, size, specs)

    return ForestSchedule(
        kind,
        reduce=forest(Direction.REDUCE, reducing=True),
        broadcast=forest(Direction.BROADCAST, reducing=False),
    )


def _spec(tree: GroupTree, units: int) -> TreeSpec:
    return TreeSpec(
        tree.root, units, tree.parent, {place: [(path, units)] for place, path in tree.paths.items()}
    )
