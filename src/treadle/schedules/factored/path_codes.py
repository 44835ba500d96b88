"""Numbers for the paths of a factored forest: a piece's own path, and the crossings at its two ends."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, Int64Array, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.factored.checks import UNIT_LIMIT
from treadle.schedules.factored.index import Borders, LayerIndex, Pool
from treadle.schedules.factored.piece_trees import ragged


class PathCodes:
    """Paths between ranks in one layer, numbered without a table.

    A path is the own path q of a piece, continued at its ends by row x of the exits and row e of the
    entrances of the slots that q starts and ends with, counted from 1; 0 where that end is a rank. With X and
    E more than the rows of any slot, path q of a piece is ``first number of the piece + (q X + x) E + e``.
    """

    def __init__(self, index: LayerIndex) -> None:
        self._index = index
        layer = index.layer
        self._exit_radix = int(np.diff(index.exits.slot_row).max(initial=0)) + 1
        self._entry_radix = int(np.diff(index.entrances.slot_row).max(initial=0)) + 1
        width = self._exit_radix * self._entry_radix
        counts = [piece.trees.n_paths * width for piece in layer.pieces]
        sizes = np.bincount(layer.kind, minlength=len(counts)).tolist()
        self.n_codes = sum(size * count for size, count in zip(sizes, counts, strict=True))
        if self.n_codes >= UNIT_LIMIT:
            raise ScheduleError("factored forest: the pieces have 2**61 or more paths")
        of_piece = np.array(counts, dtype=np.int64)[layer.kind]
        self._first = np.cumsum(of_piece) - of_piece

    def encode(
        self, piece: Int64Array, path: Int64Array, exit_row: Int64Array, entry_row: Int64Array
    ) -> Int64Array:
        """Numbers of paths; -1 for the row of an end that is a rank."""
        x = _from_slot(self._index.exits, exit_row)
        e = _from_slot(self._index.entrances, entry_row)
        return self._first[piece] + (path * self._exit_radix + x) * self._entry_radix + e

    def decode(self, numbers: Int64Array, *, backwards: bool) -> tuple[Int64Array, Int32Array]:
        """Lengths of paths, and the links of all of them in the order the data takes them."""
        index, layer = self._index, self._index.layer
        piece = np.searchsorted(self._first, numbers, side="right") - 1
        rest, e = np.divmod(numbers - self._first[piece], self._entry_radix)
        path, x = np.divmod(rest, self._exit_radix)
        ends = np.zeros((2, len(numbers)), dtype=np.int64)
        own: list[Int64Array] = []
        own_piece, own_length = [], []
        for kind in np.unique(layer.kind[piece]).tolist():
            mine = np.flatnonzero(layer.kind[piece] == kind)
            offsets, links = layer.pieces[kind].trees.path_links(path[mine])
            ends[0, mine], ends[1, mine] = links[offsets[:-1]], links[offsets[1:] - 1]
            own.append(layer.link_offset[piece[mine]].repeat(np.diff(offsets)) + links)
            own_piece.append(mine)
            own_length.append(np.diff(offsets))
        slots = layer.link_offset[piece] + ends
        exits = self._end_row(index.exits, index.exit_slot, slots[0], x)
        entries = self._end_row(index.entrances, index.entrance_slot, slots[1], e)
        segments = _Segments()
        for i, lengths, links in zip(own_piece, own_length, own, strict=True):
            segments.add(i, np.zeros(len(i), dtype=np.int64), lengths, links)
        self._add_chain(segments, index.exits, index.exit_pool, exits, step=-1)
        self._add_chain(segments, index.entrances, index.entrance_pool, entries, step=1)
        lengths, order = segments.collect(len(numbers), backwards=backwards)
        return lengths, layer.links[order]

    def _end_row(
        self, borders: Borders, inner_slot: Int64Array, slot: Int64Array, digit: Int64Array
    ) -> Int64Array:
        inner = inner_slot[slot] if len(inner_slot) else slot
        first = borders.slot_row[inner]
        is_bad = (digit > 0) & ((inner < 0) | (first + digit > borders.slot_row[inner + 1]))
        if is_bad.any():
            raise ScheduleError("factored forest: no tree takes a path of this number")
        return np.where(digit > 0, first + digit - 1, -1)

    def _add_chain(
        self, segments: _Segments, borders: Borders, pool: Pool, row: Int64Array, *, step: int
    ) -> None:
        """The crossing paths at one end, border by border inwards, without the links that they share."""
        layer = self._index.layer
        path, place = np.arange(len(row)), 0
        while True:
            deep = np.flatnonzero(row >= 0)
            if not len(deep):
                return
            path, row = path[deep], row[deep]
            place += step
            crossing = borders.row[row]
            lengths = pool.path_length[crossing] - 1
            starts = pool.path_start[crossing] + (1 if step > 0 else 0)
            local = pool.path_links[ragged(starts, lengths)]
            base = layer.link_offset[self._index.piece_of_slot[borders.slot[row]]]
            segments.add(path, np.full(len(path), place), lengths, np.repeat(base, lengths) + local)
            row = borders.inner[row]


def _from_slot(borders: Borders, row: Int64Array) -> Int64Array:
    """Rows as counted from 1 within their slot; 0 for -1."""
    if not len(borders.slot):
        return np.zeros(len(row), dtype=np.int64)
    return np.where(row >= 0, row - borders.slot_row[borders.slot[row]] + 1, 0)


class _Segments:
    """Parts of paths, to be put in order."""

    def __init__(self) -> None:
        self._path: list[Int64Array] = []
        self._place: list[Int64Array] = []
        self._length: list[Int64Array] = []
        self._slots: list[Int64Array] = []

    def add(self, path: Int64Array, place: Int64Array, length: Int64Array, slots: Int64Array) -> None:
        """Segments of some paths: their places along the path, their lengths, the slots of all of them."""
        self._path.append(path)
        self._place.append(place)
        self._length.append(length)
        self._slots.append(slots)

    def collect(self, n_paths: int, *, backwards: bool) -> tuple[Int64Array, Int64Array]:
        """Lengths of the paths, and the slots of all of them in order."""
        none = np.zeros(0, dtype=np.int64)
        path, place = np.concatenate([none, *self._path]), np.concatenate([none, *self._place])
        length, slots = np.concatenate([none, *self._length]), np.concatenate([none, *self._slots])
        start = np.cumsum(length) - length
        order = np.lexsort((place, path))
        taken = slots[ragged(start[order], length[order])]
        total = sums_of(n_paths, path, length)
        if backwards:
            ends = np.cumsum(total)
            within = np.arange(len(taken)) - np.repeat(ends - total, total)
            taken = taken[np.repeat(ends, total) - 1 - within]
        return total, taken
