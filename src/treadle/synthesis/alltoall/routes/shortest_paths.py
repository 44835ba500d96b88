"""Every pair's data split evenly over its shortest paths, as weighted routes."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, offsets_of, positions_of, ranges_of
from treadle.errors import ScheduleError
from treadle.math.graphs import hops
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import PathSet, no_path, routes_of
from treadle.synthesis.runs import within
from treadle.topologies.topology import Topology

MAX_CHUNKS = 5040
"""Default limit of chunks per unit of demand: what shortest paths of most catalogue graphs split into."""

_MAX_HOPS = 2**26  # of all paths together


def split_over_shortest_paths(
    topology: Topology, collective: Collective, *, max_chunks: int = MAX_CHUNKS
) -> RouteSchedule:
    """Split data at each node evenly over the links that lead nearer to its target.

    Parameters
    ----------
    topology : Topology
        Every node may forward.
    collective : Collective
        An all-to-all.
    max_chunks : int
        Limit of chunks per unit of demand. Even splits that need no more are exact; otherwise a unit has
        this many chunks, and remainders are assigned in turn.

    Returns
    -------
    RouteSchedule
        All in layer 0.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    ScheduleError
        If the paths are too many; fewer chunks make fewer paths.

    Notes
    -----
    Optimal on hypercubes, complete bipartite graphs and tori (by their symmetry), 1.2 to 1.4 times the
    optimum on generalized Kautz graphs. A pair has at most as many paths as chunks.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import hypercube
    >>> cube = hypercube(3)
    >>> split_over_shortest_paths(cube, on_all_ranks(cube, CollectiveKind.ALLTOALL))
    <RouteSchedule: 8 ranks, 6 chunks, 120 paths, 264 hops, 1 layers>
    """
    if max_chunks < 1:
        raise ScheduleError(f"chunks: expected at least 1 per unit of demand, found {max_chunks}")
    ranks = np.array(collective.ranks, dtype=np.int64)
    demands = collective.pair_demands.between
    distance = hops(topology.n_nodes, topology.heads, topology.tails, ranks)
    source, target = np.nonzero(demands)
    far = np.flatnonzero(distance[target, ranks[source]] < 0)
    for pair in far[:1]:
        raise no_path(topology, int(ranks[source[pair]]), int(ranks[target[pair]]))
    walk = _Walk(topology, distance)
    chunks = _even_chunks(walk, ranks, source, target, max_chunks)
    units = demands[source, target] * chunks
    offset, links, pair, units = walk.paths(ranks, source, target, units)
    start, end = (rank[pair].astype(np.int32) for rank in (source, target))
    return routes_of(collective, PathSet(start, end, offset, links.astype(np.int32)), units, chunks)


class _Walk:
    """Walks of all pairs' data, a link at a time.

    Parameters
    ----------
    topology : Topology
    distance : array of int64, shape (N, n)
        From every node to each target rank.
    """

    def __init__(self, topology: Topology, distance: Int64Array) -> None:
        self._topology = topology
        self.distance = distance
        self.heads = topology.heads
        self._order = np.argsort(topology.tails, kind="stable")
        counts = np.bincount(topology.tails, minlength=topology.n_nodes)
        self._start = offsets_of(counts)

    def next_links(self, node: Int64Array, target: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the number of links of each row that lead nearer, and these links, row by row."""
        row, place = ranges_of(self._start[node], self._start[node + 1] - self._start[node])
        link, goal = self._order[place], target[row]
        nearer = self.distance[goal, self.heads[link]] == self.distance[goal, node[row]] - 1
        nearer &= self.distance[goal, self.heads[link]] >= 0
        return np.bincount(row[nearer], minlength=len(node)), link[nearer]

    def paths(
        self, ranks: Int64Array, source: Int64Array, target: Int64Array, units: Int64Array
    ) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return offsets and links of all paths, and the pair and units of each; sorted by pair."""
        pair, node = np.arange(len(source)), ranks[source]
        walked = np.zeros((len(pair), 0), dtype=np.int32)
        done: list[tuple[Int64Array, Int64Array, Int64Array]] = []
        while len(pair):
            counts, link = self.next_links(node, target[pair])
            row = np.repeat(np.arange(len(pair)), counts)
            share, rest = np.divmod(units, counts)
            # Remainders rotate, so that no link gets them all.
            turn = (within(counts) + source[pair[row]] + 3 * target[pair[row]]) % counts[row]
            part = share[row] + (turn < rest[row])
            kept = part > 0
            row, link, part = row[kept], link[kept], part[kept]
            if (walked.shape[1] + 1) * len(row) > _MAX_HOPS:
                raise ScheduleError(
                    f"{self._topology.name}: the shortest paths have over {_MAX_HOPS} links in all; "
                    f"allow fewer chunks (--chunks)"
                )
            walked = np.concatenate([walked[row], link[:, None].astype(np.int32)], axis=1)
            pair, units, node = pair[row], part, self.heads[link].astype(np.int64)
            there = node == ranks[target[pair]]
            done.append((walked[there], pair[there], units[there]))
            walked, pair, units, node = walked[~there], pair[~there], units[~there], node[~there]
        return _joined(done)


def _joined(
    groups: list[tuple[Int64Array, Int64Array, Int64Array]],
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Join groups of paths of one length each to one list, sorted by pair."""
    pair = np.concatenate([group[1] for group in groups])
    units = np.concatenate([group[2] for group in groups])
    lengths = np.concatenate([np.full(len(walked), walked.shape[1]) for walked, _, _ in groups])
    order = np.argsort(pair, kind="stable")
    place = positions_of(len(order), order)
    offset = offsets_of(lengths[order])
    links = np.empty(offset[-1], dtype=np.int64)
    first = 0
    for walked, _, _ in groups:
        begin = offset[place[first : first + len(walked)]]
        links[begin[:, None] + np.arange(walked.shape[1])] = walked
        first += len(walked)
    return offset, links, pair[order], units[order]


def _even_chunks(walk: _Walk, ranks: Int64Array, source: Int64Array, target: Int64Array, limit: int) -> int:
    """Return the fewest chunks that every even split divides, or `limit`."""
    # need[v, t]: the data at node v for target t must have a multiple of this many chunks.
    distance = walk.distance
    need = np.ones(distance.shape[::-1], dtype=np.int64)
    for step in range(1, int(distance.max()) + 1):
        goal, node = np.nonzero(distance == step)
        counts, link = walk.next_links(node, goal)
        onward = need[walk.heads[link], np.repeat(goal, counts)]
        starts = np.cumsum(counts) - counts
        common = np.ones(len(node), dtype=np.int64)
        for turn in range(int(counts.max())):
            has = np.flatnonzero(counts > turn)
            common[has] = np.lcm(common[has], onward[starts[has] + turn])
            if common.max() > limit:  # and below limit**2: no product wraps
                return limit
        need[node, goal] = common * counts
    chunks = 1
    if need.max() > limit:
        return limit
    for value in np.unique(need[ranks[source], target]).tolist():
        chunks = int(np.lcm(chunks, value))
        if chunks > limit:
            return limit
    return chunks
