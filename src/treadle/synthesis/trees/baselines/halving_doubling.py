"""Recursive halving and doubling."""

from __future__ import annotations

import numpy as np

from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.baselines.embedding import GATHERING, check_supported, embedded
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported


def power_of_two_ranks(_: Topology, collective: Collective) -> Unsupported | None:
    """Ranks swap in pairs at every power of two."""
    n = collective.n_ranks
    return Unsupported(f"expected a power of two ranks, found {n}; use ring instead") if n & (n - 1) else None


def halving_doubling(topology: Topology, collective: Collective) -> ForestSchedule:
    """Allgather by recursive doubling, reduce-scatter by recursive halving, allreduce by both.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce of 2**m ranks.

    Returns
    -------
    ForestSchedule
        One binomial tree per root.

    Raises
    ------
    ScheduleError
        If the number of ranks is no power of two.

    Notes
    -----
    The allgather pairs each rank with the farthest rank first (rank xor N/2, ..., xor 1) and the
    reduce-scatter with the nearest first, so that the largest messages stay near (vector halving and distance
    doubling of Rabenseifner). As a tree flow all steps run at once; run step by step it can only be slower
    than its `algbw`.
    """
    check_supported("halving-doubling", topology, collective, GATHERING, (power_of_two_ranks,))
    ranks = np.arange(collective.n_ranks)
    away = ranks ^ ranks[:, None]  # [root, rank]
    # the step that brought the data to a rank is the last, that is the nearest, of its path
    return embedded(topology, collective, np.where(away > 0, ranks ^ (away & -away), -1).tolist())
