"""Throughput of a schedule from the loads of links and hosts.

A schedule is as fast as its most loaded link or host allows. Loads are summed exactly from the plan; the
claimed throughput is compared with the result and is never an input.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, distinct, sums_of
from treadle.topologies.topology import Topology
from treadle.verification.violations import Findings, ViolationKind


def algbw_of(topology: Topology, loads: Int64Array, total: int) -> Fraction:
    """Return the algbw that the most loaded link or host side allows, bytes/s.

    Parameters
    ----------
    topology : Topology
    loads : array of int64 or Python ints, shape (m,)
        Units that cross each link; some are positive.
    total : int
        Number of units of all data.
    """
    return total / slowest(topology, loads)


def slowest(topology: Topology, loads: Int64Array, *, with_hosts: bool = True) -> Fraction:
    """Return the largest load / bandwidth of links and of the sides of capped hosts; 0 without loads."""
    caps = topology.injection_bytes_per_s
    parts = [(topology.bandwidths, loads)]
    for ends in (topology.tails, topology.heads) if with_hosts and caps.any() else ():
        through = sums_of(topology.n_nodes, ends, loads, dtype=loads.dtype)
        parts.append((caps[caps > 0], through[caps > 0]))
    return max(
        (
            Fraction(int(load[capacities == capacity].max()), capacity)
            for capacities, load in parts
            for capacity in distinct(capacities).tolist()
        ),
        default=Fraction(0),
    )


def add_overloads(
    topology: Topology, loads: Int64Array, total: int, claimed: Fraction, found: Findings
) -> None:
    """Add a violation for each link and host side whose load is too large for the claimed algbw."""
    sides = [
        (
            f"host side {side} {topology.node_names[node]}",
            int(topology.injection_bytes_per_s[node]),
            sum(loads[ends == node].tolist()),
        )
        for node in np.flatnonzero(topology.injection_bytes_per_s).tolist()
        for side, ends in (("out of", topology.tails), ("into", topology.heads))
    ]
    capacity = np.array([*topology.bandwidths.tolist(), *(cap for _, cap, _ in sides)], dtype=object)
    load = np.array([*loads.tolist(), *(through for _, _, through in sides)], dtype=object)
    over = np.flatnonzero(load * claimed.numerator > capacity * total * claimed.denominator)

    def describe(row: int) -> str:
        side = row - topology.n_links
        return (
            f"{sides[side][0] if side >= 0 else f'link {topology.link_name(row)}'} carries {load[row]} of "
            f"{total} units; its {capacity[row]} bytes/s allow algbw "
            f"{Fraction(total * capacity[row], load[row])}, not {claimed}"
        )

    found.add_all(ViolationKind.LOAD, over.tolist(), describe)
