"""Shortest-path trees under integer link lengths, one per source of a symmetric reduction."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.math.graphs import InArcs, shortest_lengths
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance

_FAR = 2**62

MAX_TOTAL = 2**61
"""Largest distance times the number of nodes: ties go to fewer hops within 64 bits."""


@dataclass(frozen=True, eq=False)
class PathTrees:
    """Shortest paths from each source to every node.

    Parameters
    ----------
    distance : array of int64, shape (R, n)
        Length of the path to each node; -1 if unreachable.
    into : array of int64, shape (R, n)
        Last link of that path, by its place among the instance's links; -1 at the source and out of reach.
    hops : array of int64, shape (R, n)
        Links of that path; 0 out of reach.
    """

    distance: Int64Array
    into: Int64Array
    hops: Int64Array


class PathTreeFinder:
    """Shortest-path trees from some senders of an instance.

    Parameters
    ----------
    instance : FlowInstance
    rows : array of int, shape (R,)
        Senders.
    """

    def __init__(self, instance: FlowInstance, rows: Int64Array) -> None:
        self._n = instance.topology.n_nodes
        self._sources = instance.sources[rows].astype(np.int64)
        self._arcs = InArcs.of(instance.tails, instance.heads)
        self.tails = instance.tails.astype(np.int64)

    @property
    def longest(self) -> int:
        """Largest length of links for which distances fit 64 bits."""
        return (MAX_TOTAL - 1) // (self._n + 1) ** 2

    def trees(self, lengths: Int64Array) -> PathTrees:
        """Return trees under lengths of at least 0, with the fewest hops among equally short paths.

        Parameters
        ----------
        lengths : array of int64, shape (k,)
            Lengths of the instance's links.
        """
        arcs, scale = self._arcs, self._n + 1
        # One more for each hop: n hops add less than a unit of length, so ties go to the fewest hops.
        own = lengths[arcs.order] * scale + 1
        heads = arcs.at_arcs(np.arange(self._n))
        distance = shortest_lengths(self._n, (arcs.tails, heads, own), self._sources, far=_FAR)
        into = np.full(distance.shape, -1, dtype=np.int64)
        if len(own):
            # The first tight link, chosen after the distances: trees do not depend on the order of rounds.
            first = arcs.first(distance[:, arcs.tails] + own == arcs.at_arcs(distance))
            found = (first < len(own)) & (distance[:, arcs.heads] > 0)
            into[:, arcs.heads] = np.where(found, arcs.order[np.minimum(first, len(own) - 1)], -1)
        is_far = distance >= _FAR
        into[is_far] = -1
        return PathTrees(np.where(is_far, -1, distance // scale), into, np.where(is_far, 0, distance % scale))

    def amounts(self, trees: PathTrees, demands: Int64Array) -> Int64Array:
        """Return the load of the tree link into each node: demands of it and its descendants, shape (R, n).

        Parameters
        ----------
        trees : PathTrees
        demands : array of int64, shape (R, n)
            From each source to each node; 0 out of reach.
        """
        through = demands.copy()
        hops = trees.hops.ravel()
        order = np.argsort(hops, kind="stable")
        levels = np.searchsorted(hops[order], np.arange(1, hops.max(initial=0) + 2))
        for first, last in reversed([*pairwise(levels.tolist())]):
            row, node = np.divmod(order[first:last], self._n)
            np.add.at(through, (row, self.tails[trees.into[row, node]]), through[row, node])
        return through

    def hops(self, trees: PathTrees, targets: tuple[Int64Array, Int64Array]) -> tuple[Int64Array, Int64Array]:
        """Return every hop of the paths to some targets: number of the path, and link.

        Parameters
        ----------
        trees : PathTrees
        targets : pair of arrays of int64, shape (p,)
            Source (row of the trees) and node of each path; all within reach.
        """
        row, at = targets
        path = np.arange(len(row), dtype=np.int64)
        paths: list[Int64Array] = []
        links: list[Int64Array] = []
        while path.size:
            link = trees.into[row, at]
            path, row, link = path[link >= 0], row[link >= 0], link[link >= 0]
            paths.append(path)
            links.append(link)
            at = self.tails[link]
        empty = np.zeros(0, dtype=np.int64)
        return np.concatenate([empty, *paths]), np.concatenate([empty, *links])
