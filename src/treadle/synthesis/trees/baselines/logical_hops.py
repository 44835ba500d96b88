"""Routes of logical hops over the physical fabric."""

from __future__ import annotations

from collections import deque
from copy import copy
from typing import Protocol

from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

Route = tuple[int, ...]
"""Link numbers in the order the data takes them."""


class Distances(Protocol):
    """Links from each node to a target; -1 where no path is needed or exists."""

    def __getitem__(self, node: int, /) -> int: ...


class Router:
    """Routes hops between ranks and counts how often each link was taken.

    A route has as few links as possible; among those the greatest bottleneck bandwidth; among those the least
    relative load so far, so that equal routes fill evenly; among those the lowest link numbers.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Its ranks are the ends of hops; its forwarders, like switches, may be passed.
    taken : list of int, optional
        How often other routers have taken each link, counted on; default: never.
    closed : frozenset of int
        Nodes that must not be passed.
    """

    def __init__(
        self,
        topology: Topology,
        collective: Collective,
        *,
        taken: list[int] | None = None,
        closed: frozenset[int] = frozenset(),
    ) -> None:
        self._topology = topology
        self.nodes = collective.ranks
        self.rank_of = {node: rank for rank, node in enumerate(collective.ranks)}
        self.tails, self.heads = topology.tails.tolist(), topology.heads.tolist()
        self.bandwidths: list[int] = topology.bandwidths.tolist()
        self.out_links: list[list[int]] = [[] for _ in range(topology.n_nodes)]
        self.in_links: list[list[int]] = [[] for _ in range(topology.n_nodes)]
        self.between: dict[tuple[int, int], list[int]] = {}
        for link, (tail, head) in enumerate(zip(self.tails, self.heads, strict=True)):
            if tail != head:
                self.out_links[tail].append(link)
                self.in_links[head].append(link)
                self.between.setdefault((tail, head), []).append(link)
        self._taken = [0] * topology.n_links if taken is None else taken
        self._closed = closed
        self._distances: dict[tuple[int, bool], tuple[list[int], deque[int]]] = {}

    def closed_to(self, nodes: frozenset[int]) -> Router:
        """Return the same router, with common counts of links, where these nodes must not be passed."""
        other = copy(self)
        other._closed, other._distances = nodes, {}
        return other

    def route(self, source: int, target: int) -> Route | None:
        """Return a route between two ranks through switches and forwarders only; None if there is none."""
        return self._search(source, target, through_ranks=False)

    def passing(self, source: int, target: int) -> Route | None:
        """Return a route between two ranks that may pass others, which store nothing, or None."""
        return self._search(source, target, through_ranks=True)

    def relay(self, source: int, target: int) -> list[tuple[int, Route]]:
        """Return a route through other ranks as well, cut at the ranks: (rank reached, route to it) in order.

        Raises
        ------
        InfeasibleError
            If `target` cannot be reached at all.
        """
        links = self._search(source, target, through_ranks=True)
        if links is None:
            names = self._topology.node_names
            raise InfeasibleError(
                f"{self._topology.name}: no path leads from {names[self.nodes[source]]!r} "
                f"to {names[self.nodes[target]]!r}; connect the fabric or leave the rank out"
            )
        found: list[tuple[int, Route]] = []
        start = 0
        for stop, link in enumerate(links, 1):
            if (rank := self.rank_of.get(self.heads[link])) is not None:
                found.append((rank, links[start:stop]))
                start = stop
        return found

    def _search(self, source: int, target: int, *, through_ranks: bool) -> Route | None:
        start, goal = self.nodes[source], self.nodes[target]
        distance = self._distances_to(target, start, through_ranks)
        if distance[start] < 0:
            return None
        # (-bottleneck, greatest relative load, links) per node of the layer; a float only breaks ties
        layer: dict[int, tuple[int, float, Route]] = {start: (-(2**60), 0.0, ())}
        for left in range(distance[start] - 1, -1, -1):
            following: dict[int, tuple[int, float, Route]] = {}
            for node, (negative, load, links) in layer.items():
                for link in self.out_links[node] if left else self.between.get((node, goal), ()):
                    head = self.heads[link]
                    if distance[head] != left or not (left == 0 or self._passes(head, through_ranks)):
                        continue
                    bandwidth = self.bandwidths[link]
                    relative = (self._taken[link] + 1) / bandwidth
                    label = max(negative, -bandwidth), max(load, relative), (*links, link)
                    if head not in following or label < following[head]:
                        following[head] = label
            layer = following
        links = layer[goal][2]
        for link in links:
            self._taken[link] += 1
        return links

    def _passes(self, node: int, through_ranks: bool) -> bool:
        return node not in self._closed and (through_ranks or node not in self.rank_of)

    def _distances_to(self, target: int, start: int, through_ranks: bool) -> Distances:
        """Return the number of links to `target` from each node at most as far as `start`; -1 if unreachable.

        Searches continue where they stopped for other starts: they are by rising distance, so all nearer
        nodes are known when a node is reached.
        """
        goal = self.nodes[target]
        known = self._distances.get((target, through_ranks))
        if known is None:
            known = self._distances[target, through_ranks] = [-1] * self._topology.n_nodes, deque([goal])
            known[0][goal] = 0
        distance, queue = known
        while queue and distance[start] < 0:
            node = queue.popleft()
            if node != goal and not self._passes(node, through_ranks):
                continue
            for link in self.in_links[node]:
                tail = self.tails[link]
                if distance[tail] < 0:
                    distance[tail] = distance[node] + 1
                    queue.append(tail)
                    if (
                        tail == start
                    ):  # all nearer nodes are known; the other links of the node are for later searches
                        queue.appendleft(node)
                        return distance
        return distance
