"""A bound on the height of factored forests: hops from a root to the farthest rank, piece by piece.

An edge between two pieces starts at the rank that supplies it, which may lie deeper in its piece than the
rank by which the tree came in: the *delay* of the edge. It depends on the tree that the edge's tree is in
that piece, and on the unit by which the edge leaves. Tables are followed row by row: of a run of unit trees
each edge counts with its worst unit. The bound is the height where the units of a run are alike, no tree of
an exchange is late at both ends, and pieces of pieces supply at once; else it may be some hops higher.

Shares no code with the generators or the expansion; `treadle.schedules.verify` is the way in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.schedules.factored import CirculantExchange, ExchangeColumns, Layer, Piece, TableTrees
from treadle.schedules.verify_factored_exchanges import exchange_depth
from treadle.schedules.verify_factored_runs import Overlay, RunTable

_MAX_CELLS = 2**22  # larger tables of pieces, and roots with more trees, count with their worst delay


@dataclass(frozen=True, eq=False)
class _Hops:
    """Hops within a piece, from the rank by which a tree enters it.

    Parameters
    ----------
    piece : Piece
    depth : array of int64, shape (s, n)
        To where the trees of each row enter each child; (0, n) if the trees are no table.
    reach : array of int64, shape (s,)
        To the farthest rank.
    supply : array of int64, shape (s, n)
        To any rank of each child that supplies what leaves the piece.
    farthest, entered, latest : int
        Most of `reach`, the same for trees that come from outside, and most of `supply` over the children
        that exits name.
    """

    piece: Piece
    depth: Int64Array
    reach: Int64Array
    supply: Int64Array
    farthest: int
    entered: int
    latest: int

    @cached_property
    def rows(self) -> RunTable:
        """Rows of the table by root and unit."""
        trees = self.piece.trees
        assert isinstance(trees, TableTrees)
        return RunTable(trees.root, _first_units(trees), trees.units)

    @cached_property
    def entrances(self) -> RunTable:
        """Entrances by link and capacity unit."""
        rows = self.piece.entrances
        return RunTable(rows.link, rows.offset, rows.units)

    @cached_property
    def exits(self) -> RunTable:
        """Exits by link and capacity unit."""
        rows = self.piece.exits
        return RunTable(rows.link, rows.offset, rows.units)


def height_bound(layer: Layer) -> int:
    """No tree of a correct layer is higher."""
    return _LayerHeight(layer).run()


class _LayerHeight:
    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._known: dict[tuple[int, bytes], int] = {}
        self._hops: list[_Hops] = []
        self._class = np.full(layer.n_pieces, -1, dtype=np.int64)

    def run(self) -> int:
        """Pieces from the inside out; equal ones once."""
        layer = self._layer
        is_outer = np.zeros(layer.n_pieces, dtype=bool)
        is_outer[layer.outer[1:]] = True
        for kind in np.unique(layer.kind[~is_outer]).tolist():
            self._hops.append(self._study(int(np.flatnonzero((layer.kind == kind) & ~is_outer)[0])))
            self._class[(layer.kind == kind) & ~is_outer] = len(self._hops) - 1
        # pieces inside have greater numbers
        for number in np.flatnonzero(is_outer)[::-1].tolist():
            key = (int(layer.kind[number]), self._signature(number))
            if key not in self._known:
                self._hops.append(self._study(number))
                self._known[key] = len(self._hops) - 1
            self._class[number] = self._known[key]
        return self._hops[int(self._class[0])].farthest

    def _children(self, number: int) -> Int64Array:
        span = slice(int(self._layer.child_offset[number]), int(self._layer.child_offset[number + 1]))
        return self._layer.children[span].astype(np.int64)

    def _links(self, number: int) -> Int64Array:
        span = slice(int(self._layer.link_offset[number]), int(self._layer.link_offset[number + 1]))
        return self._layer.links[span].astype(np.int64)

    def _signature(self, number: int) -> bytes:
        """What the hops of a piece depend on besides its kind."""
        codes = self._children(number)
        inner = ~codes[codes < 0]
        links = self._links(number)
        parts = [np.searchsorted(links, self._links(one)) for one in inner.tolist()] if number else []
        return b"".join(part.tobytes() for part in (codes < 0, self._class[inner], *parts))

    def _study(self, number: int) -> _Hops:
        piece = self._layer.pieces[self._layer.kind[number]]
        codes = self._children(number)
        inner = {c: self._hops[int(self._class[~codes[c]])] for c in np.flatnonzero(codes < 0).tolist()}
        trees = piece.trees
        if isinstance(trees, TableTrees):
            return self._study_table(number, piece, trees, inner)
        none = np.zeros((0, piece.n_children), dtype=np.int64)
        late = max((hops.latest for hops in inner.values()), default=0)
        far = max((hops.farthest for hops in inner.values()), default=0)
        entered = max((hops.entered for hops in inner.values()), default=0)
        if isinstance(trees, CirculantExchange):
            reach = max(far, 1 + self._late(number, trees, inner) + entered)
            return _Hops(piece, none, none[:, 0], none, reach, reach, 1 + 2 * late)
        edges = exchange_depth(trees) if isinstance(trees, ExchangeColumns) else piece.n_children
        reach = max(far, edges * (1 + late) + entered)
        return _Hops(piece, none, none[:, 0], none, reach, reach, edges * (1 + late) + late)

    def _study_table(self, number: int, piece: Piece, trees: TableTrees, inner: dict[int, _Hops]) -> _Hops:
        s, n = trees.parent.shape
        delay, within = np.zeros((s, n), dtype=np.int64), np.zeros((s, n), dtype=np.int64)
        late = np.zeros(n, dtype=np.int64)
        order = np.argsort(trees.parent, axis=None, kind="stable")
        bounds = np.searchsorted(trees.parent.ravel()[order], np.arange(n + 1))
        for child, hops in inner.items():
            late[child] = hops.latest
            rows = np.divmod(order[bounds[child] : bounds[child + 1]], n)
            if not len(hops.depth) or s * n > _MAX_CELLS:
                delay[rows], within[:, child] = hops.latest, hops.farthest
                continue
            states = self._states(number, piece, trees, child, hops)
            np.maximum.at(within[:, child], states.query, hops.reach[states.row])
            self._add_delays(number, trees, child, hops, states, delay, rows)
        above = np.where(trees.parent < 0, np.arange(n), trees.parent).astype(np.int64)
        depth = np.where(trees.parent < 0, 0, 1 + delay)
        for _ in range(n.bit_length()):
            depth = depth + np.take_along_axis(depth, above, axis=1)
            above = np.take_along_axis(above, above, axis=1)
        reach = (depth + within).max(axis=1, initial=0)
        suppliers = np.unique(piece.exits.child)
        latest = (depth + late)[:, suppliers].max(initial=0)
        comes_in = _first_units(trees) + trees.units > piece.native[trees.root]
        farthest, entered = (int(some.max(initial=0)) for some in (reach, reach[comes_in]))
        return _Hops(piece, depth, reach, depth + late, farthest, entered, int(latest))

    def _add_delays(
        self,
        number: int,
        trees: TableTrees,
        child: int,
        hops: _Hops,
        states: Overlay,
        delay: Int64Array,
        edges: tuple[Int64Array, Int64Array],
    ) -> None:
        """Delays of the edges that leave a piece: its supplier at each unit, in the tree it is in there."""
        row, target = edges
        link = trees.path_table[trees.path_offset[trees.path[row, target]]]
        exits = hops.piece.exits
        local = self._inner_links(number, child, link)
        left = hops.exits.overlay(local, trees.first[row, target], trees.units[row])
        table = RunTable(states.query, states.skip, states.units)
        met = table.overlay(row[left.query], left.skip, left.units)
        edge = left.query[met.query]
        supplier = exits.child[left.row[met.query]]
        hop = hops.supply[states.row[met.row], supplier]
        np.maximum.at(delay, (row[edge], target[edge]), hop)

    def _inner_links(self, number: int, child: int, links: Int64Array | Int32Array) -> Int64Array:
        """Local numbers in a child of local links of the piece around it."""
        inner = int(~self._children(number)[child])
        return np.searchsorted(self._links(inner), self._links(number)[links])

    def _states(self, number: int, piece: Piece, trees: TableTrees, child: int, hops: _Hops) -> Overlay:
        """Rows of a child's table that go on with each row (`query`) of the piece's."""
        is_root = trees.root == child
        other = np.flatnonzero(~is_root)
        link = trees.path_table[trees.path_offset[1:][trees.path[other, child]] - 1]
        entered = self._enter(number, child, hops, link, trees.last[other, child], trees.units[other])
        mine = np.flatnonzero(is_root)
        first = np.cumsum(trees.units[mine]) - trees.units[mine]
        rows = piece.entrances
        led = np.flatnonzero(rows.child == child)
        zero = np.zeros(len(led), dtype=np.int64)
        outside = RunTable(zero, rows.root_unit[led], rows.units[led]).overlay(
            np.zeros(len(mine), dtype=np.int64), first, trees.units[mine]
        )
        crossing = led[outside.row]
        ends = rows.path_links[rows.path_offset[1:][rows.path[crossing]] - 1]
        deep = self._enter(number, child, hops, ends, rows.inner[crossing] + outside.place, outside.units)
        native = np.minimum(trees.units[mine], np.maximum(int(piece.native[child]) - first, 0))
        own = _native_rows(hops, first, native)
        return _chained(
            (_moved(entered, other[entered.query], np.zeros(len(entered.query), dtype=np.int64))),
            (_moved(deep, mine[outside.query[deep.query]], outside.skip[deep.query])),
            (_moved(own, mine[own.query], np.zeros(len(own.query), dtype=np.int64))),
        )

    def _enter(
        self,
        number: int,
        child: int,
        hops: _Hops,
        links: Int64Array | Int32Array,
        first: Int64Array,
        units: Int64Array,
    ) -> Overlay:
        """Rows of a child's table that go on from units of links into it."""
        rows = hops.piece.entrances
        met = hops.entrances.overlay(self._inner_links(number, child, links), first, units)
        found = hops.rows.overlay(rows.child[met.row], rows.root_unit[met.row] + met.place, met.units)
        return _moved(found, met.query[found.query], met.skip[found.query])

    def _late(self, number: int, trees: CirculantExchange, inner: dict[int, _Hops]) -> int:
        """Most delay of an exchange's edges, which all start at the roots."""
        children = np.array(list(inner), dtype=np.int64)
        if not len(children):
            return 0
        pieces = ~self._children(number)[children]
        links = self._links(number)[trees.out_links[children]]
        local = self._slots_of(np.broadcast_to(pieces[:, None], links.shape), links)
        begin, end = trees.out_first[children, :-1], trees.out_first[children, 1:]
        columns = [self._class[pieces][:, None], local, begin, end, trees.out_offset[children]]
        width = local.shape[1]
        most = 0
        for row in np.unique(np.concatenate(columns, axis=1), axis=0):
            hops = self._hops[int(row[0])]
            if not len(hops.depth) or trees.native_units > _MAX_CELLS:
                most = max(most, hops.latest)
            else:
                runs = row[1:].reshape(4, width)
                most = max(most, _native_delay(hops, trees, runs[:3], runs[3]))
        return most

    def _slots_of(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """Local numbers in pieces of links of the fabric."""
        layer = self._layer
        radix = int(layer.links.max(initial=0)) + 1
        keys = np.repeat(np.arange(layer.n_pieces), np.diff(layer.link_offset)) * radix + layer.links
        return np.searchsorted(keys, pieces * radix + links) - layer.link_offset[pieces]


def _first_units(trees: TableTrees) -> Int64Array:
    """Number of each row's first unit tree among those of its root."""
    before = np.cumsum(trees.units) - trees.units
    first: Int64Array = before - before[np.searchsorted(trees.root, trees.root)]
    return first


def _native_rows(hops: _Hops, first: Int64Array, units: Int64Array) -> Overlay:
    """Rows of a piece's table that runs of its native unit trees, counted over all children, are."""
    piece = hops.piece
    before = np.cumsum(piece.native) - piece.native
    planted = np.flatnonzero(piece.native)
    zeros = np.zeros(len(planted), dtype=np.int64)
    met = RunTable(zeros, before[planted], piece.native[planted]).overlay(
        np.zeros(len(first), dtype=np.int64), first, units
    )
    found = hops.rows.overlay(planted[met.row], met.place, met.units)
    return _moved(found, met.query[found.query], met.skip[found.query])


def _moved(found: Overlay, query: Int64Array, skip: Int64Array) -> Overlay:
    """An overlay of parts of other runs, as one of these runs."""
    return Overlay(query, skip + found.skip, found.units, found.row, found.place)


def _chained(*parts: Overlay) -> Overlay:
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Overlay(*(np.concatenate(column) for column in columns))


def _native_delay(hops: _Hops, trees: CirculantExchange, columns: Int64Array, offset: Int64Array) -> int:
    """Most hops from a root to what supplies the edges out of its piece.

    `columns` are local links of the piece, the first exit units that they hold and the ends of those. A block
    of unit trees takes a block of exit units, each tree its share of them.
    """
    exits, n, g = hops.piece.exits, trees.n_children, trees.block
    link, begin, end = columns
    met = hops.exits.overlay(link, offset, end - begin)
    low = begin[met.query] + met.skip
    first = low // (g * (n - 1)) * g
    last = ((low + met.units - 1) // (g * (n - 1)) + 1) * g
    found = _native_rows(hops, first, last - first)
    supplier = exits.child[met.row[found.query]]
    return int(hops.supply[found.row, supplier].max(initial=0))
