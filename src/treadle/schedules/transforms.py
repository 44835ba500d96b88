"""Schedules from schedules: reversal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.schedules.forest import Direction, Forest


def reverse(forest: Forest) -> Forest:
    """Turn every path round: out-trees of a fabric become in-trees of its transpose, and back.

    Link numbers stay, so the result fits `topology.transpose()`.
    """
    turned = Direction.REDUCE if forest.direction is Direction.BROADCAST else Direction.BROADCAST
    starts, ends = forest.path_offset[:-1], forest.path_offset[1:]
    lengths = ends - starts
    # position j of a path of length l comes from position l - 1 - j
    within = np.arange(len(forest.path_links)) - np.repeat(starts, lengths)
    source = np.repeat(ends, lengths) - 1 - within
    return replace(forest, direction=turned, path_links=forest.path_links[source])
