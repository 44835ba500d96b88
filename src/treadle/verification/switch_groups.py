"""Ranks at GPU-initiated switches, and the links that their operations cross.

Shares no code with the generators, nor with the costs that they compute
(`treadle.schedules.in_network`, which states the rule).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from treadle.arrays import Int64Array, mask_of
from treadle.topologies.topology import Topology


class SwitchGroups:
    """The groups of the switches of a fabric: `nodes(switch)` and `links(shared)` are cached."""

    def __init__(self, topology: Topology, ranks: Sequence[int]) -> None:
        self._topology, self._is_rank = topology, mask_of(topology.n_nodes, list(ranks))
        self.nodes, self.links = cache(self._nodes), cache(self._links)

    def _nodes(self, switch: int) -> Int64Array:
        """Return the group of a switch: the nodes of ranks with links to it and from it."""
        tails, heads, n = self._topology.tails, self._topology.heads, self._topology.n_nodes
        joined = mask_of(n, tails[heads == switch]) & mask_of(n, heads[tails == switch])
        return np.flatnonzero(joined & self._is_rank)

    def _links(self, shared: int) -> dict[int, int]:
        """Return the link of each group member that an operation crosses, given the link of its caller.

        Parallel links are matched by position: the i-th link of the caller goes with the i-th link of a
        member, counted modulo their number.
        """
        tails, heads = self._topology.tails, self._topology.heads
        tail, head = int(tails[shared]), int(heads[shared])
        position = int(np.flatnonzero((tails == tail) & (heads == head)).searchsorted(shared))
        is_multicast = bool(self._topology.is_compute[tail])  # only switches have operations
        at_switch, ends = (tails == head, heads) if is_multicast else (heads == tail, tails)
        found: dict[int, int] = {}
        for member in self.nodes(head if is_multicast else tail).tolist():
            parallel = np.flatnonzero(at_switch & (ends == member))
            found[member] = int(parallel[position % len(parallel)])
        return found
