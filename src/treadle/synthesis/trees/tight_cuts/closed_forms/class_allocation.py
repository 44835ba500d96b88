"""Amounts that children of several planes send each other, if these have spare capacity: by classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, distinct_rows
from treadle.schedules.factored import MOST_SHARES
from treadle.unsupported import Unsupported

_MOST_PLANES = 64
_MOST_DELIVERIES = 2**22  # blocks of trees that a third child delivers, listed one by one
_STEPS = 32  # parts in which the trees of a pair are divided, about


@dataclass(frozen=True, eq=False)
class ClassAllocation:
    """n_s(a, b) of children of t classes, and who delivers what roots cannot send themselves.

    Parameters
    ----------
    class_of : array of int32, shape (n,)
    class_units : array of int64, shape (t,)
        Unit trees of each child of a class.
    shares : array of int64, shape (t, t, used planes)
        What a child of one class sends to one of another by each plane, for others too.
    via : array of int32, shape (t, t)
        The class, of one child, that delivers the trees of a class to another; -1: roots do it themselves.
    block : int
        Divides all units and shares.
    planes : array of int64
        Planes that are used, rising.
    """

    class_of: Int32Array
    class_units: Int64Array
    shares: Int64Array
    via: Int32Array
    block: int
    planes: Int64Array

    def sums(self) -> tuple[Int64Array, Int64Array]:
        """Units that leave and that enter a child of each class, shape (t, used planes)."""
        return _sums(_others(np.bincount(self.class_of)), self.shares)

    def relayed(self) -> tuple[Int64Array, Int64Array]:
        """Children of which one does not send to the other itself: roots and targets."""
        roots, targets = (np.flatnonzero(np.any(self.via >= 0, axis=axis)[self.class_of]) for axis in (1, 0))
        apart = self.via[self.class_of[roots][:, None], self.class_of[targets]] >= 0
        root, target = np.nonzero(apart & (self.class_units[self.class_of[roots]] > 0)[:, None])
        return roots[root], targets[target]

    def group_units(self) -> Int64Array:
        """Units of a child of the smaller class with all of the other, as in
        `treadle.schedules.factored.PlaneTrees`; where others deliver, as if by the first plane.
        """
        counts = np.bincount(self.class_of)
        others = np.maximum(counts[:, None], counts) - np.eye(len(counts), dtype=np.int64)
        own = self.shares.copy()
        replaced = own.sum(axis=2) != self.class_units[:, None]
        own[replaced] = 0
        own[replaced, 0] = np.broadcast_to(self.class_units[:, None], replaced.shape)[replaced]
        units: Int64Array = own * others[:, :, None]
        return units


def class_allocation(
    units: Int64Array, out: Int64Array, into: Int64Array, block: int, most: int
) -> ClassAllocation | Unsupported:
    """Divide what children of at most `most` classes send each other among planes, or return why not.

    `units` are the unit trees of each child; `out` and `into`, shape (n, planes), the units that may leave
    and enter each child by each plane; `block` divides the unit trees of every rank.

    Pairs of classes with few planes in common come first. The trees of a pair are divided in parts, each to
    the plane with the least load then. Source: docs/proofs/decomposition.md, proposition 17.
    """
    n, planes = out.shape
    first, class_of = distinct_rows(np.concatenate([units[:, None], out, into], axis=1))
    t = len(first)
    if t > most or planes > _MOST_PLANES or t * planes * n > MOST_SHARES:
        return Unsupported(f"{n} children on {planes} planes are of {t} classes")
    counts = np.bincount(class_of, minlength=t)
    hub = -1
    if not _meet(out[first], into[first], counts).all():
        found = _hub(units[first], counts, out[first], into[first])
        if found is None:
            return Unsupported("no child meets all others")
        hub = found
        if counts[hub] > 1:  # one child of it becomes a class of its own
            class_of = class_of.copy()
            class_of[np.flatnonzero(class_of == hub)[0]] = t
            first, hub = np.append(first, first[hub]), t
            counts = np.bincount(class_of)
    own = units[first]
    via = np.where(_meet(out[first], into[first], counts), -1, hub)
    if np.diagonal(via).max() >= 0:
        return Unsupported("children of a class do not meet each other")
    if np.where(via >= 0, (counts * own // block)[:, None] * counts, 0).sum() > _MOST_DELIVERIES:
        return Unsupported("too many deliveries would be made by others")
    sent = np.where((via >= 0) | (_others(counts) == 0), 0, own[:, None])
    if hub >= 0:
        sent[hub] += np.where(via >= 0, (counts * own)[:, None], 0).sum(axis=0)
    shares = _divided(sent, counts, out[first], into[first], block)
    if shares is None:
        return Unsupported("planes cannot carry what classes of children send each other")
    used = np.flatnonzero(shares.any(axis=(0, 1)))
    return ClassAllocation(
        class_of.astype(np.int32), own, shares[:, :, used], via.astype(np.int32), block, used.astype(np.int64)
    )


def _served(out: Int64Array, into: Int64Array) -> BoolArray:
    """Return the planes that lead from a child of the row's class to one of the column's, (t, t, planes)."""
    served: BoolArray = (out > 0)[:, None] & (into > 0)
    return served


def _meet(out: Int64Array, into: Int64Array, counts: Int64Array) -> BoolArray:
    """Whether some plane leads from class to class, or less than two children exist."""
    meet: BoolArray = np.asarray(_served(out, into).any(axis=2)) | (_others(counts) == 0)
    return meet


def _others(counts: Int64Array) -> Int64Array:
    """Return the number of children of the column's class other than one of the row's class."""
    others: Int64Array = counts - np.eye(len(counts), dtype=np.int64)
    return others


def _sums(others: Int64Array, shares: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the units that leave and that enter a child of each class, shape (t, planes)."""
    return np.einsum("ab,abs->as", others, shares), np.einsum("ba,abs->bs", others, shares)


def _hub(units: Int64Array, counts: Int64Array, out: Int64Array, into: Int64Array) -> int | None:
    """Return the class of the child that delivers for others: it meets all, and has most free capacity."""
    meet = _meet(out, into, counts)
    fit = np.flatnonzero(meet.all(axis=0) & meet.all(axis=1))
    if not len(fit):
        return None
    free = out[fit].sum(axis=1) - units[fit] * counts.sum()
    return int(fit[np.argmax(free)])


def _divided(
    sent: Int64Array, counts: Int64Array, out: Int64Array, into: Int64Array, block: int
) -> Int64Array | None:
    """Divide the amounts of classes among planes; None if the planes cannot carry them."""
    t, planes = out.shape
    others, served = _others(counts), _served(out, into)
    shares = np.zeros((t, t, planes), dtype=np.int64)
    most_out, most_in = np.maximum(out, 1).astype(float), np.maximum(into, 1).astype(float)
    left, entered = np.zeros((t, planes)), np.zeros((t, planes))
    load = others * sent
    pairs = np.argwhere(sent > 0)
    a, b = pairs.T
    order = np.lexsort((-load[a, b], served.sum(axis=2)[a, b]))
    for x, y in pairs[order].tolist():
        on = np.flatnonzero(served[x, y])
        rest = int(sent[x, y]) // block
        step = max(1, rest // _STEPS)
        by_out, by_in = others[x, y] * block / most_out[x, on], others[y, x] * block / most_in[y, on]
        fill_out, fill_in = left[x, on] / most_out[x, on], entered[y, on] / most_in[y, on]
        given = np.zeros(len(on), dtype=np.int64)
        while rest:
            part = min(step, rest)
            fill = np.maximum(fill_out + part * by_out, fill_in + part * by_in)
            plane = int(np.argmin(fill))
            given[plane] += part
            fill_out[plane] += part * by_out[plane]
            fill_in[plane] += part * by_in[plane]
            rest -= part
        shares[x, y, on] = given * block
        left[x, on] += others[x, y] * given * block
        entered[y, on] += others[y, x] * given * block
    exits, entries = _sums(others, shares)
    return None if np.any(exits > out) or np.any(entries > into) else shares
