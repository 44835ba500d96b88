"""Sets that few links join to the rest, where links are equal: found by how a random signal spreads.

Signals averaged over neighbours even out within a set long before they do across its boundary, if few links
lead out of it. The sets of a single-linkage dendrogram of what is left of the differences are candidates.
Source: docs/proofs/decomposition.md, section 7, "By spreading", with the measured thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int32Array, sums_of
from treadle.synthesis.trees.tight_cuts.sets.dendrogram import Dendrogram, single_linkage
from treadle.synthesis.trees.tight_cuts.sets.quotient import Quotient

_SIGNALS = 16
_STEPS = (8, 32)
_MOST_SPREADING = 2**21
"""Steps times pairs: fabrics of many links are looked at after few steps."""

_MOST_PAIRS = 2**19
_LEAST_NEED = 0.5
"""Fraction of the largest ratio of outside weight to ingress of a single point."""

_FIRMNESS = 1.25
"""Factor by which a cluster's internal cut must exceed its boundary."""

_EXACT = 1 + 1e-9


def clusters(quotient: Quotient) -> Int32Array | None:
    """Sets of points, with switches among them, that are nearly tight and hang together well.

    Parameters
    ----------
    quotient : Quotient

    Returns
    -------
    array of int32, shape (q,), or None
        A set's number for each quotient node, -1 outside of all sets; None without any set.

    Notes
    -----
    Random signals are averaged over neighbours a few times. Where few links lead out of a set the signals are
    nearly equal within it and differ across its boundary, so sets are those of the single-linkage dendrogram
    of their differences. A set is taken if (1) its need (W - w(X)) / b-(X) comes near that of single points;
    (2) what splits it in two carries more than its boundary; (3) its boundary can be reduced until it is
    tight, as far as the ranks at its boundary can spare it. Of nested ones the neediest is taken, but not in
    place of several. Nothing is found in tori, hypercubes and random graphs: (2) fails there, and (3).

    All of it takes time proportional to the number of joined pairs, but for sorting.
    """
    one, other = quotient.neighbours
    joins = np.bincount(one[quotient.is_point[other]], minlength=quotient.n_nodes)
    # if some switch joins half of the points or more, a set of four of them has no small boundary
    has_hub = np.any(joins[~quotient.is_point] * 2 >= quotient.is_point.sum())
    if not len(one) or len(one) > _MOST_PAIRS or has_hub:
        return None
    best: tuple[float, Int32Array] | None = None
    onward = one < other
    for signals in _spread(quotient):
        tree = single_linkage(quotient.n_nodes, one[onward], other[onward], _apart(signals, quotient)[onward])
        if tree is None:
            return None
        found = _Borders(quotient, tree).clusters()
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return None if best is None else best[1]


def _spread(quotient: Quotient) -> Iterator[NDArray[np.float64]]:
    """Random signals after a few numbers of steps, each halfway to the mean of the neighbours.

    Yields
    ------
    array of float64, shape (_SIGNALS, q)
    """
    one, other = quotient.neighbours
    n = quotient.n_nodes
    width = quotient.widths.astype(np.float64)
    starts = np.searchsorted(one, np.arange(n))
    total = np.bincount(one, weights=width, minlength=n)
    if not total.all():
        return
    share = width / total[one] / 2
    signals = np.random.default_rng(1).choice(np.array([-1.0, 1.0]), (n, _SIGNALS)).T.copy()
    come, mean = np.empty(len(one)), np.empty(n)
    for step in range(1, _STEPS[-1] + 1):
        if step > _STEPS[0] and step * len(one) > _MOST_SPREADING:
            return
        for signal in signals:  # one by one: sums along rows are several times as fast
            np.take(signal, other, out=come, mode="clip")  # unbuffered
            np.multiply(come, share, out=come)
            np.add.reduceat(come, starts, out=mean)
            signal /= 2
            signal += mean
        if step in _STEPS:
            yield signals


def _apart(signals: NDArray[np.float64], quotient: Quotient) -> NDArray[np.float64]:
    """Squared distance of the signals of each joined pair."""
    one, other = quotient.neighbours
    total, there = np.zeros(len(one)), np.empty(len(one))
    for signal in signals:
        np.take(signal, other, out=there, mode="clip")
        np.subtract(signal[one], there, out=there)
        np.multiply(there, there, out=there)
        total += there
    return total


@dataclass(frozen=True, eq=False)
class _Borders:
    """The sets of a dendrogram with their boundaries."""

    quotient: Quotient
    tree: Dendrogram

    @cached_property
    def _inside(self) -> NDArray[np.float64]:
        """Bandwidth of the links that each merge takes in, both directions together."""
        one, other = self.quotient.neighbours
        onward = one < other
        merge = self.tree.joined_at(one[onward], other[onward])
        inside = np.bincount(merge, weights=self.quotient.widths[onward], minlength=self.tree.n_nodes - 1)
        return inside.astype(np.float64)

    @cached_property
    def entering(self) -> NDArray[np.float64]:
        """b-(X) of each set."""
        return self.tree.sums(self.quotient.entering, -self._inside)

    @cached_property
    def crossing(self) -> list[float]:
        """Bandwidth that enters or leaves each set."""
        one, _ = self.quotient.neighbours
        total = np.bincount(one, weights=self.quotient.widths, minlength=self.tree.n_nodes)
        crossing: list[float] = self.tree.sums(total.astype(np.float64), -2 * self._inside).tolist()
        return crossing

    @cached_property
    def need(self) -> NDArray[np.float64]:
        """(W - w(X)) / b-(X) of each set; 0 where nothing enters."""
        nothing = np.zeros(self.tree.n_nodes - 1, dtype=np.int64)
        weight = self.tree.sums(self.quotient.weight, nothing)
        outside = weight[-1] - weight
        return np.where(self.entering > 0, outside / np.maximum(self.entering, 1.0), 0.0)

    def clusters(self) -> tuple[float, Int32Array] | None:
        """Disjoint clusters as numbers of the quotient's nodes, and the sum of their weights times needs."""
        chosen = self._chosen()
        if not chosen:
            return None
        labels = np.full(self.tree.n_nodes, -1, dtype=np.int32)
        for number, name in enumerate(chosen):
            labels[self.tree.members(name)] = number
        kept = _can_be_tight(self.quotient, labels, len(chosen))
        if not kept.any():
            return None
        inside = labels >= 0
        weight = sums_of(len(chosen), labels[inside], self.quotient.weight[inside])
        score = float(np.sum((weight * self.need[chosen])[kept]))
        renumbered = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
        return score, renumbered[labels].astype(np.int32)

    def _chosen(self) -> list[int]:
        """Choose the neediest of nested clusters, but not one instead of several."""
        n = self.tree.n_nodes
        need: list[float] = self.need.tolist()
        points = self.tree.sums(self.quotient.is_point.astype(np.int64), np.zeros(n - 1, dtype=np.int64))
        near = self.need >= _LEAST_NEED * self.need[:n][self.quotient.is_point].max()
        candidate = (near & (points >= 2) & (points < points[-1])).tolist()
        below: list[list[int]] = [[] for _ in range(2 * n - 1)]
        for name, (one, other) in enumerate(self._lists[2], n):
            found = below[one] + below[other] if below[one] and below[other] else below[one] or below[other]
            better = not found or (len(found) == 1 and need[name] > need[found[0]])
            below[name] = [name] if candidate[name] and better and self._is_firm(name) else found
        return below[-1]

    def _is_firm(self, name: int) -> bool:
        """Whether more than the boundary joins each part of a quarter to three quarters of the nodes to the
        others."""
        n, crossing, (size, start, halves) = self.tree.n_nodes, self.crossing, self._lists
        least = _FIRMNESS * crossing[name]
        leaving: list[float] | None = None
        stack = [name]
        while stack:
            part = stack.pop()
            if 4 * size[part] <= size[name]:
                continue
            if part >= n:
                stack += halves[part - n]
            if 4 * size[part] > 3 * size[name]:
                continue
            if crossing[part] < least:
                return False
            leaving = leaving or self._leaving(name)
            low = start[part] - start[name]
            if crossing[part] - (leaving[low + size[part]] - leaving[low]) < least:
                return False
        return True

    @cached_property
    def _lists(self) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Sizes, starts and halves of the sets as lists, which are read one by one."""
        halves = list(zip(self.tree.left.tolist(), self.tree.right.tolist(), strict=True))
        return self.tree.size.tolist(), self.tree.start.tolist(), halves

    def _leaving(self, name: int) -> list[float]:
        """Bandwidth across a set's boundary at its nodes up to each position of its interval, from 0 on."""
        one, other = self.quotient.neighbours
        place = self.tree.start[: self.tree.n_nodes] - self.tree.start[name]
        size = int(self.tree.size[name])
        at, to = place[one], place[other]
        cross = np.flatnonzero((at >= 0) & (at < size) & ((to < 0) | (to >= size)))
        each = np.bincount(at[cross] + 1, weights=self.quotient.widths[cross], minlength=size + 1)
        sums: list[float] = np.cumsum(each).tolist()
        return sums


def _can_be_tight(quotient: Quotient, labels: Int32Array, count: int) -> BoolArray:
    """Sets whose boundaries can be reduced to what they need, by what the points at the boundary can
    spare."""
    total = int(quotient.weight.sum())
    inside = labels >= 0
    weight = sums_of(count, labels[inside], quotient.weight[inside])
    tail, head = labels[quotient.tails], labels[quotient.heads]
    links = np.flatnonzero((head >= 0) & (tail != head))
    border = np.bincount(head[links], weights=quotient.bandwidths[links], minlength=count)
    demand, own = (total - weight).astype(np.float64), (total - quotient.weight)[quotient.is_point]
    entering = quotient.entering
    if not np.all(entering[quotient.is_point][own > 0]) or not border.all():
        return np.zeros(count, dtype=bool)
    each = entering[quotient.is_point]
    rate = min(float(np.min(each[own > 0] / own[own > 0])), float(np.min(border / demand)))
    spare = np.full(quotient.n_nodes, np.inf)
    spare[quotient.is_point] = each - own * rate
    crossing = np.bincount(
        quotient.heads[links], weights=quotient.bandwidths[links], minlength=quotient.n_nodes
    )
    lowered = np.bincount(labels[inside], weights=np.minimum(crossing, spare)[inside], minlength=count)
    kept: BoolArray = border - lowered <= demand * rate * _EXACT
    return kept
