"""Costs of a step schedule of an all-to-all: exact loads of each step, bandwidth time, time at a size."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.link_times import host_loads, load_time
from treadle.topologies.topology import Topology

_SAFE = 2**62
"""Sums below this fit 64 bits."""


def exchange_loads(
    topology: Topology, collective: Collective, schedule: ExchangeSchedule
) -> Iterator[NDArray[Any]]:
    """Yield the load of each link, shape (m,), step by step, in units of 1/P of a unit of demand.

    Integers of 64 bits, or Python integers where these could overflow.
    """
    sends = schedule.sends
    demands = collective.pair_demands
    if demands.n_ranks != schedule.n_ranks:
        raise ScheduleError(f"a schedule for {schedule.n_ranks} ranks, the collective has {demands.n_ranks}")
    weights: Int64Array = demands.matrix[schedule.sources, schedule.targets]
    total = float(np.sum(weights[sends.shard].astype(np.float64) * (sends.high - sends.low)))
    exact = total < _SAFE
    for step in range(sends.n_steps):
        span = sends.span(step)
        sizes = (sends.high[span] - sends.low[span]).astype(np.int64 if exact else object)
        load = np.zeros(topology.n_links, dtype=sizes.dtype)
        amounts = sizes * weights[sends.shard[span]]
        if sends.has_paths:
            over = sums_of(sends.n_paths, sends.link[span], amounts, dtype=sizes.dtype)
            np.add.at(load, sends.way_links, np.repeat(over, np.diff(sends.way_offset)))
        else:
            np.add.at(load, sends.link[span], amounts)
        yield load


def step_times(topology: Topology, collective: Collective, schedule: ExchangeSchedule) -> list[Fraction]:
    """Return the time of each step per unit of demand, without latencies, seconds, exact.

    U_t of the paper's (15) where all links have bandwidth 1.
    """
    loads = exchange_loads(topology, collective, schedule)
    return [load_time(topology, load) / schedule.n_chunks for load in loads]


def exchange_time(topology: Topology, collective: Collective, schedule: ExchangeSchedule) -> Fraction:
    """Return the seconds per byte of the collective's `size` (the larger per-rank buffer), exact."""
    units = collective.pair_demands.buffer_units
    return sum(step_times(topology, collective, schedule), Fraction(0)) / units


def exchange_algbw(topology: Topology, collective: Collective, schedule: ExchangeSchedule) -> Fraction:
    """Return the asymptotic algorithmic bandwidth, bytes/s: size / time without latencies."""
    time = exchange_time(topology, collective, schedule)
    if not time:
        raise ScheduleError("the schedule sends nothing, so it has no throughput")
    return 1 / time


def exchange_runtime_s(
    topology: Topology,
    collective: Collective,
    schedule: ExchangeSchedule,
    size_bytes: int,
    *,
    alpha_s: float = 0.0,
) -> float:
    """Return the alpha-beta time, seconds: per step, the largest latency + bytes / bandwidth of used links.

    A host with an injection cap takes at least bytes / cap, out and in.

    Parameters
    ----------
    topology : Topology
        The latencies of its links count.
    collective : Collective
    schedule : ExchangeSchedule
    size_bytes : int
        The larger per-rank buffer.
    alpha_s : float
        Added per step, seconds.
    """
    unit_bytes = size_bytes / (schedule.n_chunks * collective.pair_demands.buffer_units)
    total = alpha_s * schedule.n_steps
    for load in exchange_loads(topology, collective, schedule):
        used = np.flatnonzero(load)
        if not used.size:
            continue
        times = load[used].astype(np.float64) * unit_bytes / topology.bandwidths[used]
        slowest = float((topology.latencies_ns[used] * 1e-9 + times).max())
        caps = topology.injection_bytes_per_s[topology.injection_bytes_per_s > 0]
        for side in host_loads(topology, load):
            slowest = max(slowest, float((side.astype(np.float64) * unit_bytes / caps).max(initial=0.0)))
        total += slowest
    return total
