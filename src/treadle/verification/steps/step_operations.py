"""Switch operations in steps: whether switches support the operations of ways, and the extra load.

Shares no code with the generators, nor with the costs that they compute
(`treadle.schedules.in_network` states the rule).
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, mask_of, ranges_of, sums_of
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import PathKind, Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology
from treadle.verification.switch_groups import SwitchGroups
from treadle.verification.violations import Findings, ViolationKind


class StepOperations:
    """In-network operations of steps, by the ways on which switches multicast or aggregate.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    steps : Steps
        With operations; its ways are walks over links of the fabric.
    """

    def __init__(self, topology: Topology, collective: Collective, steps: Steps) -> None:
        self._topology, self._steps = topology, steps
        self._groups = SwitchGroups(topology, collective.ranks)
        self._cuts = np.unique(np.concatenate([steps.low, steps.high])).astype(np.int64)
        first = steps.way_links[steps.way_offset[:-1]].astype(np.int64)
        last = steps.way_links[steps.way_offset[1:] - 1].astype(np.int64)
        self._tail, self._switch, self._head = (
            topology.tails[first],
            topology.heads[first],
            topology.heads[last],
        )
        # The link to the caller, which all sends of an operation share, and the other end of the way. They
        # mean nothing for plain ways, which never read them.
        copies = steps.way_kinds == PathKind.COPY
        self._shared = np.where(copies, first, last)
        self._far = np.where(copies, self._head, self._tail).astype(np.int64)

    def check(self, found: Findings) -> bool:
        """Whether the switches support the operations; if not, add violations."""
        topology, steps, before = self._topology, self._steps, found.total

        def describe(way: int) -> str:
            verb = "multicasts" if steps.way_kinds[way] == PathKind.COPY else "aggregates"
            return (
                f"{steps.direction} way {way}: {topology.node_names[self._switch[way]]} is not a "
                f"GPU-initiated switch that {verb}, with both ends in its group"
            )

        for kind, capable in ((PathKind.COPY, topology.multicast), (PathKind.SUM, topology.aggregation)):
            ways = np.flatnonzero(steps.way_kinds == kind)
            switch = self._switch[ways]
            fits = capable[switch] & ~topology.turns_round[switch] & ~topology.is_compute[switch]
            for node in np.unique(switch).tolist():
                is_member = mask_of(topology.n_nodes, self._groups.nodes(node))
                fits &= (switch != node) | (is_member[self._tail[ways]] & is_member[self._head[ways]])
            found.add_all(ViolationKind.LINK, ways[~fits], describe)
        if steps.direction is Direction.BROADCAST:
            found.add_all(
                ViolationKind.LINK,
                np.flatnonzero(steps.way_kinds == PathKind.SUM),
                lambda way: f"broadcast way {way} aggregates, expected only in reductions",
            )
        return found.total == before

    def more(self, sends: slice) -> Int64Array:
        """Return the chunks that cross each link in addition to the ways of some sends of a step, shape (m,).

        Notes
        -----
        Cells are runs of chunks of a shard that cross a shared link, in which no send begins or ends. For
        each cell the shared link is crossed once, not by every send. The other links of the group are crossed
        once as well, except those of members that some send reaches: their ways count these.
        """
        topology, steps = self._topology, self._steps
        change = np.zeros(topology.n_links, dtype=np.int64)
        numbers = sends.start + np.flatnonzero(steps.way_kinds[steps.link[sends]])
        if not numbers.size:
            return change
        low, high = (np.searchsorted(self._cuts, ends[numbers]) for ends in (steps.low, steps.high))
        row, run = ranges_of(low, high - low)
        way, lengths = steps.link[numbers][row], np.diff(self._cuts)
        np.subtract.at(change, self._shared[way], lengths[run])
        keys = np.stack([self._shared[way], steps.shard[numbers][row], run])
        cells, cell = np.unique(keys, axis=1, return_inverse=True)
        sizes = lengths[cells[2]]
        np.add.at(change, cells[0], sizes)
        reached, member = np.unique(np.stack([cell.reshape(-1), self._far[way]]), axis=1)
        for shared in np.unique(cells[0]).tolist():
            mine = cells[0] == shared
            here = mine[reached]
            counted = sums_of(topology.n_nodes, member[here], sizes[reached[here]])
            for node, link in self._groups.links(shared).items():
                change[link] += sizes[mine].sum() - counted[node]
        return change
