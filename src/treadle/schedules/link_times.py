"""Exact times of loads: the slowest link, or host with an injection cap."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import sums_of
from treadle.topologies.topology import Topology


def slowest(loads: NDArray[Any], capacities: NDArray[np.integer]) -> Fraction:
    """Return the largest load over capacity, exact; 0 if nothing is loaded."""
    return max(
        (Fraction(int(loads[capacities == rate].max()), int(rate)) for rate in np.unique(capacities)),
        default=Fraction(0),
    )


def host_loads(topology: Topology, load: NDArray[Any]) -> list[NDArray[Any]]:
    """Return what leaves, then what enters each host with an injection cap."""
    capped = np.flatnonzero(topology.injection_bytes_per_s)
    ends = (topology.tails, topology.heads) if len(capped) else ()
    return [sums_of(topology.n_nodes, nodes, load, dtype=load.dtype)[capped] for nodes in ends]


def load_time(topology: Topology, load: NDArray[Any]) -> Fraction:
    """Return the time of the slowest link or capped host, seconds if the unit of load is a byte."""
    caps = topology.injection_bytes_per_s[topology.injection_bytes_per_s > 0]
    capacities = np.concatenate([topology.bandwidths, caps, caps])
    return slowest(np.concatenate([load, *host_loads(topology, load)]), capacities)
