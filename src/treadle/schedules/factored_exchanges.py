"""Trees of an outermost piece by formula: children that differ, joined by one relay or by several planes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.factored_checks import (
    UNIT_LIMIT,
    Columns,
    check_length,
    check_range,
    check_sum,
    freeze,
)
from treadle.schedules.factored_trees import TreeRows, UnitRuns, check_roots, holders, ragged

_NARROW, _WIDE = (np.int32, 2), (np.int64, 2)
_COLUMNS: Columns = {
    "out_links": _NARROW,
    "in_links": _NARROW,
    "out_first": _WIDE,
    "in_first": _WIDE,
    "out_offset": _WIDE,
    "in_offset": _WIDE,
}


@dataclass(frozen=True, eq=False)
class ExchangeColumns:
    """Which capacity units are the exit and entry units of n children, counted from 0 at each child.

    Parameters
    ----------
    out_links, in_links : arrays of int32, shape (n, w)
        Links that leave and enter each child, in the order in which they hold its exit and entry units; a
        link may come several times, with different capacity units.
    out_first, in_first : arrays of int64, shape (n, w + 1)
        First exit (entry) unit that each column holds; the last value of a row is their number. Columns may
        be empty.
    out_offset, in_offset : arrays of int64, shape (n, w)
        Capacity unit of the link that holds the column's first exit (entry) unit; the others follow in order.

    Notes
    -----
    Path number p n w + q is the p-th of `out_links`, row by row, followed by the q-th of `in_links`.
    """

    out_links: Int32Array
    in_links: Int32Array
    out_first: Int64Array
    in_first: Int64Array
    out_offset: Int64Array
    in_offset: Int64Array

    def _check_columns(self, what: str, n: int) -> None:
        freeze(self, what, _COLUMNS)
        for side in ("out", "in"):
            links, first = getattr(self, f"{side}_links"), getattr(self, f"{side}_first")
            w = links.shape[1]
            if w < 1 or (n * w) ** 2 >= UNIT_LIMIT:
                raise ScheduleError(f"{what}: {w} links for each of {n} children are none or too many")
            for key, shape, high in (
                ("links", (n, w), 2**31 - 1),
                ("offset", (n, w), UNIT_LIMIT),
                ("first", (n, w + 1), UNIT_LIMIT),
            ):
                array = getattr(self, f"{side}_{key}")
                if array.shape != shape:
                    raise ScheduleError(f"{what}: {side}_{key} has shape {array.shape}, expected {shape}")
                check_range(what, f"{side}_{key}", array, 0, high)
            if first[:, 0].any() or np.any(first[:, :-1] > first[:, 1:]):
                raise ScheduleError(f"{what}: {side}_first must rise from 0 in each row")

    def _check_totals(self, what: str, side: str, expected: Int64Array) -> None:
        found: Int64Array = getattr(self, f"{side}_first")[:, -1]
        for child in np.flatnonzero(found != expected)[:1]:
            raise ScheduleError(
                f"{what}: child {child} has {found[child]} {'exit' if side == 'out' else 'entry'} units, "
                f"its trees take {expected[child]}"
            )

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        raise NotImplementedError

    @property
    def n_children(self) -> int:
        """Number of children n."""
        return len(self.out_links)

    @property
    def n_paths(self) -> int:
        """Path numbers are smaller than this."""
        return self.out_links.size * self.in_links.size

    @cached_property
    def link_bound(self) -> int:
        """One more than the greatest local link."""
        return int(max(self.out_links.max(), self.in_links.max())) + 1

    @cached_property
    def _held(self) -> UnitRuns:
        """Columns that hold entry units, named by their places in `in_links`, row by row."""
        held = np.flatnonzero(np.diff(self.in_first, axis=1).ravel())
        return UnitRuns(self.in_links.ravel()[held], self.in_offset.ravel()[held], held)

    def _entry_units(
        self, links: Int32Array, offsets: Int64Array
    ) -> tuple[Int64Array, Int64Array, BoolArray]:
        """Child and entry unit that capacity units are, and whether they are any."""
        place, skip = self._held.find(links, offsets)
        child, column = np.divmod(np.maximum(place, 0), self.in_links.shape[1])
        unit = self.in_first[child, column] + skip
        return child, unit, (place >= 0) & (unit < self.in_first[child, column + 1])

    def _rows(self, parent: Int64Array, exits: Int64Array, entries: Int64Array, run: Int64Array) -> TreeRows:
        """Rows with these suppliers (-1 at the root), exit and entry units; `run` at most."""
        is_root = parent < 0
        child = np.arange(self.n_children)
        supplier = np.maximum(parent, 0)
        source, first, room_out = holders(self.out_first, self.out_offset, supplier, exits)
        sink, last, room_in = holders(self.in_first, self.in_offset, child, entries)
        path = (supplier * self.out_links.shape[1] + source) * self.in_links.size
        path += child * self.in_links.shape[1] + sink
        room = np.where(is_root, UNIT_LIMIT, np.minimum(room_out, room_in))
        return TreeRows(
            parent=parent.astype(np.int32),
            path=np.where(is_root, -1, path),
            first=np.where(is_root, -1, first),
            last=np.where(is_root, -1, last),
            run=np.minimum(room.min(axis=1), run),
        )

    def path_links(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """See `PieceTrees.path_links`."""
        source, sink = np.divmod(numbers, self.in_links.size)
        links = np.stack([self.out_links.ravel()[source], self.in_links.ravel()[sink]], axis=1)
        return 2 * np.arange(len(numbers) + 1), links.ravel()


@dataclass(frozen=True, eq=False)
class RelayExchange(ExchangeColumns):
    """Children on one relay that send what they can themselves, and leave the rest to children with room.

    All trees come in blocks of g, unit tree b g + a is number a of block b; blocks are counted through, root
    by root. A block that gives away m of its n - 1 deliveries makes n - 1 - m itself: to its relays in their
    order as far as they go, then to the next children after the root. A relay that is left is the first
    delivery of the relay before it. Relays then make their other deliveries, as many as each is given, to the
    other children in the order that starts after the root.

    Deliveries leave child x by exit units in order: those of its own blocks, then those that it makes as a
    relay, in the order of the relay rows. Blocks enter it by entry units in order, without its own. Tree a of
    a block takes the a-th of g units.

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

    Notes
    -----
    Source: docs/algorithms/decomposition.md, theorem 13.
    """

    native_units: Int64Array
    block: int
    relay_root: Int32Array
    relay_block: Int64Array
    relay_child: Int32Array
    relay_count: Int64Array

    def __post_init__(self) -> None:
        what = "relay exchange"
        freeze(
            self,
            what,
            {
                "native_units": (np.int64, 1),
                "relay_root": (np.int32, 1),
                "relay_block": (np.int64, 1),
                "relay_child": (np.int32, 1),
                "relay_count": (np.int64, 1),
            },
        )
        n, g = len(self.native_units), self.block
        if type(g) is not int or g < 1 or n < 2 or np.any(self.native_units % g):
            raise ScheduleError(f"{what}: {n} children with blocks of {g} unit trees make no exchange")
        check_range(what, "native_units", self.native_units, 0, UNIT_LIMIT)
        check_sum(what, "native_units", self.native_units, UNIT_LIMIT // n)
        self._check_columns(what, n)
        self._check_relays(what, n)
        self._check_totals(what, "in", self.native_units.sum() - self.native_units)
        self._check_totals(what, "out", (self._own_deliveries + self._duties) * g)

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
        if np.any(self._given_by_row[self._last_row] - self._given_by_row[self._first_row] > n - 2):
            raise ScheduleError(f"{what}: a block gives away more than n - 2 = {n - 2} deliveries")

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        return self.native_units

    @cached_property
    def _blocks(self) -> Int64Array:
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
    def _given_by_row(self) -> Int64Array:
        """Deliveries given away by all rows before each, shape (s + 1,)."""
        return np.concatenate([[0], np.cumsum(self.relay_count)]).astype(np.int64)

    @cached_property
    def _root_row(self) -> Int64Array:
        """First row of each root, shape (n + 1,)."""
        return np.searchsorted(self.relay_root, np.arange(self.n_children + 1))

    @cached_property
    def _own_deliveries(self) -> Int64Array:
        """Deliveries that each child's own blocks make, shape (n,)."""
        return self._blocks * (self.n_children - 1) - np.diff(self._given_by_row[self._root_row])

    @cached_property
    def _duties(self) -> Int64Array:
        """Deliveries that each child makes as a relay, shape (n,)."""
        duties = np.zeros(self.n_children, dtype=np.int64)
        np.add.at(duties, self.relay_child, self.relay_count)
        return duties

    @cached_property
    def _duty_start(self) -> Int64Array:
        """The relay's exit delivery that each row begins with, shape (s,)."""
        order = np.argsort(self.relay_child, kind="stable")
        count = self.relay_count[order]
        before = np.cumsum(count) - count
        child = self.relay_child[order]
        start = np.empty(len(order), dtype=np.int64)
        start[order] = before - before[np.searchsorted(child, child)] + self._own_deliveries[child]
        return start

    def rows(self, roots: Int64Array, units: Int64Array) -> TreeRows:
        """See `PieceTrees.rows`."""
        check_roots("relay exchange", roots, units, self.native_units)
        n, g = self.n_children, self.block
        number, within = np.divmod(units, g)
        parent, delivery = self._deliveries(roots, number)
        block = (self._before[roots] + number)[:, None]
        arrival = block - np.where(roots[:, None] > np.arange(n), self._blocks, 0)
        is_root = parent < 0
        entries = np.where(is_root, 0, arrival * g + within[:, None])
        return self._rows(parent, delivery * g + within[:, None], entries, g - within)

    def _deliveries(self, roots: Int64Array, number: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Supplier of each child and which of its deliveries that is, for some blocks, shape (q, n)."""
        n, q = self.n_children, len(roots)
        block = self._before[roots] + number
        low = np.searchsorted(self._relay_block, block)
        high = np.searchsorted(self._relay_block, block, side="right")
        given, count = self._given_by_row[high] - self._given_by_row[low], high - low
        direct = n - 1 - given
        start = number * (n - 1) - (self._given_by_row[low] - self._given_by_row[self._root_row[roots]])
        # rows of relays of these blocks, and each one's place among its block's
        row, of = ragged(low, count), np.repeat(np.arange(q), count)
        place = np.arange(len(row)) - (np.cumsum(count) - count)[of]
        relay = self.relay_child[row].astype(np.int64)
        feeds = (place + 1 < count[of]) & (place + 1 >= direct[of])
        parent = np.full((q, n), -1, dtype=np.int64)
        delivery = np.zeros((q, n), dtype=np.int64)
        is_fed = place >= direct[of]
        before = np.maximum(np.arange(len(row)) - 1, 0)
        parent[of, relay] = np.where(is_fed, relay[before], roots[of]) if len(row) else roots[of]
        delivery[of, relay] = (
            np.where(is_fed, self._duty_start[row[before]], start[of] + place) if len(row) else place
        )
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

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `PieceTrees.owners`."""
        child, unit, is_owned = self._entry_units(links, offsets)
        arrival, within = np.divmod(unit, self.block)
        block = arrival + np.where(arrival >= self._before[child], self._blocks[child], 0)
        root = np.searchsorted(self._before, block, side="right") - 1
        unit = (block - self._before[root]) * self.block + within
        return np.where(is_owned, root, -1).astype(np.int32), np.where(is_owned, unit, -1)
