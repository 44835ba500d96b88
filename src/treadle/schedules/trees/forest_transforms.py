"""Forests from forests: reversal, finer and coarser units."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.trees.forest import Direction, Forest

MOST_UNITS = 2**62
"""Exclusive upper bound of the units of a forest."""


def reverse(forest: Forest) -> Forest:
    """Reverse every path: out-trees of a fabric become in-trees of its transpose, and vice versa.

    Link numbers stay, so the result fits `topology.transpose()`.
    """
    reversed_direction = Direction.REDUCE if forest.direction is Direction.BROADCAST else Direction.BROADCAST
    starts, ends = forest.path_offset[:-1], forest.path_offset[1:]
    lengths = ends - starts
    # position j of a path of length l comes from position l - 1 - j
    within = np.arange(len(forest.path_links)) - np.repeat(starts, lengths)
    source = np.repeat(ends, lengths) - 1 - within
    return replace(forest, direction=reversed_direction, path_links=forest.path_links[source])


def scaled(forest: Forest, factor: int) -> Forest:
    """Return the forest with every unit cut into `factor` units; ScheduleError from `MOST_UNITS` on."""
    if factor == 1:
        return forest
    if int(forest.root_multiplicity.sum()) * factor >= MOST_UNITS:
        raise ScheduleError("the schedule needs more than 2**62 units; limit the trees (--max-trees 10)")
    return replace(
        forest,
        root_multiplicity=forest.root_multiplicity * factor,
        tree_multiplicity=forest.tree_multiplicity * factor,
        entry_units=forest.entry_units * factor,
    )


def coarsened(forest: Forest, grain: int) -> Forest:
    """Return the forest in units of `grain` units each, a divisor of `Forest.grain`."""
    if grain == 1:
        return forest
    return replace(
        forest,
        root_multiplicity=forest.root_multiplicity // grain,
        tree_multiplicity=forest.tree_multiplicity // grain,
        entry_units=forest.entry_units // grain,
    )


def equalised(one: Forest, other: Forest) -> tuple[Forest, Forest]:
    """Scale two forests to equal total units, as the two phases of an allreduce need."""
    first, second = int(one.root_multiplicity.sum()), int(other.root_multiplicity.sum())
    common = gcd(first, second)
    return scaled(one, second // common), scaled(other, first // common)
