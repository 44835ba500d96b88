"""The height of factored forests: hops from a root to the farthest rank, subproblem by subproblem.

An edge between two subproblems starts at the rank that supplies it, which may lie deeper in its subproblem
than the rank by which the tree entered. How much deeper follows from the state of the tree in that subproblem
and from the unit by which the edge leaves (`treadle.verification.factored.hops`). So runs of unit trees are
cut until all trees of a run agree in every subproblem inside: then they have one height. Equivalent
subproblems are studied once, and the formula of the outermost subproblem stands for all its trees
(`treadle.verification.factored.outermost`).

Shares no code with the generators or the expansion. `treadle.verification.schedules.verify` is the entry
point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle.arrays import Int32Array, Int64Array, mask_of, ranges_of
from treadle.schedules.factored import Layer, Subproblem, TableTrees
from treadle.verification.factored.hops import (
    ChildSubproblems,
    Height,
    Hops,
    TreeParts,
    coarse,
    cut_into_states,
    egress_ports,
    spread,
)
from treadle.verification.factored.outermost import formula_height
from treadle.verification.factored.runs import Overlay, RunTable, joined

_MAX_CELLS = 2**23  # states times children of one subproblem; beyond, one state stands for all
_CHUNK_CELLS = 2**19  # runs of unit trees times children that are followed together


def forest_height(layers: tuple[Layer, ...]) -> Height:
    """Return the height of all trees of correct layers, or an upper bound."""
    found = [_LayerHeight(layer).run() for layer in layers]
    hops = max(one.hops for one in found)
    return Height(hops, any(one.is_exact and one.hops == hops for one in found))


class _States(NamedTuple):
    """Some trees of a subproblem, cut into states; if they are not cut, `reach` is an upper bound."""

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
        """Study subproblems from the inside out, equivalent ones once."""
        layer = self._layer
        is_outer = mask_of(layer.n_subproblems, np.append(layer.outer[1:], 0))
        for kind in np.unique(layer.kind[~is_outer]).tolist():
            members = np.flatnonzero((layer.kind == kind) & ~is_outer)
            self._hops.append(self._study(int(members[0])))
            self._class[members] = len(self._hops) - 1
        known: dict[tuple[int, bytes], int] = {}
        # Subproblems inside have greater numbers.
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
        """Return the subproblems among the children of a subproblem."""
        layer = self._layer
        codes = layer.children[layer.child_offset[number] : layer.child_offset[number + 1]].astype(np.int64)
        used, kind = np.unique(self._class[~codes[codes < 0]], return_inverse=True)
        kinds = np.full(len(codes), -1, dtype=np.int64)
        kinds[codes < 0] = kind.ravel()
        links = layer.links[layer.link_offset[number] : layer.link_offset[number + 1]].astype(np.int64)
        hops = tuple(self._hops[index] for index in used.tolist())
        return ChildSubproblems(np.where(codes < 0, ~codes, -1), kinds, hops, links)

    def slots(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """Return the local numbers, in subproblems, of links of the fabric."""
        return np.searchsorted(self._slot_key, pieces * self._radix + links) - self._layer.link_offset[pieces]

    def _signature(self, number: int) -> bytes:
        """Return the data besides its kind that the hops of a subproblem depend on."""
        inside = self._pieces(number)
        inner = inside.number[inside.number >= 0]
        low = self._layer.link_offset[inner]
        size = self._layer.link_offset[inner + 1] - low
        _, positions = ranges_of(low, size)
        met = np.searchsorted(inside.links, self._layer.links[positions])
        return b"".join(part.tobytes() for part in (inside.number < 0, self._class[inner], size, met))

    def _study(self, number: int) -> Hops:
        """Return the hops of a subproblem that is not the outermost."""
        piece = self._layer.pieces[self._layer.kind[number]]
        inside, trees = self._pieces(number), piece.trees
        if not isinstance(trees, TableTrees):
            return coarse(piece, inside)
        states = self._table(number, trees, keep=True)
        if not states.is_cut:
            return coarse(piece, inside)
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
        """Return the states of a table, some rows at a time; unless `keep`, only their reach."""
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
            path = np.maximum(trees.path[span], 0)  # undefined at the root
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
        *columns, is_cut = zip(*found, strict=True)
        return _States._make([*map(np.concatenate, columns), all(is_cut)])

    def _follow(self, number: int, rows: TreeParts) -> _States:
        """Cut trees of a subproblem into states."""
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
            which, segment = spread(cell // n, part.skip, part.units, keys, levels)
            inner[segment, cell[which] % n] = part.row[which]
            below[segment, cell[which] % n] = hops.reach[part.row[which]]
        for kind, hops in enumerate(inside.hops if is_cut else ()):
            cell, part = supplied[kind]
            which, segment = spread(cell // n, part.skip, part.units, keys, levels)
            target = cell[which] % n
            state = inner[segment, parent[segment, target]].astype(np.int64)
            delay[segment, target] = hops.supply(state, part.row[which])
        # Hops to each child: an edge takes one and its delay.
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
        """Return the edges that leave subproblems of a kind, as cells of the rows, and their ports."""
        edge = np.flatnonzero((rows.parent >= 0) & (inside.kind[rows.parent] == kind))
        row, child = np.divmod(edge, rows.parent.shape[1])
        slots = self.slots(inside.number[rows.parent[row, child]], rows.start[row, child])
        met = inside.hops[kind].exits.overlay(slots, rows.leaves[row, child], rows.units[row])
        return edge[met.query], met

    def _states_inside(
        self, piece: Subproblem, inside: ChildSubproblems, rows: TreeParts, kind: int
    ) -> tuple[Int64Array, Overlay]:
        """Return the cells of the rows whose trees continue in subproblems of a kind, and their states."""
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
        crossings = piece.entrances
        table = RunTable(crossings.child, crossings.root_unit, crossings.units)
        met = table.overlay(root, first, rows.units[mine])
        ends = inside.links[crossings.path_links[crossings.path_offset[1:][crossings.path[met.row]] - 1]]
        slots = self.slots(inside.number[root[met.query]], ends)
        deep = hops.entered(slots, crossings.inner[met.row] + met.place, met.units).within(met)
        cells = np.concatenate([cell[entered.query], here[own.query], here[deep.query]])
        return cells, joined(entered, own, deep)


def _first_units(trees: TableTrees) -> Int64Array:
    """Return the number of the first unit tree of each row among those of its root."""
    before = np.cumsum(trees.units) - trees.units
    first: Int64Array = before - before[np.searchsorted(trees.root, trees.root)]
    return first
