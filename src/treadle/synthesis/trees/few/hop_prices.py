"""Costs of logical hops from rank to rank at given dual prices, and the cheapest paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, positions_of
from treadle.synthesis.trees.instance import Instance

Floats = NDArray[np.float64]
"""Array of doubles."""


class HopPrices:
    """Cheapest paths between the ranks of a problem that pass no other rank."""

    def __init__(self, problem: Instance) -> None:
        self._nodes, self._n_nodes = problem.terminals.astype(np.int64), problem.n_nodes
        self._tails = problem.tails.tolist()
        rank_of = positions_of(problem.n_nodes, problem.terminals).tolist()
        self._from_ranks: list[tuple[int, int, int]] = []  # (link, rank, head)
        self._from_relays: list[tuple[int, int, int]] = []  # (link, tail, head)
        for link, (tail, head) in enumerate(zip(self._tails, problem.heads.tolist(), strict=True)):
            if tail != head and rank_of[tail] >= 0:
                self._from_ranks.append((link, rank_of[tail], head))
            elif tail != head:
                self._from_relays.append((link, tail, head))

    def at(self, prices: Floats) -> tuple[Floats, Int64Array]:
        """Return the costs of all hops at these dual prices, and the last link of each path.

        Returns
        -------
        array of float, shape (N, N)
            From rank to rank; infinite where no path avoids other ranks.
        array of int64, shape (N, nodes)
            The last link of the path from each rank to each node.
        """
        n = len(self._nodes)
        cost = np.full((n, self._n_nodes), np.inf)
        by_link = np.full((n, self._n_nodes), -1, dtype=np.int64)
        for link, rank, head in self._from_ranks:
            if prices[link] < cost[rank, head]:
                cost[rank, head], by_link[rank, head] = prices[link], link
        changed = True
        while changed:
            changed = False
            for link, tail, head in self._from_relays:
                through = cost[:, tail] + prices[link]
                better = through < cost[:, head]
                if better.any():
                    cost[better, head], by_link[better, head] = through[better], link
                    changed = True
        cost[np.arange(n), self._nodes] = np.inf
        return cost[:, self._nodes], by_link

    def path(self, by_link: Int64Array, sender: int, target: int) -> tuple[int, ...]:
        """Return the links of the path between two ranks, in order."""
        node, links = int(self._nodes[target]), list[int]()
        while node != self._nodes[sender]:
            links.append(int(by_link[sender, node]))
            node = self._tails[links[-1]]
        return tuple(reversed(links))
