"""What the loads of links and hosts say of a schedule's throughput.

A schedule is as fast as its fullest link or host allows. Loads are summed exactly from the plan; the claimed
throughput is compared with what follows from them and is never an input.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, distinct
from treadle.topologies.topology import Topology
from treadle.verification.violations import Findings, ViolationKind


def _host_sides(topology: Topology, loads: Int64Array) -> list[tuple[str, int, int]]:
    """Name, bytes/s and load of the sides of hosts that are capped."""
    return [
        (
            f"host side {side} {topology.node_names[node]}",
            int(topology.injection_bytes_per_s[node]),
            sum(loads[ends == node].tolist()),
        )
        for node in np.flatnonzero(topology.injection_bytes_per_s).tolist()
        for side, ends in (("out of", topology.tails), ("into", topology.heads))
    ]


def algbw_of(topology: Topology, loads: Int64Array, total: int) -> Fraction:
    """What the most loaded link of each bandwidth and the sides of hosts allow, bytes/s.

    Parameters
    ----------
    topology : Topology
    loads : array of int64 or Python ints, shape (m,)
        Units that cross each link, some above 0.
    total : int
        Units in all.
    """
    return total / slowest(topology, loads)


def slowest(topology: Topology, loads: Int64Array, *, with_hosts: bool = True) -> Fraction:
    """The largest of load / capacity over links, and over the sides of capped hosts; 0 without loads."""
    caps = topology.injection_bytes_per_s
    parts = [(topology.bandwidths, loads)]
    for ends in (topology.tails, topology.heads) if with_hosts and caps.any() else ():
        through = np.zeros(topology.n_nodes, dtype=loads.dtype)
        np.add.at(through, ends, loads)
        parts.append((caps[caps > 0], through[caps > 0]))
    found = Fraction(0)
    for capacities, load in parts:
        for capacity in distinct(capacities).tolist():
            found = max(found, Fraction(int(load[capacities == capacity].max()), capacity))
    return found


def add_overloads(
    topology: Topology, loads: Int64Array, total: int, claimed: Fraction, found: Findings
) -> None:
    """Name each link and host side whose load times the claimed algbw exceeds its bandwidth times `total`."""
    sides = _host_sides(topology, loads)
    capacity = np.array([*topology.bandwidths.tolist(), *(one for _, one, _ in sides)], dtype=object)
    load = np.array([*loads.tolist(), *(one for _, _, one in sides)], dtype=object)
    over = np.flatnonzero(load * claimed.numerator > capacity * total * claimed.denominator)

    def describe(row: int) -> str:
        name = (
            f"link {topology.link_name(row)}" if row < topology.n_links else sides[row - topology.n_links][0]
        )
        return (
            f"{name} carries {load[row]} of {total} units; its {capacity[row]} bytes/s allow algbw "
            f"{Fraction(total * capacity[row], load[row])}, not {claimed}"
        )

    found.add_all(ViolationKind.LOAD, over.tolist(), describe)
