"""Lookup tables of a component: the rank that a capacity unit of a cut link leads to, or comes from.

A *slot* is a (subproblem, local link) pair: an entry of ``Layer.links``. Boundaries are nested, so a unit may
cross several. The tables follow it to the rank at its end, for all subproblems together, level by level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of, positions_of
from treadle.errors import ScheduleError
from treadle.schedules.factored.layers import Crossings, Layer
from treadle.schedules.factored.subproblem_trees import find_sorted, ragged

_MAX_ROWS = 2**27
"""Largest table of boundaries; hostile files could declare any number of rows."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Cut links of all equivalence classes in one table: rows of class k are offset[k] to offset[k + 1]."""

    offset: Int64Array
    link: Int64Array
    first: Int64Array  # capacity unit at the boundary
    units: Int64Array
    child: Int64Array
    inner: Int64Array
    inner_link: Int64Array  # the path's link at the child
    root_unit: Int64Array
    path_start: Int64Array
    path_length: Int64Array
    path_links: Int64Array


def pool_of(tables: list[Crossings], *, inwards: bool) -> Pool:
    """Put the cut links of all equivalence classes into one table."""
    starts, lengths, ends = [], [], []
    before = 0
    for rows in tables:
        begin, end = rows.path_offset[rows.path], rows.path_offset[1:][rows.path]
        starts.append(begin + before)
        lengths.append(end - begin)
        ends.append(rows.path_links[end - 1 if inwards else begin])
        before += len(rows.path_links)
    keys = ("link", "units", "child", "inner", "root_unit", "path_links")
    return Pool(
        offset=offsets_of([len(rows.link) for rows in tables]),
        first=_joined([rows.offset for rows in tables]),
        inner_link=_joined(ends),
        path_start=_joined(starts),
        path_length=_joined(lengths),
        **{key: _joined([getattr(rows, key) for rows in tables]) for key in keys},
    )


def _joined(columns: list[Int64Array] | list[Int32Array]) -> Int64Array:
    return np.concatenate([np.zeros(0, dtype=np.int64), *columns]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Boundaries:
    """Runs of capacity units at the boundaries of all subproblems, with their ranks; by (slot, first).

    Parameters
    ----------
    slot, first, units : arrays of int64, shape (f,)
        Capacity units first, ..., first + units - 1 of the slot.
    rank : array of int64
        Rank that they lead to (`entrances`) or come from (`exits`).
    row : array of int64
        Row of the pool that they are part of.
    inner : array of int64
        Row of this table, for the child that the pool's row leads to; -1 if that is a rank.
    skip : array of int64
        Offset of `first` among the units of row `inner`.
    slot_row : array of int64, shape (slots + 1,)
        First row of each slot.
    key : array of int64
        Capacity units of all slots before, plus `first`: rises.
    pool : Pool
    inner_slot : array of int64, shape (slots,)
        Slot of the same link in the child whose boundary it crosses; -1 without one.
    """

    slot: Int64Array
    first: Int64Array
    units: Int64Array
    rank: Int64Array
    row: Int64Array
    inner: Int64Array
    skip: Int64Array
    slot_row: Int64Array
    key: Int64Array
    pool: Pool
    inner_slot: Int64Array


class LayerIndex:
    """Positions of all links, children, ranks and boundary units of a component."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        p = layer.n_subproblems
        sizes = np.diff(layer.link_offset)
        self.piece_of_slot = np.repeat(np.arange(p), sizes)
        self._link_radix = int(layer.links.max(initial=0)) + 1
        self._slot_key = self.piece_of_slot * self._link_radix + layer.links
        capacity = [piece.capacity for piece in layer.pieces]
        kind_offset = offsets_of([*map(len, capacity)])[:-1]
        self.capacity = _joined(capacity)[ragged(kind_offset[layer.kind], sizes)]
        self._unit_base = np.cumsum(self.capacity) - self.capacity
        self.native = _joined([piece.native for piece in layer.pieces])
        self.native_before = np.cumsum(self.native) - self.native
        self.child_base = offsets_of([piece.n_children for piece in layer.pieces])
        around = np.repeat(np.arange(p), np.diff(layer.child_offset))
        within = np.arange(len(layer.children)) - layer.child_offset[around]
        is_rank = layer.children >= 0
        order = np.argsort(layer.children[is_rank])
        self.piece_of_rank, self.child_of_rank = around[is_rank][order], within[is_rank][order]
        self.child_of_piece = np.zeros(p, dtype=np.int64)
        self.child_of_piece[~layer.children[~is_rank]] = within[~is_rank]
        self.levels = _levels(layer.outer)
        self.entrances = self._borders(pool_of([piece.entrances for piece in layer.pieces], inwards=True))
        self.exits = self._borders(pool_of([piece.exits for piece in layer.pieces], inwards=False))

    def _find_slots(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """Return the slot of each (subproblem, link of the fabric); -1 where it does not have the link."""
        return find_sorted(self._slot_key, pieces * self._link_radix + links)

    def find_rows(self, borders: Boundaries, slots: Int64Array, units: Int64Array) -> Int64Array:
        """Return the boundary row that holds each capacity unit of a slot; -1 where none does."""
        if not len(borders.slot):
            return np.full(len(slots), -1, dtype=np.int64)
        is_unit = (slots >= 0) & (units >= 0) & (units < self.capacity[slots])
        keys = self._unit_base[slots] + np.where(is_unit, units, 0)
        row = np.searchsorted(borders.key, keys, side="right") - 1
        is_held = is_unit & (borders.slot[row] == slots) & (units - borders.first[row] < borders.units[row])
        return np.where(is_held, row, -1)

    def find_child_rows(
        self, borders: Boundaries, slots: Int64Array, pieces: Int64Array, units: Int64Array
    ) -> Int64Array:
        """Return the row of each unit at the boundary of a child that is a subproblem; -1 where none is.

        `slots` are those of the subproblem around it.
        """
        inner = borders.inner_slot[slots]
        is_open = (inner >= 0) & (self.piece_of_slot[inner] == pieces)
        return self.find_rows(borders, np.where(is_open, inner, -1), units)

    def _borders(self, pool: Pool) -> Boundaries:
        """Follow all cut links, those of the innermost subproblems first."""
        found = self._table(np.zeros((7, 0), dtype=np.int64), pool)
        parts: list[Int64Array] = []
        n_rows = 0
        for pieces in reversed(self.levels[1:]):
            table = self._follow(pieces, found)
            table = table[:, self._order(table)]
            n_rows += table.shape[1]
            if n_rows > _MAX_ROWS:
                raise ScheduleError(f"component: more than {_MAX_ROWS} runs of units at boundaries")
            parts.append(table)
            found = self._table(table, pool)
        if parts:
            # rows of a level point into the level inside, which comes just before it
            starts = offsets_of([part.shape[1] for part in parts])
            table = np.concatenate(parts, axis=1)
            inner = table[5] + np.repeat(np.concatenate([[0], starts[:-2]]), np.diff(starts))
            order = self._order(table)
            table[5] = np.where(table[5] >= 0, positions_of(len(order), order)[inner], -1)
            found = self._table(table[:, order], pool)
        # slots of children whose boundary a slot crosses
        slots = np.unique(found.slot)
        around = self._find_slots(
            self.layer.outer[self.piece_of_slot[slots]].astype(np.int64),
            self.layer.links[slots].astype(np.int64),
        )
        inner_slot = np.full(len(self.capacity), -1, dtype=np.int64)
        inner_slot[around[around >= 0]] = slots[around >= 0]
        return replace(found, inner_slot=inner_slot)

    def _order(self, table: Int64Array) -> Int64Array:
        return np.argsort(self._unit_base[table[0]] + table[1], kind="stable")

    def _table(self, table: Int64Array, pool: Pool) -> Boundaries:
        """Return the boundaries of a sorted table, without the slots of children."""
        slot, first, units, rank, row, inner, skip = table
        slot_row, key = (
            offsets_of(np.bincount(slot, minlength=len(self.capacity))),
            self._unit_base[slot] + first,
        )
        return Boundaries(slot, first, units, rank, row, inner, skip, slot_row, key, pool, slot[:0])

    def _follow(self, pieces: Int64Array, found: Boundaries) -> Int64Array:
        """Return boundary rows of the subproblems of a level, from those of the level inside."""
        layer, pool = self.layer, found.pool
        kind = layer.kind[pieces]
        counts = pool.offset[kind + 1] - pool.offset[kind]
        piece = np.repeat(pieces, counts)
        row = ragged(pool.offset[kind], counts)
        slot = layer.link_offset[piece] + pool.link[row]
        child = layer.children[layer.child_offset[piece] + pool.child[row]].astype(np.int64)
        here = np.flatnonzero(child >= 0)
        none = np.zeros_like(here)
        direct = [slot[here], pool.first[row[here]], pool.units[row[here]], child[here], row[here], none - 1]
        deep = np.flatnonzero(child < 0)
        deep_row = row[deep]
        link = layer.links[layer.link_offset[piece[deep]] + pool.inner_link[deep_row]].astype(np.int64)
        inner_slot = self._find_slots(~child[deep], link)
        begin = pool.inner[deep_row]
        end = begin + pool.units[deep_row]
        known = np.maximum(inner_slot, 0)
        base = self._unit_base[known]
        low = np.maximum(np.searchsorted(found.key, base + begin, side="right") - 1, found.slot_row[known])
        high = np.minimum(np.searchsorted(found.key, base + end), found.slot_row[known + 1])
        pairs = np.where(inner_slot >= 0, np.maximum(high - low, 0), 0)
        if int(pairs.sum()) > _MAX_ROWS:
            raise ScheduleError(f"component: more than {_MAX_ROWS} runs of units at boundaries")
        source = np.repeat(np.arange(len(deep)), pairs)
        inner = ragged(low, pairs)
        start = np.maximum(begin[source], found.first[inner])
        stop = np.minimum(end[source], found.first[inner] + found.units[inner])
        some = np.flatnonzero(stop > start)
        source, inner, start, stop = source[some], inner[some], start[some], stop[some]
        nested = [
            slot[deep[source]],
            pool.first[deep_row[source]] + start - begin[source],
            stop - start,
            found.rank[inner],
            deep_row[source],
            inner,
            start - found.first[inner],
        ]
        return np.concatenate([np.stack([*direct, none]), np.stack(nested)], axis=1)


def _levels(outer: Int32Array) -> list[Int64Array]:
    """Return the subproblems by depth, the outermost first."""
    levels = [np.zeros(1, dtype=np.int64)]
    order = np.argsort(outer, kind="stable")
    sorted_outer = outer[order]
    while True:
        low = np.searchsorted(sorted_outer, levels[-1])
        high = np.searchsorted(sorted_outer, levels[-1], side="right")
        inner = order[ragged(low, high - low)].astype(np.int64)
        if not len(inner):
            return levels
        levels.append(inner)
