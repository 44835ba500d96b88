"""Loads and latency of the rings of concurrent groups, without their trees: n^2 edges for n ranks."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.schedules.collective import Collective
from treadle.synthesis.trees.baselines.in_groups import OwnFabric
from treadle.synthesis.trees.baselines.logical_hops import Route, Router
from treadle.synthesis.trees.baselines.ring import Order, ring_orders
from treadle.topologies.topology import Topology

_FAR = 2**30


@dataclass(frozen=True)
class RingLoads:
    """Rings of all groups of a collective, as `ring` and `rings_in_groups` make them.

    Parameters
    ----------
    n : int
        Ranks of a group.
    hops : mapping of int to array of shape (m,)
        Hops that cross each link, by the number of rings that share the data.
    paths : tuple of tuples of tuples of Route
        Distinct rings by group and by forest: the routes of their hops.
    """

    n: int
    hops: dict[int, Int64Array]
    paths: frozenset[tuple[tuple[tuple[Route, ...], ...], ...]]

    def algbw(self, topology: Topology) -> Fraction:
        """Return the bytes/s of every group: all but one shard cross each hop."""
        kinds = np.stack([topology.bandwidths, *self.hops.values()])
        used = np.unique(kinds[:, kinds[1:].any(axis=0)], axis=1)
        share = Fraction(self.n - 1, self.n)
        rates: list[Fraction] = []
        for bandwidth, *row in used.T.tolist():
            rings = sum(Fraction(hops, n_rings) for hops, n_rings in zip(row, self.hops, strict=True))
            rates.append(bandwidth / (share * rings))
        return min(rates)

    def latency_ns(self, topology: Topology, alpha_ns: int) -> int:
        """Return the longest path: once around a ring, without its fastest hop, in each forest."""
        latencies: list[int] = topology.latencies_ns.tolist()

        def around(ring: tuple[Route, ...]) -> int:
            hops = [alpha_ns + sum(latencies[link] for link in route) for route in ring]
            return sum(hops) - min(hops)

        return max(sum(max(map(around, rings)) for rings in forests) for forests in self.paths)


def ring_loads(topology: Topology, collective: Collective, own: OwnFabric) -> RingLoads | None:
    """Return the rings of all groups; None where a hop would pass other ranks.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards, without forwarders.
    own : callable
        As of `rings_in_groups`.
    """
    groups = [collective.member(group).ranks for group in range(collective.n_groups or 1)]
    orders = _orders(topology, groups, own)
    kind = collective.kind
    hops: dict[int, Int64Array] = defaultdict(lambda: np.zeros(topology.n_links, dtype=np.int64))
    forests: list[list[tuple[tuple[Route, ...], ...]]] = [[] for _ in groups]
    for turned in [False] * kind.broadcasts + [True] * kind.reduces:
        fabric = topology.transpose() if turned else topology
        router = _SwitchRouter(fabric, Collective(kind, tuple(topology.compute_nodes.tolist())))
        for place, ranks in enumerate(groups):
            context().report("rings", place, len(groups))
            numbers = np.searchsorted(topology.compute_nodes, ranks).tolist()
            rings = []
            for order in orders(place)[turned]:
                nodes = [numbers[rank] for rank in order]
                routes = map(router.route, [nodes[-1], *nodes[:-1]], nodes)
                rings.append(tuple(route for route in routes if route is not None))
                if len(rings[-1]) < len(nodes):
                    return None
            forests[place].append(tuple(rings))
            np.add.at(hops[len(rings)], [link for ring in rings for route in ring for link in route], 1)
    return RingLoads(len(groups[0]), dict(hops), frozenset(map(tuple, forests)))


def _orders(
    topology: Topology, groups: Sequence[Sequence[int]], own: OwnFabric
) -> Callable[[int], tuple[tuple[Order, ...], tuple[Order, ...]]]:
    """Return the rings of a group, on its part of the fabric and its transpose; found once for equal parts.

    Parts are equal if the links at their ranks are, in order, by places of ranks, bandwidths and switches:
    for switches without links to other switches only it matters which ends are the same switch.
    """
    ends = np.stack([topology.tails, topology.heads])
    is_inner = ~topology.is_compute[ends].any(axis=0)
    shared = set(ends[:, is_inner].ravel().tolist())
    at: dict[int, list[int]] = defaultdict(list)
    for link in np.flatnonzero(~is_inner).tolist():
        for node in set(ends[:, link].tolist()):
            at[node].append(link)
    rows = list(zip(*ends.tolist(), topology.bandwidths.tolist(), strict=True))
    known: dict[tuple[object, ...], tuple[tuple[Order, ...], tuple[Order, ...]]] = {}

    def orders(place: int) -> tuple[tuple[Order, ...], tuple[Order, ...]]:
        names: dict[int, object] = {node: (rank,) for rank, node in enumerate(groups[place])}
        links = sorted({link for node in groups[place] for link in at[node]})
        key = []
        for tail, head, bandwidth in map(rows.__getitem__, links):
            for node in (tail, head):
                if not topology.is_compute[node]:
                    names.setdefault(node, -node - 1 if node in shared else len(names))
            if tail in names and head in names:
                key.append((names[tail], names[head], bandwidth))
        if tuple(key) not in known:
            part, inner = own(place)
            known[tuple(key)] = ring_orders(part, inner), ring_orders(part.transpose(), inner)
        return known[tuple(key)]

    return orders


class _SwitchRouter(Router):
    """A router of hops that pass switches only, whose distances are cached for the switches at a target."""

    def __init__(self, topology: Topology, collective: Collective) -> None:
        super().__init__(topology, collective)
        ranks, tails = self.rank_of.keys(), self.tails
        self._inner = [[tails[link] for link in links if tails[link] not in ranks] for links in self.in_links]
        for node, links in enumerate(self.out_links):
            if node not in ranks:
                self.out_links[node] = [link for link in links if self.heads[link] not in ranks]
        self._near: dict[tuple[int, ...], dict[int, int]] = {}

    def _distances_to(self, target: int, start: int, _through_ranks: bool) -> _Near:
        goal = self.nodes[target]
        last = tuple(self._inner[goal])
        if last not in self._near:
            near = self._near[last] = dict.fromkeys(last, 1)
            queue = deque(near)
            while queue:
                node = queue.popleft()
                for before in self._inner[node]:
                    if before not in near:
                        near[before] = near[node] + 1
                        queue.append(before)
        heads = [self.heads[link] for link in self.out_links[start]]
        hops = (self._near[last].get(head, _FAR) for head in heads)
        first = 0 if goal in heads else min(hops, default=_FAR)
        return _Near(self._near[last], {start: first + 1 if first < _FAR else -1, goal: 0})


@dataclass(frozen=True)
class _Near:
    """Links from a node to a target: of switches, and of the two ends; -1 where no path exists."""

    switches: Mapping[int, int]
    ends: Mapping[int, int]

    def __getitem__(self, node: int) -> int:
        return self.ends.get(node, self.switches.get(node, -1))
