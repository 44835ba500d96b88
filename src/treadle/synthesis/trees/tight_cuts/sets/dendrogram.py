"""Single-linkage dendrograms: nested sets of nodes that hang together, and sums over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array

_Numbers = TypeVar("_Numbers", NDArray[np.int64], NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class Dendrogram:
    """Nodes 0..n-1 joined two by two; merge i makes set n + i of two earlier sets, the last one all nodes.

    Parameters
    ----------
    left, right : array of int64, shape (n - 1,)
        The two sets of each merge.
    """

    left: Int64Array
    right: Int64Array

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.left) + 1

    @cached_property
    def size(self) -> Int64Array:
        """Nodes of each set, shape (2n - 1,)."""
        return self.sums(np.ones(self.n_nodes, dtype=np.int64), np.zeros(len(self.left), dtype=np.int64))

    def sums(self, of_node: _Numbers, of_merge: _Numbers) -> _Numbers:
        """Sum of the values of a set's nodes, and of the merges within it (its own too), shape (2n - 1,)."""
        total = [*of_node.tolist(), *of_merge.tolist()]
        pairs = zip(self.left.tolist(), self.right.tolist(), strict=True)
        for place, (one, other) in enumerate(pairs, self.n_nodes):
            total[place] += total[one] + total[other]
        return np.array(total, dtype=of_node.dtype)

    @cached_property
    def start(self) -> Int64Array:
        """Start of each set in an order of the nodes in which all sets are intervals, shape (2n - 1,)."""
        n, size = self.n_nodes, self.size.tolist()
        start = [0] * (2 * n - 1)
        left, right = self.left.tolist(), self.right.tolist()
        for merge in reversed(range(n - 1)):
            begin = start[n + merge]
            start[left[merge]] = begin
            start[right[merge]] = begin + size[left[merge]]
        return np.array(start, dtype=np.int64)

    @cached_property
    def order(self) -> Int64Array:
        """The nodes in that order."""
        return np.argsort(self.start[: self.n_nodes])

    def members(self, number: int) -> Int64Array:
        """Nodes of a set."""
        begin = int(self.start[number])
        return self.order[begin : begin + int(self.size[number])]

    def joined_at(self, one: Int64Array, other: Int64Array) -> Int64Array:
        """The merge that first joins two different nodes, for arrays of pairs."""
        n = self.n_nodes
        between = np.empty(n - 1, dtype=np.int64)  # the merge that joins each place and the next
        between[self.start[self.right] - 1] = np.arange(n - 1)
        spans = [between]  # the latest merge among 1, 2, 4, ... in a row
        while 2 ** len(spans) < n:
            last, width = spans[-1], 2 ** (len(spans) - 1)
            spans.append(np.maximum(last[:-width], last[width:]))
        ends = self.start[one], self.start[other]
        low, high = np.minimum(*ends), np.maximum(*ends)
        # two runs of 2^level places cover all that lies between, and may overlap: the latest merge counts
        # once
        level = np.frexp(high - low)[1] - 1
        found = np.empty(len(one), dtype=np.int64)
        for number, span in enumerate(spans):
            at = np.flatnonzero(level == number)
            found[at] = np.maximum(span[low[at]], span[high[at] - 2**number])
        return found


def single_linkage(
    n_nodes: int, one: Int64Array, other: Int64Array, distance: NDArray[np.float64]
) -> Dendrogram | None:
    """The dendrogram in which the pair at the least distance is joined first; None if pairs do not join all.

    Parameters
    ----------
    n_nodes : int
    one, other : arrays of int64, shape (p,)
        Pairs of nodes.
    distance : array of float, shape (p,)

    Notes
    -----
    Kruskal's algorithm.
    """
    order = np.argsort(distance, kind="stable")
    above = list(range(n_nodes))
    current = list(range(n_nodes))  # the set that a representative stands for

    def representative(node: int) -> int:
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    merges: list[tuple[int, int]] = []
    for ends in zip(one[order].tolist(), other[order].tolist(), strict=True):
        u, v = map(representative, ends)
        if u != v:
            merges.append((current[u], current[v]))
            above[v], current[u] = u, n_nodes + len(merges) - 1
            if len(merges) == n_nodes - 1:
                return Dendrogram(*np.array(merges, dtype=np.int64).T)
    return None
