"""Hops within the subproblems of a factored forest, tree by tree, for the verifier.

A *state* is a run of unit trees of a subproblem that agree in all that hops depend on, in the subproblems
inside as well: their depths, and the trees inside that they continue as. A *port* is a rank that supplies
data which leave a subproblem: in each state, some number of hops from where the tree entered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct, offsets_of, ranges_of
from treadle.schedules.factored import Crossings, Subproblem
from treadle.verification.factored.runs import Overlay, RunTable, joined


@dataclass(frozen=True, eq=False)
class TreeParts:
    """Trees of a subproblem, one row for each run of unit trees; s rows, n children.

    Parameters
    ----------
    root, first, units : arrays of int64, shape (s,)
        Unit trees first, ..., first + units - 1 of child `root`.
    parent : array of int64, shape (s, n)
        -1 at the root.
    start, end : arrays of int64, shape (s, n)
        First and last link (of the fabric) of the path into each child; undefined at the root.
    leaves, enters : arrays of int64, shape (s, n)
        Capacity units of these links that the first unit tree uses; the other trees use the next ones.
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
    """Hops within a subproblem, from the rank by which a tree enters it, or from its root.

    Parameters
    ----------
    states : RunTable
        States by root child and unit tree.
    depth : array of int32, shape (s, n)
        Hops to where the trees of each state enter each child; no rows if trees are not followed.
    inner : array of int32, shape (s, n)
        State of the child that they continue in, if it is a subproblem; -1 for ranks.
    reach : array of int64, shape (s,)
        Hops to the farthest rank.
    kinds : tuple of Hops
        Hops of the children that are subproblems.
    kind : array of int64, shape (n,)
        Index in `kinds` of each child; -1 for ranks.
    `exits` : RunTable
        Ports by local link and capacity unit.
    port_child, port_inner : arrays of int64
        Child of each port, and the port of that child if it is a subproblem; -1 for ranks.
    latest : int
        Maximum number of hops to any port; without `depth` every port counts as this far.
    is_exact : bool
        Whether hops are exact; otherwise they are upper bounds.
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
        """Return the hops to a port in a state, for each pair."""
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
        """Return the states (`row`) of the trees that enter by runs of capacity units of local links."""
        rows = self.piece.entrances
        met = RunTable(rows.link, rows.offset, rows.units).overlay(slots, first, units)
        found = self.states.overlay(rows.child[met.row], rows.root_unit[met.row] + met.place, met.units)
        return found.within(met)

    def planted(self, first: Int64Array, units: Int64Array) -> Overlay:
        """Return the states of runs of native unit trees, counted over all children."""
        native = self.piece.native
        roots = np.flatnonzero(native)
        table = RunTable(np.zeros_like(roots), offsets_of(native)[roots], native[roots])
        met = table.overlay(np.zeros_like(first), first, units)
        return self.states.overlay(roots[met.row], met.place, met.units).within(met)

    def natives(self) -> Overlay:
        """Return the states of all native unit trees, run by run."""
        return self.planted(np.zeros(1, dtype=np.int64), np.array([self.piece.native.sum()]))


Slots = Callable[[Int64Array, Int64Array], Int64Array]
"""Function from subproblems and links of the fabric to local numbers of these links."""


@dataclass(frozen=True)
class Height:
    """The height of the highest tree, or an upper bound of it."""

    hops: int
    is_exact: bool


@dataclass(frozen=True, eq=False)
class ChildSubproblems:
    """The subproblems among the n children of a subproblem.

    Parameters
    ----------
    number : array of int64, shape (n,)
        Number of each in the layer; -1 for ranks.
    kind : array of int64, shape (n,)
        Index in `hops` of each; -1 for ranks.
    hops : tuple of Hops
    links : array of int64
        Links of the fabric by local number, of the subproblem around them.
    """

    number: Int64Array
    kind: Int64Array
    hops: tuple[Hops, ...]
    links: Int64Array

    @property
    def latest(self) -> int:
        """Maximum number of hops within one of them to a port."""
        return max((hops.latest for hops in self.hops), default=0)

    @property
    def reach(self) -> int:
        """Maximum reach within one of them."""
        return max((int(hops.reach.max(initial=0)) for hops in self.hops), default=0)


def coarse(piece: Subproblem, inside: ChildSubproblems) -> Hops:
    """Return upper bounds of the hops in a subproblem whose trees are not followed.

    One state stands for all its trees, and one port for all its egress rows: a path passes every child at
    most once.
    """
    hops = (piece.n_children - 1) * (1 + inside.latest)
    roots = np.flatnonzero(piece.trees.root_units)
    zero = np.zeros(len(roots), dtype=np.int64)
    none = np.zeros((0, piece.n_children), dtype=np.int32)
    rows = piece.exits
    return Hops(
        piece=piece,
        states=RunTable(roots, zero, piece.trees.root_units[roots], names=zero),
        depth=none,
        inner=none,
        reach=np.array([hops + inside.reach]),
        kinds=(),
        kind=np.zeros(0, dtype=np.int64),
        exits=RunTable(rows.link, rows.offset, rows.units, names=np.zeros(len(rows.link), dtype=np.int64)),
        port_child=np.zeros(1, dtype=np.int64),
        port_inner=np.zeros(1, dtype=np.int64),
        latest=hops + inside.latest,
        is_exact=False,
    )


def egress_ports(
    rows: Crossings, kinds: tuple[Hops, ...], kind: Int64Array, slots: Int64Array
) -> tuple[RunTable, Int64Array, Int64Array]:
    """Return the ports of a subproblem by runs of its egress rows, and child and inner port of each.

    Parameters
    ----------
    rows : Crossings
        The egress rows.
    kinds, kind
        As in `Hops`.
    slots : array of int64, shape (rows,)
        Local number, in the child, of the first link of the path of each row; undefined for ranks.
    """
    here = np.flatnonzero(kind[rows.child] < 0)
    zero = np.zeros_like(here)
    found = [Overlay(here, zero, rows.units[here], zero - 1, zero)]
    for number, hops in enumerate(kinds):
        mine = np.flatnonzero(kind[rows.child] == number)
        met = hops.exits.overlay(slots[mine], rows.inner[mine], rows.units[mine])
        found.append(met._replace(query=mine[met.query]))
    row, skip, units, inner, _ = joined(*found)
    pairs = np.stack([rows.child[row].astype(np.int64), inner])
    ports, port = np.unique(pairs, axis=1, return_inverse=True)
    table = RunTable(rows.link[row], rows.offset[row] + skip, units, names=port.ravel().astype(np.int64))
    return table, ports[0], ports[1]


def cut_into_states(
    n_rows: int, parts: list[tuple[Int64Array, Int64Array]]
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Return row and skip of the segments of rows cut wherever a part begins, and the tables for `spread`.

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
    """Return the pairs of a part and a segment of `cut_into_states` that it covers."""
    radix = len(levels) + 1
    low = np.searchsorted(keys, row * radix + np.searchsorted(levels, skip))
    high = np.searchsorted(keys, row * radix + np.searchsorted(levels, skip + units))
    return ranges_of(low, high - low)
