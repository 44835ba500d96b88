"""Choosing one path for every pair by local search: the incumbent of the integer program."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, Int64Array
from treadle.synthesis.alltoall.routes.path_sets import PathSet
from treadle.topologies.topology import Topology

_PASSES = 8
_STEEPNESS = 8.0
"""2, 4, 8 and 16 in turn came to the same loads in three times the time on 27 and 64 nodes."""
_MOVES = 20000


class PathChoice:
    """One path a pair, the loads that follow, and moves that lower the largest.

    Parameters
    ----------
    topology : Topology
    paths : PathSet
    pair : array of int64, shape (k,)
        Number of each path's pair, rising.
    demand : array of int64, shape (pairs,)
    """

    def __init__(self, topology: Topology, paths: PathSet, pair: Int64Array, demand: Int64Array) -> None:
        self._bandwidth = topology.bandwidths.astype(np.float64)
        self._links = [paths.links_of(path) for path in range(paths.n_paths)]
        self._pair, self._demand = pair, demand
        self._first = np.searchsorted(pair, np.arange(len(demand) + 1)).tolist()
        self._flat, self._offset = paths.links, paths.offset
        order = np.argsort(paths.links, kind="stable")
        starts = np.searchsorted(paths.links[order], np.arange(topology.n_links + 1))
        self._users, self._user_first = paths.owner[order], starts
        self.chosen: NDArray[np.int64] = np.array(self._first[:-1], dtype=np.int64)
        """Path of each pair."""
        self.load: Int64Array = np.zeros(topology.n_links, dtype=np.int64)
        """Units of demand over each link."""
        for number, path in enumerate(self.chosen.tolist()):
            self.load[self._links[path]] += demand[number]

    @property
    def time(self) -> Float64Array:
        """Load over bandwidth."""
        return self.load / self._bandwidth

    def improve(self, seed: int) -> None:
        """Passes over all pairs in random order at power-weighted times, then moves off the busiest links."""
        rng = np.random.default_rng(seed)
        for _ in range(_PASSES):
            changed = sum(self._choose(number) for number in rng.permutation(len(self.chosen)).tolist())
            if not changed:
                break
        self._descend()

    def _choose(self, number: int) -> bool:
        """Take the pair's path along which power-weighted times are least; whether that is another."""
        low, high = self._first[number], self._first[number + 1]
        if high == low + 1:
            return False
        demand, now = int(self._demand[number]), int(self.chosen[number])
        self.load[self._links[now]] -= demand
        begin, end = self._offset[low], self._offset[high]
        links = self._flat[begin:end]
        before, bandwidth = self.load[links], self._bandwidth[links]
        price = ((before + demand) / bandwidth) ** _STEEPNESS - (before / bandwidth) ** _STEEPNESS
        costs = np.add.reduceat(price, self._offset[low:high] - begin)
        best = low + int(np.argmin(costs))
        if costs[now - low] <= costs[best - low] * (1 + 1e-12):
            best = now
        self.load[self._links[best]] += demand
        self.chosen[number] = best
        return bool(best != now)

    def _descend(self) -> None:
        """Move pairs off a busiest link while their other paths then stay below its time."""
        for _ in range(_MOVES):
            time = self.time
            worst = int(np.argmax(time))
            crossing = self._users[self._user_first[worst] : self._user_first[worst + 1]]
            users = self._pair[crossing[self.chosen[self._pair[crossing]] == crossing]].tolist()
            best, move = float(time[worst]) * (1 - 1e-12), None
            for number in users:
                mine, demand = self._links[self.chosen[number]], int(self._demand[number])
                for path in range(self._first[number], self._first[number + 1]):
                    theirs = np.setdiff1d(self._links[path], mine, assume_unique=True)
                    if worst in self._links[path] or not theirs.size:
                        continue
                    after = float(((self.load[theirs] + demand) / self._bandwidth[theirs]).max())
                    if after < best:
                        best, move = after, (number, path)
            if move is None:
                return
            number, path = move
            self.load[self._links[self.chosen[number]]] -= self._demand[number]
            self.load[self._links[path]] += self._demand[number]
            self.chosen[number] = path
