"""Allreduce optima of tiny fabrics by listing every way to spread a unit of data, and a linear program.

Switches pass data on, copy (sum) wherever wanted if they turn sums round, or do so in operations of ranks
that ask: a store of rank r at switch w crosses r -> w and every w -> m of the ranks m at w, r included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class _Event:
    """Data go from a node that holds them to others."""

    source: int
    reached: frozenset[int]
    links: tuple[int, ...]


def asked_allreduce_rate(topology: Topology) -> float:
    """The most allreduce throughput, bytes/s; all compute nodes are ranks; no parallel links."""
    ends = list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    spread = _ways(topology, ends, topology.multicast)
    turned = [(head, tail) for tail, head in ends]
    gathered = _ways(topology, turned, topology.aggregation)
    columns = [(family, root, way) for family, ways in enumerate((spread, gathered)) for root, way in ways]
    ranks = topology.compute_nodes.tolist()
    # x of each rank, then a rate of each way
    n = len(ranks) + len(columns)
    equal = np.zeros((2 * len(ranks), n))
    for i in range(len(ranks)):
        equal[i, i] = equal[len(ranks) + i, i] = -1
    loads = np.zeros((topology.n_links, n))
    for j, (family, root, way) in enumerate(columns, start=len(ranks)):
        equal[family * len(ranks) + ranks.index(root), j] = 1
        for link in way:
            loads[link, j] += 1
    gain = np.zeros(n)
    gain[: len(ranks)] = -1
    scale = float(topology.bandwidths.max())
    found = linprog(gain, loads, topology.bandwidths / scale, equal, np.zeros(2 * len(ranks)), method="highs")
    assert found.status == 0, found.message
    return float(-found.fun * scale)


def _ways(
    topology: Topology, ends: list[tuple[int, int]], able: np.ndarray
) -> list[tuple[int, tuple[int, ...]]]:
    """Each root with the links crossed by a way to reach all ranks; none crosses all that another does."""
    ranks = frozenset(topology.compute_nodes.tolist())
    copying = {v for v in topology.switches.tolist() if able[v] and topology.turns_round[v]}
    asked = [v for v in topology.switches.tolist() if able[v] and not topology.turns_round[v]]
    events = list(_sends(ends, ranks | copying))
    for switch in asked:
        members = [v for v in ranks if (v, switch) in ends and (switch, v) in ends]
        down = tuple(ends.index((switch, v)) for v in members)
        events += [_Event(v, frozenset(members), (ends.index((v, switch)), *down)) for v in members]
    found = []
    for root in sorted(ranks):
        ways: set[tuple[int, ...]] = set()
        _grow(frozenset([root]), frozenset(), events, ranks, ways, set())
        found += [(root, way) for way in _least(ways)]
    return found


def _sends(ends: list[tuple[int, int]], holders: frozenset[int]) -> Iterator[_Event]:
    """Sends from node to node that can hold data, through others that only pass them on."""
    for start in sorted(holders):
        stack: list[tuple[int, tuple[int, ...], frozenset[int]]] = [(start, (), frozenset([start]))]
        while stack:
            node, links, seen = stack.pop()
            for link, (tail, head) in enumerate(ends):
                if tail != node or head in seen:
                    continue
                if head in holders:
                    yield _Event(start, frozenset([head]), (*links, link))
                else:
                    stack.append((head, (*links, link), seen | {head}))


def _grow(
    reached: frozenset[int],
    used: frozenset[_Event],
    events: list[_Event],
    ranks: frozenset[int],
    ways: set[tuple[int, ...]],
    seen: set[frozenset[_Event]],
) -> None:
    if used in seen:
        return
    seen.add(used)
    if ranks <= reached:
        ways.add(tuple(sorted(link for event in used for link in event.links)))
        return
    for event in events:
        if event.source in reached and not event.reached <= reached:
            _grow(reached | event.reached, used | {event}, events, ranks, ways, seen)


def _least(ways: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Ways that do not cross all the links of another, as often or more."""
    counts = {way: {link: way.count(link) for link in way} for way in ways}
    return [
        way
        for way in sorted(ways)
        if not any(
            other != way and all(counts[way].get(link, 0) >= count for link, count in counts[other].items())
            for other in ways
        )
    ]
