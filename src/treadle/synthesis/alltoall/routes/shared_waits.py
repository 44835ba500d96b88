"""Waits between links that no routing of a collective can avoid: proof that one layer does not do."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

_MOST_WORK = 2**30
"""Waits times links times ranks up to which the proof is tried."""


def shared_waits_cycle(topology: Topology, collective: Collective) -> bool:
    """Whether the waits that every routing has form a cycle, so that a single layer always deadlocks.

    Parameters
    ----------
    topology : Topology
    collective : Collective

    Returns
    -------
    bool
        False proves nothing, and is the answer for fabrics that are too large to try.

    Notes
    -----
    A wait (a, b), where a leads to b's tail, is shared if some demand cannot be served by any walk in which b
    does not follow a. Dally and Seitz (1987): a layer is free of deadlock if and only if its waits have no
    cycle.
    """
    carries = np.flatnonzero(topology.tails != topology.heads)
    tails, heads = topology.tails[carries], topology.heads[carries]
    held, wanted = np.nonzero((heads[:, None] == tails[None, :]) & (tails[:, None] != heads[None, :]))
    if len(held) ** 2 * collective.n_ranks > _MOST_WORK:
        return False
    ranks = np.array(collective.ranks)
    demanded = collective.pair_demands.between > 0
    first = ranks[:, None] == tails[None, :]
    follows: dict[int, set[int]] = {}
    for wait in range(len(held)):
        others = np.arange(len(held)) != wait
        reached = _reached(first, held[others], wanted[others])
        served = np.zeros((len(ranks), topology.n_nodes), dtype=np.bool_)
        rows, links = np.nonzero(reached)
        served[rows, heads[links]] = True
        if np.any(demanded & ~served[:, ranks]):
            follows.setdefault(int(held[wait]), set()).add(int(wanted[wait]))
    try:
        TopologicalSorter(follows).prepare()
    except CycleError:
        return True
    return False


def _reached(first: BoolArray, held: Int64Array, wanted: Int64Array) -> BoolArray:
    """Links that walks come to, shape (rows, links), from some first ones along the waits."""
    reached = first.copy()
    while True:
        rows, waits = np.nonzero(reached[:, held] & ~reached[:, wanted])
        if not len(rows):
            return reached
        reached[rows, wanted[waits]] = True
