"""Physical ways between ranks, where all that is known is who sends to whom."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache

from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

Links = tuple[int, ...]

MOST_WAYS = 64
"""Equal ways between two ranks that are told apart; where there are more, the others stay unused."""


class PhysicalPaths:
    """The ways of a fabric that lead from rank to rank through switches and forwarders alone.

    Of all ways those of the fewest links are taken, and of these the widest: those whose narrowest link is
    the fastest. All that are left are equal: parallel links, planes, spines.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Whose ranks end ways, and never lie on them.
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        self.topology, self.ranks = topology, collective.ranks
        self._is_rank = [False] * topology.n_nodes
        for node in collective.ranks:
            self._is_rank[node] = True
        self._leaving: list[list[int]] = [[] for _ in range(topology.n_nodes)]
        self._tails, self._heads = topology.tails.tolist(), topology.heads.tolist()
        self._widths = topology.bandwidths.tolist()
        for link, tail in enumerate(self._tails):
            self._leaving[tail].append(link)
        self._from = cache(self._searched)
        self.between = cache(self._between)

    def _searched(self, tail: int) -> tuple[list[int], list[int], list[list[int]]]:
        """Distance and width of every node from a rank, and the links by which the shortest ways come in."""
        n = self.topology.n_nodes
        distance, width = [-1] * n, [0] * n
        entering: list[list[int]] = [[] for _ in range(n)]
        distance[tail], width[tail] = 0, 2**62
        waiting = deque([tail])
        while waiting:
            node = waiting.popleft()
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
        """All equal ways between two ranks, in the order of their links; none if nothing leads there."""
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
        """The ways between two ranks over just these nodes, one for each choice of parallel links."""
        found: list[Links] = [()]
        node = self.ranks[sender]
        for following in (*through, self.ranks[receiver]):
            links = [link for link in self._leaving[node] if self._heads[link] == following]
            found = [(*way, link) for way in found for link in links][:MOST_WAYS]
            node = following
        return tuple(found)
