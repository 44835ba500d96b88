"""Trees of an outermost subproblem by formula: relay trees on each of several planes.

Source: docs/proofs/decomposition.md, theorems 8 and 13.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.checks import UNIT_LIMIT, check_length, check_range, check_sum
from treadle.schedules.factored.relay_trees import RelayTrees
from treadle.schedules.factored.subproblem_trees import (
    COLUMN_AXES,
    EdgeUnits,
    FormulaTrees,
    SubproblemRows,
    TreeNumbers,
    check_roots,
    steady_runs,
)

_ROWS = ("relay_plane", "relay_root", "relay_block", "relay_child", "relay_count")


@dataclass(frozen=True, eq=False)
class RelayPlanes(FormulaTrees):
    """Every unit tree uses a single plane, and the trees of each plane are relay trees.

    The trees of a child have the *places* 0, 1, ...: those on plane 0 first, then those on plane 1, and so
    on. Egress and ingress units of a child are also in the order of planes. Within a plane places, blocks,
    relays and units are as in `treadle.schedules.factored.relay_trees.RelayTrees`.

    Parameters
    ----------
    plane_units : array of int64, shape (planes, n)
        Unit trees of each child on each plane.
    block : int
        g, a divisor of all of these.
    place : array of int64, shape (R,)
        Place of each unit tree of child 0, then of child 1, and so on: for each a permutation.
    relay_plane, relay_root : arrays of int32, shape (s,)
    relay_block : array of int64, shape (s,)
    relay_child : array of int32, shape (s,)
    relay_count : array of int64, shape (s,)
        Rows of relays, by planes.
    """

    plane_units: Int64Array
    block: int
    place: Int64Array
    relay_plane: Int32Array
    relay_root: Int32Array
    relay_block: Int64Array
    relay_child: Int32Array
    relay_count: Int64Array

    def __post_init__(self) -> None:
        what = "relay planes"
        self._freeze(what, axes=COLUMN_AXES | {"plane_units": 2})
        planes, n = self.plane_units.shape
        if type(self.block) is not int or self.block < 1 or n < 2 or planes < 1:
            raise ScheduleError(f"{what}: {n} children on {planes} planes make no such trees")
        check_range(what, "plane_units", self.plane_units, 0, UNIT_LIMIT)
        check_sum(what, "plane_units", self.plane_units.ravel(), UNIT_LIMIT // n)
        self._check_columns(what, n)
        for key in _ROWS:
            check_length(what, key, getattr(self, key), len(self.relay_plane))
        check_range(what, "relay_plane", self.relay_plane, 0, planes)
        if np.any(np.diff(self.relay_plane) < 0):
            raise ScheduleError(f"{what}: rows of relays must rise by planes")
        units = self.root_units
        check_length(what, "place", self.place, int(units.sum()))
        check_range(what, "place", self.place, 0, UNIT_LIMIT)
        child = np.repeat(np.arange(n), units)
        order = np.lexsort((self.place, child))
        if not np.array_equal(self.place[order] + self._before[child], np.arange(len(self.place))):
            raise ScheduleError(f"{what}: places of a child must be 0, 1, ..., once each")
        for side, starts in (("out", self.egress_start), ("in", self.entry_start)):
            self._check_totals(what, side, starts[:, -1])

    @cached_property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        total: Int64Array = self.plane_units.sum(axis=0)
        return total

    @cached_property
    def parts(self) -> tuple[RelayTrees, ...]:
        """Trees of each plane; their capacity units are the egress and ingress units."""
        n, g = self.plane_units.shape[1], self.block
        zero, offset = np.zeros(n, dtype=np.int64), np.zeros((n, 1), dtype=np.int64)
        none = offset.astype(np.int32)
        parts = []
        for plane, units in enumerate(self.plane_units):
            mine = self.relay_plane == plane
            rows = {key: getattr(self, key)[mine] for key in _ROWS[1:]}
            for key in ("relay_root", "relay_child"):
                check_range("relay planes", key, rows[key], 0, n)
            sent = units // g * (n - 1)
            np.subtract.at(sent, rows["relay_root"], rows["relay_count"])
            np.add.at(sent, rows["relay_child"], rows["relay_count"])
            out, into = (np.stack([zero, total], axis=1) for total in (sent * g, units.sum() - units))
            parts.append(RelayTrees(none, none, out, into, offset, offset, units, g, **rows))
        return tuple(parts)

    @cached_property
    def egress_start(self) -> Int64Array:
        """First egress unit of each plane at each child, and their number, shape (n, planes + 1)."""
        return offsets_of(np.stack([part.out_first[:, -1] for part in self.parts], axis=1))

    @cached_property
    def entry_start(self) -> Int64Array:
        """First ingress unit of each plane at each child, and their number, shape (n, planes + 1)."""
        return offsets_of(np.stack([part.in_first[:, -1] for part in self.parts], axis=1))

    @cached_property
    def _place_start(self) -> Int64Array:
        """First place of each plane at each child, and their number, shape (n, planes + 1)."""
        return offsets_of(self.plane_units.T)

    @cached_property
    def _before(self) -> Int64Array:
        """Unit trees of the children before each."""
        return offsets_of(self.root_units)[:-1]

    @cached_property
    def _tree(self) -> Int64Array:
        """Unit tree at each place, as `place`."""
        child = np.repeat(np.arange(len(self._before)), self.root_units)
        tree = np.empty_like(self.place)
        tree[self._before[child] + self.place] = np.arange(len(self.place)) - self._before[child]
        return tree

    @cached_property
    def _steady(self) -> Int64Array:
        """Unit trees from each on, itself included, whose places follow each other."""
        return steady_runs(self.place)

    @property
    def depth(self) -> int:
        """See `FormulaTrees.depth`."""
        return max(part.depth for part in self.parts)

    def _on_planes(self, roots: Int64Array, units: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the plane of unit trees, and their numbers among the child's trees of that plane."""
        place = self.place[self._before[roots] + units]
        plane = (self._place_start[roots, 1:] <= place[:, None]).sum(axis=1)
        return plane, place - self._place_start[roots, plane]

    def rows(self, roots: Int64Array, units: Int64Array) -> SubproblemRows:
        """See `SubproblemTrees.rows`."""
        check_roots("relay planes", roots, units, self.root_units)
        n, child = self.n_children, np.arange(self.n_children)
        plane, number = self._on_planes(roots, units)
        parent, exits, entries = (np.zeros((len(roots), n), dtype=np.int64) for _ in range(3))
        run = np.zeros(len(roots), dtype=np.int64)
        for at, part in enumerate(self.parts):
            mine = np.flatnonzero(plane == at)
            found = part.rows(roots[mine], number[mine])
            above = np.maximum(found.parent, 0)
            parent[mine], run[mine] = found.parent, found.run
            exits[mine] = np.where(found.parent < 0, 0, found.first + self.egress_start[above, at])
            entries[mine] = np.where(found.parent < 0, 0, found.last + self.entry_start[child, at])
        return self._rows(parent, exits, entries, np.minimum(run, self._steady[self._before[roots] + units]))

    def _units_into(self, roots: Int64Array, units: Int64Array, child: int) -> EdgeUnits:
        plane, number = self._on_planes(roots, units)
        parent, exits, entries = (np.zeros(len(roots), dtype=np.int64) for _ in range(3))
        for at, part in enumerate(self.parts):
            mine = np.flatnonzero(plane == at)
            parent[mine], first, last = part._units_into(roots[mine], number[mine], child)
            exits[mine] = first + self.egress_start[parent[mine], at]
            entries[mine] = last + self.entry_start[child, at]
        return parent, exits, entries

    def trees_out_of(self, child: int) -> TreeNumbers:
        """See `FormulaTrees.trees_out_of`."""
        roots, units = [], []
        for at, part in enumerate(self.parts):
            root, number = part.trees_out_of(child)
            roots.append(root)
            units.append(self._tree[self._before[root] + self._place_start[root, at] + number])
        return np.concatenate(roots), np.concatenate(units)

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `SubproblemTrees.owners`."""
        child, unit, is_owned = self._entry_units(links, offsets)
        unit = np.where(is_owned, unit, 0)
        planes = len(self.plane_units)
        plane = np.minimum((self.entry_start[child, 1:] <= unit[:, None]).sum(axis=1), planes - 1)
        root, tree = np.full(len(links), -1, dtype=np.int32), np.full(len(links), -1, dtype=np.int64)
        for at, part in enumerate(self.parts):
            mine = np.flatnonzero(is_owned & (plane == at))
            root[mine], number = part.arrivals(child[mine], unit[mine] - self.entry_start[child[mine], at])
            place = self._place_start[root[mine], at] + number
            tree[mine] = self._tree[self._before[root[mine]] + place]
        return root, tree
