"""Operations of switches in steps: whether a switch can do what ways ask of it, and what that crosses.

Shares no code with the generators, nor with the costs that they compute
(`treadle.schedules.in_network` states the rule).
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import PathKind, Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology
from treadle.verification.violations import Findings, ViolationKind


class StepOperations:
    """The ways of some steps on which switches copy or add up.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    steps : Steps
        Whose ways are walks over links of the fabric.
    """

    def __init__(self, topology: Topology, collective: Collective, steps: Steps) -> None:
        self._topology, self._steps = topology, steps
        self._members = np.zeros(topology.n_nodes, dtype=np.bool_)
        self._members[list(collective.ranks)] = True
        self._kinds = steps.way_kinds if steps.has_operations else np.zeros(steps.n_paths, dtype=np.int32)
        first = steps.way_offset[:-1]
        last = steps.way_offset[1:] - 1
        copies = self._kinds == PathKind.COPY
        # of plain ways, where these mean nothing, they are never read
        self._shared = np.where(copies, steps.way_links[first], steps.way_links[last]).astype(np.int64)
        self._own = np.where(copies, steps.way_links[last], steps.way_links[first]).astype(np.int64)
        piece = np.unique(np.concatenate([steps.low, steps.high]))
        self._cuts = piece.astype(np.int64)
        self._groups: dict[int, list[tuple[int, int]]] = {}

    def check(self, found: Findings) -> bool:
        """Whether the switches can do it; adds what they cannot to `found`."""
        topology, steps, before = self._topology, self._steps, found.total
        for kind, able, does in (
            (PathKind.COPY, topology.multicast, "copies"),
            (PathKind.SUM, topology.aggregation, "adds up"),
        ):
            ways = np.flatnonzero(self._kinds == kind)
            switch = self._switch(ways)
            can = able[switch] & ~topology.turns_round[switch] & ~topology.is_compute[switch]
            ends = [topology.tails[steps.way_links[steps.way_offset[ways]]]]
            ends.append(topology.heads[steps.way_links[steps.way_offset[ways + 1] - 1]])
            for side in ends:
                can &= self._at(side.astype(np.int64), switch)

            def describe(way: int, does: str = does) -> str:
                name = topology.node_names[int(self._switch(np.array([way]))[0])]
                return (
                    f"{steps.direction} way {way}: {name} is no switch that {does} for ranks that ask, "
                    f"with both ends in its group"
                )

            found.add_all(ViolationKind.LINK, ways[~can], describe)
        sums = np.flatnonzero(self._kinds == PathKind.SUM)
        if steps.direction is Direction.BROADCAST:
            found.add_all(
                ViolationKind.LINK,
                sums,
                lambda i: f"broadcast way {i} adds up, expected only in reductions",
            )
        return found.total == before

    def _switch(self, ways: Int64Array) -> Int64Array:
        """The node in the middle of ways of two links."""
        nodes: Int64Array = self._topology.heads[self._steps.way_links[self._steps.way_offset[ways]]].astype(
            np.int64
        )
        return nodes

    def _at(self, nodes: Int64Array, switch: Int64Array) -> BoolArray:
        """Whether nodes are of ranks with links to and from switches."""
        topology = self._topology
        pairs = topology.tails.astype(np.int64) * topology.n_nodes + topology.heads
        up = np.isin(nodes * topology.n_nodes + switch, pairs)
        down = np.isin(switch * topology.n_nodes + nodes, pairs)
        return np.asarray(up & down & self._members[nodes], dtype=np.bool_)

    def more(self, sends: slice) -> Int64Array:
        """Chunks that cross each link beyond what the ways of some sends of a step say, shape (m,).

        Notes
        -----
        Cells are runs of chunks of a shard that cross a shared link, in which no send begins or ends. For
        each the shared link is crossed once rather than by every send, and the group's other links once, but
        for those of members that some send serves: these the ways say.
        """
        topology, steps = self._topology, self._steps
        change = np.zeros(topology.n_links, dtype=np.int64)
        numbers = sends.start + np.flatnonzero(self._kinds[steps.link[sends]])
        if not numbers.size:
            return change
        low, high = (np.searchsorted(self._cuts, ends[numbers]) for ends in (steps.low, steps.high))
        row = np.repeat(np.arange(len(numbers)), high - low)
        piece = np.arange(len(row)) - np.repeat(np.cumsum(high - low) - (high - low), high - low) + low[row]
        way, size = steps.link[numbers][row], np.diff(self._cuts)[piece]
        np.subtract.at(change, self._shared[way], size)
        keys = np.stack([self._shared[way], steps.shard[numbers][row].astype(np.int64), piece])
        cells, cell = np.unique(keys, axis=1, return_inverse=True)
        sizes = np.diff(self._cuts)[cells[2]]
        np.add.at(change, cells[0], sizes)
        served = np.unique(np.stack([cell.reshape(-1), self._far(way)]), axis=1)
        for shared in np.unique(cells[0]).tolist():
            mine = cells[0] == shared
            whole, here = int(sizes[mine].sum()), mine[served[0]]
            by_member = np.zeros(topology.n_nodes, dtype=np.int64)
            np.add.at(by_member, served[1][here], sizes[served[0][here]])
            if shared not in self._groups:
                self._groups[shared] = self._group(int(shared))
            for member, link in self._groups[shared]:
                change[link] += whole - int(by_member[member])
        return change

    def _far(self, ways: Int64Array) -> Int64Array:
        """The node at the end of each way that does not ask."""
        topology, own = self._topology, self._own[ways]
        copies = self._kinds[ways] == PathKind.COPY
        nodes: Int64Array = np.where(copies, topology.heads[own], topology.tails[own]).astype(np.int64)
        return nodes

    def _group(self, shared: int) -> list[tuple[int, int]]:
        """Members of a link's switch, and the link of each that an operation over that link crosses."""
        topology = self._topology
        tail, head = int(topology.tails[shared]), int(topology.heads[shared])
        outward = bool(topology.is_compute[tail])
        switch = head if outward else tail
        place = int(np.flatnonzero((topology.tails == tail) & (topology.heads == head)).searchsorted(shared))
        found: dict[int, int] = {}
        outwards, inwards = topology.tails == switch, topology.heads == switch
        for member in topology.tails[inwards & self._members[topology.tails]]:
            up = np.flatnonzero(inwards & (topology.tails == member))
            down = np.flatnonzero(outwards & (topology.heads == member))
            if up.size and down.size:
                lanes = down if outward else up
                found[int(member)] = int(lanes[place % len(lanes)])
        return list(found.items())
