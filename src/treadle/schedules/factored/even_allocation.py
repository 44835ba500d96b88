"""Units that children of groups send each other over planes, by a formula that spreads them evenly.

Source: docs/proofs/decomposition.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of, positions_of
from treadle.schedules.checks import UNIT_LIMIT

Ends = tuple[Int64Array, Int64Array]
"""A child, and a group with which it exchanges units."""


@dataclass(frozen=True, eq=False)
class EvenAllocation:
    """n_s(x, y): units from child x of group a to child y of group b over plane s.

    The children of each group are numbered from 0.

    The smaller group, a if they are equal, is the *narrow* one, the other the *wide* one. Let o be the number
    of the child in the narrow group, v that of the other child, w the size of the wide group, and C_s the
    units between the first child and all of the wide group over planes 0, ..., s. If a and b differ,
    n_0 + ... + n_s = floor((C_s + p) / w), where p = v - floor(o w / narrow size) - turn mod w. The turn of
    narrow group number g is floor(w (40503 g mod 65536) / 65536), so groups begin at different positions.
    Within a group there are w - 1 others: n_0 + ... + n_s = floor((C_s + p) / (w - 1)), where
    p = v - o - 1 mod w. As p takes each value once, the sums over the wide group are C_s; over the narrow
    group they are nearly equal.

    Parameters
    ----------
    group : array of int32, shape (n,)
    units : array of int64, shape (groups, groups, planes)
        C_s - C_(s - 1) of children of group a that send to those of group b.

    Notes
    -----
    All arguments of a method have one shape.
    """

    group: Int32Array
    units: Int64Array

    @cached_property
    def _of(self) -> Int64Array:
        return self.group.astype(np.int64)

    @cached_property
    def sizes(self) -> Int64Array:
        """Children of each group."""
        return np.bincount(self.group, minlength=len(self.units)).astype(np.int64)

    @cached_property
    def order(self) -> Int64Array:
        """Children by group."""
        return np.argsort(self.group, kind="stable")

    @cached_property
    def position(self) -> Int64Array:
        """Position of each child in `order`."""
        return positions_of(len(self.group), self.order)

    @cached_property
    def first(self) -> Int64Array:
        """Position of the first child of each group, and the number of children."""
        return offsets_of(self.sizes)

    @cached_property
    def index(self) -> Int64Array:
        """Number of each child in its group."""
        index: Int64Array = self.position - self.first[self.group]
        return index

    @cached_property
    def _stop(self) -> Int64Array:
        """C_s from s = -1 on, shape (groups, groups, planes + 1)."""
        return offsets_of(self.units)

    def allocation(self, root: Int64Array, child: Int64Array) -> Int64Array:
        """Return n_s(x, y), an axis of planes before those of the arguments; 0 from a child to itself."""
        a, b = self._of[root], self._of[child]
        i, j = self.index[root], self.index[child]
        narrow, wide, by_root = self._sides(a, b)
        owner, across = np.where(by_root, i, j), np.where(by_root, j, i)
        same = a == b
        place = (across - owner * wide // narrow - self._turn(a, b) - same) % wide
        stop = (np.moveaxis(self._stop[a, b], -1, 0) + place) // np.maximum(wide - same, 1)
        shares: Int64Array = np.where(root == child, 0, np.diff(stop, axis=0))
        return shares

    def _sides(self, a: Int64Array, b: Int64Array) -> tuple[Int64Array, Int64Array, BoolArray]:
        """Return the sizes of the narrow and the wide group, and whether the senders are the narrow one."""
        from_sizes, to_sizes = self.sizes[a], self.sizes[b]
        return np.minimum(from_sizes, to_sizes), np.maximum(from_sizes, to_sizes), from_sizes <= to_sizes

    def _turn(self, a: Int64Array, b: Int64Array) -> Int64Array:
        """Return the position in the wide group where the narrow group begins; 0 within a group."""
        _, wide, by_root = self._sides(a, b)
        turn: Int64Array = np.where(by_root, a, b) * 40503 % 65536 * wide // 65536 * (a != b)
        return turn

    def _exchanged(
        self, ends: Ends, count: Int64Array, stop: Int64Array, most: Int64Array | int, *, sends: bool
    ) -> Int64Array:
        """Return the units that a child sends to, or receives from, the first `count` children of a group.

        `ends` are the child and the group. Units are those over planes up to C_s = `stop`, at most `most` for
        each of the `count` children.
        """
        child, group = ends
        one, own = self.index[child], self._of[child]
        a, b = (own, group) if sends else (group, own)
        narrow, wide, by_root = self._sides(a, b)
        many_narrow = ~by_root if sends else by_root
        same = a == b
        each, rest = np.divmod(stop, np.maximum(wide - same, 1))
        # either the owners whose windows of `rest` positions hold v, or the window of one owner
        turn = self._turn(a, b)
        low = np.where(many_narrow, one + 1 - turn, one * wide // narrow + turn - rest) % wide
        high = low + rest
        first, last, over = (np.minimum(part, wide) for part in (low, high, np.maximum(high - wide, 0)))
        if np.any(many_narrow):
            first, last, over = (
                np.where(many_narrow, -(-part * narrow // wide), part) for part in (first, last, over)
            )
        more = np.minimum(last, count) - np.minimum(first, count) + np.minimum(over, count)
        number = count - (same & (one < count))
        total: Int64Array = np.minimum(each, most) * number + (each < most) * more
        return total

    @cached_property
    def entered(self) -> Int64Array:
        """Units that enter each child over each plane from earlier groups, shape (groups + 1, n, planes)."""
        groups, n = len(self.units), len(self.group)
        a, y = np.arange(groups)[:, None, None], np.arange(n)[None, :, None]
        stop = self._stop[:, self.group]
        total = np.zeros((groups + 1, n, self.units.shape[2]), dtype=np.int64)
        for low in range(groups):  # group by group, in less memory
            mine = a[low : low + 1]
            upto = self._exchanged((y, mine), self.sizes[mine], stop[low : low + 1], UNIT_LIMIT, sends=False)
            total[low + 1] = total[low] + np.diff(upto[0], axis=1)
        return total

    @cached_property
    def left(self) -> Int64Array:
        """Units that leave each child over each plane, shape (n, planes)."""
        groups, n = len(self.units), len(self.group)
        x = np.arange(n)[:, None]
        total = np.zeros((n, self.units.shape[2]), dtype=np.int64)
        for b in range(groups):
            mine = np.full_like(x, b)
            stop = self._stop[self.group, b]
            total += np.diff(
                self._exchanged((x, mine), self.sizes[mine], stop, UNIT_LIMIT, sends=True), axis=1
            )
        return total

    def entered_before(self, root: Int64Array, child: Int64Array, plane: Int64Array) -> Int64Array:
        """Return the units that enter y over a plane from children whose positions are before that of x."""
        a, b = self._of[root], self._of[child]
        found: Int64Array = self.entered[a, child, plane].copy()
        for sign, s in ((1, plane + 1), (-1, plane)):
            stop = self._stop[a, b, s]
            found += sign * self._exchanged((child, a), self.index[root], stop, UNIT_LIMIT, sends=False)
        return found

    def sent_nearer(
        self, root: Int64Array, child: Int64Array, plane: Int64Array, low: Int64Array, high: Int64Array
    ) -> Int64Array:
        """Return the units low, ..., high - 1 that x sends to children before y over a plane.

        Children are in cyclic `order` from x on; if y is x, all children count.
        """
        here, there = self.position[root], self.position[child]
        total = np.zeros_like(here)
        for b, (begin, size) in enumerate(zip(self.first.tolist(), self.sizes.tolist(), strict=False)):
            upto, before = (np.clip(part - begin, 0, size) for part in (there, here))
            group = np.full_like(here, b)
            counts = ((1, upto), (-1, before), (there <= here, np.full_like(here, size)))
            for sign, s in ((1, plane + 1), (-1, plane)):
                stop = self._stop[self._of[root], b, s]
                for times, count in counts:
                    for side, most in ((1, high), (-1, low)):
                        sent = self._exchanged((root, group), count, stop, most, sends=True)
                        total += sign * times * side * sent
        return total
