"""What a job may use of a fabric, and its cheapest trees and paths at given link lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.errors import InfeasibleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.jobs import Job
from treadle.synthesis.jobs.arborescence import least_arborescence
from treadle.topologies.topology import Topology

Path = tuple[int, ...]
"""Links in the order the data takes them."""


@dataclass(frozen=True)
class SpanningTree:
    """A tree of a job's ranks.

    Parameters
    ----------
    parent : tuple of int
        Rank, -1 at the root.
    paths : mapping of rank to Path
        Of the edge between a rank and its parent, as the data go.
    """

    parent: tuple[int, ...]
    paths: Mapping[int, Path]


@dataclass(frozen=True)
class Column:
    """One way to do a part of a job, and how often it crosses each link.

    Parameters
    ----------
    job, root : int
        Of an all-to-all, the rank whose data it carries.
    loads : mapping of link to int
        Crossings for each byte of the part; of an all-to-all, for each unit of demand of every pair.
    broadcast, reduce : SpanningTree, optional
    routes : tuple of (target, Path)
        Of an all-to-all.
    """

    job: int
    root: int
    loads: Mapping[int, int]
    broadcast: SpanningTree | None = None
    reduce: SpanningTree | None = None
    routes: tuple[tuple[int, Path], ...] = ()


class JobNetwork:
    """A job on a fabric.

    Parameters
    ----------
    topology : Topology
    number : int
        Of the job.
    job : Job
    """

    def __init__(self, topology: Topology, number: int, job: Job) -> None:
        self.number, self.collective, self.name = number, job.collective, job.name
        self._ranks = np.array(self.collective.ranks)
        n = len(self._ranks)
        present = ~topology.is_compute
        present[[*self.collective.ranks, *self.collective.forwarders]] = True
        arrival = np.arange(topology.n_nodes)
        if self.collective.kind is not CollectiveKind.ALLTOALL:
            # edges of trees end at ranks and do not pass through; what an all-to-all sends may
            arrival[self._ranks] = topology.n_nodes + np.arange(n)
        links = np.flatnonzero(
            present[topology.tails] & present[topology.heads] & (topology.tails != topology.heads)
        )
        self._links = links[np.argsort(arrival[topology.heads[links]], kind="stable")]
        self._tails, heads = topology.tails[self._links], arrival[topology.heads[self._links]]
        self._targets, self._first, self._widths = np.unique(heads, return_index=True, return_counts=True)
        self._size, self._arrivals = topology.n_nodes + n, arrival[self._ranks]

    @property
    def roots(self) -> list[int | None]:
        """Ranks each of which needs a part of its own; None: any root will do."""
        if self.collective.kind is CollectiveKind.ALLREDUCE:
            return [None]
        if self.collective.kind is CollectiveKind.ALLTOALL:
            demand = self.collective.pair_demands.between
            return [rank for rank in range(self.collective.n_ranks) if demand[rank].any()]
        return [rank for rank, weight in enumerate(self.collective.shard_weights) if weight]

    def root_fraction(self, root: int | None) -> Fraction:
        """Bytes of a root's part for each byte of the larger buffer."""
        if root is None:
            return Fraction(1)
        if self.collective.kind is CollectiveKind.ALLTOALL:
            return Fraction(1, self.collective.pair_demands.buffer_units)
        weights = self.collective.shard_weights
        return Fraction(weights[root], sum(weights))

    def cheapest(self, lengths: NDArray[np.float64]) -> Iterator[tuple[int | None, float, Column]]:
        """For each root the cheapest column and its length.

        Parameters
        ----------
        lengths : array of float64, shape (m,)
            Of all links of the fabric.

        Raises
        ------
        InfeasibleError
            If a rank cannot be reached.
        """
        distance, paths = self._paths(lengths)
        kind = self.collective.kind
        if kind is CollectiveKind.ALLREDUCE:
            found = []
            for free_root in range(self.collective.n_ranks):
                inward, reduce = self._tree(free_root, distance, paths, outward=False)
                outward, broadcast = self._tree(free_root, distance, paths, outward=True)
                loads = _loads([*reduce.paths.values(), *broadcast.paths.values()])
                found.append((inward + outward, Column(self.number, free_root, loads, broadcast, reduce)))
            yield None, *min(found, key=lambda one: one[0])
            return
        for root in self.roots:
            assert root is not None, "only an allreduce has a free root"
            if kind is CollectiveKind.ALLTOALL:
                yield root, *self._bundle(root, distance, paths)
                continue
            length, tree = self._tree(root, distance, paths, outward=kind.broadcasts)
            trees = (tree, None) if kind.broadcasts else (None, tree)
            yield root, length, Column(self.number, root, _loads(tree.paths.values()), *trees)

    def _paths(self, lengths: NDArray[np.float64]) -> tuple[NDArray[np.float64], _Paths]:
        """Distances between ranks, shape (N, N), and the paths (Bellman and Ford, from all ranks at once)."""
        # where links are free, fewer of them are better; and no cycle is as short as none
        own = lengths[self._links][:, None] + 1e-12 * (lengths.max(initial=0.0) or 1.0)
        distance = np.full((self._size, len(self._ranks)), np.inf)
        distance[self._ranks, np.arange(len(self._ranks))] = 0.0
        while True:
            reached = distance[self._tails] + own
            shorter = np.minimum(distance[self._targets], np.minimum.reduceat(reached, self._first, axis=0))
            if np.array_equal(shorter, distance[self._targets]):
                break
            distance[self._targets] = shorter
        is_last = reached == np.repeat(shorter, self._widths, axis=0)
        places = np.where(is_last, np.arange(len(own))[:, None], len(own))
        last = np.full(distance.shape, -1, dtype=np.int64)
        last[self._targets] = np.minimum.reduceat(places, self._first, axis=0)
        return distance[self._arrivals].T, _Paths(
            last.T.tolist(),
            self._ranks.tolist(),
            self._arrivals.tolist(),
            self._tails.tolist(),
            self._links.tolist(),
        )

    def _tree(
        self, root: int, distance: NDArray[np.float64], paths: _Paths, *, outward: bool
    ) -> tuple[float, SpanningTree]:
        cost = distance if outward else distance.T
        try:
            parent = least_arborescence(cost, root)
        except InfeasibleError as error:
            raise self._unreachable() from error
        edges = {
            rank: paths.between(above, rank) if outward else paths.between(rank, above)
            for rank, above in enumerate(parent)
            if above >= 0
        }
        length = sum(float(cost[above, rank]) for rank, above in enumerate(parent) if above >= 0)
        return length, SpanningTree(tuple(parent), edges)

    def _unreachable(self) -> InfeasibleError:
        return InfeasibleError(
            f"job {self.name!r}: some of its ranks cannot reach others by links of its own; let the other "
            f"compute nodes forward (forward = true)"
        )

    def _bundle(self, root: int, distance: NDArray[np.float64], paths: _Paths) -> tuple[float, Column]:
        demand = self.collective.pair_demands.between[root]
        targets = np.flatnonzero(demand).tolist()
        if not np.isfinite(distance[root, targets]).all():
            raise self._unreachable()
        routes = tuple((target, paths.between(root, target)) for target in targets)
        loads: Counter[int] = Counter()
        for target, path in routes:
            for link in path:
                loads[link] += int(demand[target])
        length = sum(float(distance[root, target]) * int(demand[target]) for target in targets)
        return length, Column(self.number, root, loads, routes=routes)


@dataclass(frozen=True)
class _Paths:
    """Shortest paths from every rank: the last link into each node by its place among the job's links."""

    last: list[list[int]]
    ranks: list[int]
    arrivals: list[int]
    tails: list[int]
    links: list[int]

    def between(self, source: int, target: int) -> Path:
        """Links from rank to rank."""
        node, found, last = self.arrivals[target], [], self.last[source]
        while node != self.ranks[source]:
            place = last[node]
            found.append(self.links[place])
            node = self.tails[place]
        return tuple(reversed(found))


def _loads(paths: Iterable[Path]) -> Counter[int]:
    """How often the paths cross each link."""
    loads: Counter[int] = Counter()
    for path in paths:
        loads.update(path)
    return loads
