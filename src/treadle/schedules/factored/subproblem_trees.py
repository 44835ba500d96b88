"""Trees of one subproblem of a factored forest: written out in a table, or given by a formula.

Trees by formula (`ColumnTrees`) have paths of two links, one out of a child and one into another. They number
the units that leave a child (egress units) and those that enter it (ingress units), and columns say which
capacity units these are. So a formula only has to say which egress unit and which ingress unit an edge uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from treadle.arrays import (
    BoolArray,
    FrozenArrays,
    Int32Array,
    Int64Array,
    check_offsets,
    distinct,
    offsets_of,
    sums_of,
)
from treadle.errors import ScheduleError
from treadle.schedules.checks import UNIT_LIMIT, check_length, check_range, check_sum

COLUMN_AXES: dict[str, int] = dict.fromkeys(
    ("out_links", "in_links", "out_first", "in_first", "out_offset", "in_offset"), 2
)
"""Axes of the columns of `ColumnTrees`: children and links."""

_CELLS = 2**22
"""Rows times children that are expanded together."""

TreeNumbers = tuple[Int64Array, Int64Array]
"""Root child of unit trees, and their numbers among the trees of that root."""

EdgeUnits = tuple[Int64Array, Int64Array, Int64Array]
"""Parent of a child in unit trees, the parent's egress unit, and the child's ingress unit."""

EdgeColumns = tuple[Int64Array, Int64Array, Int64Array, Int64Array]
"""Parent, path, first and last, as in `SubproblemRows`, of a child in unit trees."""


@dataclass(frozen=True, eq=False)
class SubproblemRows:
    """q unit trees of a subproblem with n children, one row each.

    Parameters
    ----------
    parent : array of int32, shape (q, n)
        Child from which each child receives the data; -1 at the root.
    path : array of int64, shape (q, n)
        Number of the path from the parent, in the numbering of the subproblem's trees; -1 at the root.
    first, last : arrays of int64, shape (q, n)
        Capacity unit that the tree uses of the path's first link and of its last link; -1 at the root.
    run : array of int64, shape (q,)
        This unit tree and the run - 1 following ones of the same root have equal parents and paths, and
        capacity units that rise by one from tree to tree.
    """

    parent: Int32Array
    path: Int64Array
    first: Int64Array
    last: Int64Array
    run: Int64Array


@dataclass(frozen=True, eq=False)
class SubproblemEdges:
    """Edges of unit trees of a subproblem: arrays of int64 of one length.

    Parameters
    ----------
    root, unit : arrays of int64
        The unit tree: its root child and number.
    parent, child : arrays of int64
        Children that the edge joins.
    path, first, last : arrays of int64
        As in `SubproblemRows`.
    """

    root: Int64Array
    unit: Int64Array
    parent: Int64Array
    child: Int64Array
    path: Int64Array
    first: Int64Array
    last: Int64Array


class SubproblemTrees(Protocol):
    """Trees of a subproblem, from a table or by a formula; all arrays use the subproblem's numbering."""

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, native ones first, shape (n,)."""

    @property
    def n_paths(self) -> int:
        """Exclusive upper bound of path numbers."""

    @property
    def link_bound(self) -> int:
        """Exclusive upper bound of the local links that paths use."""

    @property
    def depth(self) -> int:
        """Upper bound on the tree edges from a root to the farthest child."""

    def rows(self, roots: Int64Array, units: Int64Array) -> SubproblemRows:
        """Return unit tree `units[i]` of child `roots[i]`, for each i; ScheduleError if there is none."""

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Return root and unit of the tree that enters a child by a capacity unit of a link; -1 for none.

        The head of every local link in `links` must be a child.
        """

    def path_links(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Return offsets of paths, shape (p + 1,), and the local links of all of them, in order."""

    def edges_into(self, roots: Int64Array, units: Int64Array, child: int) -> EdgeColumns:
        """Return the edge of each unit tree `units[i]` of `roots[i]` into a child that is not its root."""

    def edges_out_of(self, child: int) -> SubproblemEdges:
        """Return all edges out of a child, of all unit trees."""

    def depths(self, roots: Int64Array, units: Int64Array, child: int, /) -> Int64Array:
        """Return the number of tree edges between the root child and a child in some unit trees."""


def ragged(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """starts[0], starts[0] + 1, ... for lengths[0] values, then the same for the next one."""
    begins = np.cumsum(lengths) - lengths
    numbers: Int64Array = np.arange(int(lengths.sum())) + np.repeat(starts - begins, lengths)
    return numbers


def unit_trees(trees: SubproblemTrees) -> TreeNumbers:
    """Return root and number of all unit trees of a subproblem."""
    counts = trees.root_units
    return np.repeat(np.arange(len(counts)), counts), ragged(np.zeros_like(counts), counts)


def steady_runs(places: Int64Array) -> Int64Array:
    """Return how many values from each on, itself included, rise by one from value to value."""
    ends = np.append(np.flatnonzero(np.diff(places) != 1), len(places) - 1)
    trees = np.arange(len(places))
    runs: Int64Array = ends[np.searchsorted(ends, trees)] - trees + 1
    return runs


def find_sorted(keys: Int64Array, wanted: Int64Array) -> Int64Array:
    """Return the index of each wanted value in rising keys, -1 where it is missing."""
    if not len(keys):
        return np.full(wanted.shape, -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


def check_roots(what: str, roots: Int64Array, units: Int64Array, root_units: Int64Array) -> None:
    """ScheduleError unless every root is a child that has a unit tree of that number."""
    check_range(what, "roots", roots, 0, len(root_units))
    wrong = np.flatnonzero((units < 0) | (units >= root_units[roots]))
    if wrong.size:
        root, unit = roots[wrong[0]], units[wrong[0]]
        raise ScheduleError(f"{what}: child {root} has {root_units[root]} unit trees, none of number {unit}")


@dataclass(frozen=True, eq=False)
class TableTrees(FrozenArrays):
    """Trees of a subproblem written out: a row is a run of unit trees with equal parents and paths.

    Parameters
    ----------
    root : array of int32, shape (s,)
        Rising.
    units : array of int64, shape (s,)
        Unit trees in each row; the rows of a root count its units 0, 1, ... in order.
    parent, path : arrays of int32, shape (s, n)
        -1 at the root.
    first, last : arrays of int64, shape (s, n)
        Capacity units of the row's first unit tree, see `SubproblemRows`.
    path_offset, path_table : arrays of int64, int32
        Local links of each path; none is empty.
    """

    root: Int32Array
    units: Int64Array
    parent: Int32Array
    path: Int32Array
    first: Int64Array
    last: Int64Array
    path_offset: Int64Array
    path_table: Int32Array

    def __post_init__(self) -> None:
        what = "table of trees"
        self._freeze(what, axes=dict.fromkeys(("parent", "path", "first", "last"), 2))
        s, n = self.parent.shape
        for key in ("root", "units", "path", "first", "last"):
            check_length(what, key, getattr(self, key), s)
        for key in ("path", "first", "last"):
            if getattr(self, key).shape != (s, n):
                raise ScheduleError(f"{what}: {key} has shape {getattr(self, key).shape}, expected {(s, n)}")
        check_range(what, "root", self.root, 0, n)
        if np.any(self.root[:-1] > self.root[1:]):
            raise ScheduleError(f"{what}: roots must rise from row to row")
        check_range(what, "units", self.units, 1, UNIT_LIMIT)
        check_sum(what, "units", self.units)
        n_paths = len(self.path_offset) - 1
        check_offsets(what, "path_offset", self.path_offset, n_paths, len(self.path_table), least=1)
        check_range(what, "path_table", self.path_table, 0, 2**31 - 1)
        is_root = np.arange(n) == self.root[:, None]
        bounds = (("parent", n), ("path", n_paths), ("first", UNIT_LIMIT), ("last", UNIT_LIMIT))
        for key, high in bounds:
            check_range(what, key, getattr(self, key), -1, high)
            if not np.array_equal(getattr(self, key) < 0, is_root):
                raise ScheduleError(f"{what}: {key} must be -1 at the root, and only there")

    @cached_property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        return sums_of(self.parent.shape[1], self.root, self.units)

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return len(self.path_offset) - 1

    @cached_property
    def link_bound(self) -> int:
        """One more than the greatest local link."""
        return int(self.path_table.max(initial=-1)) + 1

    @cached_property
    def row_depths(self) -> Int64Array:
        """Tree edges from the root to each child, in each row, shape (s, n)."""
        n = self.parent.shape[1]
        above = np.where(self.parent < 0, np.arange(n), self.parent).astype(np.int64)
        depth = (self.parent >= 0).astype(np.int64)
        for _ in range(n.bit_length()):  # each round doubles the number of edges that `above` spans
            depth = depth + np.take_along_axis(depth, above, axis=1)
            above = np.take_along_axis(above, above, axis=1)
        return depth

    @property
    def depth(self) -> int:
        """See `SubproblemTrees.depth`."""
        return int(self.row_depths.max(initial=0))

    @cached_property
    def _row_unit(self) -> Int64Array:
        """Unit trees before each row, all roots together."""
        return np.cumsum(self.units) - self.units

    @cached_property
    def _root_unit(self) -> Int64Array:
        """Unit trees before those of each root."""
        return np.cumsum(self.root_units) - self.root_units

    def find(self, roots: Int64Array, units: Int64Array) -> TreeNumbers:
        """Return the row of each unit tree, and its number within the row; ScheduleError if there is none."""
        check_roots("table of trees", roots, units, self.root_units)
        number = self._root_unit[roots] + units
        row = np.searchsorted(self._row_unit, number, side="right") - 1
        return row, number - self._row_unit[row]

    def rows(self, roots: Int64Array, units: Int64Array) -> SubproblemRows:
        """See `SubproblemTrees.rows`."""
        row, skip = self.find(roots, units)
        parent = self.parent[row]
        step = np.where(parent >= 0, skip[:, None], 0)
        path, run = self.path[row].astype(np.int64), self.units[row] - skip
        return SubproblemRows(parent, path, self.first[row] + step, self.last[row] + step, run)

    def edges_into(self, roots: Int64Array, units: Int64Array, child: int) -> EdgeColumns:
        """See `SubproblemTrees.edges_into`."""
        row, skip = self.find(roots, units)
        parent, path = (column[row, child].astype(np.int64) for column in (self.parent, self.path))
        return parent, path, self.first[row, child] + skip, self.last[row, child] + skip

    def edges_out_of(self, child: int) -> SubproblemEdges:
        """See `SubproblemTrees.edges_out_of`."""
        row, target = np.nonzero(self.parent == child)
        count = self.units[row]
        skip = ragged(np.zeros_like(count), count)
        row, target = np.repeat(row, count), np.repeat(target, count)
        root = self.root[row].astype(np.int64)
        unit = self._row_unit[row] - self._root_unit[root] + skip
        path, first, last = (column[row, target] for column in (self.path, self.first, self.last))
        parent = np.full(len(row), child)
        return SubproblemEdges(root, unit, parent, target, path.astype(np.int64), first + skip, last + skip)

    def depths(self, roots: Int64Array, units: Int64Array, child: int) -> Int64Array:
        """See `SubproblemTrees.depths`."""
        found: Int64Array = self.row_depths[self.find(roots, units)[0], child]
        return found

    @cached_property
    def _entries(self) -> UnitRuns:
        """All tree edges by their last links, named by their rows."""
        row, child = np.nonzero(self.parent >= 0)
        link = self.path_table[self.path_offset[1:][self.path[row, child]] - 1]
        return UnitRuns(link, self.last[row, child], row)

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `SubproblemTrees.owners`."""
        row, skip = self._entries.find(links, offsets)
        is_owned = (row >= 0) & (skip < self.units[row])
        root = np.where(is_owned, self.root[row], -1).astype(np.int32)
        unit = self._row_unit[row] - self._root_unit[self.root[row]] + skip
        return root, np.where(is_owned, unit, -1)

    def path_links(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """See `SubproblemTrees.path_links`."""
        starts = self.path_offset[numbers]
        lengths = self.path_offset[1:][numbers] - starts
        offsets = offsets_of(lengths)
        return offsets, self.path_table[ragged(starts, lengths)]


class UnitRuns:
    """Lookup table of runs of capacity units of links, each given by its first unit."""

    def __init__(self, link: Int32Array | Int64Array, unit: Int64Array, name: Int64Array) -> None:
        order = np.lexsort((unit, link))
        self._name, self._link, self._unit = name[order], link[order].astype(np.int64), unit[order]
        # (link, unit) does not fit one integer, so units are replaced by their order among all units
        self._levels = distinct(unit)
        self._keys = self._keys_of(self._link, self._unit)

    def _keys_of(self, link: Int64Array, unit: Int64Array) -> Int64Array:
        rank = np.searchsorted(self._levels, unit, side="right")
        keys: Int64Array = link * (len(self._levels) + 1) + rank
        return keys

    def find(self, links: Int32Array | Int64Array, units: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the name of the last run that begins at or before each unit, or -1, and the offset in it."""
        if not len(self._name):
            return np.full(len(links), -1, dtype=np.int64), np.zeros(len(links), dtype=np.int64)
        at = np.searchsorted(self._keys, self._keys_of(links.astype(np.int64), units), side="right") - 1
        is_found = (at >= 0) & (self._link[at] == links)
        return np.where(is_found, self._name[at], -1), np.where(is_found, units - self._unit[at], 0)


@dataclass(frozen=True, eq=False)
class ColumnTrees(FrozenArrays):
    """Trees by formula, and the capacity units that are the egress and ingress units of n children.

    Parameters
    ----------
    out_links, in_links : arrays of int32, shape (n, w)
        Links that leave and enter each child, in the order of the egress and ingress units that they hold. A
        link may occur several times, with different capacity units.
    out_first, in_first : arrays of int64, shape (n, w + 1)
        First egress (ingress) unit that each column holds; the last value of a row is their number. Columns
        may be empty.
    out_offset, in_offset : arrays of int64, shape (n, w)
        Capacity unit of the link that holds the column's first egress (ingress) unit; the others follow in
        order.

    Notes
    -----
    Path number p n w + q is the p-th of `out_links`, row by row, followed by the q-th of `in_links`.
    """

    out_links: Int32Array
    in_links: Int32Array
    out_first: Int64Array
    in_first: Int64Array
    out_offset: Int64Array
    in_offset: Int64Array

    def _check_columns(self, what: str, n: int) -> None:
        """ScheduleError unless each side has n rows of columns, whose units rise from 0."""
        for side in ("out", "in"):
            links, first = getattr(self, f"{side}_links"), getattr(self, f"{side}_first")
            w = links.shape[1]
            if w < 1 or (n * w) ** 2 >= UNIT_LIMIT:
                raise ScheduleError(f"{what}: {w} links for each of {n} children are none or too many")
            for key, shape, high in (
                ("links", (n, w), 2**31 - 1),
                ("offset", (n, w), UNIT_LIMIT),
                ("first", (n, w + 1), UNIT_LIMIT),
            ):
                array = getattr(self, f"{side}_{key}")
                if array.shape != shape:
                    raise ScheduleError(f"{what}: {side}_{key} has shape {array.shape}, expected {shape}")
                check_range(what, f"{side}_{key}", array, 0, high)
            if first[:, 0].any() or np.any(first[:, :-1] > first[:, 1:]):
                raise ScheduleError(f"{what}: {side}_first must rise from 0 in each row")

    def _check_totals(self, what: str, side: str, expected: Int64Array) -> None:
        """ScheduleError unless the trees use all units of a side."""
        found: Int64Array = getattr(self, f"{side}_first")[:, -1]
        for child in np.flatnonzero(found != expected)[:1]:
            raise ScheduleError(
                f"{what}: child {child} has {found[child]} {'egress' if side == 'out' else 'ingress'} units, "
                f"its trees take {expected[child]}"
            )

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        raise NotImplementedError

    @property
    def depth(self) -> int:
        """See `SubproblemTrees.depth`."""
        return 1

    @property
    def n_paths(self) -> int:
        """See `SubproblemTrees.n_paths`."""
        return self.out_links.size * self.in_links.size

    @cached_property
    def link_bound(self) -> int:
        """One more than the greatest local link."""
        return int(max(self.out_links.max(), self.in_links.max())) + 1

    def path_links(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """See `SubproblemTrees.path_links`."""
        source, sink = np.divmod(numbers, self.in_links.size)
        links = np.stack([self.out_links.ravel()[source], self.in_links.ravel()[sink]], axis=1)
        return 2 * np.arange(len(numbers) + 1), links.ravel()

    @cached_property
    def _held(self) -> UnitRuns:
        """Columns that hold ingress units, named by their indices in `in_links`, row by row."""
        held = np.flatnonzero(np.diff(self.in_first, axis=1).ravel())
        return UnitRuns(self.in_links.ravel()[held], self.in_offset.ravel()[held], held)

    def _entry_units(
        self, links: Int32Array, offsets: Int64Array
    ) -> tuple[Int64Array, Int64Array, BoolArray]:
        """Return the child and the ingress unit of capacity units, and whether they have any."""
        place, skip = self._held.find(links, offsets)
        child, column = np.divmod(np.maximum(place, 0), self.in_links.shape[1])
        unit = self.in_first[child, column] + skip
        return child, unit, (place >= 0) & (unit < self.in_first[child, column + 1])

    def _rows(
        self, parent: Int64Array, exits: Int64Array, entries: Int64Array, run: Int64Array
    ) -> SubproblemRows:
        """Return rows with these parents (-1 at the root), egress and ingress units, and runs up to `run`."""
        is_root = parent < 0
        child = np.arange(len(self.out_links))
        supplier = np.maximum(parent, 0)
        source, first, left_out = holders(self.out_first, self.out_offset, supplier, exits)
        sink, last, left_in = holders(self.in_first, self.in_offset, child, entries)
        path = (supplier * self.out_links.shape[1] + source) * self.in_links.size
        path += child * self.in_links.shape[1] + sink
        left = np.where(is_root, UNIT_LIMIT, np.minimum(left_out, left_in)).min(axis=1)
        path, first, last = (np.where(is_root, -1, column) for column in (path, first, last))
        return SubproblemRows(parent.astype(np.int32), path, first, last, np.minimum(left, run))

    def edges_into(self, roots: Int64Array, units: Int64Array, child: Any) -> EdgeColumns:
        """See `SubproblemTrees.edges_into`."""
        parent, exits, entries = self._units_into(roots, units, child)
        source, first, _ = holders(self.out_first, self.out_offset, parent, exits)
        sink, last, _ = holders(self.in_first, self.in_offset, np.full_like(parent, child), entries)
        path = (parent * self.out_links.shape[1] + source) * self.in_links.size
        return parent, path + child * self.in_links.shape[1] + sink, first, last

    def _units_into(self, roots: Int64Array, units: Int64Array, child: Any) -> EdgeUnits:
        """Return the edge of unit trees into a child that is not their root."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class CirculantTrees(ColumnTrees):
    """Every child sends every unit tree directly to all others; n equal children.

    Egress unit i of child x leads to child x + d(i) (mod n), where it is ingress unit i. With r native trees
    per child, in blocks of g: unit tree j, j = b g + a with a < g, takes the egress units
    ``b g (n - 1) + (d - 1) g + a`` for d = 1 .. n - 1.

    Parameters
    ----------
    n_children : int
        n.
    native_units : int
        r, of each child.
    block : int
        g, a divisor of r.

    Notes
    -----
    The last value of each row of `out_first` and `in_first` is r (n - 1).
    """

    n_children: int
    native_units: int
    block: int

    def __post_init__(self) -> None:
        what = "circulant trees"
        for key in ("n_children", "native_units", "block"):
            if type(getattr(self, key)) is not int:
                raise ScheduleError(f"{what}: {key} must be an integer")
        self._freeze(what, axes=COLUMN_AXES)
        n, r, g = self.n_children, self.native_units, self.block
        if n < 2 or r < 1 or g < 1 or r % g or r * n >= UNIT_LIMIT:
            raise ScheduleError(f"{what}: {n} children of {r} unit trees in blocks of {g} make no such trees")
        self._check_columns(what, n)
        for side in ("out", "in"):
            self._check_totals(what, side, np.full(n, r * (n - 1)))

    @cached_property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        return np.full(self.n_children, self.native_units, dtype=np.int64)

    def rows(self, roots: Int64Array, units: Int64Array) -> SubproblemRows:
        """See `SubproblemTrees.rows`."""
        check_roots("circulant trees", roots, units, self.root_units)
        child = np.arange(self.n_children)
        parent = np.where(child == roots[:, None], -1, roots[:, None])
        _, unit, _ = self._units_into(roots[:, None], units[:, None], child)
        unit = np.where(parent < 0, 0, unit)
        return self._rows(parent, unit, unit, self.block - units % self.block)

    def _units_into(self, roots: Int64Array, units: Int64Array, child: Any) -> EdgeUnits:
        n, g = self.n_children, self.block
        unit = units // g * g * (n - 1) + ((child - roots) % n - 1) * g + units % g
        return roots, unit, unit

    def edges_out_of(self, child: int) -> SubproblemEdges:
        """See `SubproblemTrees.edges_out_of`."""
        n, r = self.n_children, self.native_units
        roots = np.full(r * (n - 1), child)
        units, children = np.repeat(np.arange(r), n - 1), np.tile(np.delete(np.arange(n), child), r)
        return SubproblemEdges(roots, units, roots, children, *self.edges_into(roots, units, children)[1:])

    def depths(self, roots: Int64Array, _units: Int64Array, child: int) -> Int64Array:
        """See `SubproblemTrees.depths`."""
        return np.where(roots != child, 1, 0)

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `SubproblemTrees.owners`."""
        n, g = self.n_children, self.block
        child, unit, is_owned = self._entry_units(links, offsets)
        block, rest = np.divmod(unit, g * (n - 1))
        distance, within = np.divmod(rest, g)
        root = np.where(is_owned, (child - distance - 1) % n, -1).astype(np.int32)
        return root, np.where(is_owned, block * g + within, -1)


class FormulaTrees(ColumnTrees):
    """Trees by formula of an outermost subproblem, whose children differ."""

    @property
    def n_children(self) -> int:
        """Number of children n."""
        return len(self.out_links)

    def rows(self, roots: Int64Array, units: Int64Array) -> SubproblemRows:
        """See `SubproblemTrees.rows`."""
        raise NotImplementedError

    def trees_out_of(self, child: int) -> TreeNumbers:
        """Return the unit trees in which a child sends, and perhaps some others."""
        mine = np.arange(self.root_units[child])
        return np.full(len(mine), child), mine

    def edges_out_of(self, child: int) -> SubproblemEdges:
        """See `SubproblemTrees.edges_out_of`."""
        roots, units = self.trees_out_of(child)
        parts = [np.zeros((7, 0), dtype=np.int64)]
        step = max(1, _CELLS // self.n_children)
        for begin in range(0, len(roots), step):
            rows = self.rows(roots[begin : begin + step], units[begin : begin + step])
            line, target = np.nonzero(rows.parent == child)
            at = begin + line
            columns = (column[line, target] for column in (rows.path, rows.first, rows.last))
            parts.append(np.stack([roots[at], units[at], np.full(len(at), child), target, *columns]))
        return SubproblemEdges(*np.concatenate(parts, axis=1))

    def depths(self, roots: Int64Array, units: Int64Array, child: int) -> Int64Array:
        """See `SubproblemTrees.depths`."""
        depth = np.zeros(len(roots), dtype=np.int64)
        rest = np.flatnonzero(roots != child)
        parents, *_ = self.edges_into(roots[rest], units[rest], child)
        depth[rest] = 1
        for parent in np.unique(parents[parents != roots[rest]]).tolist():
            mine = rest[parents == parent]
            depth[mine] += self.depths(roots[mine], units[mine], parent)
        return depth


def holders(first: Int64Array, offset: Int64Array, row: Int64Array, unit: Int64Array) -> EdgeUnits:
    """Return the column of a row that holds each unit, its capacity unit, and the units from there on."""
    column = np.zeros(unit.shape, dtype=np.int64)
    for later in range(1, first.shape[1] - 1):
        column += unit >= first[row, later]
    return column, unit - first[row, column] + offset[row, column], first[row, column + 1] - unit
