"""The maximum concurrent flow to a certified gap by a first-order method, without an LP solver."""

from __future__ import annotations

import os
import time

import numpy as np

from treadle.arrays import frozen
from treadle.synthesis.alltoall.certificate import RateResult, rounded_witness
from treadle.synthesis.alltoall.flow import ConcurrentFlow, check_flow
from treadle.synthesis.alltoall.instance import FloatArray, FlowInstance
from treadle.synthesis.engine import Progress, core, run_watched

_VIOLATED, _CANCELLED, _STUCK = 1, 2, 3

SMALLEST_GAP = 1e-9
"""What double precision can certify."""

_SINGLE = 5e-6
_MOST_ITERATIONS = 1_000_000
_MOST_THREADS = 16


def pdhg_rate(
    instance: FlowInstance,
    *,
    gap: float = 1e-3,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    start: RateResult | None = None,
) -> RateResult:
    """Close the gap between a flow and link lengths by a primal-dual method.

    Parameters
    ----------
    instance : FlowInstance
    gap : float
        1 - rate / upper at which to stop; at least 1e-9.
    time_limit_s : float, optional
        Wall-clock seconds after which to stop with what there is.
    progress : callable, optional
        progress(stage, done, total).
    start : RateResult, optional
        Where to begin: the result on this fabric or a similar one, matched by the names of nodes.

    Returns
    -------
    RateResult
        Both sides recomputed in double precision; the upper one exactly, from lengths rounded to integers.

    Raises
    ------
    InfeasibleError
        If no path serves a demand.

    Notes
    -----
    Restarted reflected Halpern iteration of PDHG (Lu and Yang, Restarted Halpern PDHG for linear
    programming, 2024) on the source-aggregated program (6)-(9) of the all-to-all paper. Time per iteration
    and space are O(S m). Begins with the even split over shortest paths, which is optimal already on tori and
    hypercubes. Results do not depend on the number of threads.
    """
    began = time.process_time()
    links, n = instance.links, instance.topology.n_nodes
    unit = float(instance.demands[instance.demands > 0].mean())
    speed = float(instance.bandwidths.mean())
    flow, lengths = (np.zeros((0, 0)), np.zeros(0)) if start is None else _transferred(instance, start, unit)
    demand = instance.demands / unit
    capacity = instance.bandwidths / speed
    status, found, length, _, _, failed = run_watched(
        "concurrent flow",
        lambda control: core.concurrent_flow(
            n,
            instance.tails,
            instance.heads,
            capacity,
            instance.sources,
            demand,
            np.ones(instance.n_sources),
            np.arange(len(links), dtype=np.int32),
            flow,
            lengths,
            max(gap, SMALLEST_GAP),
            0.0 if time_limit_s is None else max(time_limit_s, 1e-6),
            _MOST_ITERATIONS,
            min(len(os.sched_getaffinity(0)), _MOST_THREADS),
            gap < _SINGLE,
            control,
        ),
        progress=progress,
    )
    if status == _VIOLATED:
        raise instance.unreachable(int(failed[0]), int(failed[1]))
    if status == _CANCELLED:  # only by Ctrl-C, which run_watched raises again
        raise KeyboardInterrupt
    by_source = np.zeros((instance.collective.n_ranks, instance.topology.n_links))
    by_source[np.ix_(instance.senders, links)] = unit * found.reshape(instance.n_sources, len(links))
    by_link = np.zeros(instance.topology.n_links)
    by_link[links] = length
    return certified(instance, by_source, by_link, "pdhg", began, is_late=status == _STUCK)


def certified(
    instance: FlowInstance,
    by_source: FloatArray,
    lengths: FloatArray,
    method: str,
    began: float,
    *,
    is_late: bool = False,
) -> RateResult:
    """Judge a flow and lengths: loads and deliveries in double precision, distances in integers.

    Parameters
    ----------
    instance : FlowInstance
    by_source : array of float64, shape (N, m)
    lengths : array of float64, shape (m,)
    method : str
    began : float
        Value of time.process_time() when the work began.
    is_late : bool
    """
    topology, collective = instance.topology, instance.collective
    by_source.setflags(write=False)
    flow = ConcurrentFlow(by_source)
    witness = rounded_witness(lengths)
    upper = witness.pair_rate_bound(topology, collective)
    rate = min(check_flow(topology, collective, flow), float(upper))
    return RateResult(
        topology=topology,
        collective=collective,
        rate=rate,
        upper=upper,
        exact=None,
        flow=flow,
        witness=witness,
        method=method,
        seconds=time.process_time() - began,
        is_late=is_late,
    )


def _transferred(instance: FlowInstance, start: RateResult, unit: float) -> tuple[FloatArray, FloatArray]:
    """Flow and lengths of `start` on the links and ranks that this fabric has as well.

    Links are the same if their ends have the same names; the k-th parallel link is the k-th.
    """
    here, there = instance.topology, start.topology
    known = {key: link for link, key in enumerate(_link_keys(there.node_names, there.tails, there.heads))}
    keys = _link_keys(here.node_names, here.tails, here.heads)
    match = np.array([known.get(keys[link], -1) for link in instance.links])
    ranks = {there.node_names[node]: rank for rank, node in enumerate(start.collective.ranks)}
    rows = np.array([ranks.get(here.node_names[node], -1) for node in instance.sources])
    flow = np.zeros((instance.n_sources, len(instance.links)))
    old, new = np.flatnonzero(rows >= 0), np.flatnonzero(match >= 0)
    flow[np.ix_(old, new)] = start.flow.by_source[np.ix_(rows[old], match[new])] / unit
    lengths = np.full(len(instance.links), np.nan)
    lengths[new] = start.witness.lengths[match[new]]
    if not np.nansum(lengths):
        return flow, np.zeros(0)
    lengths[np.isnan(lengths)] = np.nanmean(lengths)
    return frozen(flow, np.float64), frozen(lengths, np.float64)


def _link_keys(
    names: tuple[str, ...], tails: np.typing.NDArray[np.int32], heads: np.typing.NDArray[np.int32]
) -> list[tuple[str, str, int]]:
    seen: dict[tuple[str, str], int] = {}
    keys = []
    for tail, head in zip(tails.tolist(), heads.tolist(), strict=True):
        ends = names[tail], names[head]
        seen[ends] = seen.get(ends, -1) + 1
        keys.append((*ends, seen[ends]))
    return keys
