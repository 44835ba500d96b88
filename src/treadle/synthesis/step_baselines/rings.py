"""Ring algorithms: every shard goes round Hamiltonian rings that together use all links."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.forest import Direction
from treadle.schedules.step_transforms import combine
from treadle.schedules.steps import Steps, StepSchedule, steps_from_sends
from treadle.synthesis.bfb import bfb_allgather
from treadle.synthesis.step_baselines.both_ways import both_ways
from treadle.topologies.direct import from_arcs
from treadle.topologies.topology import Topology


def ring_steps(topology: Topology, collective: Collective) -> StepSchedule:
    """Ring allgather on every Hamiltonian ring of a graph made of shifts, each for its part of the shards.

    Serves graphs whose links run from node x to x + a modulo N for some offsets a: rings of one or two
    directions and with parallel links, ShiftedRing, circulants; every offset must be coprime to N.

    Raises
    ------
    ScheduleError
        For other graphs and collectives.

    Notes
    -----
    T_L = N - 1 and bandwidth-optimal; ShiftedRing of section 3.8.2 with this schedule is TopoOpt's.
    """
    return both_ways("ring-steps", topology, collective, _ring_allgather)


def _ring_allgather(topology: Topology) -> Steps:
    rings = _rings("ring-steps", topology)
    return combine([_around(topology.n_nodes, links, offset) for offset, links in rings])


def _around(n: int, links: Int64Array, offset: int) -> Steps:
    """In step t every node x passes on the shard of x - t * offset over `links[x]`."""
    step = np.repeat(np.arange(n - 1), n)
    node = np.tile(np.arange(n), n - 1)
    return steps_from_sends(
        Direction.BROADCAST,
        n,
        1,
        [(node - step * offset) % n, links[node], step, np.zeros_like(step), np.ones_like(step)],
    )


def _rings(name: str, topology: Topology) -> list[tuple[int, Int64Array]]:
    """(offset, link out of each node) of every Hamiltonian ring, so that each link is in one."""
    n = topology.n_nodes
    offsets = (topology.heads.astype(np.int64) - topology.tails) % n
    found = []
    for offset in np.unique(offsets).tolist():
        links = np.flatnonzero(offsets == offset)
        order = links[np.argsort(topology.tails[links], kind="stable")]
        copies, rest = divmod(len(order), n)
        tails = topology.tails[order]
        if rest or not np.array_equal(tails, np.repeat(np.arange(n), copies)) or gcd(offset, n) != 1:
            raise ScheduleError(
                f"{name}: {topology.name} is not made of Hamiltonian rings x -> x + a with a coprime to {n}; "
                f"use bfb"
            )
        found += [(offset, order[copy::copies]) for copy in range(copies)]
    return found


def shifted_bfb_ring(topology: Topology, collective: Collective) -> StepSchedule:
    """Breadth-first broadcast on each bidirectional ring by itself, each for its part of the shards.

    Raises
    ------
    ScheduleError
        If the graph is not made of bidirectional Hamiltonian rings.

    Notes
    -----
    T_L = floor(N / 2) and bandwidth-optimal (sections 3.8.3 and A.6.1): half the steps of the ring algorithm
    on the same cables.
    """
    return both_ways("shifted-bfb-ring", topology, collective, _bfb_ring_allgather)


def _bfb_ring_allgather(topology: Topology) -> Steps:
    n = topology.n_nodes
    parts = []
    waiting: dict[int, list[Int64Array]] = {}
    for offset, links in _rings("shifted-bfb-ring", topology):
        partners = waiting.get(-offset % n)
        if partners:
            both = np.concatenate([partners.pop(), links])
            ring = from_arcs("ring", topology.tails[both], topology.heads[both], n=n)
            steps = bfb_allgather(ring)
            parts.append(replace(steps, link=both.astype(np.int32)[steps.link]))
        else:
            waiting.setdefault(offset, []).append(links)
    if any(waiting.values()):
        raise ScheduleError(
            f"shifted-bfb-ring: some ring of {topology.name} has no ring the other way; use bfb"
        )
    return combine(parts)
