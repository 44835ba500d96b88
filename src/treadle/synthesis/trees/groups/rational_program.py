"""The program of shares with the sinks that it is asked for, and what its shares are in rationals.

Its optimum is known from trees; it is there for other shares at that rate (`integral_group_allocation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from treadle.synthesis.trees.groups.allocation_lp import AllocationLp
from treadle.synthesis.trees.groups.capacity import capacity_rows
from treadle.synthesis.trees.groups.every_group import EveryGroup
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation, over_one_denominator
from treadle.synthesis.trees.groups.supplied_sinks import (
    Sink,
    missed_sinks,
    supply_others,
)

_FIRST_SINKS = 3
"""Of each representative, of different colours."""


class RationalProgram:
    """The program of shares.

    Parameters
    ----------
    every : EveryGroup
    families : tuple of bool
        Whether links are turned round (in-trees).

    Attributes
    ----------
    total : int
        algbw is this many times the program's rate.
    """

    def __init__(self, every: EveryGroup, families: tuple[bool, ...]) -> None:
        self.every, self.union = every, every.union
        capacity = capacity_rows(every.union, every.colours, every.groups)
        unit = int(every.union.topology.bandwidths.max())
        self.program = AllocationLp(every.groups, capacity, families, len(families) > 1, unit)
        self.total = 1 if self.program.free_roots else sum(every.groups[0].weights)
        self._known: set[Sink] = set()
        for family in range(len(families)):
            for number, group in enumerate(every.groups):
                _, first = np.unique(group.place_class[group.members], return_index=True)
                able = np.sort(first).tolist()
                if not self.program.free_roots:  # what only one member feeds need not come to it
                    able = [place for place in able if group.weights[place] != sum(group.weights)]
                for place in able[:_FIRST_SINKS]:
                    self.add_sink((family, number, int(group.members[place])))

    def add_sink(self, sink: Sink) -> bool:
        """Ask for a sink, by family, representative and place; whether it was not yet asked for."""
        if sink in self._known:
            return False
        self._known.add(sink)
        self.program.add_sink(*sink)
        return True

    def find_unmet(self, found: RationalAllocation) -> tuple[bool, Sink | None]:
        """Whether shares serve all members of all groups; and a sink of a representative that they miss."""
        families = self.program.families
        missed = next(missed_sinks(self.every, families, found), None)
        return missed is None and supply_others(self.every, families, found), missed

    def as_allocation(self, columns: Sequence[Fraction], rate: Fraction) -> RationalAllocation:
        """What the program's own columns say, in bytes/s, at a rate of so many bytes/s for each weight."""
        shares, roots = self.program.split(columns)
        if not self.program.free_roots:
            roots = [[w * rate for w in group.weights] for group in self.program.groups]
        return over_one_denominator(rate * self.total, shares, roots)
