"""Units that the children of an outermost subproblem send each other over planes, some of them as relays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.checks import UNIT_LIMIT, check_length, check_range, check_sum
from treadle.schedules.factored.even_allocation import EvenAllocation
from treadle.schedules.factored.subproblem_trees import COLUMN_AXES, FormulaTrees, find_sorted

_RELAYS = ("relay_root", "relay_block", "relay_child", "relay_by")
MOST_SHARES = 2**25
"""Largest number of children times groups times planes."""
_PAIRS = ("pair_root", "pair_child", "pair_units")


@dataclass(frozen=True, eq=False)
class PairwisePlanes(FormulaTrees):
    """Fields of `PlaneTrees`, and their values for pairs of children; all arguments have one shape."""

    native_units: Int64Array
    block: int
    place: Int64Array
    group: Int32Array
    group_units: Int64Array
    pair_root: Int32Array
    pair_child: Int32Array
    pair_units: Int64Array
    relay_root: Int32Array
    relay_block: Int64Array
    relay_child: Int32Array
    relay_by: Int32Array

    def __post_init__(self) -> None:
        what = "plane trees"
        self._freeze(what, axes=COLUMN_AXES | {"group_units": 3, "pair_units": 2})
        n, r, g = len(self.native_units), len(self.place), self.block
        if type(g) is not int or n < 2 or r < 1 or g < 1 or r % g or np.any(self.native_units % g):
            raise ScheduleError(f"{what}: {n} children of {r} unit trees in blocks of {g} make no such trees")
        check_range(what, "native_units", self.native_units, 0, UNIT_LIMIT)
        check_sum(what, "native_units", self.native_units, UNIT_LIMIT // n)
        most = int(max(self.native_units.max(), r)) // g
        if n * n * (most + 1) >= UNIT_LIMIT or r * n >= UNIT_LIMIT:
            raise ScheduleError(f"{what}: {n} children of {most} blocks of unit trees are too many")
        self._check_columns(what, n)
        if not np.array_equal(np.sort(self.place), np.arange(r)):
            raise ScheduleError(f"{what}: place must hold 0 to r - 1 = {r - 1}, once each")
        self._check_relays(what, n)
        self._check_groups(what, n)
        self._check_pairs(what, n)
        self._check_totals(what, "in", self.native_units.sum() - self.native_units)
        self._check_totals(what, "out", self.egress_start[:, -1])

    def _check_relays(self, what: str, n: int) -> None:
        for key in _RELAYS:
            check_length(what, key, getattr(self, key), len(self.relay_root))
            check_range(what, key, getattr(self, key), 0, UNIT_LIMIT if key == "relay_block" else n)
        if np.any(self.relay_block >= self.native_units[self.relay_root] // self.block):
            raise ScheduleError(f"{what}: relay_block: a root has no block of that number")
        if np.any(np.diff(self._relay_keys) <= 0):
            raise ScheduleError(f"{what}: rows of relays must rise by (root, child, block)")
        root, child, by = self.relay_root, self.relay_child, self.relay_by
        if np.any((root == child) | (root == by) | (child == by)):
            raise ScheduleError(f"{what}: a relay must differ from the root and from the child")
        if np.any(self._relay_row(root.astype(np.int64), by.astype(np.int64), self.relay_block) >= 0):
            raise ScheduleError(f"{what}: a root must send to its relays itself")

    def _check_groups(self, what: str, n: int) -> None:
        groups, planes = len(self.group_units), self.group_units.shape[2]
        check_length(what, "group", self.group, n)
        check_range(what, "group", self.group, 0, groups)
        all_have_children = np.bincount(self.group, minlength=groups).all()
        if self.group_units.shape[1] != groups or not planes or not all_have_children:
            raise ScheduleError(
                f"{what}: group_units has shape {self.group_units.shape}, expected two axes of "
                "groups that all have children, and one of planes"
            )
        if n * groups * planes > MOST_SHARES:
            raise ScheduleError(f"{what}: {n} children of {groups} groups on {planes} planes are too many")
        first = np.unique(self.group, return_index=True)[1]
        native = self.native_units[first]
        if np.any(self.native_units != native[self.group]):
            raise ScheduleError(f"{what}: children of a group have different numbers of unit trees")
        check_range(what, "group_units", self.group_units, 0, UNIT_LIMIT // planes)
        sizes = self._even.sizes
        others = np.maximum(sizes[:, None], sizes) - np.eye(groups, dtype=np.int64)
        if np.any(self.group_units.sum(axis=2) != native[:, None] * others):
            raise ScheduleError(f"{what}: planes of group_units must sum to the trees that children send")

    def _check_pairs(self, what: str, n: int) -> None:
        most = int(self.native_units.sum())
        for key in _PAIRS:
            array = getattr(self, key)
            check_length(what, key, array, len(self.pair_root))
            check_range(what, key, array, 0, most + 1 if key == "pair_units" else n)
        if self.pair_units.shape[1] != self.n_planes:
            raise ScheduleError(
                f"{what}: pair_units has {self.pair_units.shape[1]} columns, "
                f"group_units {self.n_planes} planes"
            )
        root = self.pair_root
        if np.any(self._pairs[1:] <= self._pairs[:-1]) or np.any(root == self.pair_child):
            raise ScheduleError(f"{what}: pairs must rise and be of different children")
        sent = self.native_units[root]
        for met, more in ((self._relay_pairs, -self.block), (self._relays_by[0], self.block)):
            row = self._pair_row(*np.divmod(met, n))
            if np.any(row < 0):
                raise ScheduleError(f"{what}: the pairs of relays must be given")
            np.add.at(sent, row, more)
        if np.any(sent != self.pair_units.sum(axis=1)):
            raise ScheduleError(f"{what}: rows of pair_units must sum to what children send each other")

    @property
    def n_planes(self) -> int:
        """Number of planes."""
        return int(self.group_units.shape[2])

    @cached_property
    def _even(self) -> EvenAllocation:
        """Shares of pairs that are not given."""
        return EvenAllocation(self.group, self.group_units)

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        return self.native_units

    @property
    def depth(self) -> int:
        """See `FormulaTrees.depth`."""
        return 2 if len(self.relay_root) else 1

    @cached_property
    def _most_blocks(self) -> int:
        return int(self.native_units.max()) // self.block + 1

    @cached_property
    def _relay_pairs(self) -> Int64Array:
        """Root and child of each row, as one number."""
        pairs: Int64Array = self.relay_root.astype(np.int64) * self.n_children + self.relay_child
        return pairs

    @cached_property
    def _relay_keys(self) -> Int64Array:
        keys: Int64Array = self._relay_pairs * self._most_blocks + self.relay_block
        return keys

    def _relay_row(self, root: Int64Array, child: Int64Array, block: Int64Array) -> Int64Array:
        """Return the row by which blocks reach a child, -1 if the root delivers them itself."""
        key = (root * self.n_children + child) * self._most_blocks + block
        return find_sorted(self._relay_keys, key)

    def _sent_before(self, root: Int64Array, child: Int64Array, block: Int64Array) -> Int64Array:
        """Return the units that a root sends to a child itself in blocks before this one."""
        key = (root * self.n_children + child) * self._most_blocks
        given = np.searchsorted(self._relay_keys, key + block) - np.searchsorted(self._relay_keys, key)
        sent: Int64Array = (np.minimum(block, self.native_units[root] // self.block) - given) * self.block
        return sent

    def _own(self, root: Int64Array, child: Int64Array) -> Int64Array:
        """Return the units that a root sends to a child itself."""
        return self._sent_before(root, child, self.native_units[root] // self.block)

    @cached_property
    def _relays_by(self) -> tuple[Int64Array, Int64Array]:
        """Pairs of relay and child, rising, and the row of each."""
        pairs = self.relay_by.astype(np.int64) * self.n_children + self.relay_child
        order = np.argsort(pairs, kind="stable")
        return pairs[order], order

    @cached_property
    def _relayed(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Three tables of relayed units.

        Each row's first unit among the units that its relay sends to the child, shape (m,); units by plane of
        the rows before it at this relay (m, planes); units of all rows by relay and plane (n, planes).
        """
        pairs, order = self._relays_by
        place = np.arange(len(pairs)) - np.searchsorted(pairs, pairs)
        by, child = np.divmod(pairs, self.n_children)
        first = self._own(by, child) + place * self.block
        shares = self._shares(by, child)
        units = overlap(np.cumsum(shares, axis=0), shares, first, first + self.block).T
        total = sums_of((self.n_children, self.n_planes), by, units)
        before = np.cumsum(units, axis=0) - units
        before -= before[np.searchsorted(by, by)] if len(by) else before
        by_row, before_row = np.empty_like(first), np.empty_like(before)
        by_row[order], before_row[order] = first, before
        return by_row, before_row, total

    @cached_property
    def _pairs(self) -> Int64Array:
        pairs: Int64Array = self.pair_root.astype(np.int64) * self.n_children + self.pair_child
        return pairs

    def _pair_row(self, root: Int64Array, child: Int64Array) -> Int64Array:
        """Return the row of each pair, -1 if it has none."""
        return find_sorted(self._pairs, root * self.n_children + child)

    @cached_property
    def _changes(self) -> Int64Array:
        """Units that the given pairs have beyond the formula, shape (planes, e)."""
        ends = self.pair_root.astype(np.int64), self.pair_child.astype(np.int64)
        return self.pair_units.T - self._even.allocation(*ends)

    @cached_property
    def egress_start(self) -> Int64Array:
        """First egress unit of each plane at each child, and their number, shape (n, planes + 1)."""
        return self._starts(self._even.left, self.pair_root)

    @cached_property
    def entry_start(self) -> Int64Array:
        """First ingress unit of each plane at each child, and their number, shape (n, planes + 1)."""
        return self._starts(self._even.entered[-1], self.pair_child)

    def _starts(self, even: Int64Array, child: Int32Array) -> Int64Array:
        shares = even.T.copy()
        for plane, changes in zip(shares, self._changes, strict=True):
            np.add.at(plane, child, changes)  # plane by plane, as numpy is slow with rows
        return offsets_of(shares.T)

    @cached_property
    def _by_child(self) -> tuple[Int64Array, Int64Array]:
        """Pairs as y n + the position of x, rising, and the sums of their changes, shape (planes, e + 1)."""
        key = self.pair_child.astype(np.int64) * self.n_children + self._even.position[self.pair_root]
        order = np.argsort(key)
        total = np.zeros((self.n_planes, len(key) + 1), dtype=np.int64)
        np.cumsum(self._changes[:, order], axis=1, out=total[:, 1:])
        return key[order], total

    def _shares(self, root: Int64Array, child: Int64Array) -> Int64Array:
        """Return n_s(x, y) of pairs, a row for each plane and the axes of both."""
        shares = self._even.allocation(root, child)
        row = self._pair_row(root, child)
        if len(self._pairs):
            shares = np.where(row >= 0, np.moveaxis(self.pair_units[row], -1, 0), shares)
        return shares

    def _entered_before(self, root: Int64Array, child: Int64Array, plane: Int64Array) -> Int64Array:
        """Return the units that enter y over a plane from children before x in the order of groups."""
        keys, total = self._by_child
        first = np.searchsorted(keys, child * self.n_children)
        last = np.searchsorted(keys, child * self.n_children + self._even.position[root])
        return self._even.entered_before(root, child, plane) + total[plane, last] - total[plane, first]


def overlap(
    stop: Int64Array, shares: Int64Array, low: int | Int64Array, high: int | Int64Array
) -> Int64Array:
    """Return how many of the positions low, ..., high - 1 are among the `shares` positions before `stop`."""
    found: Int64Array = np.clip(np.minimum(stop, high) - np.maximum(stop - shares, low), 0, None)
    return found
