"""EwSP: every pair's data in equal shares on all of its shortest paths."""

from __future__ import annotations

from math import lcm

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.route_values import route_algbw, routes_of
from treadle.synthesis.alltoall.paths import (
    Float64Array,
    PathSet,
    ShortestPaths,
    check_reachable,
    demanded_pairs,
    path_set,
)
from treadle.synthesis.alltoall.route_units import ChunkedRoutes
from treadle.topologies.topology import Topology

MAX_CHUNKS = 5040
"""Default limit of chunks per unit of demand."""

MAX_HOPS = 2**26
"""Most hops of all paths together."""


def equal_weight_shortest_paths(
    topology: Topology, collective: Collective, *, max_chunks: int = MAX_CHUNKS
) -> ChunkedRoutes:
    """All shortest paths of every pair, each with the same share of the pair's data.

    Parameters
    ----------
    topology : Topology
        Every node may forward; parallel links make paths of their own.
    collective : Collective
        An all-to-all.
    max_chunks : int
        Limit of chunks per unit of demand. Where the numbers of paths have a common multiple within it, the
        shares are exact and the loss is 0; otherwise a unit has so many chunks, paths of a pair differ by one
        chunk at most, and those that get none are left out.

    Returns
    -------
    ChunkedRoutes

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    ScheduleError
        If there are too many paths; `equal_weight_loads` values them without listing them.

    Notes
    -----
    Source: the all-to-all paper, section 5.2. Differs from an even split at every node
    (`split_over_shortest_paths`) where branches have different numbers of paths behind them.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.graphs import torus
    >>> fabric = torus(3, 3, 3)
    >>> result = equal_weight_shortest_paths(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    >>> result.schedule, result.loss
    (<RouteSchedule: 27 ranks, 6 chunks, 2106 paths, 5346 hops, 1 layers>, 0.0)
    """
    if max_chunks < 1:
        raise ScheduleError(f"chunks: expected at least 1 per unit of demand, found {max_chunks}")
    dag = _Dag(topology, collective)
    counts = np.rint(dag.counts[dag.target, dag.ranks[dag.source]])
    hops = float((counts * dag.distance[dag.target, dag.ranks[dag.source]]).sum())
    if hops > MAX_HOPS:
        raise ScheduleError(
            f"ewsp: the shortest paths of {topology.name} have {hops:.3g} links in all, at most {MAX_HOPS} "
            f"can be listed; split-shortest needs fewer, and EwSP's loads can be had without routes"
        )
    number = counts.astype(np.int64)
    common = 1
    for count in np.unique(number).tolist():
        common = lcm(common, count)
        if common > max_chunks:
            break
    chunks = min(common, max_chunks)
    paths = dag.paths()
    pair = np.repeat(np.arange(len(number)), number)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(number) - number, number)
    share, rest = np.divmod(dag.demand * chunks, number)
    # remainders go round, so that first links do not get them all
    turn = (within + paths.source + 3 * paths.target) % number[pair]
    units = share[pair] + (turn < rest[pair])
    used = units > 0
    schedule = routes_of(collective, paths.take(used), units[used], chunks)
    algbw = route_algbw(topology, collective, schedule)
    loss = 0.0
    if chunks != common:
        ideal = collective.pair_demands.buffer_units / float((dag.loads() / topology.bandwidths).max())
        loss = 1 - float(algbw) / ideal
    return ChunkedRoutes(schedule, algbw, loss)


def equal_weight_loads(topology: Topology, collective: Collective) -> Float64Array:
    """What EwSP puts on every link, shape (m,), in units of demand, by counting paths, not listing them.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.

    Notes
    -----
    N m D operations; the number of paths does not matter. Relative errors are about 1e-15 times D.
    """
    return _Dag(topology, collective).loads()


class _Dag:
    """The shortest paths to every rank as one acyclic graph per target, and how many there are.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        self._topology = topology
        self.ranks = np.array(collective.ranks)
        self.source, self.target, self.demand = demanded_pairs(collective)
        ones = np.ones(topology.n_links)
        check_reachable(topology, collective, ShortestPaths(topology, collective).distances(ones))
        far = ShortestPaths(topology.transpose(), collective).distances(ones)
        self.distance: Int64Array = np.where(np.isinf(far), -1, far).astype(np.int64)
        """Links from every node to each target rank, shape (N, n), -1 where there is no way."""
        self._order = np.argsort(topology.tails, kind="stable")
        self._tails, self._starts = np.unique(topology.tails[self._order], return_index=True)
        self._heads = topology.heads[self._order]
        near = self.distance[:, self._heads]
        self._nearer = (near >= 0) & (near == self.distance[:, topology.tails[self._order]] - 1)
        self.counts = self._counts()
        """Shortest paths from every node to each target rank, shape (N, n)."""

    def _counts(self) -> Float64Array:
        counts = np.zeros(self.distance.shape)
        counts[np.arange(len(self.ranks)), self.ranks] = 1
        for step in range(1, int(self.distance.max()) + 1):
            onward = np.where(self._nearer, counts[:, self._heads], 0.0)
            total = np.add.reduceat(onward, self._starts, axis=1)
            at = self.distance[:, self._tails] == step
            counts[:, self._tails] = np.where(at, total, counts[:, self._tails])
        return counts

    def loads(self) -> Float64Array:
        """Units of demand over each link under equal shares."""
        here = np.zeros(self.distance.shape)
        injected = self.demand / self.counts[self.target, self.ranks[self.source]]
        here[self.target, self.ranks[self.source]] = injected
        heads, starts, back = self._into()
        tails = self._topology.tails[self._order]
        for step in range(int(self.distance.max()) - 1, 0, -1):
            arriving = np.where(self._nearer, here[:, tails], 0.0)[:, back]
            total = np.add.reduceat(arriving, starts, axis=1)
            at = self.distance[:, heads] == step
            here[:, heads] += np.where(at, total, 0.0)
        crossing = np.where(self._nearer, here[:, tails] * self.counts[:, self._heads], 0.0).sum(axis=0)
        loads = np.zeros(self._topology.n_links)
        loads[self._order] = crossing
        return loads

    def _into(self) -> tuple[NDArray[np.int32], NDArray[np.intp], NDArray[np.intp]]:
        """Nodes with incoming links, where these begin, and the links (as sorted by tail) in that order."""
        back = np.argsort(self._heads, kind="stable")
        heads, starts = np.unique(self._heads[back], return_index=True)
        return heads, starts, back

    def paths(self) -> PathSet:
        """All of them, a link at a time."""
        first = np.searchsorted(self._topology.tails[self._order], np.arange(self._topology.n_nodes + 1))
        pair, node = np.arange(len(self.source)), self.ranks[self.source]
        walked = np.zeros((len(pair), 0), dtype=np.int64)
        done: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        while len(pair):
            counts = first[node + 1] - first[node]
            row = np.repeat(np.arange(len(pair)), counts)
            within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
            place = first[node[row]] + within
            kept = self._nearer[self.target[pair[row]], place]
            row, place = row[kept], place[kept]
            walked = np.column_stack([walked[row], self._order[place]])
            pair, node = pair[row], self._heads[place].astype(np.int64)
            there = node == self.ranks[self.target[pair]]
            done.append((walked[there], pair[there]))
            walked, pair, node = walked[~there], pair[~there], node[~there]
        longest = max(len(rows[0]) if len(rows) else 0 for rows, _ in done)
        rows = [np.pad(part, ((0, 0), (0, longest - part.shape[1])), constant_values=-1) for part, _ in done]
        owner = np.concatenate([part for _, part in done])
        return path_set(self.source[owner], self.target[owner], np.concatenate(rows))
