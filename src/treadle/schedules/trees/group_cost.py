"""Throughput of concurrent groups on a fabric: their loads add up."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.schedules.trees.forest_cost import link_loads
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology


def group_algbw(topology: Topology, schedule: GroupSchedule) -> Fraction:
    """Return the asymptotic algbw of every group while all run concurrently, bytes/s.

    Each group moves M bytes, in units of M / R_g: link e carries the sum over groups of load_g(e) * M / R_g.
    Exact.
    """
    loads = {
        units: np.zeros(topology.n_links, dtype=np.int64)
        for units in {one.total_units for one in schedule.groups}
    }
    for one in schedule.groups:
        loads[one.total_units] += link_loads(topology, one)
    kinds = np.stack([topology.bandwidths, *loads.values()])
    used = np.unique(kinds[:, kinds[1:].any(axis=0)], axis=1)
    shares: list[tuple[int, Fraction]] = [
        (bandwidth, sum((Fraction(load, units) for load, units in zip(row, loads, strict=True)), Fraction(0)))
        for bandwidth, *row in used.T.tolist()
    ]
    return min(bandwidth / share for bandwidth, share in shares)
