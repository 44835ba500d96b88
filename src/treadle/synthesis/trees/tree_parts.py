"""Parts of trees in which every edge takes one path, the order from the root, units of trees, and
schedules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import gcd

import numpy as np

from treadle.math.exact import over_common_denominator
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, Tree, TreeSpec


def single_path_trees(forest: Forest) -> Iterator[TreeSpec]:
    """Yield all trees, cut so that every edge of each part takes one path."""
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            yield from _single_path_parts(forest, tree)


def _single_path_parts(forest: Forest, tree: Tree) -> Iterator[TreeSpec]:
    offset = tree.entry_offset
    ends = np.cumsum(tree.entry_units)
    before = np.concatenate([[0], ends])[offset[:-1]]
    within = ends - np.repeat(before, np.diff(offset))  # units up to and with each entry, per edge
    bounds = np.unique(np.concatenate([[0, tree.multiplicity], within]))
    parents = tree.parent.tolist()
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        paths = {}
        for rank in (rank for rank in range(forest.n_ranks) if rank != tree.root):
            low, high = int(offset[rank]), int(offset[rank + 1])
            entry = low + int(np.searchsorted(within[low:high], start, side="right"))
            paths[rank] = [(tuple(forest.path(int(tree.entry_path[entry])).tolist()), stop - start)]
        yield TreeSpec(tree.root, stop - start, parents, paths)


def breadth_first(spec: TreeSpec) -> Iterator[int]:
    """Yield all ranks but the root, those nearer to it first."""
    children = defaultdict[int, list[int]](list)
    for rank, parent in enumerate(spec.parent):
        if rank != spec.root:
            children[parent].append(rank)
    layer = [spec.root]
    while layer:
        layer = [child for rank in layer for child in children[rank]]
        yield from layer


def schedule_of(kind: CollectiveKind, *forests: Forest) -> ForestSchedule:
    """Return the schedule of one collective that has these forests, at most one for each direction."""
    by_direction = {forest.direction: forest for forest in forests}
    reduce, broadcast = by_direction.get(Direction.REDUCE), by_direction.get(Direction.BROADCAST)
    return ForestSchedule(kind, reduce=reduce, broadcast=broadcast)


def in_largest_unit(values: Sequence[Fraction]) -> list[int]:
    """Return the values in the largest unit of which all are multiples."""
    integers, _ = over_common_denominator(values)
    divisor = gcd(*integers)
    return [value // divisor for value in integers]


def apportioned(shares: Sequence[int] | Sequence[Fraction], units: int) -> list[int]:
    """Return units in proportion to the shares, by largest remainders, the first of equal ones."""
    total = sum(shares)
    counts = [int(share * units // total) for share in shares]
    order = sorted(range(len(shares)), key=lambda i: (-(shares[i] * units % total), i))
    for i in order[: units - sum(counts)]:
        counts[i] += 1
    return counts
