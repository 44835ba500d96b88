"""Minimum spanning arborescences of dense graphs (Chu and Liu 1965, Edmonds 1967)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import InfeasibleError

Arc = tuple[int, int]


def least_arborescence(cost: NDArray[Any], root: int) -> list[int]:
    """Parent of each node in a cheapest spanning out-tree, -1 at the root.

    Parameters
    ----------
    cost : array, shape (n, n)
        Of the arc from row to column, not negative; infinite where there is none.
    root : int

    Raises
    ------
    InfeasibleError
        If some node cannot be reached.

    Notes
    -----
    Every node takes its cheapest arc in; a cycle of those becomes one node, into which an arc costs what it
    costs more than the one that it replaces. O(n * (cycle + 1)) for each cycle.
    """
    graph = _Contracted(cost, root)
    while (cycle := graph.cycle()) is not None:
        graph.contract(cycle)
    return graph.parents()


class _Contracted:
    """The graph in which cycles of cheapest arcs are one node, known by the first of its nodes."""

    def __init__(self, cost: NDArray[Any], root: int) -> None:
        n = len(cost)
        self.n, self.root = n, root
        self.cost = cost.astype(np.float64)
        np.fill_diagonal(self.cost, np.inf)
        # the arc of the graph given that stands behind each arc
        self.tail = np.repeat(np.arange(n)[:, None], n, axis=1)
        self.head = np.repeat(np.arange(n)[None, :], n, axis=0)
        self.nodes = list(range(n))
        self.members = [[node] for node in range(n)]
        self.best = [-1] * n
        self.folds: list[list[tuple[int, list[int], Arc]]] = []
        for node in range(n):
            if node != root:
                self._choose(node)

    def _choose(self, node: int) -> None:
        source = int(np.argmin(self.cost[:, node]))
        if not np.isfinite(self.cost[source, node]):
            raise InfeasibleError(f"node {self.members[node][0]} cannot be reached from node {self.root}")
        self.best[node] = source

    def cycle(self) -> list[int] | None:
        """A cycle of cheapest arcs, if there is one."""
        walk_of = {self.root: -1}
        for start in self.nodes:
            node = start
            while node not in walk_of:
                walk_of[node] = start
                node = self.best[node]
            if walk_of[node] == start:
                found, at = [node], self.best[node]
                while at != node:
                    found.append(at)
                    at = self.best[at]
                return found
        return None

    def contract(self, cycle: list[int]) -> None:
        """Make a cycle one node."""
        self.folds.append([(k, self.members[k], self._arc(self.best[k], k)) for k in cycle])
        into = self.cost[:, cycle] - self.cost[[self.best[k] for k in cycle], cycle]
        out_of = self.cost[cycle, :]
        entry = np.array(cycle)[np.argmin(into, axis=1)]
        leave = np.array(cycle)[np.argmin(out_of, axis=0)]
        whole, every = cycle[0], np.arange(self.n)
        new_into, new_out = into.min(axis=1), out_of.min(axis=0)
        ends = self.tail[every, entry], self.head[every, entry]
        exits = self.tail[leave, every], self.head[leave, every]
        self.cost[:, cycle] = np.inf
        self.cost[cycle, :] = np.inf
        new_into[cycle] = new_out[cycle] = np.inf
        self.cost[:, whole], self.tail[:, whole], self.head[:, whole] = new_into, *ends
        self.cost[whole, :], self.tail[whole, :], self.head[whole, :] = new_out, *exits
        gone = set(cycle)
        self.nodes = [node for node in self.nodes if node == whole or node not in gone]
        self.members[whole] = [member for k in cycle for member in self.members[k]]
        for node in self.nodes:
            if self.best[node] in gone:
                self.best[node] = whole
        self._choose(whole)

    def _arc(self, source: int, node: int) -> Arc:
        return int(self.tail[source, node]), int(self.head[source, node])

    def parents(self) -> list[int]:
        """Return the tree once no cycle is left, with all contracted cycles opened where it enters them."""
        chosen = {node: self._arc(self.best[node], node) for node in self.nodes if node != self.root}
        for fold in reversed(self.folds):
            arc = chosen.pop(fold[0][0])
            for node, members, inner in fold:
                chosen[node] = arc if arc[1] in members else inner
        parent = [-1] * self.n
        for tail, head in chosen.values():
            parent[head] = tail
        return parent
