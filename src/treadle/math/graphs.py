"""Searches in directed graphs that are given by the ends of their arcs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int32Array, Int64Array

Ends = NDArray[np.signedinteger]
"""A node of each arc."""

Number = TypeVar("Number", bound=np.generic)

_LEVELS_AT_ONCE = 16
"""Levels that a search takes as a whole, which suits wide graphs; after that it goes node by node."""

_MAX_WORK = 2**24
"""Sources times arcs of one pass of `hops`."""


@dataclass(frozen=True, eq=False)
class InArcs:
    """Arcs sorted by head, so that the arcs into a node follow each other.

    Parameters
    ----------
    order, tails : arrays of int64, shape (m,)
        The arcs in this order, and the tail of each.
    heads : array of int, shape (h,)
        Nodes with arcs into them, rising.
    starts, widths : arrays of int64, shape (h,)
        Position of the first arc into each of them, and the number of its arcs.
    """

    order: Int64Array
    tails: Int64Array
    heads: Ends
    starts: Int64Array
    widths: Int64Array

    @classmethod
    def of(cls, tails: Ends, heads: Ends, arcs: NDArray[np.integer] | None = None) -> InArcs:
        """Sort all arcs, or some of them."""
        arcs = np.arange(len(heads)) if arcs is None else arcs
        order = arcs[np.argsort(heads[arcs], kind="stable")].astype(np.int64)
        nodes, starts = np.unique(heads[order], return_index=True)
        widths = np.diff(np.append(starts, len(order)))
        return cls(order, tails[order].astype(np.int64), nodes, starts, widths)

    def at_arcs(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return the value of each arc's head, from those of all nodes, shape (..., m)."""
        return np.repeat(values[..., self.heads], self.widths, axis=-1)

    def first(self, chosen: BoolArray) -> Int64Array:
        """Return the position of the first chosen arc into each head, m without one, shape (..., h)."""
        m = len(self.order)
        found: Int64Array = np.minimum.reduceat(np.where(chosen, np.arange(m), m), self.starts, axis=-1)
        return found


def components(n_nodes: int, tails: Ends, heads: Ends) -> Int32Array:
    """Return the connected component of each node, named by its least node; directions do not count."""
    label = np.arange(n_nodes, dtype=np.int32)
    one, other = tails, heads  # components so far at the ends of the arcs
    while True:
        apart = np.flatnonzero(one != other)
        if not len(apart):
            return label
        tails, heads, one, other = tails[apart], heads[apart], one[apart], other[apart]
        grown = label.copy()
        np.minimum.at(grown, one, other)
        np.minimum.at(grown, other, one)
        while True:  # every label points to a smaller one: jump until it is a root
            jumped = grown[grown]
            if np.array_equal(jumped, grown):
                break
            grown = jumped
        label = grown
        one, other = label[tails], label[heads]


def reached(n_nodes: int, tails: Ends, heads: Ends, start: int | Ends) -> BoolArray:
    """Return whether a path leads to each node from a node, or from some of several."""
    found = np.zeros(n_nodes, dtype=np.bool_)
    found[start] = True
    for _ in range(_LEVELS_AT_ONCE):
        onward = heads[found[tails] & ~found[heads]]
        if not len(onward):
            return found
        found[onward] = True
    order = np.argsort(tails, kind="stable")
    begin, lead = np.searchsorted(tails[order], np.arange(n_nodes + 1)).tolist(), heads[order].tolist()
    stack = np.unique(onward).tolist()
    while stack:
        node = stack.pop()
        for head in lead[begin[node] : begin[node + 1]]:
            if not found[head]:
                found[head] = True
                stack.append(head)
    return found


def hops(n_nodes: int, tails: Ends, heads: Ends, sources: Ends) -> Int64Array:
    """Return the arcs from each source to every node, -1 where no path leads, shape (sources, n_nodes)."""
    arcs = InArcs.of(tails, heads)
    result = np.full((len(sources), n_nodes), -1, dtype=np.int64)
    rows = max(1, _MAX_WORK // max(1, len(tails)))
    for first in range(0, len(sources), rows):
        distance = result[first : first + rows]
        found = np.zeros(distance.shape, dtype=np.bool_)
        found[np.arange(len(distance)), sources[first : first + rows]] = True
        step, new = 0, found
        while new.any():
            distance[new] = step
            step += 1
            near = np.zeros_like(found)
            if len(arcs.heads):
                near[:, arcs.heads] = np.logical_or.reduceat(found[:, arcs.tails], arcs.starts, axis=1)
            new = near & ~found
            found |= new
    return result


def shortest_lengths(
    n_nodes: int, arcs: tuple[Ends, Ends, Int64Array], sources: NDArray[np.integer], *, far: int
) -> Int64Array:
    """Return the length of a shortest path from each source to every node, shape (sources, n_nodes).

    All sources advance together, and only from nodes whose length fell (Bellman and Ford, with the list of
    Moore): about as much work as there are arcs where a round is a level, as with equal lengths.

    Parameters
    ----------
    n_nodes : int
    arcs : tuple of arrays, shape (m,)
        Tails, heads and lengths of at least 0.
    sources : array of int
    far : int
        The entry where no path leads; more than any path is long.
    """
    tails, heads, lengths = arcs
    order = np.argsort(tails, kind="stable")
    heads, lengths = heads[order].astype(np.int64), lengths[order]
    first = np.searchsorted(tails[order], np.arange(n_nodes + 1))
    table = np.full(len(sources) * n_nodes, far, dtype=np.int64)
    at = np.arange(len(sources)) * n_nodes + sources
    table[at] = 0
    while len(at):
        row, node = at - at % n_nodes, at % n_nodes
        degree = first[node + 1] - first[node]
        ends = np.cumsum(degree)
        arc = np.arange(ends[-1]) + np.repeat(first[node] - ends + degree, degree)
        onward = np.repeat(row, degree) + heads[arc]
        length = np.repeat(table[at], degree) + lengths[arc]
        better = length < table[onward]
        onward, length = onward[better], length[better]
        np.minimum.at(table, onward, length)
        at = np.unique(onward)
    return table.reshape(len(sources), n_nodes)


def shortest_tree(
    out: Sequence[Sequence[tuple[int, int]]], length: Sequence[float], source: int
) -> tuple[list[int], list[int]]:
    """Return the last arc of a shortest path to every node, -1 without one, and the nodes from near to far.

    Parameters
    ----------
    out : sequence of sequences of (arc, head)
        Of each node.
    length : sequence of number
        Of each arc, not negative.
    source : int
    """
    into, distance = [-1] * len(out), [float("inf")] * len(out)
    distance[source] = 0
    order: list[int] = []
    done = [False] * len(out)
    queue: list[tuple[float, int]] = [(0, source)]
    while queue:
        far, node = heappop(queue)
        if done[node]:
            continue
        done[node] = True
        order.append(node)
        for arc, head in out[node]:
            through = far + length[arc]
            if through < distance[head]:
                distance[head], into[head] = through, arc
                heappush(queue, (through, head))
    return into, order
