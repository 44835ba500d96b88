"""Exact optima of all-to-alls for tests: the rate where it can be found, and its flows in floats."""

from __future__ import annotations

import time
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import Context, under
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.exact_columns import ExactRate
from treadle.synthesis.alltoall.rate.exact_rate import solve_exactly, suitable_symmetry
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, flow_instance
from treadle.synthesis.alltoall.rate.spreading import averaging_labels, sender_moves
from treadle.topologies.topology import Topology


def exact_rate(
    topology: Topology, collective: Collective, *, time_limit_s: float | None = None
) -> ExactRate | None:
    """F exactly, with the symmetry that suits; None where the instance is too large or time is up."""
    instance = flow_instance(topology, collective)
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    with under(Context(None, deadline)):
        return solve_exactly(instance, suitable_symmetry(instance))


def expanded_flow(instance: FlowInstance, exact: ExactRate) -> ConcurrentFlow:
    """The flows of all ranks as float64; see `expanded_units`."""
    flows, denominator = expanded_units(instance, exact)
    by_source = np.zeros((instance.collective.n_ranks, instance.topology.n_links))
    for rank, flow in zip(instance.senders.tolist(), flows, strict=True):
        for link, amount in flow.items():
            by_source[rank, link] = amount / denominator
    return ConcurrentFlow(by_source)


def expanded_units(instance: FlowInstance, exact: ExactRate) -> tuple[list[dict[int, int]], int]:
    """What each sender's flow takes over each link at one unit of rate, exactly; for small fabrics.

    Parameters
    ----------
    instance : FlowInstance
    exact : ExactRate

    Returns
    -------
    flows : list of dicts, length S
        Link -> numerator.
    denominator : int
        The loads of all together are at most 1 / F on every link.

    Raises
    ------
    ScheduleError
        If there are too many senders and links.

    Notes
    -----
    A representative's flow is first averaged over the automorphisms that fix it (Schreier's generators, as
    many as it takes), then moved by one automorphism per sender of its orbit.
    """
    moves = sender_moves(instance, exact.symmetry)
    for merged in averaging_labels(instance, exact.symmetry, moves):
        averaged = [_averaged(flow, label) for flow, label in zip(exact.units, merged, strict=True)]
        denominator = lcm(*(value.denominator for flow in averaged for value in flow.values()))
        flows: list[dict[int, int]] = []
        for row, orbit in enumerate(exact.symmetry.sender_orbit.tolist()):
            move = moves[row].tolist()
            flows.append({move[e]: int(v * denominator) for e, v in averaged[orbit].items()})
        loads: dict[int, int] = {}
        for flow in flows:
            for link, amount in flow.items():
                loads[link] = loads.get(link, 0) + amount
        scale = denominator * exact.denominator
        bandwidths = instance.topology.bandwidths.tolist()
        if all(load * exact.rate <= scale * bandwidths[link] for link, load in loads.items()):
            return flows, scale
    raise ScheduleError(f"{instance.topology.name}: the flows do not spread evenly over the orbits of links")


def _averaged(flow: dict[int, int], label: Int64Array) -> dict[int, Fraction]:
    """The flow with equal amounts on all links of an orbit."""
    sizes = np.bincount(label)
    totals: dict[int, int] = {}
    for link, amount in flow.items():
        orbit = int(label[link])
        totals[orbit] = totals.get(orbit, 0) + amount
    members: dict[int, list[int]] = {}
    for link in np.flatnonzero(np.isin(label, list(totals))).tolist():
        members.setdefault(int(label[link]), []).append(link)
    return {
        link: Fraction(total, int(sizes[orbit])) for orbit, total in totals.items() for link in members[orbit]
    }
