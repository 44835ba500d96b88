"""Division of the children's trees among planes, by groups of equal children."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, sums_of
from treadle.context import context
from treadle.engine import core, run_core
from treadle.schedules.factored import MOST_SHARES, EvenAllocation
from treadle.synthesis.core_values.tree_values import PlanePairs, PlaneTable
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_tables import plane_tables
from treadle.unsupported import Unsupported

Floats = NDArray[np.floating]

MOST_CELLS = 2**22
"""Planes times children times children of tables that are made in full, where shares by groups fail."""

_ROUNDS = 200
_FITTING = 2**28  # groups times groups times planes times rounds
_NEAR = 1e-9
_GOLDEN = 0.6180339887498949  # fractional parts of its multiples are spread evenly


@dataclass(frozen=True)
class PlaneAllocation:
    """n_s(x, y), columns as in `treadle.schedules.factored.plane_trees.PlaneTrees`."""

    group: Int32Array
    group_units: Int64Array
    pair_root: Int32Array
    pair_child: Int32Array
    pair_units: Int64Array


@dataclass(frozen=True)
class Changes:
    """Excess of the children's sends over their own trees; pairs ascend, each once."""

    root: Int64Array
    child: Int64Array
    units: Int64Array

    @staticmethod
    def of(root: Int64Array, child: Int64Array, units: Int64Array, n: int) -> Changes:
        """Summed up by pairs."""
        pairs, place = np.unique(root * n + child, return_inverse=True)
        total = sums_of(len(pairs), place.ravel(), units)
        return Changes(pairs // n, pairs % n, total)


def plane_allocation(
    out: Int64Array, into: Int64Array, native: Int64Array, changes: Changes | None = None
) -> PlaneAllocation | Unsupported:
    """Return the units that each child sends to each other by each plane, or why there are none.

    `out` and `into`, shape (n, planes), are all units that leave and enter each child by each plane, and
    `native` the trees of each child. Pairs with `changes` do not have exactly the trees of their root.

    Shares of pairs of groups are fitted to all sums, rounded, and spread evenly; the core then moves the
    units that are wrong. Where that fails, and children are few, planes are removed one by one; with two
    planes a failure proves that what children send each other cannot be divided. Source:
    docs/proofs/decomposition.md, after proposition 14.
    """
    n, planes = out.shape
    none = np.zeros(0, dtype=np.int64)
    changes = changes or Changes(none, none, none)
    keys = np.concatenate([native[:, None], out, into], axis=1)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    parts = _EqualChildren(group.ravel().astype(np.int32), out, into, native, changes)
    if n * parts.n * planes > MOST_SHARES:
        return Unsupported("too many of its children get unequal bandwidth from the planes")
    context().report("planes shared by children", 0, planes)
    fitted = _fitted(parts)
    even = EvenAllocation(parts.group, _rounded(parts, fitted))
    found = _settled(parts, even, _changed(parts, fitted, even))
    if found is None and planes * n * n <= MOST_CELLS:
        return _in_full(parts, even)
    return found or Unsupported(
        "its planes carry unequal bandwidth to the children, and few moves of units do not suffice"
    )


class _EqualChildren:
    """Children by equivalence class."""

    def __init__(
        self, group: Int32Array, out: Int64Array, into: Int64Array, native: Int64Array, changes: Changes
    ) -> None:
        self.group, self.changes = group, changes
        first = np.unique(group, return_index=True)[1]
        self.n = len(first)
        self.out, self.into, self.native = out, into, native[first]
        self.out_by_group, self.into_by_group = out[first], into[first]
        self.sizes = np.bincount(group, minlength=self.n)
        same = np.eye(self.n, dtype=np.int64)
        # children of each group to which one of each group sends, (sender, receiver)
        self.receivers, self.senders = self.sizes - same, self.sizes[:, None] - same
        # members of the larger group with which one of the smaller group shares units, see `EvenAllocation`
        self.others = np.maximum(self.sizes, self.sizes[:, None]) - same
        more = sums_of((self.n, self.n), (group[changes.root], group[changes.child]), changes.units)
        pairs = np.maximum(self.sizes[:, None] * self.receivers, 1)
        # average amount that one child sends to another
        self.sent = np.maximum(self.native[:, None] + more / pairs, 0) * (self.receivers > 0)


def _fitted(parts: _EqualChildren) -> Floats:
    """Return allocations n_s of pairs of groups with the given sums as far as they converge, (n, n, planes).

    Iterative proportional fitting in three directions: of all shares with these sums they are the most even.
    """
    sums = np.concatenate([parts.out_by_group, parts.into_by_group])
    # equal planes are fitted once
    distinct, plane, counts = np.unique(sums, axis=1, return_inverse=True, return_counts=True)
    out, into = np.split(distinct.astype(float), 2)
    shares = out[:, None] * into[None] * (parts.sent > 0)[:, :, None]
    rounds = min(_ROUNDS, max(8, _FITTING // max(shares.size, 1)))
    for turn in range(rounds):
        context().report("planes shared by children", turn, rounds)
        shares *= _ratio(parts.sent, shares @ counts)[:, :, None]
        shares *= _ratio(into, np.einsum("abs,ab->bs", shares, parts.senders))[None]
        leaving = np.einsum("abs,ab->as", shares, parts.receivers)
        shares *= _ratio(out, leaving)[:, None]
        if np.all(np.abs(leaving - out) <= _NEAR * out) and turn:
            break
    shares *= _ratio(parts.sent, shares @ counts)[:, :, None]
    fitted: Floats = shares[:, :, plane.ravel()]
    return fitted


def _ratio(wanted: Floats, found: Floats) -> Floats:
    ratio: Floats = np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)
    return ratio


def _rounded(parts: _EqualChildren, fitted: Floats) -> Int64Array:
    """Return `group_units` of `PlaneTrees`: what a child of the smaller group has with the entire larger one.

    What rounding adds to a child's sums is removed with the next group, smaller groups first.
    """
    n, planes = parts.n, fitted.shape[2]
    shares = fitted * (parts.native[:, None] * _ratio(np.ones((n, n)), parts.sent))[:, :, None]
    lost = parts.native[:, None, None] / planes * np.ones((n, n, planes))
    shares = np.where(shares.any(axis=2, keepdims=True), shares, lost)
    wanted = shares * parts.others[:, :, None]
    total = parts.native[:, None] * parts.others
    units: Int64Array = np.zeros((n, n, planes), dtype=np.int64)
    over = np.zeros((2, n, planes))  # what rows and columns lack
    order = np.argsort(parts.sizes, kind="stable")
    for step, w in enumerate(order.tolist()):
        less = order[:step]
        part = (parts.sizes[less] / parts.sizes[w])[:, None]
        for side, at in ((0, (less, w)), (1, (w, less))):
            units[at] = _round_rows(wanted[at], over[side, less], total[at])
            lack = wanted[at] - units[at]
            over[side, less] += lack
            over[1 - side, w] += (lack * part).sum(axis=0)
        units[w, w] = _round_rows(wanted[w, w][None], over[:1, w], total[w, w, None])[0]
        over[:, w] += wanted[w, w] - units[w, w]
    return units


def _round_rows(shares: Floats, over: Floats, total: Int64Array) -> Int64Array:
    """Round shares plus what rows lack to integers >= 0 of these sums, 0 where a share is 0."""
    may = shares > 0
    wanted = np.where(may, shares + over, 0)
    whole = np.floor(np.maximum(wanted, 0) + _NEAR).astype(np.int64)
    lack = np.minimum(total - whole.sum(axis=1), may.sum(axis=1))
    order = np.argsort(np.where(may, whole - wanted, np.inf), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(wanted.shape[1]), order.shape), axis=1)
    whole += rank < lack[:, None]
    # rows with numbers that were below 0 are too large, perhaps by several units
    order = np.argsort(-whole, axis=1, kind="stable")
    sorted_units = np.take_along_axis(whole, order, axis=1)
    before = np.cumsum(sorted_units, axis=1) - sorted_units
    over = (whole.sum(axis=1) - total)[:, None]
    least = np.where(np.arange(whole.shape[1]) == 0, over, 0)  # what is still missing goes to the largest
    taken = np.clip(over - before, np.minimum(least, 0), sorted_units)
    np.put_along_axis(whole, order, sorted_units - taken, axis=1)
    return whole


def _changed(parts: _EqualChildren, fitted: Floats, even: EvenAllocation) -> Int64Array:
    """Return the units of changed pairs by planes, shape (pairs, planes)."""
    changes = parts.changes
    units = even.allocation(changes.root, changes.child).T.copy()
    shares = fitted[parts.group[changes.root], parts.group[changes.child]]
    stop = np.cumsum(shares, axis=1)
    stop /= np.maximum(stop[:, -1:], _NEAR)
    stop[:, -1] = 1
    start = (np.arange(len(units)) * _GOLDEN % 1)[:, None]
    more = np.floor(np.abs(changes.units)[:, None] * stop + start).astype(np.int64)
    units += np.sign(changes.units)[:, None] * np.diff(more, axis=1, prepend=0)
    while (low := np.flatnonzero((units < 0).any(axis=1))).size:
        units[low, np.argmin(units[low], axis=1)] += 1
        units[low, np.argmax(units[low], axis=1)] -= 1
    return units


def _settled(parts: _EqualChildren, even: EvenAllocation, units: Int64Array) -> PlaneAllocation | None:
    """Return allocations with the given sums, near to these; None if none are found."""
    changes, planes = parts.changes, units.shape[1]
    more = units - even.allocation(changes.root, changes.child).T
    out, into = parts.out - even.left, parts.into - even.entered[-1]
    np.subtract.at(out, changes.root, more)
    np.subtract.at(into, changes.child, more)
    pairs = PlanePairs(changes.root.astype(np.int32), changes.child.astype(np.int32), units.ravel())
    table = PlaneTable(parts.n, planes, even.group, even.units.ravel(), pairs)
    status, found = run_core(
        "planes shared by children",
        lambda control: core.settle_planes(table, out.ravel(), into.ravel(), control),
    )
    if status:
        return None
    root, child, settled = PlanePairs(*found)
    order = np.lexsort((child, root))
    return PlaneAllocation(
        even.group, even.units, root[order], child[order], settled.reshape(-1, planes)[order]
    )


def _in_full(parts: _EqualChildren, even: EvenAllocation) -> PlaneAllocation | Unsupported:
    """Return shares found pair by pair."""
    changes = parts.changes
    every = np.arange(len(parts.group))
    usual = even.allocation(every[:, None], every)
    sent = np.repeat(parts.native[parts.group][:, None], len(every), axis=1)
    np.fill_diagonal(sent, 0)
    sent[changes.root, changes.child] += changes.units
    tables = plane_tables(parts.out, parts.into, sent, usual)
    if isinstance(tables, Unsupported):
        return tables
    differs = (tables != usual).any(axis=0)
    differs[changes.root, changes.child] = True
    root, child = np.nonzero(differs)
    units = np.ascontiguousarray(tables[:, root, child].T)
    return PlaneAllocation(even.group, even.units, root.astype(np.int32), child.astype(np.int32), units)
