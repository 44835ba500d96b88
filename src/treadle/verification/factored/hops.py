"""Hops within the pieces of a factored forest, tree by tree, for the verifier.

A *state* is a run of unit trees of a piece that are alike in all that hops depend on, in the pieces inside
as well: their depths, and which trees they are further in. A *port* is a rank, seen from outside, that
supplies what leaves a piece: in a state, so and so many hops from where the tree came in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct
from treadle.schedules.factored import Crossings, Subproblem
from treadle.verification.factored.runs import Overlay, RunTable


@dataclass(frozen=True, eq=False)
class TreeParts:
    """Trees of a piece, a row each run of unit trees; s rows, n children.

    Parameters
    ----------
    root, first, units : arrays of int64, shape (s,)
        Unit trees first, ..., first + units - 1 of child `root`.
    parent : array of int64, shape (s, n)
        -1 at the root.
    start, end : arrays of int64, shape (s, n)
        First and last link (of the fabric) of the path into each child; any at the root.
    leaves, enters : arrays of int64, shape (s, n)
        Capacity units of these links that the first unit tree takes; the next ones follow.
    """

    root: Int64Array
    first: Int64Array
    units: Int64Array
    parent: Int64Array
    start: Int64Array
    end: Int64Array
    leaves: Int64Array
    enters: Int64Array


@dataclass(frozen=True, eq=False)
class Hops:
    """Hops within a piece, from the rank by which a tree enters it, or its root.

    Parameters
    ----------
    piece : Piece
    states : RunTable
        States by root child and unit tree.
    depth : array of int32, shape (s, n)
        To where each state's trees enter each child.
    inner : array of int32, shape (s, n)
        State of the child's own piece that they go on with; -1 for ranks.
    reach : array of int64, shape (s,)
        To the farthest rank.
    kinds : tuple of Hops
        Of the children that are pieces.
    kind : array of int64, shape (n,)
        Which of them each child is; -1 for ranks.
    exits : RunTable
        Ports by local link and capacity unit.
    port_child, port_inner : arrays of int64
        Child of each port, and the port of that child's piece; -1 for ranks.
    latest : int
        Most hops to any port; what every supply counts as if there is no `depth`.
    is_exact : bool
        Whether all is as it is in the trees; else hops may be fewer.
    """

    piece: Subproblem
    states: RunTable
    depth: Int32Array
    inner: Int32Array
    reach: Int64Array
    kinds: tuple[Hops, ...]
    kind: Int64Array
    exits: RunTable
    port_child: Int64Array
    port_inner: Int64Array
    latest: int
    is_exact: bool

    def supply(self, states: Int64Array, ports: Int64Array) -> Int64Array:
        """Hops to a port in a state, for each pair."""
        if not len(self.depth):
            return np.full(len(states), self.latest, dtype=np.int64)
        child = self.port_child[ports]
        hops = self.depth[states, child].astype(np.int64)
        for number, kind in enumerate(self.kinds):
            deep = np.flatnonzero(self.kind[child] == number)
            inner = self.inner[states[deep], child[deep]].astype(np.int64)
            hops[deep] += kind.supply(inner, self.port_inner[ports[deep]])
        return hops

    def entered(self, slots: Int64Array, first: Int64Array, units: Int64Array) -> Overlay:
        """States (`row`) of the trees that come in by runs of capacity units of local links."""
        rows = self.piece.entrances
        met = RunTable(rows.link, rows.offset, rows.units).overlay(slots, first, units)
        found = self.states.overlay(rows.child[met.row], rows.root_unit[met.row] + met.place, met.units)
        return moved(found, met)

    def planted(self, first: Int64Array, units: Int64Array) -> Overlay:
        """States of runs of the piece's native unit trees, counted over all its children."""
        native = self.piece.native
        planted = np.flatnonzero(native)
        key = np.zeros(len(planted), dtype=np.int64)
        met = RunTable(key, (np.cumsum(native) - native)[planted], native[planted]).overlay(
            np.zeros(len(first), dtype=np.int64), first, units
        )
        return moved(self.states.overlay(planted[met.row], met.place, met.units), met)

    def ports(self, slots: Int64Array, first: Int64Array, units: Int64Array) -> Overlay:
        """Ports (`row`) that supply runs of capacity units of local links."""
        return self.exits.overlay(slots, first, units)


Slots = Callable[[Int64Array, Int64Array], Int64Array]
"""Local numbers, in pieces, of links of the fabric."""


@dataclass(frozen=True)
class Height:
    """Hops of the highest tree, or a bound on them."""

    hops: int
    is_exact: bool


@dataclass(frozen=True, eq=False)
class ChildSubproblems:
    """The pieces that are children of a piece with n children.

    Parameters
    ----------
    number : array of int64, shape (n,)
        -1 for ranks.
    kind : array of int64, shape (n,)
        Which of `hops` is theirs; -1 for ranks.
    hops : tuple of Hops
    links : array of int64
        Links of the fabric by local number.
    """

    number: Int64Array
    kind: Int64Array
    hops: tuple[Hops, ...]
    links: Int64Array

    @property
    def latest(self) -> int:
        """Most hops within one of them to anything that supplies an exit."""
        return max((hops.latest for hops in self.hops), default=0)

    @property
    def reach(self) -> int:
        """Farthest reach within one of them."""
        return max((int(hops.reach.max(initial=0)) for hops in self.hops), default=0)


def moved(found: Overlay, within: Overlay) -> Overlay:
    """What was found of parts of runs, as parts of those runs."""
    return Overlay(
        within.query[found.query], within.skip[found.query] + found.skip, found.units, found.row, found.place
    )


def coarse(piece: Subproblem, *, latest: int, reach: int) -> Hops:
    """One state that stands for all trees of a piece, and one port for all its exits."""
    roots = np.flatnonzero(piece.trees.root_units)
    zero = np.zeros(len(roots), dtype=np.int64)
    none = np.zeros((0, piece.n_children), dtype=np.int32)
    rows = piece.exits
    return Hops(
        piece=piece,
        states=RunTable(roots, zero, piece.trees.root_units[roots], names=zero),
        depth=none,
        inner=none,
        reach=np.array([reach]),
        kinds=(),
        kind=np.zeros(0, dtype=np.int64),
        exits=RunTable(rows.link, rows.offset, rows.units, names=np.zeros(len(rows.link), dtype=np.int64)),
        port_child=np.zeros(1, dtype=np.int64),
        port_inner=np.zeros(1, dtype=np.int64),
        latest=latest,
        is_exact=False,
    )


def egress_ports(
    rows: Crossings, kinds: tuple[Hops, ...], kind: Int64Array, slots: Int64Array
) -> tuple[RunTable, Int64Array, Int64Array]:
    """Ports of a piece by runs of its exits, and child and inner port of each port.

    Parameters
    ----------
    rows : Crossings
        Its exits.
    kinds, kind
        As of `Hops`.
    slots : array of int64, shape (rows,)
        Local number, in the child's piece, of the first link of each exit's path; any for ranks.
    """
    found: list[tuple[Int64Array, Int64Array, Int64Array, Int64Array]] = []
    here = np.flatnonzero(kind[rows.child] < 0)
    found.append((here, np.zeros(len(here), dtype=np.int64), rows.units[here], np.full(len(here), -1)))
    for number, hops in enumerate(kinds):
        mine = np.flatnonzero(kind[rows.child] == number)
        met = hops.ports(slots[mine], rows.inner[mine], rows.units[mine])
        found.append((mine[met.query], met.skip, met.units, met.row))
    row, skip, units, inner = (np.concatenate(column) for column in zip(*found, strict=True))
    pairs = np.stack([rows.child[row].astype(np.int64), inner])
    ports, port = np.unique(pairs, axis=1, return_inverse=True)
    table = RunTable(rows.link[row], rows.offset[row] + skip, units, names=port.ravel().astype(np.int64))
    return table, ports[0], ports[1]


def cut_into_states(
    n_rows: int, parts: list[tuple[Int64Array, Int64Array]]
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Rows cut wherever one of their parts begins: row and skip of each piece, and what `spread` needs.

    Parameters
    ----------
    n_rows : int
    parts : list of (row, skip)
    """
    rows = np.concatenate([np.arange(n_rows), *(row for row, _ in parts)])
    skips = np.concatenate([np.zeros(n_rows, dtype=np.int64), *(skip for _, skip in parts)])
    levels = distinct(skips)
    keys = distinct(rows * (len(levels) + 1) + np.searchsorted(levels, skips))
    row, level = np.divmod(keys, len(levels) + 1)
    return row, levels[level], keys, levels


def spread(
    row: Int64Array, skip: Int64Array, units: Int64Array, keys: Int64Array, levels: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Which part (by number) covers which piece of `cut_into_states`, as pairs."""
    radix = len(levels) + 1
    low = np.searchsorted(keys, row * radix + np.searchsorted(levels, skip))
    high = np.searchsorted(keys, row * radix + np.searchsorted(levels, skip + units))
    count = high - low
    part = np.repeat(np.arange(len(row)), count)
    piece = np.arange(len(part)) + np.repeat(low - (np.cumsum(count) - count), count)
    return part, piece
