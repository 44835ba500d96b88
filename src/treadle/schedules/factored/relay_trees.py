"""Trees of an outermost subproblem by formula: one plane, and children that relay deliveries of others.

Source: docs/proofs/decomposition.md, theorem 13.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.checks import UNIT_LIMIT, check_length, check_range, check_sum
from treadle.schedules.factored.subproblem_trees import (
    COLUMN_AXES,
    EdgeUnits,
    FormulaTrees,
    SubproblemRows,
    TreeNumbers,
    check_roots,
    ragged,
)


@dataclass(frozen=True, eq=False)
class RelayTrees(FormulaTrees):
    """Children on one plane that send what they can themselves, and leave the rest to others (relays).

    All trees come in blocks of g: unit tree b g + a is number a of block b. Blocks of all roots are numbered
    root by root. A block that gives away m of its n - 1 deliveries makes n - 1 - m itself: first to its
    relays in their order, then to the next children after the root. If there are too many relays, each of
    the others is the first delivery of the relay before it. Relays then make their other deliveries, as many
    as each is given, to the other children in the order that starts after the root.

    Deliveries leave child x by egress units in order: those of its own blocks, then those that it makes as a
    relay, in the order of the relay rows. Blocks enter it by ingress units in order, except its own. Tree a
    of a block takes the a-th of g units.

    Parameters
    ----------
    native_units : array of int64, shape (n,)
        Unit trees rooted at each child.
    block : int
        g, a divisor of all of these.
    relay_root : array of int32, shape (s,)
    relay_block : array of int64, shape (s,)
        Block of that root, from 0; rows rise by (root, block).
    relay_child : array of int32, shape (s,)
        Relay of the block: another child, once each.
    relay_count : array of int64, shape (s,)
        Deliveries that it makes, at least one; at most n - 2 for a block.
    """

    native_units: Int64Array
    block: int
    relay_root: Int32Array
    relay_block: Int64Array
    relay_child: Int32Array
    relay_count: Int64Array

    def __post_init__(self) -> None:
        what = "relay trees"
        self._freeze(what, axes=COLUMN_AXES)
        n, g = len(self.native_units), self.block
        if type(g) is not int or g < 1 or n < 2 or np.any(self.native_units % g):
            raise ScheduleError(f"{what}: {n} children with blocks of {g} unit trees make no such trees")
        check_range(what, "native_units", self.native_units, 0, UNIT_LIMIT)
        check_sum(what, "native_units", self.native_units, UNIT_LIMIT // n)
        self._check_columns(what, n)
        self._check_relays(what, n)
        self._check_totals(what, "in", self.native_units.sum() - self.native_units)
        relayed = sums_of(n, self.relay_child, self.relay_count)
        self._check_totals(what, "out", (self._own_deliveries + relayed) * g)

    def _check_relays(self, what: str, n: int) -> None:
        for key, high in (("root", n), ("block", UNIT_LIMIT), ("child", n), ("count", n)):
            check_length(what, f"relay_{key}", getattr(self, f"relay_{key}"), len(self.relay_root))
            check_range(what, f"relay_{key}", getattr(self, f"relay_{key}"), int(key == "count"), high)
        if np.any(self.relay_block >= self._blocks[self.relay_root]):
            raise ScheduleError(f"{what}: relay_block: a root has no block of that number")
        block = self._relay_block
        if np.any(block[:-1] > block[1:]):
            raise ScheduleError(f"{what}: rows of relays must rise by (root, block)")
        twice = np.unique(block * n + self.relay_child)
        if len(twice) != len(block) or np.any(self.relay_child == self.relay_root):
            raise ScheduleError(f"{what}: relays of a block must be different children, not its root")
        if np.any(self._given > n - 2):
            raise ScheduleError(f"{what}: a block gives away more than n - 2 = {n - 2} deliveries")

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        return self.native_units

    @cached_property
    def depth(self) -> int:
        """See `FormulaTrees.depth`."""
        if not len(self.relay_root):
            return 1
        fed = self._last_row - self._first_row - (self.n_children - 1 - self._given)
        return 2 + max(0, int(fed.max()))

    @cached_property
    def _blocks(self) -> Int64Array:
        """Blocks of each root."""
        blocks: Int64Array = self.native_units // self.block
        return blocks

    @cached_property
    def _before(self) -> Int64Array:
        """Blocks of all roots before each child."""
        return np.cumsum(self._blocks) - self._blocks

    @cached_property
    def _relay_block(self) -> Int64Array:
        """Block of each row of relays, counted through."""
        return self._before[self.relay_root] + self.relay_block

    @cached_property
    def _first_row(self) -> Int64Array:
        """First row of the block that each row belongs to."""
        return np.searchsorted(self._relay_block, self._relay_block)

    @cached_property
    def _last_row(self) -> Int64Array:
        """One past the last row of the block that each row belongs to."""
        return np.searchsorted(self._relay_block, self._relay_block, side="right")

    @cached_property
    def _given(self) -> Int64Array:
        """Deliveries that the block of each row gives away."""
        given: Int64Array = self._given_by_row[self._last_row] - self._given_by_row[self._first_row]
        return given

    @cached_property
    def _given_by_row(self) -> Int64Array:
        """Deliveries given away by all rows before each, shape (s + 1,)."""
        return offsets_of(self.relay_count)

    @cached_property
    def _root_row(self) -> Int64Array:
        """First row of each root, shape (n + 1,)."""
        return np.searchsorted(self.relay_root, np.arange(self.n_children + 1))

    @cached_property
    def _own_deliveries(self) -> Int64Array:
        """Deliveries that each child's own blocks make, shape (n,)."""
        return self._blocks * (self.n_children - 1) - np.diff(self._given_by_row[self._root_row])

    @cached_property
    def _duty_start(self) -> Int64Array:
        """First delivery of each row among those of the relay, shape (s,)."""
        order = np.argsort(self.relay_child, kind="stable")
        count = self.relay_count[order]
        before = np.cumsum(count) - count
        child = self.relay_child[order]
        start = np.empty(len(order), dtype=np.int64)
        start[order] = before - before[np.searchsorted(child, child)] + self._own_deliveries[child]
        return start

    def rows(self, roots: Int64Array, units: Int64Array) -> SubproblemRows:
        """See `SubproblemTrees.rows`."""
        check_roots("relay trees", roots, units, self.native_units)
        n, g = self.n_children, self.block
        number, within = np.divmod(units, g)
        parent, delivery = self._deliveries(roots, number)
        block = (self._before[roots] + number)[:, None]
        arrival = block - np.where(roots[:, None] > np.arange(n), self._blocks, 0)
        entries = arrival * g + within[:, None]  # any value for the root: it has no row
        return self._rows(parent, delivery * g + within[:, None], entries, g - within)

    def _block_rows(self, roots: Int64Array, number: Int64Array) -> tuple[Int64Array, ...]:
        """Return for blocks of roots their numbers among all blocks, first rows of relays, numbers of rows,
        deliveries that they make themselves, and the first of these.
        """
        block = self._before[roots] + number
        low, high = (np.searchsorted(self._relay_block, block, side=side) for side in ("left", "right"))
        given = self._given_by_row
        direct = self.n_children - 1 - (given[high] - given[low])
        start = number * (self.n_children - 1) - (given[low] - given[self._root_row[roots]])
        return block, low, high - low, direct, start

    def _deliveries(self, roots: Int64Array, number: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the parent of each child and the number of its delivery, for some blocks, shape (q, n)."""
        n, q = self.n_children, len(roots)
        _, low, count, direct, start = self._block_rows(roots, number)
        # rows of relays of these blocks, and the position of each among the rows of its block
        row, of = ragged(low, count), np.repeat(np.arange(q), count)
        place = row - self._first_row[row]
        relay = self.relay_child[row].astype(np.int64)
        feeds = self._feeds[row]
        parent = np.full((q, n), -1, dtype=np.int64)
        delivery = np.zeros((q, n), dtype=np.int64)
        is_fed = place >= direct[of]
        before = np.maximum(np.arange(len(row)) - 1, 0)
        parent[of, relay] = np.where(is_fed, relay[before], roots[of])
        delivery[of, relay] = np.where(is_fed, self._duty_start[row[before]], start[of] + place)
        # the other children in the order after the root: those of the root itself, then relay by relay
        turn = np.concatenate([np.arange(q), of])
        supplier = np.concatenate([roots, relay])
        size = np.concatenate([np.maximum(direct - count, 0), self.relay_count[row] - feeds])
        begin = np.concatenate([start + np.minimum(count, direct), self._duty_start[row] + feeds])
        order = np.argsort(turn, kind="stable")
        child = (roots[:, None] + np.arange(1, n)) % n
        is_other = np.take_along_axis(parent, child, axis=1) < 0
        line, column = np.nonzero(is_other)
        parent[line, child[line, column]] = np.repeat(supplier[order], size[order])
        delivery[line, child[line, column]] = ragged(begin[order], size[order])
        return parent, delivery

    @cached_property
    def _feeds(self) -> Int64Array:
        """Whether the first delivery of each row is to the next relay of its block, 0 or 1."""
        following = np.arange(1, len(self._first_row) + 1)
        is_fed = following - self._first_row >= self.n_children - 1 - self._given
        return ((following < self._last_row) & is_fed).astype(np.int64)

    def _units_into(self, roots: Int64Array, units: Int64Array, child: int) -> EdgeUnits:
        n, g = self.n_children, self.block
        number, within = np.divmod(units, g)
        block, low, count, direct, start = self._block_rows(roots, number)
        # if the child is not a relay of the block: how many such children come before it
        distance = (self.relay_child.astype(np.int64) - self.relay_root) % n
        nearer = offsets_of(distance < (child - self.relay_root) % n)
        turn = (child - roots) % n - 1 - (nearer[low + count] - nearer[low])
        rest = offsets_of(self.relay_count - self._feeds)
        late = turn - np.maximum(direct - count, 0)
        parent, delivery = roots.copy(), start + np.minimum(count, direct) + turn
        relayed = np.flatnonzero(late >= 0)
        target = rest[low[relayed]] + late[relayed]
        row = np.minimum(np.searchsorted(rest, target, side="right") - 1, len(self.relay_root) - 1)
        parent[relayed] = self.relay_child[row]
        delivery[relayed] = self._duty_start[row] + self._feeds[row] + target - rest[row]
        # if it is a relay of the block
        own = np.flatnonzero(self.relay_child == child)
        if len(own):
            at = np.minimum(np.searchsorted(self._relay_block[own], block), len(own) - 1)
            mine = np.flatnonzero(self._relay_block[own[at]] == block)
            row = own[at[mine]]
            place = row - self._first_row[row]
            is_fed = place >= direct[mine]
            parent[mine] = np.where(is_fed, self.relay_child[row - 1], roots[mine])
            delivery[mine] = np.where(is_fed, self._duty_start[row - 1], start[mine] + place)
        arrival = block - np.where(roots > child, self._blocks[child], 0)
        return parent, delivery * g + within, arrival * g + within

    def trees_out_of(self, child: int) -> TreeNumbers:
        """See `FormulaTrees.trees_out_of`."""
        roots, units = super().trees_out_of(child)
        row = np.flatnonzero(self.relay_child == child)
        tree = (self.relay_block[row][:, None] * self.block + np.arange(self.block)).ravel()
        relayed = np.repeat(self.relay_root[row].astype(np.int64), self.block)
        return np.concatenate([roots, relayed]), np.concatenate([units, tree])

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `SubproblemTrees.owners`."""
        child, unit, is_owned = self._entry_units(links, offsets)
        root, tree = self.arrivals(child, unit)
        return np.where(is_owned, root, -1).astype(np.int32), np.where(is_owned, tree, -1)

    def arrivals(self, child: Int64Array, unit: Int64Array) -> TreeNumbers:
        """Return root and number of the unit trees that enter children by these ingress units."""
        arrival, within = np.divmod(unit, self.block)
        block = arrival + np.where(arrival >= self._before[child], self._blocks[child], 0)
        root = np.searchsorted(self._before, block, side="right") - 1
        return root, (block - self._before[root]) * self.block + within
