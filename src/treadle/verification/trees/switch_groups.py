"""The part of the verifier that judges operations at switches which work for a rank that asks.

Shares no code with the generators, nor with the costs that they compute
(`treadle.schedules.in_network`, which states the rule).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import Direction, Tree
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class WalkEnds:
    """The paths of a forest as a tree's edges see them, arrays of shape (P,): from the parent's side."""

    near: Int64Array
    far: Int64Array
    middle: Int64Array
    """The node between the two links of a path of two, else -1."""
    call: Int64Array
    """The link at the parent's side."""
    length: Int64Array


class GroupCheck:
    """Operations of one forest's trees: who asks for each copy, and what else their groups cross."""

    def __init__(
        self, topology: Topology, collective: Collective, direction: Direction, walks: WalkEnds
    ) -> None:
        self._topology = topology
        self._nodes = collective.ranks
        self._walks = walks
        self._inwards = direction is Direction.REDUCE
        able = topology.aggregation if self._inwards else topology.multicast
        self.asked: BoolArray = able & ~topology.turns_round
        """Switches that copy (sum) in operations."""
        self.extra: dict[int, int] = {}
        """Units across links that no path names."""
        self._between: dict[tuple[int, int], Int64Array] = {}

    def unasked(self, tree: Tree, ranks: Int64Array, begin: Int64Array) -> Int64Array:
        """Entries of a tree that are copies which no operation makes; counts what those that are one cross.

        Parameters
        ----------
        tree : Tree
        ranks, begin : arrays of int64, shape (entries,)
            Whose edge each entry is of, and its first unit.
        """
        numbers = tree.entry_path.astype(np.int64)
        near, length = self._walks.near[numbers], self._walks.length[numbers]
        copies = np.flatnonzero(self.asked[near])
        if not copies.size:
            return copies
        parents = tree.parent[ranks]
        end = begin + tree.entry_units
        wrong = []
        for parent, switch in {(int(parents[i]), int(near[i])) for i in copies}:
            mine = copies[(parents[copies] == parent) & (near[copies] == switch)]
            calls = np.flatnonzero(
                (parents == parent) & (length == 2) & (self._walks.middle[numbers] == switch)
            )
            group = set(self._group(switch))
            is_asked = self._nodes[parent] in group
            cuts = np.unique(np.concatenate([begin[mine], end[mine], begin[calls], end[calls]]))
            made = np.zeros(len(mine), dtype=np.int64)
            for low, high in pairwise(cuts.tolist()):
                here = (begin[mine] <= low) & (high <= end[mine])
                called = calls[(begin[calls] <= low) & (high <= end[calls])]
                if here.any() and called.size and is_asked:
                    made[here] += high - low
                    self._cross(numbers, mine[here], called, switch, high - low)
            fits = (length[mine] == 1) & [int(node) in group for node in self._walks.far[numbers[mine]]]
            wrong.append(mine[~fits | (made != tree.entry_units[mine])])
        return np.sort(np.concatenate(wrong))

    def _cross(
        self, numbers: Int64Array, copies: Int64Array, called: Int64Array, switch: int, units: int
    ) -> None:
        """Count the group's crossings that neither the copies nor the call name."""
        walks = self._walks
        call = int(min(called, key=lambda i: int(walks.far[numbers[i]])))
        served = {int(walks.far[numbers[i]]) for i in (call, *copies)}
        asker, link = int(walks.near[numbers[call]]), int(walks.call[numbers[call]])
        place = int(np.flatnonzero(self._links(asker, switch) == link)[0])
        for member in self._group(switch):
            if member not in served:
                lanes = self._links(switch, member)
                crossed = int(lanes[place % len(lanes)])
                self.extra[crossed] = self.extra.get(crossed, 0) + units

    def _group(self, switch: int) -> Iterator[int]:
        """Nodes of the ranks at a switch."""
        for node in self._nodes:
            if self._links(node, switch).size and self._links(switch, node).size:
                yield node

    def _links(self, one: int, other: int) -> Int64Array:
        """Links from `one` to `other` as a tree goes outwards; those the other way for in-trees."""
        if (one, other) not in self._between:
            tail, head = (other, one) if self._inwards else (one, other)
            found = np.flatnonzero((self._topology.tails == tail) & (self._topology.heads == head))
            self._between[one, other] = found.astype(np.int64)
        return self._between[one, other]
