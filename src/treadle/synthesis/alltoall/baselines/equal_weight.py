"""EwSP: every pair's data in equal shares on all of its shortest paths."""

from __future__ import annotations

from math import lcm

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, Int64Array
from treadle.errors import ScheduleError
from treadle.math.graphs import InArcs
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import (
    PathSet,
    ShortestPaths,
    check_reachable,
    demanded_pairs,
    path_set,
    routes_of,
)
from treadle.synthesis.alltoall.routes.route_units import ChunkedRoutes
from treadle.synthesis.alltoall.routes.virtual_channels import with_layers
from treadle.synthesis.runs import within
from treadle.topologies.topology import Topology

MAX_CHUNKS = 5040
"""Default limit of chunks per unit of demand."""

MAX_HOPS = 2**26
"""Most hops of all paths together."""

_COARSE = (64, 32, 16, 8, 4, 2, 1)
_COARSE_HOPS = 2**22
_BLOCK = 2**18  # paths walked at once


def ewsp_routes(topology: Topology, collective: Collective, *, chunks: int | None = None) -> RouteSchedule:
    """Return `equal_weight_shortest_paths` in layers without deadlock."""
    return with_layers(
        topology, equal_weight_shortest_paths(topology, collective, max_chunks=chunks).schedule
    )


def equal_weight_shortest_paths(
    topology: Topology, collective: Collective, *, max_chunks: int | None = None
) -> ChunkedRoutes:
    """Split every pair's data equally over all of its shortest paths.

    Parameters
    ----------
    topology : Topology
        Every node may forward; parallel links make paths of their own.
    collective : Collective
        An all-to-all.
    max_chunks : int, optional
        Limit of chunks per unit of demand. If the numbers of paths have a common multiple within it, the
        shares are exact and the loss is 0. Otherwise a unit has this many chunks, and paths of a pair differ
        by at most one chunk; of more paths than chunks, evenly spaced ones in lexicographic order are taken.
        Default: 5040, or at most 64 where the paths would have over 4 million links.

    Returns
    -------
    ChunkedRoutes

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    ScheduleError
        If the paths have too many links; fewer chunks make fewer paths. `EqualSplit.loads` has those of
        exact shares without listing paths.

    Notes
    -----
    Source: the all-to-all paper, section 5.3. Differs from an even split at every node
    (`split_over_shortest_paths`) where branches have different numbers of paths behind them.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> fabric = torus(3, 3, 3)
    >>> result = equal_weight_shortest_paths(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    >>> result.schedule, result.loss
    (<RouteSchedule: 27 ranks, 6 chunks, 2106 paths, 5346 hops, 1 layers>, 0.0)
    """
    if max_chunks is not None and max_chunks < 1:
        raise ScheduleError(f"chunks: expected at least 1 per unit of demand, found {max_chunks}")
    dag = EqualSplit(topology, collective)
    common = _common_multiple(dag.number, max_chunks or MAX_CHUNKS)
    chunks = _chunks(topology, dag, common, max_chunks)
    taken = np.minimum(dag.number, dag.demand * chunks).astype(np.int64)
    paths = dag.paths(taken)
    pair = np.repeat(np.arange(len(taken)), taken)
    share, rest = np.divmod(dag.demand * chunks, taken)
    # Remainders rotate, so that first links do not get them all.
    turn = (within(taken) + paths.source + 3 * paths.target) % taken[pair]
    schedule = routes_of(collective, paths, share[pair] + (turn < rest[pair]), chunks)
    algbw = route_algbw(topology, collective, schedule)
    loss = 0.0
    if chunks != common:
        ideal = collective.pair_demands.buffer_units / float((dag.loads() / topology.bandwidths).max())
        loss = 1 - float(algbw) / ideal
    return ChunkedRoutes(schedule, algbw, loss)


def _common_multiple(number: Float64Array, limit: int) -> int | None:
    """Return the least common multiple of the numbers of paths, None beyond the limit."""
    common = 1
    for count in np.unique(number).tolist():
        common = lcm(common, int(count))
        if common > limit:
            return None
    return common


def _chunks(topology: Topology, dag: EqualSplit, common: int | None, limit: int | None) -> int:
    """Return chunks per unit of demand for which the paths have few enough hops in all."""
    chunks = common or limit or MAX_CHUNKS
    hops = dag.hops(chunks)
    if limit is None and hops > _COARSE_HOPS:
        chunks = next((c for c in _COARSE if c < chunks and dag.hops(c) <= _COARSE_HOPS), 1)
        hops = dag.hops(chunks)
    if hops > MAX_HOPS:
        raise ScheduleError(
            f"ewsp: the paths of {topology.name} have {hops:.3g} links in all, at most {MAX_HOPS} can be "
            f"listed; allow fewer chunks, or use fewer ranks"
        )
    return chunks


class EqualSplit:
    """The shortest paths to every rank as one acyclic graph per target, and how many there are.

    N m D operations; the number of paths does not matter.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        self._topology = topology
        self.ranks = np.array(collective.ranks)
        self.source, self.target, self.demand = demanded_pairs(collective)
        check_reachable(topology, collective)
        far = ShortestPaths(topology.transpose(), collective).distances(np.ones(topology.n_links))
        self.distance: Int64Array = np.where(np.isinf(far), -1, far).astype(np.int64)
        """Links from every node to each target rank, shape (N, n), -1 if unreachable."""
        # Arcs sorted by tail: those into it in the transpose, whose tails are the heads here.
        self._arcs = arcs = InArcs.of(topology.heads, topology.tails)
        near = self.distance[:, arcs.tails]
        self._nearer = (near >= 0) & (near == arcs.at_arcs(self.distance) - 1)
        self.counts = self._counts()
        """Number of shortest paths from every node to each target rank, shape (N, n); integers up to
        2**53."""
        begins = self.ranks[self.source]
        self.number = self.counts[self.target, begins]
        """Number of shortest paths of every demanded pair."""
        self._apart = self.distance[self.target, begins]

    def hops(self, chunks: int) -> float:
        """Return the hops of all paths if a pair has at most as many paths as chunks."""
        return float((np.minimum(self.number, self.demand * float(chunks)) * self._apart).sum())

    def _counts(self) -> Float64Array:
        counts = np.zeros(self.distance.shape)
        counts[np.arange(len(self.ranks)), self.ranks] = 1
        for step in range(1, int(self.distance.max()) + 1):
            onward = np.where(self._nearer, counts[:, self._arcs.tails], 0.0)
            total, tails = np.add.reduceat(onward, self._arcs.starts, axis=1), self._arcs.heads
            counts[:, tails] = np.where(self.distance[:, tails] == step, total, counts[:, tails])
        return counts

    def loads(self) -> Float64Array:
        """Return the units of demand over each link under equal shares."""
        here = np.zeros(self.distance.shape)
        here[self.target, self.ranks[self.source]] = self.demand / self.number
        back = InArcs.of(self._arcs.at_arcs(np.arange(self._topology.n_nodes)), self._arcs.tails)
        for step in range(int(self.distance.max()) - 1, 0, -1):
            arriving = np.where(self._nearer, self._arcs.at_arcs(here), 0.0)[:, back.order]
            total = np.add.reduceat(arriving, back.starts, axis=1)
            here[:, back.heads] += np.where(self.distance[:, back.heads] == step, total, 0.0)
        crossing = self._arcs.at_arcs(here) * self.counts[:, self._arcs.tails]
        loads = np.zeros(self._topology.n_links)
        loads[self._arcs.order] = np.where(self._nearer, crossing, 0.0).sum(axis=0)
        return loads

    def paths(self, taken: Int64Array) -> PathSet:
        """Choose paths of each pair, evenly spaced in lexicographic order of their links."""
        pair = np.repeat(np.arange(len(taken)), taken)
        index = np.floor((within(taken) + 0.5) * (self.number / taken)[pair])
        rows = np.full((len(pair), int(self._apart.max())), -1, dtype=np.int32)
        for first in range(0, len(pair), _BLOCK):
            block = slice(first, first + _BLOCK)
            self._walk(pair[block], index[block], rows[block])
        paths = path_set(self.source[pair], self.target[pair], rows)
        assert paths.n_paths == len(pair)
        return paths

    def _walk(self, pair: NDArray[np.int64], index: Float64Array, rows: NDArray[np.int32]) -> None:
        """Write the links of path number index[i] of pair[i] into rows[i]."""
        order, heads, n = self._arcs.order, self._arcs.tails, self._topology.n_nodes
        first = np.searchsorted(self._topology.tails[order], np.arange(n + 1))
        widest = int(np.diff(first).max())
        row, node, rest = np.arange(len(pair)), self.ranks[self.source[pair]], index.copy()
        for hop in range(rows.shape[1]):
            place = first[node][:, None] + np.arange(widest)
            own = place < first[node + 1][:, None]
            place = np.minimum(place, len(order) - 1)
            goal = self.target[pair[row]]
            own &= self._nearer[goal[:, None], place]
            behind = np.where(own, self.counts[goal[:, None], heads[place]], 0.0)
            upto = np.cumsum(behind, axis=1)
            # Beyond 2**53 rounding may lead past the last one.
            last = widest - 1 - np.argmax(own[:, ::-1], axis=1)
            turn = np.minimum((upto <= rest[:, None]).sum(axis=1), last)
            at = np.arange(len(row))
            rest -= upto[at, turn] - behind[at, turn]
            chosen = place[at, turn]
            rows[row, hop], node = order[chosen], heads[chosen]
            going = node != self.ranks[goal]
            row, node, rest = row[going], node[going], rest[going]
