"""Expansion of one component of a factored forest: parents and paths of its unit trees.

A unit tree is expanded from the outermost subproblem inwards. In each subproblem that it enters, it is one of
the subproblem's own trees, whose edges either end at ranks or enter children that are subproblems again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.checks import UNIT_LIMIT
from treadle.schedules.factored.index import Boundaries, LayerIndex
from treadle.schedules.factored.layers import Layer
from treadle.schedules.factored.subproblem_trees import SubproblemTrees, ragged
from treadle.schedules.trees.forest import Tree


def misfit(what: str) -> ScheduleError:
    """Return the error for subproblems that do not fit together."""
    return ScheduleError(f"factored forest: {what}; treadle verify says what is wrong")


_Segment = tuple[Int64Array, Int64Array, Int64Array, Int64Array]
"""Parts of paths: the path, the position along it, the length, and the slots of all of them."""


class PathCodes:
    """Paths between ranks in one component, numbered without a table.

    A path is the own path q of a subproblem. It is continued at its ends by row x of the `exits` and row e of
    the `entrances` of the slots where q starts and ends, counted from 1; 0 where that end is a rank. With X
    and E more than the rows of any slot, path q of a subproblem is ``its first number + (q X + x) E + e``.
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
            raise ScheduleError("factored forest: the subproblems have 2**61 or more paths")
        of_piece = np.array(counts, dtype=np.int64)[layer.kind]
        self._first = np.cumsum(of_piece) - of_piece

    def encode(
        self, piece: Int64Array, path: Int64Array, exit_row: Int64Array, entry_row: Int64Array
    ) -> Int64Array:
        """Return the numbers of paths; a row is -1 where the end is a rank."""
        x = _from_slot(self._index.exits, exit_row)
        e = _from_slot(self._index.entrances, entry_row)
        return self._first[piece] + (path * self._exit_radix + x) * self._entry_radix + e

    def decode(self, numbers: Int64Array, *, backwards: bool) -> tuple[Int64Array, Int32Array]:
        """Return the lengths of paths, and the links of all of them in the order the data takes them."""
        index, layer = self._index, self._index.layer
        piece = np.searchsorted(self._first, numbers, side="right") - 1
        rest, e = np.divmod(numbers - self._first[piece], self._entry_radix)
        path, x = np.divmod(rest, self._exit_radix)
        ends = np.zeros((2, len(numbers)), dtype=np.int64)
        none = np.zeros(0, dtype=np.int64)
        segments: list[_Segment] = [(none, none, none, none)]
        for kind in np.unique(layer.kind[piece]).tolist():
            mine = np.flatnonzero(layer.kind[piece] == kind)
            offsets, links = layer.pieces[kind].trees.path_links(path[mine])
            ends[0, mine], ends[1, mine] = links[offsets[:-1]], links[offsets[1:] - 1]
            own = layer.link_offset[piece[mine]].repeat(np.diff(offsets)) + links
            segments.append((mine, np.zeros_like(mine), np.diff(offsets), own))
        slots = layer.link_offset[piece] + ends
        segments += self._chain(index.exits, slots[0], x, step=-1)
        segments += self._chain(index.entrances, slots[1], e, step=1)
        path, place, length, taken = map(np.concatenate, zip(*segments, strict=True))
        start = np.cumsum(length) - length
        order = np.lexsort((place, path))
        taken = taken[ragged(start[order], length[order])]
        total = sums_of(len(numbers), path, length)
        if backwards:
            taken = taken[np.repeat(np.cumsum(total), total) - 1 - ragged(np.zeros_like(total), total)]
        return total, layer.links[taken]

    def _chain(
        self, borders: Boundaries, slot: Int64Array, digit: Int64Array, *, step: int
    ) -> Iterator[_Segment]:
        """Yield the crossing paths at one end of paths, inwards boundary by boundary.

        The links that two of them share are left out.
        """
        inner = borders.inner_slot[slot]
        first = borders.slot_row[inner]
        if np.any((digit > 0) & ((inner < 0) | (first + digit > borders.slot_row[inner + 1]))):
            raise ScheduleError("factored forest: no tree takes a path of this number")
        row, pool = np.where(digit > 0, first + digit - 1, -1), borders.pool
        path, place = np.arange(len(row)), 0
        while len(deep := np.flatnonzero(row >= 0)):
            path, row = path[deep], row[deep]
            place += step
            crossing = borders.row[row]
            lengths = pool.path_length[crossing] - 1
            starts = pool.path_start[crossing] + (1 if step > 0 else 0)
            base = self._index.layer.link_offset[self._index.piece_of_slot[borders.slot[row]]]
            slots = np.repeat(base, lengths) + pool.path_links[ragged(starts, lengths)]
            yield path, np.full(len(path), place), lengths, slots
            row = borders.inner[row]


def _from_slot(borders: Boundaries, row: Int64Array) -> Int64Array:
    """Return rows as counted from 1 within their slot; 0 for -1."""
    if not len(borders.slot):
        return np.zeros(len(row), dtype=np.int64)
    return np.where(row >= 0, row - borders.slot_row[borders.slot[row]] + 1, 0)


class LayerExpansion:
    """Parents and paths of the unit trees of one component."""

    def __init__(self, layer: Layer) -> None:
        self.index = LayerIndex(layer)
        self.codes = PathCodes(self.index)
        self._by_kind = [
            (kind, pieces[layer.kind[pieces] == kind])
            for pieces in self.index.levels
            for kind in np.unique(layer.kind[pieces]).tolist()
        ]

    def native_units(self) -> Int64Array:
        """Return the unit trees of each rank in this component, shape (N,)."""
        index = self.index
        kind = index.layer.kind[index.piece_of_rank]
        native: Int64Array = index.native[index.child_base[kind] + index.child_of_rank]
        return native

    def expand(self, roots: Int64Array, units: Int64Array) -> tuple[Int32Array, Int64Array, Int64Array]:
        """Return parents and path codes of unit trees, shape (b, N), and how many from each on are equal."""
        state = _Units(self, roots, units)
        for kind, pieces in self._by_kind:
            state.expand(kind, pieces)
        return state.parent, state.code, state.run


class _Units:
    """State of the expansion of some unit trees: the tree of each subproblem that each of them uses.

    Arrays of shape (b, p): root child and unit within the subproblem; the entrance row that leads there and
    the offset in it, or -1 where the tree is native. Shape (b, N): parents and path codes.
    """

    def __init__(self, expansion: LayerExpansion, roots: Int64Array, units: Int64Array) -> None:
        self._codes, self._index = expansion.codes, expansion.index
        index, layer = expansion.index, expansion.index.layer
        self._child, self._unit, self._skip = np.zeros((3, len(roots), layer.n_subproblems), dtype=np.int64)
        self._entry = np.full_like(self._child, -1)
        self.parent = np.full((len(roots), len(index.piece_of_rank)), -1, dtype=np.int32)
        self.code = np.full(self.parent.shape, -1, dtype=np.int64)
        # climb from the roots to the outermost subproblem
        piece, child = index.piece_of_rank[roots], index.child_of_rank[roots]
        unit, tree = units.copy(), np.arange(len(roots))
        self.run: Int64Array = index.native[index.child_base[layer.kind[piece]] + child] - units
        if np.any(self.run < 1):
            raise ScheduleError("factored forest: the root has no such unit tree")
        while len(tree):
            self._child[tree, piece] = child
            self._unit[tree, piece] = unit
            inner = np.flatnonzero(piece > 0)
            tree, piece, child, unit = tree[inner], piece[inner], child[inner], unit[inner]
            base = index.child_base[layer.kind[piece]]
            unit = unit + index.native_before[base + child] - index.native_before[base]
            child, piece = index.child_of_piece[piece], layer.outer[piece].astype(np.int64)

    def expand(self, kind: int, pieces: Int64Array) -> None:
        """Expand the trees of equal subproblems of one level, and enter the subproblems inside."""
        layer, index = self._index.layer, self._index
        trees = layer.pieces[kind].trees
        n_trees, n = len(self.run), layer.pieces[kind].n_children
        roots, units = self._child[:, pieces].ravel(), self._unit[:, pieces].ravel()
        rows = trees.rows(roots, units)
        self.run = np.minimum(self.run, rows.run.reshape(n_trees, -1).min(axis=1))
        member = layer.children[layer.child_offset[pieces][:, None] + np.arange(n)].astype(np.int64)
        self._enter_roots(pieces, roots, member)
        line, child = np.nonzero(rows.parent >= 0)
        if not len(line):
            return
        tree, place = np.divmod(line, len(pieces))
        piece, parent = pieces[place], rows.parent[line, child]
        path = rows.path[line, child]
        first_link, last_link = path_ends(trees, path)
        base = layer.link_offset[piece]
        source, target, unit = member[place, parent], member[place, child], rows.last[line, child]
        exit_row = self._cross(index.exits, tree, source, base + first_link, rows.first[line, child])
        entry_row = self._cross(index.entrances, tree, target, base + last_link, unit)
        deep = np.flatnonzero(entry_row >= 0)  # the edges that enter subproblems
        skip = unit[deep] - index.entrances.first[entry_row[deep]]
        self._enter(tree[deep], ~target[deep], entry_row[deep], skip)
        rank = _ranks(index.entrances, entry_row, target)
        self.parent[tree, rank] = _ranks(index.exits, exit_row, source)
        self.code[tree, rank] = self._codes.encode(piece, path, exit_row, entry_row)

    def _cross(
        self, borders: Boundaries, tree: Int64Array, child: Int64Array, slot: Int64Array, unit: Int64Array
    ) -> Int64Array:
        """Return boundary rows of children that are subproblems (-1 for ranks), and shorten the runs."""
        found = np.full(len(child), -1, dtype=np.int64)
        deep = np.flatnonzero(child < 0)
        row = self._index.find_child_rows(borders, slot[deep], ~child[deep], unit[deep])
        for wrong in deep[row < 0][:1]:
            link = self._index.layer.links[slot[wrong]]
            raise misfit(f"subproblem {~child[wrong]} has no crossing at unit {unit[wrong]}, link {link}")
        np.minimum.at(self.run, tree[deep], borders.first[row] + borders.units[row] - unit[deep])
        found[deep] = row
        return found

    def _enter(self, tree: Int64Array, piece: Int64Array, row: Int64Array, skip: Int64Array) -> None:
        """Continue in subproblems that were entered at an entrance row."""
        index, entrances = self._index, self._index.entrances
        pool, crossing = entrances.pool, entrances.row[row]
        child = pool.child[crossing]
        unit = pool.root_unit[crossing] + entrances.first[row] + skip - pool.first[crossing]
        native = index.native[index.child_base[index.layer.kind[piece]] + child]
        for wrong in piece[unit < native][:1]:
            raise misfit(f"an entrance of subproblem {wrong} leads to a native tree")
        at = tree, piece
        self._child[at], self._unit[at], self._entry[at], self._skip[at] = child, unit, row, skip

    def _enter_roots(self, pieces: Int64Array, roots: Int64Array, member: Int64Array) -> None:
        """Enter root children that are subproblems, in trees that come from outside."""
        tree, place = np.divmod(np.arange(len(roots)), len(pieces))
        entry, child = self._entry[tree, pieces[place]], member[place, roots]
        deep = np.flatnonzero((child < 0) & (entry >= 0))
        entrances, row = self._index.entrances, entry[deep]
        skip = entrances.skip[row] + self._skip[tree[deep], pieces[place[deep]]]
        self._enter(tree[deep], ~child[deep], entrances.inner[row], skip)


def _ranks(borders: Boundaries, rows: Int64Array, children: Int64Array) -> Int64Array:
    """Return the ranks at the ends of edges: those of boundary rows, or the children where a row is -1."""
    return np.where(rows >= 0, borders.rank[rows], children) if len(borders.rank) else children


def path_ends(trees: SubproblemTrees, paths: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the first and the last local link of each path."""
    offsets, links = trees.path_links(paths)
    return links[offsets[:-1]].astype(np.int64), links[offsets[1:] - 1].astype(np.int64)


Group = tuple[Int32Array, list[Int64Array], list[int]]
"""Consecutive unit trees of a root with equal parents: the parents, and path codes and units of each run."""


def add_trees(groups: list[Group], parent: Int32Array, code: Int64Array, units: int) -> None:
    """Append unit trees to the last group, or to a new one if their parents differ from its."""
    if not groups or not np.array_equal(groups[-1][0], parent):
        groups.append((parent, [], []))
    groups[-1][1].append(code)
    groups[-1][2].append(units)


def weighted_tree(root: int, parent: Int32Array, runs: list[Int64Array], units: list[int]) -> Tree:
    """Return the weighted tree of a group; consecutive units of an edge on the same path are one entry."""
    codes = np.stack(runs, axis=1)
    before = offsets_of(units)
    is_new: BoolArray = codes >= 0
    is_new[:, 1:] &= codes[:, 1:] != codes[:, :-1]
    rank, row = np.nonzero(is_new)
    # an entry ends where the next one of the rank begins, or with the last unit
    goes_on = np.append(rank[1:] == rank[:-1], False)[: len(row)]
    stop = np.where(goes_on, np.roll(before[row], -1), before[-1])
    offset = offsets_of(np.bincount(rank, minlength=len(codes)))
    return Tree(root, int(before[-1]), parent, offset, codes[rank, row], stop - before[row])
