"""Paths from rank to rank in a fabric of boxes: direct, over a relay on either side, or over every
position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice, pairwise

import numpy as np

from treadle.arrays import Float64Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import (
    PathSet,
    ShortestPaths,
    check_reachable,
    demanded_pairs,
)
from treadle.topologies.topology import Topology

MOST_PATHS = 16
"""Equally fast paths between two ranks that share the data; more spines than that are taken in turn."""

MOST_POSITIONS = 16
"""Most positions over which a pair's data is spread."""

_RESOLUTION = 2**20
_PENALTY = 2.0**40
_MAX_PATHS = 2**20


class RelayPath(StrEnum):
    """Type of path from a rank to another."""

    DIRECT = "direct"
    """Over the fastest paths, whatever lies on them."""

    RELAY_BEFORE = "relay-before"
    """First to the rank of the own box that is nearest to the target, in rail networks that of its rail."""

    RELAY_AFTER = "relay-after"
    """First to the rank of the other box that is nearest to the source, then inside that box."""

    SPREAD = "spread"
    """Evenly over the positions: inside the box to position l, to position l of the other box, inside that
    box."""


class RelayPaths:
    """Paths of every demanded pair by each way, with the share of the way's data on each.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    boxes : sequence of sequences of int
        Every rank in one of them; a rank's position is its place in its box.

    Attributes
    ----------
    length : array of float64, shape (m,)
        Time of a byte on each link, as integers.
    distance : array of float64, shape (N, n)
        From each rank to each node by `length`.
    box, position, ranks : arrays of int64, shape (N,)
        Of each rank; `ranks` are its nodes.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    ScheduleError
        If the boxes do not hold each rank once.
    """

    def __init__(self, topology: Topology, collective: Collective, boxes: Sequence[Sequence[int]]) -> None:
        members = [rank for box in boxes for rank in box]
        if sorted(members) != list(range(collective.n_ranks)):
            raise ScheduleError(f"boxes: expected each of {collective.n_ranks} ranks in one box, once")
        self.boxes = tuple(tuple(box) for box in boxes)
        self.box = np.empty(collective.n_ranks, dtype=np.int64)
        self.position = np.empty(collective.n_ranks, dtype=np.int64)
        for number, row in enumerate(self.boxes):
            self.box[list(row)], self.position[list(row)] = number, np.arange(len(row))
        self._topology = topology
        self.ranks = np.array(collective.ranks)
        self.source, self.target, self.demand = demanded_pairs(collective)
        widest = int(topology.bandwidths.max())
        # whole numbers, so that ways over links of the same speeds tie
        self.length = np.maximum(1.0, np.rint(_RESOLUTION * (widest / topology.bandwidths)))
        finder = ShortestPaths(topology, collective)
        self.distance = finder.distances(self.length)
        check_reachable(topology, collective, self.distance)
        # fewest ranks on the way, then fastest; sums stay whole numbers in float64
        straight = self.length + _PENALTY * topology.is_compute[topology.tails]
        self._into = {
            False: self._tight_links(self.length, self.distance),
            True: self._tight_links(straight, finder.distances(straight)),
        }
        self._legs = cache(self._all_legs)

    def _tight_links(self, length: Float64Array, distance: Float64Array) -> list[list[list[int]]]:
        """Links into each node that lie on a shortest path, by rank."""
        tails, heads = self._topology.tails, self._topology.heads
        into: list[list[list[int]]] = []
        for row in distance:
            entering: list[list[int]] = [[] for _ in range(self._topology.n_nodes)]
            tight = (row[tails] + length == row[heads]) & (tails != heads)
            for link in np.flatnonzero(tight).tolist():
                entering[heads[link]].append(link)
            into.append(entering)
        return into

    def _all_legs(self, source: int, target: int, is_straight: bool) -> tuple[tuple[int, ...], ...]:
        """Up to MOST_PATHS fastest paths, or straight ones; where there is a choice pairs differ in it."""
        start, end = int(self.ranks[source]), int(self.ranks[target])
        into, tails = self._into[is_straight][source], self._topology.tails

        def back(node: int, suffix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if node == start:
                yield suffix
                return
            links = into[node]
            # pairs begin with different links, or all would take the first of equally fast paths
            turn = (source + target) % len(links)
            for link in links[turn:] + links[:turn]:
                yield from back(int(tails[link]), (link, *suffix))

        return tuple(islice(back(end, ()), MOST_PATHS))

    def relay_before(self, source: int, target: int) -> int:
        """The rank of the source's box nearest to the target; of equal ones that of the target's position."""
        box = np.array(self.boxes[self.box[source]])
        return self._nearest(box, self.distance[box, self.ranks[target]], target)

    def relay_after(self, source: int, target: int) -> int:
        """The rank of the target's box nearest to the source; of equal ones that of the source's position."""
        box = np.array(self.boxes[self.box[target]])
        return self._nearest(box, self.distance[source, self.ranks[box]], source)

    def _nearest(self, box: Int64Array, far: Float64Array, other: int) -> int:
        return int(box[np.lexsort((self.position[box] != self.position[other], far))[0]])

    def _stops(self, way: RelayPath, source: int, target: int) -> list[tuple[int, ...]]:
        """Ranks at which data stops on each branch of a way; none where it makes no sense."""
        same = self.box[source] == self.box[target]
        if way is RelayPath.DIRECT:
            return [(source, target)]
        if same and way is RelayPath.SPREAD:
            own = self.boxes[self.box[source]]
            return [(source, own[position], target) for position in _positions(len(own), source + target)]
        if same:
            return []
        if way is RelayPath.RELAY_BEFORE:
            return [(source, self.relay_before(source, target), target)]
        if way is RelayPath.RELAY_AFTER:
            return [(source, self.relay_after(source, target), target)]
        own, other = self.boxes[self.box[source]], self.boxes[self.box[target]]
        positions = _positions(max(len(own), len(other)), source + target)
        return [(source, own[p % len(own)], other[p % len(other)], target) for p in positions]

    def paths(self, way: RelayPath, source: int, target: int) -> list[tuple[float, tuple[int, ...]]]:
        """(share, links) of each path of a way; shares add up to 1. Empty where the way makes no sense."""
        found: list[tuple[float, tuple[int, ...]]] = []
        # each rank reaches the next: those without data for one another need not
        branches = [
            stops
            for stops in self._stops(way, source, target)
            if all(np.isfinite(self.distance[one, self.ranks[other]]) for one, other in pairwise(stops))
        ]
        for stops in branches:
            partial: list[tuple[float, tuple[int, ...]]] = [(1 / len(branches), ())]
            for one, other in pairwise(stops):
                if one == other:
                    continue
                # the fastest way may shun the slow link of a position, which is there to be used
                between = self.box[one] != self.box[other]
                ways = self._legs(one, other, bool(between) and way is RelayPath.SPREAD)
                if len(partial) * len(ways) <= MOST_PATHS:
                    partial = [(share / len(ways), path + more) for share, path in partial for more in ways]
                else:
                    # paths of the two legs in step, or there would be too many
                    most = max(len(partial), len(ways))
                    weight = 1 / len(branches) / most
                    partial = [
                        (weight, partial[i % len(partial)][1] + ways[i % len(ways)]) for i in range(most)
                    ]
            found.extend((share, self._without_loops(path)) for share, path in partial)
        return found

    def _without_loops(self, path: tuple[int, ...]) -> tuple[int, ...]:
        """A walk without the rounds that lead back to a node it was at."""
        kept: list[int] = []
        nodes = [int(self._topology.tails[path[0]])]
        for link in path:
            head = int(self._topology.heads[link])
            if head in nodes:
                place = nodes.index(head)
                del kept[place:], nodes[place + 1 :]
            else:
                kept.append(link)
                nodes.append(head)
        return tuple(kept)


def _positions(count: int, turn: int) -> list[int]:
    """All positions, or MOST_POSITIONS of many, others for another pair."""
    return [(turn + position) % count for position in range(min(count, MOST_POSITIONS))]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Paths of all demanded pairs by all their ways.

    Parameters
    ----------
    paths : PathSet
        Sorted by pair; the same path may appear for several types.
    pair : array of int64, shape (k,)
        Number of each path's pair among the demanded ones.
    way : array of int64, shape (k,)
        Place of its way in `RelayPath`.
    share : array of float64, shape (k,)
        Of the way's data; a pair's and way's add up to 1.
    """

    paths: PathSet
    pair: Int64Array
    way: Int64Array
    share: Float64Array


def candidates(ways: RelayPaths, wanted: Sequence[RelayPath]) -> Candidates:
    """Return the paths of every pair of each given type, or direct ones if none applies.

    Raises
    ------
    ScheduleError
        If they are too many.
    """
    order = {way: place for place, way in enumerate(RelayPath)}
    rows: list[tuple[int, int, float, tuple[int, ...]]] = []
    for pair, (source, target) in enumerate(zip(ways.source.tolist(), ways.target.tolist(), strict=True)):
        options = [(way, ways.paths(way, source, target)) for way in wanted]
        if not any(option for _, option in options):
            options = [(RelayPath.DIRECT, ways.paths(RelayPath.DIRECT, source, target))]
        rows.extend((pair, order[way], share, links) for way, option in options for share, links in option)
        if len(rows) > _MAX_PATHS:
            raise ScheduleError(
                f"{len(rows)} paths for the first {pair + 1} pairs; fewer ways, such as direct and "
                f"relay-before, make fewer"
            )
    pairs = np.array([row[0] for row in rows], dtype=np.int64)
    offset = offsets_of([len(row[3]) for row in rows])
    links = np.array([link for row in rows for link in row[3]], dtype=np.int32)
    paths = PathSet(ways.source[pairs], ways.target[pairs], offset, links)
    place = np.array([row[1] for row in rows], dtype=np.int64)
    return Candidates(paths, pairs, place, np.array([row[2] for row in rows]))
