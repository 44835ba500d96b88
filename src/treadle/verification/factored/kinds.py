"""Check of one equivalence class of subproblems of a factored forest: trees, crossings, capacity units.

Shares no code with the generators or the expansion. `treadle.verification.schedules.verify` is the entry
point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct, ranges_of
from treadle.schedules.factored import CirculantTrees, Crossings, FormulaTrees, Subproblem, TableTrees
from treadle.verification.factored.formulas import formula_faults, sides_of
from treadle.verification.factored.runs import Runs, joined
from treadle.verification.spans import follow_parents
from treadle.verification.violations import Findings, ViolationKind

_SAFE = 2.0**62  # float sums below this cannot have wrapped in int64


@dataclass(frozen=True)
class Boundary:
    """Crossings of the boundary with the ends of their paths, arrays of shape (c,) unless stated."""

    outside: Runs  # at the boundary; `child` is the child behind it
    inside: Runs  # at the child
    length: Int64Array  # number of links of the path without the crossing link
    start: Int64Array  # position of those links in `links`
    links: Int64Array


@dataclass(frozen=True)
class Kind:
    """Facts about an equivalence class of subproblems, all in local numbers.

    Parameters
    ----------
    trees_load, entrance_load : arrays of int64, shape (l,)
        Units across each link by the trees, and by the ingress paths without the crossing link.
    entering, leaving : Runs
        Capacity units by which trees enter and leave children; merged.
    joints : array of int64, shape (k, 2)
        Consecutive links of some path, except paths of trees by formula.
    formula : CirculantTrees or FormulaTrees, optional
    """

    trees_load: Int64Array
    entrance_load: Int64Array
    entering: Runs
    leaving: Runs
    entrances: Boundary
    exits: Boundary
    joints: Int64Array
    formula: CirculantTrees | FormulaTrees | None


def study(piece: Subproblem, place: str, found: Findings) -> Kind | None:
    """Check a subproblem; None if it is wrong.

    Every tree spans the children from its root; the unit trees of a child are its native ones, followed by,
    one to one, those of the ingress rows that lead to it; no capacity unit at a child or at the boundary is
    used twice; no link exceeds its capacity; crossings start and end at the links that they name.
    """
    own = Findings(found.limit)
    kind = _KindCheck(piece, own).run()
    found.adopt(place, own)
    return None if own.total else kind


class _KindCheck:
    def __init__(self, piece: Subproblem, found: Findings) -> None:
        self._piece = piece
        self._found = found
        self._n_links = len(piece.capacity)
        self._taken: list[tuple[Int64Array, Int64Array, Int64Array]] = []  # link, first, units
        self._joints: list[Int64Array] = []

    def run(self) -> Kind | None:
        trees = self._piece.trees
        if isinstance(trees, TableTrees):
            load, entering, leaving, roots = self._study_table(trees)
        else:
            if faults := formula_faults(trees):
                self._found.add_all(ViolationKind.SPAN, faults, str)
                return None
            assert isinstance(trees, CirculantTrees | FormulaTrees)
            load, entering, leaving, roots = self._study_formula(trees)
        entrances, entrance_load = self._study_border("entrances", self._piece.entrances, inwards=True)
        exits, exit_load = self._study_border("exits", self._piece.exits, inwards=False)
        self._check_roots(roots)
        self._check_taken()
        borders = (entrances.outside, exits.outside)
        parts = (load, entrance_load, exit_load, *(border.units for border in borders))
        if sum(float(part.sum(dtype=np.float64)) for part in parts) >= _SAFE:
            self._found.add(ViolationKind.CAPACITY, "it moves more than 2**62 units")
            return None
        total, capacity = load + entrance_load + exit_load, self._piece.capacity
        for border in borders:
            np.add.at(total, border.link, border.units)
        self._found.add_all(
            ViolationKind.CAPACITY,
            np.flatnonzero(total > capacity),
            lambda i: f"local link {i} carries {total[i]} units; it has {capacity[i]}",
        )
        pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *self._joints])
        codes = distinct(pairs[:, 0] * max(self._n_links, 1) + pairs[:, 1])
        return Kind(
            trees_load=load,
            entrance_load=entrance_load,
            entering=joined(entering, entrances.inside).merged(),
            leaving=leaving.merged(),
            entrances=entrances,
            exits=exits,
            joints=np.stack(np.divmod(codes, max(self._n_links, 1)), axis=1),
            formula=None if isinstance(trees, TableTrees) else trees,
        )

    def _study_table(self, trees: TableTrees) -> tuple[Int64Array, Runs, Runs, Int64Array]:
        """Return load, runs that enter, runs that leave, and unit trees per root of a table."""
        root = trees.root.astype(np.int64)[:, None]
        self._found.add_all(
            ViolationKind.SPAN,
            np.argwhere(follow_parents(trees.parent, root)[0] != root),
            lambda i: f"tree row {i[0]}: the parents of child {i[1]} do not lead to the root",
        )
        row, child = np.nonzero(trees.parent >= 0)
        path, units = trees.path[row, child], trees.units[row]
        start, stop = trees.path_offset[path], trees.path_offset[1:][path]
        table = trees.path_table.astype(np.int64)
        parent = trees.parent[row, child].astype(np.int64)
        leaving = Runs(parent, table[start], trees.first[row, child], units)
        entering = Runs(child, table[stop - 1], trees.last[row, child], units)
        self._take_ends(leaving, entering, stop - start == 1, "a tree edge")
        weights = self._sums(path, units, trees.n_paths)
        load = self._sums(table, np.repeat(weights, np.diff(trees.path_offset)), self._n_links)
        self._add_joints(trees.path_offset, table)
        return load, entering, leaving, self._sums(trees.root, trees.units, trees.parent.shape[1])

    def _study_formula(
        self, trees: CirculantTrees | FormulaTrees
    ) -> tuple[Int64Array, Runs, Runs, Int64Array]:
        """Return load, runs that enter, runs that leave, and unit trees per root of trees by formula.

        All egress and ingress units are used once. In circulant trees unit i of child x goes to x + d(i): one
        to one between egress and ingress units, and every tree is a star.
        """
        runs = []
        for links, first, offset in sides_of(trees):
            child, column = np.nonzero(np.diff(first, axis=1))
            units = first[child, column + 1] - first[child, column]
            link = links[child, column].astype(np.int64)
            runs.append(Runs(child, link, offset[child, column], units))
            self._taken.append(runs[-1][1:])
        leaving, entering = runs
        both = joined(leaving, entering)
        return self._sums(both.link, both.units, self._n_links), entering, leaving, trees.root_units

    def _study_border(self, name: str, rows: Crossings, *, inwards: bool) -> tuple[Boundary, Int64Array]:
        """Return the crossings of one direction, and the load of their paths without the crossing link."""
        start, stop = rows.path_offset[rows.path], rows.path_offset[1:][rows.path]
        links = rows.path_links.astype(np.int64)
        first, last = links[start], links[stop - 1]
        crossing, end = (first, last) if inwards else (last, first)
        self._found.add_all(
            ViolationKind.PATH,
            np.flatnonzero(crossing != rows.link)[:1],
            lambda i: f"{name}, row {i}: its path crosses the boundary by link {crossing[i]}",
        )
        child = rows.child.astype(np.int64)
        outside = Runs(child, rows.link.astype(np.int64), rows.offset, rows.units)
        inside = Runs(child, end, rows.inner, rows.units)
        self._take_ends(outside, inside, stop - start == 1, f"a row of the {name}")
        length = stop - start - 1
        row, position = ranges_of(start + inwards, length)
        load = self._sums(links[position], rows.units[row], self._n_links)
        self._add_joints(rows.path_offset, links)
        return Boundary(outside, inside, length, start + inwards, links), load

    def _take_ends(self, near: Runs, far: Runs, is_same: Int64Array, what: str) -> None:
        """Collect the capacity units at both ends of paths; a path of one link must use the same ones."""
        self._found.add_all(
            ViolationKind.CAPACITY,
            np.flatnonzero(is_same & (near.first != far.first))[:1],
            lambda i: (
                f"{what} takes only link {near.link[i]}, by units {near.first[i]} and {far.first[i]} of it"
            ),
        )
        distant = np.flatnonzero(~is_same)
        self._taken += [near[1:], (far.link[distant], far.first[distant], far.units[distant])]

    def _add_joints(self, offset: Int64Array, links: Int64Array) -> None:
        first = np.delete(np.arange(max(len(links) - 1, 0)), offset[1:-1] - 1)
        self._joints.append(np.stack([links[first], links[first + 1]], axis=1))

    def _sums(self, index: Int64Array | Int32Array, units: Int64Array, size: int) -> Int64Array:
        """Return the units by index; no subproblem has a total that int64 cannot hold."""
        total = np.zeros(size, dtype=np.int64)
        if float(units.sum(dtype=np.float64)) >= _SAFE:
            self._found.add(ViolationKind.CAPACITY, "it moves more than 2**62 units")
            return total
        np.add.at(total, index, units)
        return total

    def _check_roots(self, roots: Int64Array) -> None:
        """Check that a child has its native unit trees, then those of the ingress rows one after another."""
        rows, native = self._piece.entrances, self._piece.native
        order = np.lexsort((rows.root_unit, rows.child))
        child, begin, units = rows.child[order], rows.root_unit[order], rows.units[order]
        is_first = np.concatenate([[True], child[1:] != child[:-1]])[: len(child)]
        expected = np.concatenate([[0], begin[:-1] + units[:-1]])[: len(child)]
        expected = np.where(is_first, native[child], expected)
        self._found.add_all(
            ViolationKind.GLUE,
            np.flatnonzero(begin != expected)[:1],
            lambda i: (
                f"an ingress row continues as unit tree {begin[i]} of child {child[i]}, expected "
                f"{expected[i]}"
            ),
        )
        entering = self._sums(rows.child, rows.units, len(native))
        self._found.add_all(
            ViolationKind.SHARES,
            np.flatnonzero(native + entering != roots)[:1],
            lambda i: (
                f"child {i} has {roots[i]} unit trees, but {native[i]} native and {entering[i]} entering ones"
            ),
        )

    def _check_taken(self) -> None:
        """Check that no capacity unit at an end of a path is used twice, or exceeds the capacity."""
        link, first, units = (np.concatenate(column) for column in zip(*self._taken, strict=True))
        order = np.lexsort((first, link))
        link, first, stop = link[order], first[order], (first + units)[order]
        capacity = self._piece.capacity[link]
        self._found.add_all(
            ViolationKind.CAPACITY,
            np.flatnonzero(stop > capacity),
            lambda i: f"unit {stop[i] - 1} of local link {link[i]} is taken; it has {capacity[i]}",
        )
        self._found.add_all(
            ViolationKind.CAPACITY,
            np.flatnonzero((link[1:] == link[:-1]) & (first[1:] < stop[:-1])),
            lambda i: f"unit {first[i + 1]} of local link {link[i]} is taken twice",
        )
