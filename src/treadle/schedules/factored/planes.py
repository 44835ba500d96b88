"""Trees of an outermost piece by formula: straight sends over planes that serve children unequally."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.factored.checks import UNIT_LIMIT, check_length, check_range, freeze
from treadle.schedules.factored.exchanges import ExchangeColumns
from treadle.schedules.factored.trees import TreeRows, check_roots


@dataclass(frozen=True, eq=False)
class PlaneExchange(ExchangeColumns):
    """Every child sends every unit tree straight to all others; planes share the trees of each pair.

    Child x sends n_s(x, y) of its r trees to y by plane s = 0, 1, ...: those whose places (see `place`) are
    the next n_s of 0, ..., r - 1. A child's exit units are those of plane 0, then those of plane 1, and so
    on. Within a plane they are in the order of blocks of g places, then of y from x on, then of places. Its
    entry units are in the order of planes, then of x = 0, 1, ..., then of places.

    Parameters
    ----------
    native_units : int
        r, of each child.
    block : int
        g, a divisor of r.
    place : array of int64, shape (r,)
        Place of each unit tree, a permutation.
    base : array of int64, shape (planes, n)
        n_s(x, y) by y - x mod n; 0 where that is 0. A column sums to r.
    pair_root, pair_child : arrays of int32, shape (e,)
        Pairs (x, y) that are different; rising.
    pair_units : array of int64, shape (e, planes)
        n_s(x, y) of these.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, proposition 14.
    """

    native_units: int
    block: int
    place: Int64Array
    base: Int64Array
    pair_root: Int32Array
    pair_child: Int32Array
    pair_units: Int64Array

    def __post_init__(self) -> None:
        what = "plane exchange"
        freeze(
            self,
            what,
            {
                "place": (np.int64, 1),
                "base": (np.int64, 2),
                "pair_root": (np.int32, 1),
                "pair_child": (np.int32, 1),
                "pair_units": (np.int64, 2),
            },
        )
        n, r, g = self.base.shape[1], self.native_units, self.block
        if type(r) is not int or type(g) is not int or n < 2 or r < 1 or g < 1 or r % g:
            raise ScheduleError(f"{what}: {n} children of {r} unit trees in blocks of {g} make no exchange")
        if r * n >= UNIT_LIMIT:
            raise ScheduleError(f"{what}: {n} children of {r} unit trees are too many")
        self._check_columns(what, n)
        if not np.array_equal(np.sort(self.place), np.arange(r)):
            raise ScheduleError(f"{what}: place must hold 0 to r - 1 = {r - 1}, once each")
        self._check_shares(what, n, r)
        for side in ("out", "in"):
            self._check_totals(what, side, np.full(n, r * (n - 1)))

    def _check_shares(self, what: str, n: int, r: int) -> None:
        check_range(what, "base", self.base, 0, r + 1)
        if self.base[:, 0].any() or np.any(self.base[:, 1:].sum(axis=0) != r):
            raise ScheduleError(f"{what}: columns of base must sum to r = {r}, the first one to 0")
        for key in ("pair_root", "pair_child", "pair_units"):
            array = getattr(self, key)
            check_length(what, key, array, len(self.pair_root))
            check_range(what, key, array, 0, r + 1 if key == "pair_units" else n)
        if self.pair_units.shape[1] != len(self.base):
            raise ScheduleError(
                f"{what}: pair_units has {self.pair_units.shape[1]} columns, base {len(self.base)} planes"
            )
        if np.any(self.pair_units.sum(axis=1) != r):
            raise ScheduleError(f"{what}: rows of pair_units must sum to r = {r}")
        if np.any(np.diff(self._pairs) <= 0) or np.any(self.pair_root == self.pair_child):
            raise ScheduleError(f"{what}: pairs must rise and be of different children")

    @property
    def n_planes(self) -> int:
        """Number of planes."""
        return len(self.base)

    @cached_property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        return np.full(self.n_children, self.native_units, dtype=np.int64)

    @cached_property
    def _pairs(self) -> Int64Array:
        pairs: Int64Array = self.pair_root.astype(np.int64) * self.base.shape[1] + self.pair_child
        return pairs

    @cached_property
    def _changes(self) -> Int64Array:
        """What the pairs have more than the base, shape (e, planes)."""
        distance = (self.pair_child.astype(np.int64) - self.pair_root) % self.n_children
        changes: Int64Array = self.pair_units - self.base[:, distance].T
        return changes

    @cached_property
    def exit_start(self) -> Int64Array:
        """First exit unit of each plane at each child, and their number, shape (n, planes + 1)."""
        return self._starts(self.pair_root)

    @cached_property
    def entry_start(self) -> Int64Array:
        """First entry unit of each plane at each child, and their number, shape (n, planes + 1)."""
        return self._starts(self.pair_child)

    def _starts(self, child: Int32Array) -> Int64Array:
        shares = np.repeat(self.base.sum(axis=1)[None], self.n_children, axis=0)
        np.add.at(shares, child, self._changes)
        none = np.zeros((self.n_children, 1), dtype=np.int64)
        return np.concatenate([none, np.cumsum(shares, axis=1)], axis=1)

    @cached_property
    def _by_child(self) -> tuple[Int64Array, Int64Array]:
        """Pairs as y n + x, rising, and their changes summed up, shape (planes, e + 1)."""
        key = self.pair_child.astype(np.int64) * self.n_children + self.pair_root
        order = np.argsort(key)
        total = np.zeros((self.n_planes, len(key) + 1), dtype=np.int64)
        np.cumsum(self._changes[order].T, axis=1, out=total[:, 1:])
        return key[order], total

    @cached_property
    def _base_before(self) -> Int64Array:
        """Sums of the base over smaller distances, shape (planes, n + 1)."""
        total = np.zeros((self.n_planes, self.n_children + 1), dtype=np.int64)
        np.cumsum(self.base, axis=1, out=total[:, 1:])
        return total

    def _shares(self, root: Int64Array, child: Int64Array) -> Int64Array:
        """n_s(x, y) of pairs, a row for each plane and the axes of both."""
        shares: Int64Array = self.base[:, (child - root) % self.n_children]
        if len(self._pairs):
            key = root * self.n_children + child
            at = np.minimum(np.searchsorted(self._pairs, key), len(self._pairs) - 1)
            shares = np.where(self._pairs[at] == key, np.moveaxis(self.pair_units[at], -1, 0), shares)
        return shares

    def _entered_before(self, root: Int64Array, child: Int64Array, plane: Int64Array) -> Int64Array:
        """Units that enter y by a plane from children before x."""
        n, before = self.n_children, self._base_before
        low = child - root + 1
        wraps = low < 0
        found: Int64Array = before[plane, child + 1] - before[plane, np.where(wraps, low + n, low)]
        found = found + np.where(wraps, before[plane, n], 0)
        keys, total = self._by_child
        first, last = np.searchsorted(keys, child * n), np.searchsorted(keys, child * n + root)
        return found + total[plane, last] - total[plane, first]

    @cached_property
    def _steady(self) -> Int64Array:
        """Unit trees from each on, itself counted, whose places follow each other."""
        ends = np.append(np.flatnonzero(np.diff(self.place) != 1), self.native_units - 1)
        trees = np.arange(self.native_units)
        steady: Int64Array = ends[np.searchsorted(ends, trees)] - trees + 1
        return steady

    def rows(self, roots: Int64Array, units: Int64Array) -> TreeRows:
        """See `PieceTrees.rows`."""
        check_roots("plane exchange", roots, units, self.root_units)
        n, g = self.n_children, self.block
        root, place = roots[:, None], self.place[units][:, None]
        turn = (root + np.arange(n)) % n  # children from the root on
        shares = self._shares(root, turn)
        stop = np.cumsum(shares, axis=0)
        start = stop - shares
        begin = place // g * g
        within = np.clip(np.minimum(stop, begin + g) - np.maximum(start, begin), 0, None)
        exits = np.clip(begin - start, 0, shares).sum(axis=2)[:, :, None] + np.cumsum(within, axis=2) - within
        exits += place - np.maximum(start, begin) + self.exit_start[roots, :-1].T[:, :, None]
        plane = np.minimum((stop <= place).sum(axis=0), self.n_planes - 1)[None]
        exit_unit, first, last = (np.take_along_axis(a, plane, axis=0)[0] for a in (exits, start, stop))
        entry = self._entered_before(root, turn, plane[0]) + place - first
        entry += self.entry_start[turn, plane[0]]
        room = np.where(turn == root, UNIT_LIMIT, np.minimum(last, begin + g) - place).min(axis=1)
        by_child = (np.arange(n) - root) % n
        is_root = by_child == 0
        return self._rows(
            np.where(is_root, -1, root),
            np.where(is_root, 0, np.take_along_axis(exit_unit, by_child, axis=1)),
            np.where(is_root, 0, np.take_along_axis(entry, by_child, axis=1)),
            np.minimum(room, self._steady[units]),
        )

    @cached_property
    def _by_distance(self) -> tuple[Int64Array, Int64Array]:
        """Pairs as x n + (y - x mod n), rising, and their order."""
        n = self.n_children
        key = self.pair_root.astype(np.int64) * n + (self.pair_child.astype(np.int64) - self.pair_root) % n
        order = np.argsort(key)
        return key[order], order

    def _units_into(
        self, roots: Int64Array, units: Int64Array, child: int
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        n, g, place = self.n_children, self.block, self.place[units]
        distance = (child - roots) % n
        shares = self._shares(roots, np.full_like(roots, child))
        stop = np.cumsum(shares, axis=0)
        plane = (stop <= place).sum(axis=0)
        first = np.take_along_axis(stop - shares, plane[None], axis=0)[0]
        begin = place // g * g
        exits = self.exit_start[roots, plane] + place - np.maximum(first, begin)
        # what leaves a root by the same plane before: all in earlier blocks, in this one to nearer children
        key, order = self._by_distance
        here, root_at = np.searchsorted(key, roots * n + distance), np.searchsorted(key, np.arange(n + 1) * n)
        usual, odd = self.base, self.pair_units[order].T
        usual_stop, odd_stop = np.cumsum(usual, axis=0), np.cumsum(odd, axis=0)
        earlier = np.zeros((self.n_planes, n), dtype=np.int64)
        for low in range(0, int(begin.max(initial=0)) + 1, g):
            for number in range(self.n_planes):
                even = _overlap(usual_stop[number], usual[number], low, low + g)
                more = _overlap(odd_stop[number], odd[number], low, low + g) - even[key % n]
                nearer = np.concatenate([[0], np.cumsum(even)])
                changed = np.concatenate([[0], np.cumsum(more)])
                mine = np.flatnonzero((begin == low) & (plane == number))
                exits[mine] += earlier[number, roots[mine]] + nearer[distance[mine]]
                exits[mine] += changed[here[mine]] - changed[root_at[roots[mine]]]
                earlier[number] += nearer[-1] + changed[root_at[1:]] - changed[root_at[:-1]]
        entries = self.entry_start[child, plane] + place - first
        return roots, exits, entries + self._entered_before(roots, np.full_like(roots, child), plane)

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `PieceTrees.owners`."""
        child, unit, is_owned = self._entry_units(links, offsets)
        unit = np.where(is_owned, unit, 0)
        plane = (self.entry_start[child, 1:] <= unit[:, None]).sum(axis=1)
        unit = unit - self.entry_start[child, plane]
        low, high = np.zeros_like(child), np.full_like(child, self.n_children)
        while np.any(high - low > 1):  # the last root with at most `unit` units of those before it
            middle = (low + high) // 2
            fits = self._entered_before(middle, child, plane) <= unit
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        shares = self._shares(low, child)
        start = np.cumsum(shares, axis=0) - shares
        place = unit - self._entered_before(low, child, plane)
        place += np.take_along_axis(start, plane[None], axis=0)[0]
        tree = np.empty(self.native_units, dtype=np.int64)
        tree[self.place] = np.arange(self.native_units)
        place = np.where(is_owned, place, 0)
        return np.where(is_owned, low, -1).astype(np.int32), np.where(is_owned, tree[place], -1)


def _overlap(stop: Int64Array, shares: Int64Array, low: int, high: int) -> Int64Array:
    """Places from `low` on and below `high` among the `shares` places that end before `stop`."""
    overlap: Int64Array = np.clip(np.minimum(stop, high) - np.maximum(stop - shares, low), 0, None)
    return overlap
