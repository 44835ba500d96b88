"""Shares in integers near given ones: a rate that is surely attained, if not the optimum.

Shares of classes form a circulation but for the members: an arc for each class of pairs, a node for each
class of places. So imbalances from rounding are repaired by removing a little more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.synthesis.trees.groups.cheapest_trees import Floats
from treadle.synthesis.trees.groups.every_group import EveryGroup
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation, over_one_denominator
from treadle.synthesis.trees.groups.representative import Representative
from treadle.synthesis.trees.groups.supplied_sinks import instance_on
from treadle.synthesis.trees.groups.tree_program import TreeProgram
from treadle.synthesis.trees.optimality import reachable_rate
from treadle.topologies.transforms.balance import balanced_capacities

_MARGIN = 1e-8
"""Part of every share that is given up, as the solver may have exceeded capacities."""

_GRID = 2**56


def rounded_allocation(
    every: EveryGroup, program: TreeProgram, near: Sequence[Sequence[Floats]], roots: Sequence[Floats]
) -> RationalAllocation:
    """Return balanced shares within those of a solution, and the exact rate that they attain."""
    parts = lcm(*(int(size) for group in program.groups for size in group.class_sizes()))
    largest = max(
        float(values[group.pair_class].sum()) * program.unit
        for family in near
        for values, group in zip(family, program.groups, strict=True)
    )
    # per byte/s; where the solver found no shares any number is right
    ticks = Fraction(_GRID / (parts * largest)) if largest > 1e-290 else Fraction(_GRID // parts)
    shares = [
        [
            _balanced(group, values * (program.unit * float(ticks) * (1 - _MARGIN)), parts)
            for group, values in zip(program.groups, family, strict=True)
        ]
        for family in near
    ]
    supplies = [list(group.weights) for group in program.groups]
    if program.free_roots:  # integers in proportion to what members send
        scaled = [np.floor(values / max(values.max(), 1e-300) * 2**20) for values in roots]
        supplies = [[int(value) for value in values] for values in scaled]

    def delivered(group: Representative, turned: bool, shares: Int64Array, fed: Sequence[int]) -> Fraction:
        problem = instance_on(every.union.topology, group, turned, np.array(fed, dtype=np.int64))
        return sum(fed) * reachable_rate(replace(problem, bandwidths=shares[group.pair_class]))

    rate = min(
        delivered(group, turned, family[number], fed)
        for number, group in chain(enumerate(program.groups), every.others())
        for fed in (every.in_order_of(group.kind, supplies[number]),)
        for turned, family in zip(program.families, shares, strict=True)
    )
    scale = ticks * parts
    return over_one_denominator(
        rate / scale,
        [[[int(v) / scale for v in values] for values in family] for family in shares],
        [[w * rate / (sum(values) * scale) for w in values] for values in supplies],
    )


def _balanced(group: Representative, ticks: Floats, parts: int) -> Int64Array:
    """Allocations of classes that are not larger, in integral ticks / parts, balanced where no member is."""
    sizes = group.class_sizes()
    relays = group.place_class[group.relay_classes()]
    _, first = np.unique(group.pair_class, return_index=True)
    flows = np.floor(np.maximum(ticks, 0.0)).astype(np.int64) * sizes
    kept = balanced_capacities(
        group.place_class[group.tails[first]].astype(np.int32),
        group.place_class[group.heads[first]].astype(np.int32),
        flows,
        relays.tolist(),
    )
    return kept * (parts // sizes)
