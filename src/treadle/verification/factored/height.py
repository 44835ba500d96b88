"""The height of factored forests: hops from a root to the farthest rank, piece by piece.

An edge between two pieces starts at the rank that supplies it, which may lie deeper in its piece than the
rank by which the tree came in. How much deeper follows from the state of the tree in that piece, and from the
unit by which the edge leaves (`treadle.verification.factored.hops`). So runs of unit trees are cut until
all of a run are alike in every piece inside: then their height is that of one of them. Pieces that are alike
inside are looked at once, and the outermost piece's closed form stands for all its trees
(`treadle.verification.factored.outermost`).

Shares no code with the generators or the expansion; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.schedules.factored import Layer, Subproblem, TableTrees
from treadle.verification.factored.hops import (
    ChildSubproblems,
    Height,
    Hops,
    TreeParts,
    coarse,
    cut_into_states,
    egress_ports,
    moved,
    spread,
)
from treadle.verification.factored.outermost import formula_height
from treadle.verification.factored.runs import Overlay, RunTable

_MAX_CELLS = 2**23  # states times children of one piece; beyond, one state stands for all
_CHUNK_CELLS = 2**19  # unit trees (in runs) times children that are followed together


def forest_height(layers: tuple[Layer, ...]) -> Height:
    """The height of all trees of correct layers: exact, or a bound that says so."""
    found = [_LayerHeight(layer).run() for layer in layers]
    hops = max(one.hops for one in found)
    return Height(hops, any(one.is_exact and one.hops == hops for one in found))


@dataclass(frozen=True, eq=False)
class _States:
    """Some trees of a piece, cut into states; if they are not, `reach` is a bound."""

    row: Int64Array
    skip: Int64Array
    depth: Int32Array
    inner: Int32Array
    reach: Int64Array
    is_cut: bool


class _LayerHeight:
    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._hops: list[Hops] = []
        self._class = np.full(layer.n_subproblems, -1, dtype=np.int64)
        self._radix = int(layer.links.max(initial=0)) + 1
        pieces = np.repeat(np.arange(layer.n_subproblems), np.diff(layer.link_offset))
        self._slot_key = pieces * self._radix + layer.links

    def run(self) -> Height:
        """Pieces from the inside out; equal ones once."""
        layer = self._layer
        is_outer = np.zeros(layer.n_subproblems, dtype=bool)
        is_outer[layer.outer[1:]] = True
        is_outer[0] = True
        for kind in np.unique(layer.kind[~is_outer]).tolist():
            self._hops.append(self._study(int(np.flatnonzero((layer.kind == kind) & ~is_outer)[0])))
            self._class[(layer.kind == kind) & ~is_outer] = len(self._hops) - 1
        known: dict[tuple[int, bytes], int] = {}
        # pieces inside have greater numbers
        for number in np.flatnonzero(is_outer)[:0:-1].tolist():
            key = (int(layer.kind[number]), self._signature(number))
            if key not in known:
                self._hops.append(self._study(number))
                known[key] = len(self._hops) - 1
            self._class[number] = known[key]
        piece = layer.pieces[layer.kind[0]]
        if not isinstance(piece.trees, TableTrees):
            return formula_height(piece, self._pieces(0), self.slots, self._follow)
        states = self._table(0, piece.trees, keep=False)
        is_exact = states.is_cut and all(hops.is_exact for hops in self._pieces(0).hops)
        return Height(int(states.reach.max(initial=0)), is_exact)

    def _pieces(self, number: int) -> ChildSubproblems:
        """The pieces that are children of a piece."""
        span = slice(int(self._layer.child_offset[number]), int(self._layer.child_offset[number + 1]))
        codes = self._layer.children[span].astype(np.int64)
        inner = np.where(codes < 0, ~codes, -1)
        classes = np.where(codes < 0, self._class[inner], -1)
        used, kind = np.unique(classes[codes < 0], return_inverse=True)
        kinds = np.full(len(codes), -1, dtype=np.int64)
        kinds[codes < 0] = kind.ravel()
        start = self._layer.link_offset[number : number + 2]
        links = self._layer.links[int(start[0]) : int(start[1])].astype(np.int64)
        return ChildSubproblems(inner, kinds, tuple(self._hops[one] for one in used.tolist()), links)

    def slots(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """Local numbers in pieces of links of the fabric."""
        return np.searchsorted(self._slot_key, pieces * self._radix + links) - self._layer.link_offset[pieces]

    def _signature(self, number: int) -> bytes:
        """What the hops of a piece depend on besides its kind."""
        inside = self._pieces(number)
        inner = inside.number[inside.number >= 0]
        low, high = self._layer.link_offset[inner], self._layer.link_offset[inner + 1]
        size = high - low
        places = np.arange(size.sum()) + np.repeat(low - (np.cumsum(size) - size), size)
        met = np.searchsorted(inside.links, self._layer.links[places])
        return b"".join(part.tobytes() for part in (inside.number < 0, self._class[inner], size, met))

    def _study(self, number: int) -> Hops:
        """The hops of a piece inside."""
        piece = self._layer.pieces[self._layer.kind[number]]
        inside = self._pieces(number)
        if not isinstance(piece.trees, TableTrees):
            return _guarded(piece, inside)
        states = self._table(number, piece.trees, keep=True)
        if not states.is_cut:
            return _guarded(piece, inside)
        trees = piece.trees
        first = _first_units(trees)[states.row] + states.skip
        ends = np.append(states.skip[1:], 0)
        last = np.append(states.row[1:] != states.row[:-1], True)
        units = np.where(last, trees.units[states.row], ends) - states.skip
        rows = piece.exits
        starts = inside.links[rows.path_links[rows.path_offset[rows.path]]]
        inner = inside.number[rows.child]
        slots = self.slots(np.maximum(inner, 0), starts)
        exits, child, port = egress_ports(rows, inside.hops, inside.kind, slots)
        late = np.array([0, *(hops.latest for hops in inside.hops)])[inside.kind + 1]
        return Hops(
            piece,
            RunTable(trees.root[states.row], first, units),
            states.depth,
            states.inner,
            states.reach,
            inside.hops,
            inside.kind,
            exits,
            child,
            port,
            int((states.depth + late).max(initial=0)),
            is_exact=all(hops.is_exact for hops in inside.hops),
        )

    def _table(self, number: int, trees: TableTrees, *, keep: bool) -> _States:
        """The states of a table, some rows at a time; all but their reach is left out unless to be kept."""
        inside, n = self._pieces(number), trees.parent.shape[1]
        first = _first_units(trees)
        ends = np.zeros((2, max(1, len(trees.path_offset) - 1)), dtype=np.int64)  # links of each path
        if len(trees.path_table):
            ends[0] = inside.links[trees.path_table[trees.path_offset[:-1]]]
            ends[1] = inside.links[trees.path_table[trees.path_offset[1:] - 1]]
        step = max(1, _CHUNK_CELLS // n)
        found, cells = [], 0
        for low in range(0, len(trees.root), step):
            span = slice(low, low + step)
            path = np.maximum(trees.path[span], 0)  # any at the root
            rows = TreeParts(
                trees.root[span].astype(np.int64),
                first[span],
                trees.units[span],
                trees.parent[span].astype(np.int64),
                ends[0][path],
                ends[1][path],
                trees.first[span],
                trees.last[span],
            )
            part = self._follow(number, rows)
            cells += len(part.row) * n
            is_cut = part.is_cut and (not keep or cells <= _MAX_CELLS)
            depth, inner = (part.depth, part.inner) if keep else (part.depth[:0], part.inner[:0])
            found.append(_States(part.row + low, part.skip, depth, inner, part.reach, is_cut))
            if keep and not is_cut:
                break
        keys = ("row", "skip", "depth", "inner", "reach")
        row, skip, depth, inner, reach = (
            np.concatenate([getattr(part, key) for part in found]) for key in keys
        )
        return _States(row, skip, depth, inner, reach, is_cut=all(part.is_cut for part in found))

    def _follow(self, number: int, rows: TreeParts) -> _States:
        """Trees of a piece, cut into states."""
        piece, inside = self._layer.pieces[self._layer.kind[number]], self._pieces(number)
        s, n = rows.parent.shape
        within = [self._states_inside(piece, inside, rows, kind) for kind in range(len(inside.hops))]
        supplied = [self._ports_inside(inside, rows, kind) for kind in range(len(inside.hops))]
        marks = [(cell // n, part.skip) for cell, part in (*within, *supplied)]
        row, skip, keys, levels = cut_into_states(s, marks)
        is_cut = len(row) * n <= max(_MAX_CELLS, s * n)
        if not is_cut:
            row, skip = np.arange(s), np.zeros(s, dtype=np.int64)
        inner = np.full((len(row), n), -1, dtype=np.int32)
        delay, below = np.zeros((2, len(row), n), dtype=np.int64)
        parent = rows.parent[row]
        for kind, hops in enumerate(inside.hops):
            if not is_cut:
                below[:, inside.kind == kind] = hops.reach.max(initial=0)
                delay[inside.kind[parent] == kind] = hops.latest
                continue
            cell, part = within[kind]
            which, at = spread(cell // n, part.skip, part.units, keys, levels)
            inner[at, cell[which] % n] = part.row[which]
            below[at, cell[which] % n] = hops.reach[part.row[which]]
        for kind, hops in enumerate(inside.hops if is_cut else ()):
            cell, part = supplied[kind]
            which, at = spread(cell // n, part.skip, part.units, keys, levels)
            target = cell[which] % n
            state = inner[at, parent[at, target]].astype(np.int64)
            delay[at, target] = hops.supply(state, part.row[which])
        # hops to each child, where an edge takes one and its delay
        above = np.where(parent < 0, np.arange(parent.shape[1]), parent)
        depth = np.where(parent < 0, 0, 1 + delay)
        while (further := np.take_along_axis(depth, above, axis=1)).any():
            depth = depth + further
            above = np.take_along_axis(above, above, axis=1)
        return _States(
            row, skip, depth.astype(np.int32), inner, (depth + below).max(axis=1, initial=0), is_cut
        )

    def _ports_inside(
        self, inside: ChildSubproblems, rows: TreeParts, kind: int
    ) -> tuple[Int64Array, Overlay]:
        """Edges that leave pieces of a kind, as cells of the rows' arrays, and their ports."""
        edge = np.flatnonzero((rows.parent >= 0) & (inside.kind[rows.parent] == kind))
        row, child = np.divmod(edge, rows.parent.shape[1])
        slots = self.slots(inside.number[rows.parent[row, child]], rows.start[row, child])
        met = inside.hops[kind].ports(slots, rows.leaves[row, child], rows.units[row])
        return edge[met.query], met

    def _states_inside(
        self, piece: Subproblem, inside: ChildSubproblems, rows: TreeParts, kind: int
    ) -> tuple[Int64Array, Overlay]:
        """States of pieces of a kind that trees go on with, and the cells of the rows they are for."""
        hops, n = inside.hops[kind], rows.parent.shape[1]
        cell = np.flatnonzero((rows.parent >= 0) & (inside.kind == kind))
        row, child = np.divmod(cell, n)
        slots = self.slots(inside.number[child], rows.end[row, child])
        entered = hops.entered(slots, rows.enters[row, child], rows.units[row])
        mine = np.flatnonzero(inside.kind[rows.root] == kind)
        root, first = rows.root[mine], rows.first[mine]
        here = mine * n + root
        native = np.minimum(rows.units[mine], np.maximum(piece.native[root] - first, 0))
        own = hops.planted(first, native)
        borders = piece.entrances
        met = RunTable(borders.child, borders.root_unit, borders.units).overlay(root, first, rows.units[mine])
        ends = inside.links[borders.path_links[borders.path_offset[1:][borders.path[met.row]] - 1]]
        slots = self.slots(inside.number[root[met.query]], ends)
        deep = moved(hops.entered(slots, borders.inner[met.row] + met.place, met.units), met)
        cells = np.concatenate([cell[entered.query], here[own.query], here[deep.query]])
        columns = zip(*(vars(part).values() for part in (entered, own, deep)), strict=True)
        return cells, Overlay(*(np.concatenate(column) for column in columns))


def _first_units(trees: TableTrees) -> Int64Array:
    """Number of each row's first unit tree among those of its root."""
    before = np.cumsum(trees.units) - trees.units
    first: Int64Array = before - before[np.searchsorted(trees.root, trees.root)]
    return first


def _guarded(piece: Subproblem, inside: ChildSubproblems) -> Hops:
    """Bounds of a piece inside whose trees are not followed: a path passes every child at most once."""
    hops = (piece.n_children - 1) * (1 + inside.latest)
    return coarse(piece, latest=hops + inside.latest, reach=hops + inside.reach)
