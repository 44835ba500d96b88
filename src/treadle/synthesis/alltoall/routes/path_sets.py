"""Paths of an all-to-all's pairs as arrays, and shortest paths under changing link lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Float64Array, Int32Array, Int64Array, mask_of, offsets_of, ranges_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.math.graphs import InArcs
from treadle.math.symmetry import scramble
from treadle.schedules.alltoall.routes import MAX_UNITS, RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.runs import within
from treadle.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class PathSet:
    """Simple paths between ranks, sorted by source, then by target, none twice.

    Parameters
    ----------
    source, target : arrays of int32, shape (k,)
        Ranks.
    offset : array of int64, shape (k + 1,)
    links : array of int32
        Links of path p are links[offset[p]:offset[p + 1]].
    """

    source: Int32Array
    target: Int32Array
    offset: Int64Array
    links: Int32Array

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return len(self.source)

    @property
    def hops(self) -> Int64Array:
        """Links of each path."""
        return np.diff(self.offset)

    @property
    def owner(self) -> Int64Array:
        """Path of every entry of `links`."""
        return np.repeat(np.arange(self.n_paths), self.hops)

    def take(self, chosen: NDArray[np.integer] | NDArray[np.bool_]) -> PathSet:
        """Return the chosen paths; numbers must rise."""
        keep = np.arange(self.n_paths)[chosen]
        hops = self.hops[keep]
        _, places = ranges_of(self.offset[keep], hops)
        return PathSet(self.source[keep], self.target[keep], offsets_of(hops), self.links[places])

    def links_of(self, path: int) -> Int32Array:
        """Links of one path."""
        return self.links[self.offset[path] : self.offset[path + 1]]


@dataclass(frozen=True, eq=False)
class WeightedPaths:
    """Fractional routing: the part of its pair's demand that each path carries.

    Parameters
    ----------
    paths : PathSet
    weights : array of float64, shape (k,)
        In units of demand; a pair's add up to its demand.
    """

    paths: PathSet
    weights: Float64Array

    def loads(self, n_links: int) -> Float64Array:
        """Return the units of demand over each link, shape (m,)."""
        return np.bincount(
            self.paths.links, weights=self.weights[self.paths.owner], minlength=n_links
        ).astype(np.float64)

    def rate(self, topology: Topology) -> float:
        """Return F, bytes/s per unit of demand, that the links allow."""
        return float(1 / np.max(self.loads(topology.n_links) / topology.bandwidths))


def demanded_pairs(collective: Collective) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Return source, target and demand of every pair with demand, in the order of a PathSet."""
    between = collective.pair_demands.between
    source, target = np.nonzero(between)
    return source.astype(np.int32), target.astype(np.int32), between[source, target]


def path_set(source: NDArray[np.integer], target: NDArray[np.integer], rows: NDArray[np.integer]) -> PathSet:
    """Sort paths by pair and drop duplicates, keeping the first; the order within a pair is kept.

    Parameters
    ----------
    source, target : arrays of int, shape (k,)
    rows : array of int, shape (k, longest)
        Links of each path, in order, then -1.
    """
    table = np.column_stack([source, target, rows]).astype(np.int64)
    _, first = np.unique(fingerprints(table[:, 0], table[:, 1], table[:, 2:]), return_index=True)
    table = table[np.sort(first)]
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    used = table[:, 2:] >= 0
    source, target, links = (part.astype(np.int32) for part in (table[:, 0], table[:, 1], table[:, 2:][used]))
    return PathSet(source, target, offsets_of(used.sum(axis=1)), links)


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def fingerprints(
    source: NDArray[np.integer], target: NDArray[np.integer], rows: NDArray[np.integer]
) -> NDArray[np.uint64]:
    """Hash paths to 64 bits: simple paths of a pair differ in their sets of links."""
    ends = source.astype(np.uint64) << np.uint64(32) | target.astype(np.uint64)
    total = scramble(ends * _SPREAD)
    for column in rows.T:
        words = (column.astype(np.uint64) ^ np.uint64(2**63)) * _SPREAD
        total += np.where(column >= 0, scramble(words), np.uint64(0))
    return total


def path_rows(paths: PathSet) -> Int32Array:
    """Links of each path in a table padded by -1, shape (k, longest)."""
    rows = np.full((paths.n_paths, int(paths.hops.max(initial=0))), -1, dtype=np.int32)
    rows[paths.owner, within(paths.hops)] = paths.links
    return rows


def weighted_path_set(
    source: NDArray[np.integer], target: NDArray[np.integer], rows: NDArray[np.integer], weights: Float64Array
) -> WeightedPaths:
    """Return each path once, as `path_set` does, with the sum of its weights."""
    paths = path_set(source, target, rows)
    known, number = np.unique(fingerprints(source, target, rows), return_inverse=True)
    total: Float64Array = np.bincount(number.reshape(-1), weights=weights).astype(np.float64)
    own = fingerprints(paths.source, paths.target, path_rows(paths))
    return WeightedPaths(paths, total[np.searchsorted(known, own)])


def from_lists(paths: Iterable[tuple[int, int, Sequence[int]]]) -> PathSet:
    """Make a path set from (source, target, links) in any order."""
    given = list(paths)
    longest = max((len(links) for _, _, links in given), default=0)
    rows = np.full((len(given), longest), -1, dtype=np.int64)
    for row, (_, _, links) in zip(rows, given, strict=True):
        row[: len(links)] = links
    source = np.array([one for one, _, _ in given], dtype=np.int64)
    return path_set(source, np.array([other for _, other, _ in given], dtype=np.int64), rows)


def routes_of(
    collective: Collective,
    paths: PathSet,
    units: NDArray[np.integer],
    n_chunks: int,
    layer: Int32Array | None = None,
) -> RouteSchedule:
    """Return the schedule in which path p carries units[p] chunks, all in layer 0 by default."""
    return RouteSchedule(
        n_ranks=collective.n_ranks,
        n_chunks=n_chunks,
        source=paths.source,
        target=paths.target,
        units=np.asarray(units, dtype=np.int64),
        layer=np.zeros(paths.n_paths, dtype=np.int32) if layer is None else layer,
        path_offset=paths.offset,
        path_links=paths.links,
    )


def single_routes(collective: Collective, paths: PathSet) -> RouteSchedule:
    """Return the schedule in which the one path of each pair carries all of its demand."""
    demand = collective.pair_demands.between
    return routes_of(collective, paths, demand[paths.source, paths.target], 1)


def check_limits(chunks: int | None, max_routes: int | None) -> None:
    """Raise ScheduleError if no schedule can have this many chunks, or this few routes per pair."""
    if chunks is not None and not 1 <= chunks <= MAX_UNITS:
        raise ScheduleError(f"routes: {chunks} chunks per unit of demand, expected 1 to 2**24")
    if max_routes is not None and max_routes < 1:
        raise ScheduleError(f"routes: at most {max_routes} routes a pair, expected at least 1")


def out_links(topology: Topology, order: Iterable[int]) -> list[list[tuple[int, int]]]:
    """Return (link, head) out of every node, the links in this order; no self-loops."""
    out: list[list[tuple[int, int]]] = [[] for _ in range(topology.n_nodes)]
    for link in order:
        tail, head = int(topology.tails[link]), int(topology.heads[link])
        if tail != head:
            out[tail].append((link, head))
    return out


def merge(*sets: PathSet) -> PathSet:
    """Return all paths of several sets, each once; of equal ones the first."""
    longest = max(int(paths.hops.max(initial=0)) for paths in sets)
    rows = [
        np.pad(row, ((0, 0), (0, longest - row.shape[1])), constant_values=-1) for row in map(path_rows, sets)
    ]
    source = np.concatenate([paths.source for paths in sets])
    return path_set(source, np.concatenate([paths.target for paths in sets]), np.concatenate(rows))


class PathSearch(Protocol):
    """Result of a finder for some lengths."""

    distance: Float64Array
    """From every rank to every node, shape (N, n); inf where no path is permitted."""

    def paths(self, source: NDArray[np.integer], target: NDArray[np.integer]) -> Int64Array:
        """Return a shortest path for each (source, target) of ranks, as rows of links padded by -1."""
        ...


class PathFinder(Protocol):
    """Finder of shortest paths among those that it permits."""

    ranks: Int64Array

    def search(self, lengths: Float64Array) -> PathSearch:
        """Find shortest paths from all ranks; lengths must be positive."""
        ...


_LOST = 1e-14
"""A length below this fraction of a distance may vanish in their sum."""


class ShortestPaths:
    """Finder of shortest paths from every rank under changing link lengths, without self-loops.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        carries = np.flatnonzero(topology.tails != topology.heads)
        self._arcs = InArcs.of(topology.tails, topology.heads, carries)
        self._all_tails = topology.tails.astype(np.int64)
        self.ranks: Int64Array = np.array(collective.ranks, dtype=np.int64)
        self._n = topology.n_nodes

    def distances(self, lengths: Float64Array) -> Float64Array:
        """Return the distance from every rank to every node, shape (N, n); inf if unreachable."""
        arcs, own = self._arcs, lengths[self._arcs.order]
        distance = np.full((len(self.ranks), self._n), np.inf)
        distance[np.arange(len(self.ranks)), self.ranks] = 0
        while len(own):
            reached = np.minimum.reduceat(distance[:, arcs.tails] + own, arcs.starts, axis=1)
            nearer = np.minimum(distance[:, arcs.heads], reached)
            if np.array_equal(nearer, distance[:, arcs.heads]):
                break
            distance[:, arcs.heads] = nearer
        return distance

    def search(self, lengths: Float64Array) -> ShortestSearch:
        """Find shortest paths from all ranks; positive lengths ensure that walks back end at the source."""
        arcs, own, distance = self._arcs, lengths[self._arcs.order], self.distances(lengths)
        into = np.full(distance.shape, -1, dtype=np.int64)
        slack, at_head = distance[:, arcs.tails] + own, arcs.at_arcs(distance)
        np.subtract(slack, at_head, out=slack, where=at_head < np.inf)  # elsewhere both are infinite
        best = np.minimum.reduceat(slack, arcs.starts, axis=1)
        tight = slack == np.repeat(best, arcs.widths, axis=1)
        last = arcs.order[np.minimum(arcs.first(tight), len(own) - 1)]
        into[:, arcs.heads] = np.where(best < np.inf, last, -1)
        farthest = distance[np.isfinite(distance)].max(initial=0.0)
        if len(own) and own.min() <= _LOST * farthest:
            into = self._outwards(distance, tight)
        return ShortestSearch(distance, into, self._all_tails, self.ranks)

    def _outwards(self, distance: Float64Array, tight: BoolArray) -> Int64Array:
        """Return the last links of shortest paths, chosen from the sources outwards.

        Where rounding loses a length next to a distance, tight links may form cycles, which walks back would
        never leave. But some path of tight links leads from the source to every reachable node.
        """
        arcs, into = self._arcs, np.full(distance.shape, -1, dtype=np.int64)
        seen = mask_of(distance.shape, (np.arange(len(self.ranks)), self.ranks))
        usable = tight & np.isfinite(distance[:, arcs.tails])
        while True:
            first = arcs.first(usable & seen[:, arcs.tails] & ~arcs.at_arcs(seen))
            row, column = np.nonzero(first < len(arcs.order))
            if not len(row):
                return into
            into[row, arcs.heads[column]] = arcs.order[first[row, column]]
            seen[row, arcs.heads[column]] = True


@dataclass(eq=False)
class ShortestSearch:
    """Distances, and the last link of a shortest path from every rank to every node, or -1."""

    distance: Float64Array
    into: Int64Array
    tails: Int64Array
    ranks: Int64Array

    def paths(self, source: NDArray[np.integer], target: NDArray[np.integer]) -> Int64Array:
        """Return a shortest path for each (source, target) of ranks, as rows of links padded by -1."""
        return walk_back(self.into, self.tails, source, self.ranks[source], self.ranks[target])


def walk_back(
    into: NDArray[np.int64],
    tails: NDArray[np.int64],
    row: NDArray[np.integer],
    start: NDArray[np.integer],
    end: NDArray[np.integer],
) -> NDArray[np.int64]:
    """Return paths from `start` to `end` nodes along the links into[row, node], as rows padded by -1.

    Raises
    ------
    InfeasibleError
        If some walk does not reach its start within as many hops as there are nodes.
    """
    at = np.array(end, dtype=np.int64)
    columns: list[NDArray[np.int64]] = []
    going = at != start
    while going.any():
        if len(columns) > into.shape[1]:
            raise InfeasibleError("paths: some rank cannot be reached from another; connect the fabric")
        link = np.where(going, into[row, at], -1)
        columns.append(link)
        at = np.where(link >= 0, tails[link], at)
        going = at != start
    if not columns:
        return np.full((len(at), 0), -1, dtype=np.int64)
    return turned(np.column_stack(columns))


def turned(back: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reverse rows of links that were found from their ends, padded by -1."""
    hops = (back >= 0).sum(axis=1)
    place = hops[:, None] - 1 - np.arange(back.shape[1])
    forward: NDArray[np.int64] = np.where(
        place >= 0, np.take_along_axis(back, np.maximum(place, 0), axis=1), -1
    )
    return forward


def shortest_path_set(topology: Topology, collective: Collective) -> PathSet:
    """Return a path of fewest hops for every demanded pair.

    Raises
    ------
    InfeasibleError
        If some rank cannot be reached.
    """
    finder = ShortestPaths(topology, collective)
    source, target, _ = demanded_pairs(collective)
    found = finder.search(np.ones(topology.n_links))
    check_reachable(topology, collective, found.distance)
    return path_set(source, target, found.paths(source, target))


def check_reachable(topology: Topology, collective: Collective, distance: Float64Array | None = None) -> None:
    """Raise InfeasibleError, naming a pair, if a demanded one is at infinite distance; default: by hops."""
    if distance is None:
        distance = ShortestPaths(topology, collective).distances(np.ones(topology.n_links))
    source, target, _ = demanded_pairs(collective)
    ranks = np.array(collective.ranks)
    for i in np.flatnonzero(np.isinf(distance[source, ranks[target]]))[:1]:
        raise no_path(topology, *(int(ranks[end[i]]) for end in (source, target)))


def no_path(topology: Topology, node: int, other: int) -> InfeasibleError:
    """Return the error for two nodes without a path."""
    names = topology.node_names
    return InfeasibleError(
        f"{topology.name}: no path leads from {names[node]!r} to {names[other]!r}; connect the fabric"
    )


def check_linked(topology: Topology, collective: Collective) -> None:
    """Raise InfeasibleError, naming a pair, on a fabric without any link; others fail by their distances."""
    if not topology.n_links:
        unlinked = np.full((collective.n_ranks, topology.n_nodes), np.inf)
        check_reachable(topology, collective, unlinked)


def check_paths(collective: Collective, paths: PathSet) -> Int64Array:
    """Return the number of each path's pair among the demanded ones, each of which needs a path."""
    source, target, _ = demanded_pairs(collective)
    n = collective.n_ranks
    wanted = source.astype(np.int64) * n + target
    given = paths.source.astype(np.int64) * n + paths.target
    place = np.minimum(np.searchsorted(wanted, given), len(wanted) - 1)
    if np.any(wanted[place] != given):
        raise ScheduleError("paths: some join ranks without demand; drop them")
    missing = np.flatnonzero(np.bincount(place, minlength=len(wanted)) == 0)
    for i in missing[:1]:
        raise InfeasibleError(f"paths: rank {source[i]} has none to rank {target[i]}, expected at least one")
    return place
