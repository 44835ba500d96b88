"""What an allreduce would gain if the NVSwitches of a box summed and copied, which the fabric does not say.

NVLink SHARP came with the NVSwitches of H100. Files and catalogue names of a box say nothing of it unless
asked to, and its users expect its figure beside those of rings and trees.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.inputs.problem import Problem
from treadle.schedules.collective import CollectiveKind

NVLS = "nvls"
"""The scheduler that serves it."""
_FASTER_THAN = 300 * 10**9
"""Bytes/s of a GPU's links to the switches: A100 has so many, and switches that do not sum."""


def summing_twin(problem: Problem) -> Problem | None:
    """The problem on the same fabric with NVSwitches that sum and copy; None where that is no question.

    It is one if all ranks of an allreduce, and nothing else, are joined to the same switch by fast links,
    and the fabric has no switch that sums or copies.
    """
    topology, collective = problem.topology, problem.collective
    is_said = topology.multicast.any() or topology.aggregation.any()
    if collective.kind is not CollectiveKind.ALLREDUCE or collective.groups is not None or is_said:
        return None
    able = np.zeros(topology.n_nodes, dtype=np.bool_)
    for switch in topology.switches.tolist():
        leaving, entering = topology.tails == switch, topology.heads == switch
        ends = set(topology.heads[leaving].tolist()), set(topology.tails[entering].tolist())
        if ends[0] == ends[1] == set(collective.ranks):
            width = topology.bandwidths[leaving | entering].min()
            able[switch] = width > _FASTER_THAN
    if not able.any():
        return None
    return replace(problem, topology=replace(topology, multicast=able, aggregation=able))
