"""Capacity rows: which classes of shares meet on each class of fabric links, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, positions_of
from treadle.math.symmetry import Hashes
from treadle.synthesis.trees.groups.group_colours import Colours
from treadle.synthesis.trees.groups.representative import Representative
from treadle.synthesis.trees.groups.union import GroupUnion


@dataclass(frozen=True, eq=False)
class CapacityRows:
    """Classes of pairs that use each class of fabric links.

    Parameters
    ----------
    links : array of int64, shape (E,)
        One fabric link of each class.
    sizes : array of int64, shape (E,)
        Links of each class.
    bandwidths : array of int64, shape (E,)
    rows, groups, classes, counts : arrays of int64
        Row, representative, class of pairs, and pairs of that class on one link.
    class_of : array of int64, shape (n_links,)
        Class of each fabric link; -1: no group uses it.
    """

    links: Int64Array
    sizes: Int64Array
    bandwidths: Int64Array
    rows: Int64Array
    groups: Int64Array
    classes: Int64Array
    counts: Int64Array
    class_of: Int64Array

    def spread(self, values: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """A value of each class at every fabric link; 0 where no group goes."""
        table = np.array([*values, Fraction(0)], dtype=object)
        return tuple(table[self.class_of].tolist())


def capacity_rows(union: GroupUnion, colours: Colours, groups: Sequence[Representative]) -> CapacityRows:
    """A row for each class of links that some group may use."""
    used = np.unique(union.links)
    _, first, inverse = np.unique(colours.links[used], return_index=True, return_inverse=True)
    chosen = used[first]
    row = positions_of(union.topology.n_links, chosen)
    pairs = np.flatnonzero(row[union.links] >= 0)
    kinds = union.kind_of_pair[pairs]
    group = colours.kinds[kinds]
    class_of = np.full(union.topology.n_links, -1, dtype=np.int64)
    class_of[used] = inverse.ravel()
    for kind in np.flatnonzero(union.copies > 1).tolist():
        original = union.links_of(int(union.first[kind]))
        for copy in np.flatnonzero(union.type_of == kind).tolist():
            class_of[union.links_of(copy)] = class_of[original]
    return CapacityRows(
        links=chosen,
        sizes=np.bincount(class_of[class_of >= 0], minlength=len(chosen)),
        bandwidths=union.topology.bandwidths[chosen],
        rows=row[union.links[pairs]],
        groups=group,
        classes=class_lookup(groups, group, colours.pairs[pairs]),
        counts=np.where(union.is_own[pairs], 1, union.copies[kinds]),
        class_of=class_of,
    )


def class_lookup(groups: Sequence[Representative], group: Int64Array, colours: Hashes) -> Int64Array:
    """Class, within its representative, of pairs with these colours."""
    number = np.empty(len(colours), dtype=np.int64)
    for place, one in enumerate(groups):
        mine = np.flatnonzero(group == place)
        known, first = np.unique(one.pair_colour, return_index=True)
        number[mine] = one.pair_class[first[np.searchsorted(known, colours[mine])]]
    return number
