"""Costs of logical hops from rank to rank at given dual prices, and the cheapest paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, positions_of
from treadle.synthesis.trees.instance import Instance

Floats = NDArray[np.float64]
"""Array of doubles."""


class HopPrices:
    """Cheapest paths between ranks through relays alone.

    Parameters
    ----------
    problem : Instance
    """

    def __init__(self, problem: Instance) -> None:
        self._n, self._nodes = len(problem.terminals), problem.terminals.astype(np.int64)
        rank_of = positions_of(problem.n_nodes, problem.terminals)
        self._links = [
            (link, int(tail), int(head), int(rank_of[tail]))
            for link, (tail, head) in enumerate(zip(problem.tails, problem.heads, strict=True))
            if tail != head
        ]
        self._tails, self._n_nodes = problem.tails.astype(np.int64), problem.n_nodes

    def at(self, prices: Floats) -> tuple[Floats, Int64Array]:
        """Costs of all hops, and how the paths come about.

        Parameters
        ----------
        prices : array of float, shape (m,)
            Of the links, not negative.

        Returns
        -------
        array of float, shape (N, N)
            From rank to rank; infinite where relays alone do not lead.
        array of int64, shape (N, nodes)
            From each rank, the link by which a node is reached.
        """
        cost = np.full((self._n, self._n_nodes), np.inf)
        by_link = np.full((self._n, self._n_nodes), -1, dtype=np.int64)
        at_relay = [one for one in self._links if one[3] < 0]
        for link, _, head, rank in self._links:
            if rank >= 0 and prices[link] < cost[rank, head]:
                cost[rank, head], by_link[rank, head] = prices[link], link
        while True:
            changed = False
            for link, tail, head, _ in at_relay:
                through = cost[:, tail] + prices[link]
                better = through < cost[:, head]
                if better.any():
                    cost[better, head], by_link[better, head] = through[better], link
                    changed = True
            if not changed:
                break
        cost[np.arange(self._n), self._nodes] = np.inf
        return cost[:, self._nodes], by_link

    def path(self, by_link: Int64Array, sender: int, target: int) -> tuple[int, ...]:
        """Links of the path between two ranks, in order."""
        node, links = int(self._nodes[target]), list[int]()
        while node != self._nodes[sender]:
            links.append(int(by_link[sender, node]))
            node = int(self._tails[links[-1]])
        return tuple(reversed(links))
