"""Physical paths between ranks for messages without paths, e.g. those of third-party files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from treadle.arrays import mask_of
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

Links = tuple[int, ...]

MOST_WAYS = 64
"""Maximum number of equal paths between two ranks that are used."""


class PhysicalPaths:
    """The paths of a fabric from rank to rank that pass only switches and forwarders.

    Among all paths those with the fewest links are used, and of these the widest: those whose slowest link is
    the fastest. The remaining paths are equal: parallel links, planes, spines. Ranks of the collective are
    ends of paths, and never inside them.
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        self.topology, self.ranks = topology, collective.ranks
        self._is_rank = mask_of(topology.n_nodes, list(collective.ranks)).tolist()
        self._leaving: list[list[int]] = [[] for _ in range(topology.n_nodes)]
        self._tails, self._heads = topology.tails.tolist(), topology.heads.tolist()
        self._widths = topology.bandwidths.tolist()
        for link, tail in enumerate(self._tails):
            self._leaving[tail].append(link)
        self._from = cache(self._search)
        self.between = cache(self._between)

    def _search(self, tail: int) -> tuple[list[int], list[int], list[list[int]]]:
        """Return distance and width of every node from a rank, and the last links of the shortest paths."""
        n = self.topology.n_nodes
        distance, width = [-1] * n, [0] * n
        entering: list[list[int]] = [[] for _ in range(n)]
        distance[tail], width[tail] = 0, 2**62
        waiting = [tail]
        for node in waiting:  # grows on the way
            if node != tail and self._is_rank[node]:
                continue
            for link in self._leaving[node]:
                head = self._heads[link]
                if distance[head] < 0:
                    distance[head] = distance[node] + 1
                    waiting.append(head)
                if distance[head] == distance[node] + 1:
                    entering[head].append(link)
                    width[head] = max(width[head], min(width[node], self._widths[link]))
        return distance, width, entering

    def _between(self, sender: int, receiver: int) -> tuple[Links, ...]:
        """Return all equal paths between two ranks, in the order of their links."""
        tail, head = self.ranks[sender], self.ranks[receiver]
        distance, width, entering = self._from(tail)
        if distance[head] <= 0:
            return ()
        found: list[Links] = []
        open_ends: list[tuple[int, Links]] = [(head, ())]
        while open_ends and len(found) < MOST_WAYS:
            node, links = open_ends.pop()
            if node == tail:
                found.append(links)
                continue
            for link in entering[node]:
                before = self._tails[link]
                if min(width[before], self._widths[link]) >= width[head]:
                    open_ends.append((before, (link, *links)))
        return tuple(sorted(found))

    def along(self, sender: int, receiver: int, through: Sequence[int]) -> tuple[Links, ...]:
        """Return the paths between two ranks over exactly these nodes, for each choice of parallel links."""
        found: list[Links] = [()]
        for node, following in pairwise([self.ranks[sender], *through, self.ranks[receiver]]):
            links = [link for link in self._leaving[node] if self._heads[link] == following]
            found = [(*path, link) for path in found for link in links][:MOST_WAYS]
        return tuple(found)
