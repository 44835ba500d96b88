"""Lookups over all pieces of a layer: which rank a capacity unit of a crossing link leads to, or comes from.

A *slot* is a (piece, local link) pair: an entry of ``Layer.links``. Borders nest, so a unit may cross
several; the tables here follow it to the rank at its end, for all pieces at once, level by level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of, positions_of
from treadle.errors import ScheduleError
from treadle.schedules.factored.layers import Crossings, Layer
from treadle.schedules.factored.subproblem_trees import ragged

_MAX_ROWS = 2**27  # rows of a table of borders: hostile files could ask for any number


@dataclass(frozen=True, eq=False)
class Pool:
    """The crossings of all kinds in one table: rows of kind k are offset[k] to offset[k + 1]."""

    offset: Int64Array
    link: Int64Array
    first: Int64Array  # capacity unit at the border
    units: Int64Array
    child: Int64Array
    inner: Int64Array
    inner_link: Int64Array  # the path's link at the child
    root_unit: Int64Array
    path_start: Int64Array
    path_length: Int64Array
    path_links: Int64Array


def pool_of(tables: list[Crossings], *, inwards: bool) -> Pool:
    """Put crossings of all kinds into one table; `inwards` tells entrances from exits."""
    starts, lengths, ends = [], [], []
    before = 0
    for rows in tables:
        begin, end = rows.path_offset[rows.path], rows.path_offset[1:][rows.path]
        starts.append(begin + before)
        lengths.append(end - begin)
        ends.append(rows.path_links[end - 1 if inwards else begin])
        before += len(rows.path_links)
    return Pool(
        offset=offsets_of([len(rows.link) for rows in tables]),
        link=_joined([rows.link for rows in tables]),
        first=_joined([rows.offset for rows in tables]),
        units=_joined([rows.units for rows in tables]),
        child=_joined([rows.child for rows in tables]),
        inner=_joined([rows.inner for rows in tables]),
        inner_link=_joined(ends),
        root_unit=_joined([rows.root_unit for rows in tables]),
        path_start=_joined(starts),
        path_length=_joined(lengths),
        path_links=_joined([rows.path_links for rows in tables]),
    )


def _joined(columns: list[Int64Array] | list[Int32Array]) -> Int64Array:
    return np.concatenate([np.zeros(0, dtype=np.int64), *columns]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Boundaries:
    """Runs of capacity units at the borders of all pieces, followed to their ranks; sorted by (slot, first).

    Parameters
    ----------
    slot, first, units : arrays of int64, shape (f,)
        Capacity units first, ..., first + units - 1 of the slot.
    rank : array of int64
        That they lead to (entrances) or come from (exits).
    row : array of int64
        Row of the `Pool` that they are part of.
    inner : array of int64
        Row of this table of the child that the pool's row leads to; -1 if that is a rank.
    skip : array of int64
        Place of `first` among the units of row `inner`.
    slot_row : array of int64, shape (slots + 1,)
        First row of each slot.
    key : array of int64
        Capacity units of all slots before, plus `first`: rises.
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


class LayerIndex:
    """Where everything of a layer is."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        p, n_slots = layer.n_subproblems, len(layer.links)
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
        n_ranks = int(is_rank.sum())
        self.piece_of_rank = np.zeros(n_ranks, dtype=np.int64)
        self.child_of_rank = np.zeros(n_ranks, dtype=np.int64)
        self.piece_of_rank[layer.children[is_rank]] = around[is_rank]
        self.child_of_rank[layer.children[is_rank]] = within[is_rank]
        self.child_of_piece = np.zeros(p, dtype=np.int64)
        self.child_of_piece[~layer.children[~is_rank]] = within[~is_rank]
        self.levels = _levels(layer.outer)
        self.entrance_pool = pool_of([piece.entrances for piece in layer.pieces], inwards=True)
        self.exit_pool = pool_of([piece.exits for piece in layer.pieces], inwards=False)
        self.entrances = self._borders(self.entrance_pool)
        self.exits = self._borders(self.exit_pool)
        self.entrance_slot = self._slots_within(self.entrances, n_slots)
        self.exit_slot = self._slots_within(self.exits, n_slots)

    def find_slots(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """Slot of each (piece, link of the fabric), -1 where the piece does not have the link."""
        if not len(self._slot_key):
            return np.full(len(links), -1, dtype=np.int64)
        wanted = pieces * self._link_radix + links
        at = np.minimum(np.searchsorted(self._slot_key, wanted), len(self._slot_key) - 1)
        return np.where(self._slot_key[at] == wanted, at, -1)

    def find_rows(self, borders: Boundaries, slots: Int64Array, units: Int64Array) -> Int64Array:
        """Row of the borders that holds each capacity unit of a slot, -1 where none does."""
        if not len(borders.slot):
            return np.full(len(slots), -1, dtype=np.int64)
        is_unit = (slots >= 0) & (units >= 0) & (units < self.capacity[slots])
        row = (
            np.searchsorted(borders.key, self._unit_base[slots] + np.where(is_unit, units, 0), side="right")
            - 1
        )
        is_held = is_unit & (borders.slot[row] == slots) & (units - borders.first[row] < borders.units[row])
        return np.where(is_held, row, -1)

    def _borders(self, pool: Pool) -> Boundaries:
        """Follow all crossings, the innermost pieces first."""
        found = self._sorted([np.zeros(0, dtype=np.int64) for _ in range(7)])
        total = 0
        parts: list[list[Int64Array]] = []
        for pieces in reversed(self.levels[1:]):
            columns = self._follow(pool, pieces, found)
            total += len(columns[0])
            if total > _MAX_ROWS:
                raise ScheduleError(f"layer: more than {_MAX_ROWS} runs of units at borders")
            found = self._sorted(columns)
            parts.append(
                [found.slot, found.first, found.units, found.rank, found.row, found.inner, found.skip]
            )
        # rows of a level point into the level inside, which stands just before it
        starts = offsets_of([len(part[0]) for part in parts])
        columns = [
            np.concatenate([np.zeros(0, dtype=np.int64), *column]) for column in zip(*parts, strict=True)
        ]
        if not columns:
            return found
        shift = np.repeat(np.concatenate([[0], starts[:-2]]), np.diff(starts))
        columns[5] = np.where(columns[5] >= 0, columns[5] + shift, -1)
        order = self._order(columns[0], columns[1])
        place = positions_of(len(order), order)
        columns[5] = np.where(columns[5] >= 0, place[columns[5]], -1)
        return self._sorted(columns)

    def _order(self, slot: Int64Array, first: Int64Array) -> Int64Array:
        return np.argsort(self._unit_base[slot] + first, kind="stable")

    def _sorted(self, columns: list[Int64Array]) -> Boundaries:
        order = self._order(columns[0], columns[1])
        slot, first, units, rank, row, inner, skip = (column[order] for column in columns)
        counts = np.bincount(slot, minlength=len(self.capacity))
        return Boundaries(
            slot=slot,
            first=first,
            units=units,
            rank=rank,
            row=row,
            inner=inner,
            skip=skip,
            slot_row=offsets_of(counts),
            key=self._unit_base[slot] + first,
        )

    def _follow(self, pool: Pool, pieces: Int64Array, found: Boundaries) -> list[Int64Array]:
        """Border rows of some pieces of a level, by those of the level inside."""
        layer = self.layer
        kind = layer.kind[pieces]
        counts = pool.offset[kind + 1] - pool.offset[kind]
        piece = np.repeat(pieces, counts)
        row = ragged(pool.offset[kind], counts)
        slot = layer.link_offset[piece] + pool.link[row]
        child = layer.children[layer.child_offset[piece] + pool.child[row]].astype(np.int64)
        here = np.flatnonzero(child >= 0)
        nothing = np.full(len(here), -1, dtype=np.int64)
        direct = [slot[here], pool.first[row[here]], pool.units[row[here]], child[here], row[here], nothing]
        deep = np.flatnonzero(child < 0)
        deep_row = row[deep]
        link = layer.links[layer.link_offset[piece[deep]] + pool.inner_link[deep_row]].astype(np.int64)
        inner_slot = self.find_slots(~child[deep], link)
        begin = pool.inner[deep_row]
        end = begin + pool.units[deep_row]
        known = np.maximum(inner_slot, 0)
        base = self._unit_base[known] if len(known) else known
        low = np.searchsorted(found.key, base + begin, side="right") - 1
        low = np.maximum(low, found.slot_row[known]) if len(known) else low
        high = (
            np.minimum(np.searchsorted(found.key, base + end), found.slot_row[known + 1])
            if len(known)
            else low
        )
        pairs = np.where(inner_slot >= 0, np.maximum(high - low, 0), 0)
        if int(pairs.sum()) > _MAX_ROWS:
            raise ScheduleError(f"layer: more than {_MAX_ROWS} runs of units at borders")
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
        direct.append(np.zeros(len(here), dtype=np.int64))
        return [np.concatenate([one, other]) for one, other in zip(direct, nested, strict=True)]

    def _slots_within(self, borders: Boundaries, n_slots: int) -> Int64Array:
        """For each slot of a piece the slot of the same link in the child whose border it crosses, or -1."""
        result = np.full(n_slots, -1, dtype=np.int64)
        inner = np.unique(borders.slot)
        around = self.find_slots(
            self.layer.outer[self.piece_of_slot[inner]].astype(np.int64),
            self.layer.links[inner].astype(np.int64),
        )
        result[around[around >= 0]] = inner[around >= 0]
        return result


def _levels(outer: Int32Array) -> list[Int64Array]:
    """Pieces by depth, the outermost first."""
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
