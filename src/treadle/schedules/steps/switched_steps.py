"""Operations of switches in steps: which sends are one, and which links they cross."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.in_network import inputs_of, members_at, unnamed_crossings
from treadle.schedules.steps.steps import PathKind, Steps
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class InNetworkOperation:
    """What a rank asks of a switch in a step, for some chunks of a shard.

    Parameters
    ----------
    kind : PathKind
        COPY or SUM.
    link : int
        That all its sends share.
    others : frozenset of int
        The other link of each send.
    sends, chunks : int
        How many.
    """

    kind: PathKind
    link: int
    others: frozenset[int]
    sends: int
    chunks: int


def operations_of(steps: Steps, step: int) -> Iterator[InNetworkOperation]:
    """The operations of a step."""
    span = steps.span(step)
    numbers = span.start + np.flatnonzero(steps.way_kinds[steps.link[span]])
    ways = steps.link[numbers]
    ends = np.stack([steps.way_links[steps.way_offset[:-1][ways] + place] for place in (0, 1)])
    columns = (steps.way_kinds[ways], *ends, steps.shard[numbers], steps.low[numbers], steps.high[numbers])
    found: dict[tuple[int, int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for kind, first, last, shard, low, high in zip(*(one.tolist() for one in columns), strict=True):
        link, other = (first, last) if kind == PathKind.COPY else (last, first)
        found[kind, link, shard].append((other, low, high))
    for (kind, link, _), rows in found.items():
        for low, high in pairwise(sorted({bound for _, *ends in rows for bound in ends})):
            there = [other for other, first, end in rows if first <= low and high <= end]
            if there:
                yield InNetworkOperation(PathKind(kind), link, frozenset(there), len(there), high - low)


class StepCrossings:
    """What operations of switches cross, against what their ways say.

    Parameters
    ----------
    topology : Topology
    steps : Steps
        Every rank is an end of some way, as in all that reach them.
    """

    def __init__(self, topology: Topology, steps: Steps) -> None:
        self._topology, self._steps, self._lanes = topology, steps, inputs_of(topology)
        first, last = steps.way_links[steps.way_offset[:-1]], steps.way_links[steps.way_offset[1:] - 1]
        self._nodes = np.unique(np.concatenate([topology.tails[first], topology.heads[last]])).tolist()
        self._groups: dict[int, tuple[int, ...]] = {}

    def extra_chunks(self, step: int) -> Int64Array:
        """Chunks that cross each link beside those of the ways' sends, less than 0 where links are shared."""
        topology, found = self._topology, np.zeros(self._topology.n_links, dtype=np.int64)
        for one in operations_of(self._steps, step):
            found[one.link] -= (one.sends - 1) * one.chunks
            tail, head = int(topology.tails[one.link]), int(topology.heads[one.link])
            outward = one.kind is PathKind.COPY
            asker, switch = (tail, head) if outward else (head, tail)
            if switch not in self._groups:
                self._groups[switch] = members_at(self._lanes, switch, self._nodes)
            far = topology.heads if outward else topology.tails
            served = [int(far[link]) for link in one.others]
            call = asker, switch, one.link
            group = self._groups[switch]
            for link in unnamed_crossings(self._lanes, group, served, call, outward=outward):
                found[link] += one.chunks
        return found
