"""Cheapest trees of a group at given link lengths, which are priced for a program over trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, mask_of, positions_of
from treadle.engine import core
from treadle.errors import InfeasibleError
from treadle.synthesis.trees.groups.representative import Representative

Floats = NDArray[np.float64]

_FINEST = 2.0**40
"""Steps in the longest length."""

_MOST_MEMBERS = 2**13
"""Number of members whose distance tables take a gigabyte."""

_MOST = 2.0**59
"""All lengths together, times the members: the core's distances fit 64 bits."""


@dataclass(frozen=True, eq=False)
class PricedTree:
    """A spanning tree of a group's members.

    Parameters
    ----------
    root : int
        Place in the group's order.
    length : float
        Of its links.
    members : array of int64, shape (k,)
        Places of the members that the tree names: all, or one of those with the same paths in and out; the
        others of those are leaves.
    parent : array of int32, shape (k,)
        Which of them is above; -1 at the root.
    pairs : array of int32, shape (p,)
        Pairs of the group that its edges take, member after member; what leaves take comes last.
    times : array of int64, shape (p,)
        How often: once, and once for each leaf.
    starts : array of int64, shape (k + 1,)
        Where each member's path begins in `pairs`, from the member above to it; for in-trees reversed,
        beginning with the last pair.
    """

    root: int
    length: float
    members: Int64Array
    parent: Int32Array
    pairs: Int32Array
    times: Int64Array
    starts: Int64Array


class TreePricing:
    """A group whose cheapest trees are computed repeatedly.

    Parameters
    ----------
    group : Representative
    turned : bool
        In-trees.
    roots : array of int64
        Places in the group's order.
    is_centre : bool
        There is one root, which the others need not reach (of in-trees: be reached from).
    joins_twins : bool
        Equivalent members are one in the trees.

    Notes
    -----
    Members with pairs of the same classes to and from the same positions are equivalent: with equal lengths,
    one of them is in the tree and the others are leaves wherever that is nearest. A tree holds a way to each
    kind of class at least, and into each further member something at least as long.
    """

    def __init__(
        self, group: Representative, *, turned: bool, roots: Int64Array, is_centre: bool, joins_twins: bool
    ) -> None:
        self.roots, self._is_centre = roots, is_centre
        every = np.arange(len(group.members))
        alone = every, every, np.ones_like(every)
        first, kind_of, counts = _equivalent(group, roots) if joins_twins else alone
        if len(first) > _MOST_MEMBERS:
            raise InfeasibleError(
                f"trees of a group: {len(first)} ranks that differ, expected at most {_MOST_MEMBERS}; solve "
                f"smaller groups"
            )
        self._members, self._leaves = first, counts - 1
        self._roots = kind_of[roots].astype(np.int32)
        # pairs of the members that are leaves stay out
        out = mask_of(group.n_places, group.members)
        out[group.members[first]] = False
        self._pairs = np.flatnonzero(~(out[group.tails] | out[group.heads]))
        parts = group.members[first], group.tails[self._pairs], group.heads[self._pairs]
        places, ends = np.unique(np.concatenate(parts), return_inverse=True)
        self._n_places, sections = len(places), np.cumsum([len(part) for part in parts[:-1]])
        self._nodes, tails, heads = np.split(ends.ravel().astype(np.int32), sections)
        self._tails, self._heads = (heads, tails) if turned else (tails, heads)

    def cheapest(self, lengths: Floats) -> Iterator[PricedTree]:
        """Yield the cheapest tree from each root.

        Parameters
        ----------
        lengths : array of float, shape (p,)
            Of each pair, not negative; the same within a class.

        Raises
        ------
        InfeasibleError
            If a member cannot be reached.
        """
        given, size = lengths[self._pairs], len(self._members)
        longest = float(given.max(initial=0.0)) or 1.0
        steps = min(_FINEST, _MOST / (size * max(float(given.sum()) / longest, 1.0)))
        # where links are free, fewer of them are better
        whole = np.rint(given * (steps / longest)).astype(np.int64) + 1
        status, parent, (start, arcs) = core.cheapest_trees(
            self._n_places,
            self._tails,
            self._heads,
            whole,
            self._nodes,
            self._roots,
            self._is_centre,
            np.zeros(3, dtype=np.int64),
        )
        if status:
            raise InfeasibleError("trees of a group: some of its members cannot be reached")
        pairs = self._pairs[arcs].astype(np.int32)
        begin = len(self.roots) * size
        leaves = pairs[start[begin] :]
        leaf_times = np.repeat(self._leaves, np.diff(start[begin:]))
        leaves, leaf_times = leaves[leaf_times > 0], leaf_times[leaf_times > 0]
        parents = parent[:begin].reshape(-1, size)
        for number, (root, above) in enumerate(zip(self.roots.tolist(), parents, strict=True)):
            starts = start[number * size : (number + 1) * size + 1]
            taken = np.concatenate([pairs[starts[0] : starts[-1]], leaves])
            times = np.concatenate([np.ones(int(starts[-1] - starts[0]), dtype=np.int64), leaf_times])
            length = float(lengths[taken] @ times)
            yield PricedTree(root, length, self._members, above, taken, times, starts - starts[0])


def _equivalent(group: Representative, roots: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return one member of each equivalence class, a root if it has one; each member's class; class sizes."""
    n = len(group.members)
    place = positions_of(group.n_places, group.members)
    paths: list[list[tuple[int, int, int]]] = [[] for _ in range(n)]
    for here, there, side in ((group.tails, group.heads, 0), (group.heads, group.tails, 1)):
        mine = np.flatnonzero(place[here] >= 0)
        is_near = place[there[mine]] >= 0
        # a pair to another member belongs to that member alone
        ends = np.where(is_near, place[here[mine]], there[mine]), np.where(is_near, 2, side)
        rows = (place[here[mine]], *ends, group.pair_class[mine])
        for member, other, way, pair_class in zip(*(row.tolist() for row in rows), strict=True):
            paths[member].append((way, other, pair_class))
    known: dict[tuple[tuple[int, int, int], ...], int] = {}
    kind_of = np.array([known.setdefault(tuple(sorted(own)), len(known)) for own in paths])
    first = np.zeros(len(known), dtype=np.int64)
    for member in (*range(n - 1, -1, -1), *roots.tolist()):
        first[kind_of[member]] = member
    return first, kind_of, np.bincount(kind_of)
