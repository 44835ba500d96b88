"""In-network operations in steps: the sends that form one operation, and the links that it crosses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.steps.steps import Steps, WayKind
from treadle.schedules.switch_operations import lanes_of, members_at, unnamed_crossings
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class SwitchOperation:
    """Operation of a switch that a rank initiates in a step, for some chunks of a shard.

    Parameters
    ----------
    kind : WayKind
        COPY or SUM.
    link : int
        Link that all its sends share.
    others : frozenset of int
        Other link of each send.
    sends, chunks : int
        Numbers of sends and chunks.
    """

    kind: WayKind
    link: int
    others: frozenset[int]
    sends: int
    chunks: int


def operations_of(steps: Steps, step: int) -> Iterator[SwitchOperation]:
    """Yield the operations of a step."""
    span = steps.span(step)
    numbers = span.start + np.flatnonzero(steps.way_kinds[steps.link[span]])
    ways = steps.link[numbers]
    ends = np.stack([steps.way_links[steps.way_offset[:-1][ways] + place] for place in (0, 1)])
    columns = (steps.way_kinds[ways], *ends, steps.shard[numbers], steps.low[numbers], steps.high[numbers])
    found: dict[tuple[int, int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for kind, first, last, shard, low, high in zip(*(one.tolist() for one in columns), strict=True):
        link, other = (first, last) if kind == WayKind.COPY else (last, first)
        found[kind, link, shard].append((other, low, high))
    for (kind, link, _), rows in found.items():
        for low, high in pairwise(sorted({bound for _, *ends in rows for bound in ends})):
            others = [other for other, first, end in rows if first <= low and high <= end]
            if others:
                yield SwitchOperation(WayKind(kind), link, frozenset(others), len(others), high - low)


class StepCrossings:
    """Loads of in-network operations in addition to those of the paths of their sends.

    Parameters
    ----------
    topology : Topology
    steps : Steps
        Every rank must be an end of some path, as in all schedules that reach all ranks.
    """

    def __init__(self, topology: Topology, steps: Steps) -> None:
        self._topology, self._steps, self._lanes = topology, steps, lanes_of(topology)
        first, last = steps.way_links[steps.way_offset[:-1]], steps.way_links[steps.way_offset[1:] - 1]
        self._nodes = np.unique(np.concatenate([topology.tails[first], topology.heads[last]])).tolist()
        self._groups: dict[int, tuple[int, ...]] = {}

    def additional(self, step: int) -> Int64Array:
        """Return chunks across each link in addition to the sends of a step, negative for shared links."""
        topology, found = self._topology, np.zeros(self._topology.n_links, dtype=np.int64)
        for one in operations_of(self._steps, step):
            found[one.link] -= (one.sends - 1) * one.chunks
            tail, head = int(topology.tails[one.link]), int(topology.heads[one.link])
            outward = one.kind is WayKind.COPY
            initiator, switch = (tail, head) if outward else (head, tail)
            if switch not in self._groups:
                self._groups[switch] = members_at(self._lanes, switch, self._nodes)
            far = topology.heads if outward else topology.tails
            served = [int(far[link]) for link in one.others]
            call = initiator, switch, one.link
            group = self._groups[switch]
            for link in unnamed_crossings(self._lanes, group, served, call, outward=outward):
                found[link] += one.chunks
        return found
