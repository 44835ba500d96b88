"""Check of one kind of piece of a factored forest: its trees, crossings and capacity units.

Shares no code with the generators or the expansion; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct
from treadle.schedules.factored import CirculantTrees, Crossings, FormulaTrees, Subproblem, TableTrees
from treadle.verification.factored.formulas import formula_depth, formula_faults
from treadle.verification.violations import Findings, ViolationKind

_SAFE = 2.0**62  # float sums below this cannot have wrapped in int64


@dataclass(frozen=True)
class Runs:
    """Runs of capacity units by which data enters or leaves children, arrays of one length."""

    child: Int64Array
    link: Int64Array
    first: Int64Array
    units: Int64Array

    def merged(self) -> Runs:
        """Sorted by (child, link, first); runs that follow each other made one."""
        order = np.lexsort((self.first, self.link, self.child))
        child, link, first, units = (a[order] for a in (self.child, self.link, self.first, self.units))
        joins = (child[1:] == child[:-1]) & (link[1:] == link[:-1]) & (first[1:] == first[:-1] + units[:-1])
        begins = np.flatnonzero(np.concatenate([[True], ~joins])[: len(child)])
        total = np.add.reduceat(units, begins) if len(begins) else units
        return Runs(child[begins], link[begins], first[begins], total)


def joined_runs(parts: Sequence[Runs]) -> Runs:
    """All, one after the other."""
    none = np.zeros(0, dtype=np.int64)
    keys = ("child", "link", "first", "units")
    return Runs(*(np.concatenate([none, *(getattr(part, key) for part in parts)]) for key in keys))


@dataclass(frozen=True)
class Boundary:
    """Crossings with the ends of their paths, arrays of shape (c,) unless said otherwise."""

    outside: Runs  # at the border; `child` is the child behind it
    inside: Runs  # at the child
    length: Int64Array  # links of the path without the crossing link
    start: Int64Array  # where those stand in `links`
    links: Int64Array


@dataclass(frozen=True)
class Kind:
    """Facts about a kind of piece, all in local numbers.

    Parameters
    ----------
    trees_load, entrance_load : arrays of int64, shape (l,)
        Units across each link by the trees, and by the entrances behind the crossing link.
    entering, leaving : Runs
        Capacity units by which trees enter and leave children; merged.
    entrances, exits : Border
    joints : array of int64, shape (k, 2)
        Links that follow each other in some path, but for those of trees by formula.
    formula : CirculantTrees or FormulaTrees, optional
    depth : int
        Greatest number of tree edges from the root of a tree.
    """

    trees_load: Int64Array
    entrance_load: Int64Array
    entering: Runs
    leaving: Runs
    entrances: Boundary
    exits: Boundary
    joints: Int64Array
    formula: CirculantTrees | FormulaTrees | None
    depth: int


def study(piece: Subproblem, place: str, found: Findings) -> Kind | None:
    """Check a kind of piece; None if it is wrong.

    Checked: every tree spans the children from its root; a child's unit trees are the native ones and then,
    one to one, those of the entrances that lead to it; no capacity unit at a child or at the border is used
    twice; no link carries more than it has; crossings start and end where they say.
    """
    before = found.total
    check = _KindCheck(piece, place, found)
    kind = check.run()
    return kind if found.total == before else None


class _KindCheck:
    def __init__(self, piece: Subproblem, place: str, found: Findings) -> None:
        self._piece = piece
        self._place = place
        self._found = found
        self._n_links = len(piece.capacity)
        self._taken: list[tuple[Int64Array, Int64Array, Int64Array]] = []
        self._joints: list[Int64Array] = []

    def _add(self, kind: ViolationKind, message: str) -> None:
        self._found.add(kind, f"{self._place}: {message}")

    def run(self) -> Kind | None:
        trees = self._piece.trees
        if isinstance(trees, TableTrees):
            load, entering, leaving, roots, depth = self._study_table(trees)
        elif isinstance(trees, CirculantTrees):
            load, entering, leaving, roots = self._study_formula(trees)
            depth = 1
        elif isinstance(trees, FormulaTrees):
            faults = formula_faults(trees)
            for fault in faults:
                self._add(ViolationKind.SPAN, fault)
            if faults:
                return None
            load, entering, leaving, roots = self._study_formula(trees)
            depth = formula_depth(trees)
        else:
            self._add(ViolationKind.SHAPE, f"no proof is known for trees of type {type(trees).__name__}")
            return None
        entrances, entrance_load = self._study_border("entrances", self._piece.entrances, inwards=True)
        exits, exit_load = self._study_border("exits", self._piece.exits, inwards=False)
        self._check_roots(roots)
        self._check_taken()
        borders = (entrances.outside.units, exits.outside.units)
        parts = (load, entrance_load, exit_load, *borders)
        if sum(float(part.sum(dtype=np.float64)) for part in parts) >= _SAFE:
            self._add(ViolationKind.CAPACITY, "it moves more than 2**62 units")
            return None
        at_border = load + entrance_load + exit_load
        for border in (entrances.outside, exits.outside):
            np.add.at(at_border, border.link, border.units)
        self._check_capacity(at_border)
        pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *self._joints])
        codes = distinct(pairs[:, 0] * max(self._n_links, 1) + pairs[:, 1])
        return Kind(
            trees_load=load,
            entrance_load=entrance_load,
            entering=joined_runs([entering, entrances.inside]).merged(),
            leaving=leaving.merged(),
            entrances=entrances,
            exits=exits,
            joints=np.stack(np.divmod(codes, max(self._n_links, 1)), axis=1),
            formula=None if isinstance(trees, TableTrees) else trees,
            depth=depth,
        )

    def _study_table(self, trees: TableTrees) -> tuple[Int64Array, Runs, Runs, Int64Array, int]:
        n = trees.parent.shape[1]
        depth = self._check_spans(trees)
        row, child = np.nonzero(trees.parent >= 0)
        path, units = trees.path[row, child], trees.units[row]
        start, stop = trees.path_offset[path], trees.path_offset[1:][path]
        table = trees.path_table.astype(np.int64)
        leaving = Runs(
            trees.parent[row, child].astype(np.int64), table[start], trees.first[row, child], units
        )
        entering = Runs(child, table[stop - 1], trees.last[row, child], units)
        self._take_ends(leaving, entering, stop - start == 1, "a tree edge")
        weights = self._sums(path, units, trees.n_paths)
        lengths = np.diff(trees.path_offset)
        load = self._sums(table, np.repeat(weights, lengths), self._n_links)
        self._add_joints(trees.path_offset, table)
        return load, entering, leaving, self._sums(trees.root, trees.units, n), depth

    def _check_spans(self, trees: TableTrees) -> int:
        """Chase the parents of all rows, doubling the stride each time; the greatest depth."""
        s, n = trees.parent.shape
        root = trees.root.astype(np.int64)[:, None]
        is_root = np.arange(n) == root
        above = np.where(is_root, root, trees.parent)
        if np.any(~is_root & (above < 0)) or np.any(is_root & (trees.parent >= 0)):
            self._add(ViolationKind.SPAN, "a child other than the root has no parent, or the root has one")
            return 0
        depth = (~is_root).astype(np.int64)
        for _ in range(n.bit_length()):
            if np.array_equal(above, np.broadcast_to(root, above.shape)):
                break
            depth += np.take_along_axis(depth, above, axis=1)
            above = np.take_along_axis(above, above, axis=1)
        lost = np.argwhere(above != root)
        self._found.add_all(
            ViolationKind.SPAN,
            lost,
            lambda i: f"{self._place}, tree row {i[0]}: child {i[1]} does not hang on the root",
        )
        return int(depth.max()) if s and not len(lost) else 0

    def _study_formula(
        self, trees: CirculantTrees | FormulaTrees
    ) -> tuple[Int64Array, Runs, Runs, Int64Array]:
        """All exit and entry units are used, once each. In circulant trees unit i of x goes to x + d(i):
        one to one between exit and entry units, and every tree is a star.
        """
        runs = []
        for links, first, offset in (
            (trees.out_links, trees.out_first, trees.out_offset),
            (trees.in_links, trees.in_first, trees.in_offset),
        ):
            child, column = np.nonzero(np.diff(first, axis=1))
            units = first[child, column + 1] - first[child, column]
            runs.append(Runs(child, links[child, column].astype(np.int64), offset[child, column], units))
        leaving, entering = runs
        for side in runs:
            self._taken.append((side.link, side.first, side.units))
        both = joined_runs(runs)
        load = self._sums(both.link, both.units, self._n_links)
        return load, entering, leaving, trees.root_units

    def _study_border(self, name: str, rows: Crossings, *, inwards: bool) -> tuple[Boundary, Int64Array]:
        start, stop = rows.path_offset[rows.path], rows.path_offset[1:][rows.path]
        links = rows.path_links.astype(np.int64)
        first, last = links[start], links[stop - 1]
        border, end = (first, last) if inwards else (last, first)
        for i in np.flatnonzero(border != rows.link)[:1]:
            self._add(ViolationKind.PATH, f"{name}, row {i}: its path crosses the border by link {border[i]}")
        child = rows.child.astype(np.int64)
        outside = Runs(child, rows.link.astype(np.int64), rows.offset, rows.units)
        inside = Runs(child, end, rows.inner, rows.units)
        self._take_ends(outside, inside, stop - start == 1, f"a row of the {name}")
        length = stop - start - 1
        begin = start + inwards
        at = np.repeat(begin - (np.cumsum(length) - length), length) + np.arange(length.sum())
        load = self._sums(links[at], np.repeat(rows.units, length), self._n_links)
        self._add_joints(rows.path_offset, links)
        return Boundary(outside, inside, length, begin, links), load

    def _take_ends(self, one: Runs, other: Runs, is_same: Int64Array, what: str) -> None:
        """Capacity units at both ends of paths; at a path of one link they are the same ones."""
        for i in np.flatnonzero(is_same & (one.first != other.first))[:1]:
            self._add(
                ViolationKind.CAPACITY,
                f"{what} takes only link {one.link[i]}, by units {one.first[i]} and {other.first[i]} of it",
            )
        far = np.flatnonzero(~is_same)
        self._taken.append((one.link, one.first, one.units))
        self._taken.append((other.link[far], other.first[far], other.units[far]))

    def _add_joints(self, offset: Int64Array, links: Int64Array) -> None:
        inner = np.ones(max(len(links) - 1, 0), dtype=bool)
        inner[offset[1:-1] - 1] = False
        at = np.flatnonzero(inner)
        self._joints.append(np.stack([links[at], links[at + 1]], axis=1))

    def _sums(self, index: Int64Array | Int32Array, units: Int64Array, size: int) -> Int64Array:
        """Units by index; a total that int64 could not hold is more than any piece has."""
        total = np.zeros(size, dtype=np.int64)
        if float(units.sum(dtype=np.float64)) >= _SAFE:
            self._add(ViolationKind.CAPACITY, "it moves more than 2**62 units")
            return total
        np.add.at(total, index, units)
        return total

    def _check_roots(self, roots: Int64Array) -> None:
        """Each child's unit trees: native ones, then the entrances' one after the other."""
        rows, native = self._piece.entrances, self._piece.native
        order = np.lexsort((rows.root_unit, rows.child))
        child, begin, units = rows.child[order], rows.root_unit[order], rows.units[order]
        is_first = np.concatenate([[True], child[1:] != child[:-1]])[: len(child)]
        expected = np.concatenate([[0], begin[:-1] + units[:-1]])[: len(child)]
        expected = np.where(is_first, native[child], expected)
        for i in np.flatnonzero(begin != expected)[:1]:
            self._add(
                ViolationKind.GLUE,
                f"an entrance goes on as unit tree {begin[i]} of child {child[i]}, expected {expected[i]}",
            )
        total = native + self._sums(rows.child, rows.units, len(native))
        for i in np.flatnonzero(total != roots)[:1]:
            self._add(
                ViolationKind.SHARES,
                f"child {i} has {roots[i]} unit trees, but {native[i]} native and "
                f"{total[i] - native[i]} entering ones",
            )

    def _check_taken(self) -> None:
        """No capacity unit at an end of a path is taken twice, or beyond the link's capacity."""
        link, first, units = (np.concatenate(column) for column in zip(*self._taken, strict=True))
        order = np.lexsort((first, link))
        link, first, stop = link[order], first[order], (first + units)[order]
        beyond = np.flatnonzero(stop > self._piece.capacity[link])
        twice = np.flatnonzero((link[1:] == link[:-1]) & (first[1:] < stop[:-1]))
        self._found.add_all(
            ViolationKind.CAPACITY,
            beyond,
            lambda i: (
                f"{self._place}: unit {stop[i] - 1} of local link {link[i]} is taken; it has "
                f"{self._piece.capacity[link[i]]}"
            ),
        )
        self._found.add_all(
            ViolationKind.CAPACITY,
            twice,
            lambda i: f"{self._place}: unit {first[i + 1]} of local link {link[i]} is taken twice",
        )

    def _check_capacity(self, load: Int64Array) -> None:
        self._found.add_all(
            ViolationKind.CAPACITY,
            np.flatnonzero(load > self._piece.capacity),
            lambda i: (
                f"{self._place}: local link {i} carries {load[i]} units; it has {self._piece.capacity[i]}"
            ),
        )
