"""Work budget of a single construction, so that one which leads nowhere leaves time for the others.

Work is counted, not timed: plans do not depend on the machine.
"""

from __future__ import annotations

from treadle.synthesis.trees.allreduce.pair_network import PairNetwork

_LEAST_WORK = 3 * 10**9
_WORK_PER_CELL = 3 * 10**6
"""Nanoseconds of the reference machine, at least and for each rank and pair of nodes."""


def work_of(network: PairNetwork) -> int:
    """The work budget of one construction, larger where some switches may be used or not."""
    optional = len(network.multicast | network.aggregation) + len(network.groups)
    cells = len(network.ranks) * network.n_pairs
    return (1 + optional) * max(_LEAST_WORK, _WORK_PER_CELL * cells)
