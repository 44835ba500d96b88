"""Factored forests written out: the trees of a root, any path, the explicit form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.factored.checks import UNIT_LIMIT
from treadle.schedules.factored.index import Borders, LayerIndex
from treadle.schedules.factored.layers import Layer
from treadle.schedules.factored.path_codes import PathCodes
from treadle.schedules.factored.piece_trees import PieceTrees
from treadle.schedules.trees.forest import Direction, Forest, Tree

MAX_CELLS = 2**27
"""Most parents (trees times ranks) of an explicit form."""

_BATCH_CELLS = 2**20  # trees times ranks that are expanded together


def _misfit(what: str) -> ScheduleError:
    return ScheduleError(f"factored forest: {what}; treadle verify says what is wrong")


class _Units:
    """Some unit trees of a layer on their way down: which tree of each piece each of them uses.

    Arrays of shape (b, p): root child and unit within the piece; row of the entrances that led there and the
    place in it, or -1 where the tree is native.
    """

    def __init__(self, index: LayerIndex, n_trees: int) -> None:
        shape = (n_trees, index.layer.n_pieces)
        self.child = np.zeros(shape, dtype=np.int64)
        self.unit = np.zeros(shape, dtype=np.int64)
        self.entry = np.full(shape, -1, dtype=np.int64)
        self.skip = np.zeros(shape, dtype=np.int64)
        self.parent = np.full((n_trees, len(index.piece_of_rank)), -1, dtype=np.int32)
        self.code = np.full(self.parent.shape, -1, dtype=np.int64)
        self.run = np.full(n_trees, UNIT_LIMIT, dtype=np.int64)


class LayerExpansion:
    """One layer: unit trees to parents and paths."""

    def __init__(self, layer: Layer) -> None:
        self.index = LayerIndex(layer)
        self.codes = PathCodes(self.index)
        self._by_kind = [
            [(kind, pieces[layer.kind[pieces] == kind]) for kind in np.unique(layer.kind[pieces]).tolist()]
            for pieces in self.index.levels
        ]

    def native_units(self) -> Int64Array:
        """Unit trees of each rank in this layer, shape (N,)."""
        index = self.index
        kind = index.layer.kind[index.piece_of_rank]
        native: Int64Array = index.native[index.child_base[kind] + index.child_of_rank]
        return native

    def expand(self, roots: Int64Array, units: Int64Array) -> tuple[Int32Array, Int64Array, Int64Array]:
        """Parents and path codes of unit trees, shape (b, N), and how many following ones are the same."""
        state = _Units(self.index, len(roots))
        self._start(state, roots, units)
        for level in self._by_kind:
            for kind, pieces in level:
                self._expand_pieces(state, kind, pieces)
        return state.parent, state.code, state.run

    def _start(self, state: _Units, roots: Int64Array, units: Int64Array) -> None:
        """Climb from the roots to the outermost piece."""
        index, layer = self.index, self.index.layer
        piece, child = index.piece_of_rank[roots], index.child_of_rank[roots]
        unit, tree = units.copy(), np.arange(len(roots))
        number = index.child_base[layer.kind[piece]] + child
        state.run = index.native[number] - units
        if np.any(state.run < 1):
            raise ScheduleError("factored forest: the root has no such unit tree")
        while True:
            state.child[tree, piece] = child
            state.unit[tree, piece] = unit
            inner = np.flatnonzero(piece > 0)
            if not len(inner):
                return
            tree, piece, child, unit = tree[inner], piece[inner], child[inner], unit[inner]
            base = index.child_base[layer.kind[piece]]
            unit = unit + index.native_before[base + child] - index.native_before[base]
            child, piece = index.child_of_piece[piece], layer.outer[piece].astype(np.int64)

    def _expand_pieces(self, state: _Units, kind: int, pieces: Int64Array) -> None:
        """Walk through pieces of one kind and level, and hand on to the pieces inside."""
        layer = self.index.layer
        trees = layer.pieces[kind].trees
        n_trees, n = len(state.run), layer.pieces[kind].n_children
        roots, units = state.child[:, pieces].ravel(), state.unit[:, pieces].ravel()
        rows = trees.rows(roots, units)
        state.run = np.minimum(state.run, rows.run.reshape(n_trees, -1).min(axis=1))
        member = layer.children[layer.child_offset[pieces][:, None] + np.arange(n)].astype(np.int64)
        self._pass_roots(state, pieces, roots, member)
        line, child = np.nonzero(rows.parent >= 0)
        if not len(line):
            return
        tree, place = np.divmod(line, len(pieces))
        piece, parent = pieces[place], rows.parent[line, child]
        path = rows.path[line, child]
        first_link, last_link = path_ends(trees, path)
        base = layer.link_offset[piece]
        source, exit_row = self._leave(
            state, tree, member[place, parent], base + first_link, rows.first[line, child]
        )
        target = member[place, child]
        entry_row = self._enter(state, tree, target, base + last_link, rows.last[line, child])
        rank = (
            np.where(entry_row >= 0, self.index.entrances.rank[entry_row], target)
            if len(self.index.entrances.rank)
            else target
        )
        state.parent[tree, rank] = source
        state.code[tree, rank] = self.codes.encode(piece, path, exit_row, entry_row)

    def _leave(
        self, state: _Units, tree: Int64Array, source: Int64Array, slot: Int64Array, unit: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Ranks that supply the edges, and rows of the exits (-1 for ranks); shortens the runs."""
        result, row = source.copy(), np.full(len(source), -1, dtype=np.int64)
        deep = np.flatnonzero(source < 0)
        if len(deep):
            row[deep] = self._cross(
                state, self.index.exits, self.index.exit_slot, tree, source, slot, unit, deep
            )
            result[deep] = self.index.exits.rank[row[deep]]
        return result, row

    def _enter(
        self, state: _Units, tree: Int64Array, target: Int64Array, slot: Int64Array, unit: Int64Array
    ) -> Int64Array:
        """Rows of the entrances (-1 for ranks); tells the pieces entered which tree they go on with."""
        row = np.full(len(target), -1, dtype=np.int64)
        deep = np.flatnonzero(target < 0)
        if len(deep):
            index = self.index
            found = self._cross(state, index.entrances, index.entrance_slot, tree, target, slot, unit, deep)
            row[deep] = found
            self._bind(state, tree[deep], ~target[deep], found, unit[deep] - index.entrances.first[found])
        return row

    def _cross(
        self,
        state: _Units,
        borders: Borders,
        inner_slot: Int64Array,
        tree: Int64Array,
        child: Int64Array,
        slot: Int64Array,
        unit: Int64Array,
        deep: Int64Array,
    ) -> Int64Array:
        slots = inner_slot[slot[deep]]
        is_open = (slots >= 0) & (self.index.piece_of_slot[slots] == ~child[deep])
        row = self.index.find_rows(borders, np.where(is_open, slots, -1), unit[deep])
        wrong = np.flatnonzero(row < 0)
        if len(wrong):
            link = self.index.layer.links[slot[deep[wrong[0]]]]
            raise _misfit(
                f"piece {~child[deep[wrong[0]]]} has no crossing at unit {unit[deep[wrong[0]]]}, link {link}"
            )
        np.minimum.at(state.run, tree[deep], borders.first[row] + borders.units[row] - unit[deep])
        return row

    def _bind(
        self, state: _Units, tree: Int64Array, piece: Int64Array, row: Int64Array, skip: Int64Array
    ) -> None:
        """Go on in pieces that were entered at a row of the entrances."""
        index, pool, entrances = self.index, self.index.entrance_pool, self.index.entrances
        crossing = entrances.row[row]
        child = pool.child[crossing]
        unit = pool.root_unit[crossing] + entrances.first[row] + skip - pool.first[crossing]
        native = index.native[index.child_base[index.layer.kind[piece]] + child]
        if np.any(unit < native):
            raise _misfit(
                f"an entrance of piece {piece[np.flatnonzero(unit < native)[0]]} leads to a native tree"
            )
        state.child[tree, piece] = child
        state.unit[tree, piece] = unit
        state.entry[tree, piece] = row
        state.skip[tree, piece] = skip

    def _pass_roots(self, state: _Units, pieces: Int64Array, roots: Int64Array, member: Int64Array) -> None:
        """Root children that are pieces: those entered from outside are entered in turn."""
        tree, place = np.divmod(np.arange(len(roots)), len(pieces))
        entry = state.entry[tree, pieces[place]]
        deep = np.flatnonzero((member[place, roots] < 0) & (entry >= 0))
        if len(deep):
            entrances = self.index.entrances
            row = entry[deep]
            skip = entrances.skip[row] + state.skip[tree[deep], pieces[place[deep]]]
            self._bind(state, tree[deep], ~member[place, roots][deep], entrances.inner[row], skip)


def path_ends(trees: PieceTrees, paths: Int64Array) -> tuple[Int64Array, Int64Array]:
    """First and last local link of each path."""
    offsets, links = trees.path_links(paths)
    return links[offsets[:-1]].astype(np.int64), links[offsets[1:] - 1].astype(np.int64)


class Expansion:
    """All layers of a factored forest, made ready for expansion."""

    def __init__(
        self, direction: Direction, root_multiplicity: Int64Array, layers: tuple[Layer, ...]
    ) -> None:
        self._direction = direction
        self._multiplicity = root_multiplicity
        self._layers = [LayerExpansion(layer) for layer in layers]
        native = [layer.native_units() for layer in self._layers]
        self._before = np.cumsum([np.zeros_like(root_multiplicity), *native], axis=0)
        self._code_base = np.cumsum([0, *(layer.codes.n_codes for layer in self._layers)], dtype=object)
        if self._code_base[-1] >= UNIT_LIMIT:
            raise ScheduleError("factored forest: the pieces have 2**61 or more paths")

    def _expand(self, roots: Int64Array, units: Int64Array) -> tuple[Int32Array, Int64Array, Int64Array]:
        """Parents, path numbers and runs of unit trees counted over all layers."""
        n = len(self._multiplicity)
        parent = np.empty((len(roots), n), dtype=np.int32)
        code = np.empty((len(roots), n), dtype=np.int64)
        run = np.empty(len(roots), dtype=np.int64)
        number = (self._before[1:, roots] <= units).sum(axis=0)
        for i, layer in enumerate(self._layers):
            mine = np.flatnonzero(number == i)
            if len(mine):
                local = units[mine] - self._before[i, roots[mine]]
                parent[mine], code[mine], run[mine] = layer.expand(roots[mine], local)
                code[mine] = np.where(code[mine] >= 0, code[mine] + int(self._code_base[i]), -1)
        return parent, code, run

    def parts(self) -> Iterator[tuple[LayerExpansion, Int64Array, int]]:
        """Every layer, with the unit trees of each rank and the path numbers of the layers before."""
        for i, layer in enumerate(self._layers):
            yield layer, self._before[i], int(self._code_base[i])

    def trees(self, root: int) -> Iterator[Tree]:
        """See `FactoredForest.trees`."""
        roots, unit, total = np.array([root]), 0, int(self._multiplicity[root])
        group = _TreeGroup(root)
        while unit < total:
            parent, code, run = self._expand(roots, np.array([unit]))
            if not group.takes(parent[0]):
                yield group.tree()
                group = _TreeGroup(root)
            group.add(parent[0], code[0], int(run[0]))
            unit += int(run[0])
        if total:
            yield group.tree()

    def path(self, number: int) -> Int32Array:
        """See `FactoredForest.path`."""
        if not 0 <= number < self._code_base[-1]:
            raise ScheduleError(f"factored forest: path {number} of {self._code_base[-1]}")
        return self.paths(np.array([number], dtype=np.int64))[1]

    def paths(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Offsets and links of paths; `numbers` rise."""
        bounds = np.searchsorted(numbers, self._code_base.astype(np.int64))
        lengths, links = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
        for i, layer in enumerate(self._layers):
            local = numbers[bounds[i] : bounds[i + 1]] - int(self._code_base[i])
            length, part = layer.codes.decode(local, backwards=self._direction is Direction.REDUCE)
            lengths.append(length)
            links.append(part)
        return np.cumsum(np.concatenate(lengths)), np.concatenate(links).astype(np.int32)

    def explicit(self, roots: Sequence[int]) -> Forest:
        """See `treadle.schedules.factored.expand`; `roots` rise."""
        n = len(self._multiplicity)
        if roots and not 0 <= roots[0] <= roots[-1] < n:
            raise ScheduleError(f"factored forest: roots must be ranks from 0 to {n - 1}")
        trees: list[Tree] = []
        cells = 0
        batch = max(1, _BATCH_CELLS // max(n, 1))
        for start in range(0, len(roots), batch):
            for group in self._groups(np.array(roots[start : start + batch]), MAX_CELLS - cells):
                trees.append(group.tree())
                cells += n * group.n_rows
        return self._assemble(trees)

    def _groups(self, roots: Int64Array, room: int) -> list[_TreeGroup]:
        """All trees of some roots, expanded side by side."""
        unit = np.zeros(len(roots), dtype=np.int64)
        total = self._multiplicity[roots]
        groups: list[list[_TreeGroup]] = [[] for _ in roots]
        used = 0
        while True:
            active = np.flatnonzero(unit < total)
            if not len(active):
                return [group for mine in groups for group in mine]
            used += len(active) * len(self._multiplicity)
            if used > room:
                raise ScheduleError(
                    f"factored forest: more than {MAX_CELLS} parents; expand single roots instead"
                )
            parent, code, run = self._expand(roots[active], unit[active])
            for i, one in enumerate(active.tolist()):
                mine = groups[one]
                if not mine or not mine[-1].takes(parent[i]):
                    mine.append(_TreeGroup(int(roots[one])))
                mine[-1].add(parent[i], code[i], int(run[i]))
            unit[active] += run

    def _assemble(self, trees: list[Tree]) -> Forest:
        n = len(self._multiplicity)
        codes = _flat([tree.entry_path.astype(np.int64) for tree in trees])
        used, entry_path = np.unique(codes, return_inverse=True)
        path_offset, path_links = self.paths(used)
        counts = _flat([np.diff(tree.entry_offset) for tree in trees])
        return Forest(
            direction=self._direction,
            root_multiplicity=self._multiplicity,
            tree_root=np.array([tree.root for tree in trees], dtype=np.int32),
            tree_multiplicity=np.array([tree.multiplicity for tree in trees], dtype=np.int64),
            parent=np.array([tree.parent for tree in trees], dtype=np.int32).reshape(len(trees), n),
            entry_offset=offsets_of(counts),
            entry_path=entry_path.astype(np.int32),
            entry_units=_flat([tree.entry_units for tree in trees]),
            path_offset=path_offset,
            path_links=path_links,
        )


def _flat(columns: list[Int64Array]) -> Int64Array:
    return np.concatenate([np.zeros(0, dtype=np.int64), *columns])


class _TreeGroup:
    """Consecutive unit trees of a root with equal parents: one weighted tree in the making."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._parent: Int32Array | None = None
        self._codes: list[Int64Array] = []
        self._units: list[int] = []

    @property
    def n_rows(self) -> int:
        """Runs of unit trees with equal paths."""
        return len(self._units)

    def takes(self, parent: Int32Array) -> bool:
        """Whether a tree with these parents belongs here."""
        return self._parent is None or np.array_equal(self._parent, parent)

    def add(self, parent: Int32Array, code: Int64Array, units: int) -> None:
        """Append `units` unit trees."""
        self._parent = parent
        self._codes.append(code)
        self._units.append(units)

    def tree(self) -> Tree:
        """The weighted tree; units of an edge that take the same path come out as one entry."""
        assert self._parent is not None
        codes = np.stack(self._codes, axis=1)
        before = offsets_of(self._units)
        is_new: BoolArray = codes >= 0
        is_new[:, 1:] &= codes[:, 1:] != codes[:, :-1]
        rank, row = np.nonzero(is_new)
        stop = np.append(before[row[1:]], before[-1])[: len(row)]
        is_last = np.append(rank[1:] != rank[:-1], True)[: len(row)]
        counts = np.bincount(rank, minlength=len(codes))
        return Tree(
            root=self._root,
            multiplicity=int(before[-1]),
            parent=self._parent,
            entry_offset=offsets_of(counts),
            entry_path=codes[rank, row],
            entry_units=np.where(is_last, before[-1], stop) - before[row],
        )
