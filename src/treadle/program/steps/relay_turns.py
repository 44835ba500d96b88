"""Whose turn it is at the first rank that a way passes, so that messages seldom meet there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.program.steps.step_pieces import parallel_places
from treadle.topologies.topology import Topology


def relay_turns(topology: Topology, paths: Sequence[Sequence[int]]) -> Int64Array:
    """Turn of each path among those of its sender that have as many links, shape (paths,).

    Parameters
    ----------
    topology : Topology
    paths : sequence of sequences of int
        Links of each.

    Notes
    -----
    Ranks that pass data on through one rank all begin at once. Were each to begin with the same link out of
    there, that link would have their first messages one after another, and the others none. As in a Latin
    square, who comes in by link i begins with link i, and goes on with i - 1, i - 2, ... Paths that pass no
    rank first have turn 0.
    """
    turns = np.zeros(len(paths), dtype=np.int64)
    rows = np.array([row for row, path in enumerate(paths) if len(path) > 1], dtype=np.int64)
    if not rows.size:
        return turns
    first, second = (np.array([paths[row][place] for row in rows.tolist()]) for place in (0, 1))
    passed = topology.heads[first]
    degree = np.bincount(topology.tails, minlength=topology.n_nodes)[passed]
    ahead = _places(topology.heads)[first] - _places(topology.tails)[second]
    turns[rows] = np.where(topology.is_compute[passed], ahead % degree, 0)
    return turns


def _places(nodes: Int32Array) -> Int64Array:
    """Number of each link among those of its node, in their order."""
    same = np.zeros(len(nodes), dtype=np.int64)
    return parallel_places(1, (nodes.astype(np.int64), same))
