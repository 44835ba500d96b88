"""Independent check of rounds of routed chunks: every chunk sets out once, hosts keep their limit, the time.

Shares no code with the generators: everything is recomputed here.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.arrays import Int32Array
from treadle.schedules.collective import Collective
from treadle.schedules.timed_routes import TimedRoutes
from treadle.schedules.verify_claims import check_algbw
from treadle.schedules.verify_routes import verify_routes
from treadle.schedules.violations import Findings, Report, ViolationKind
from treadle.schedules.witness import Witness
from treadle.topologies.topology import Topology


def verify_timed_routes(
    topology: Topology,
    collective: Collective,
    schedule: TimedRoutes,
    *,
    max_flows: int,
    claimed_algbw: Fraction | None = None,
    claimed_optimal_algbw: Fraction | None = None,
    witness: Witness | None = None,
    max_routes: int | None = None,
    max_layers: int | None = None,
    limit: int = 1000,
) -> Report:
    """Check the routes themselves, and that the rounds carry out what they promise.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : TimedRoutes
    max_flows : int
        Most chunks of a round that may leave a host, or enter one.
    claimed_algbw : Fraction, optional
        Bytes/s; must be exactly what the rounds give.
    claimed_optimal_algbw, witness, max_routes, max_layers, limit
        See `verify_routes`.

    Returns
    -------
    Report
        With the number of rounds as `n_steps`.

    Notes
    -----
    A round lasts until its slowest link has carried all of its chunks: max(chunks / bandwidth). Chunks may
    share a link; it only costs time. Injection caps bound a round in the same way.
    """
    routes = schedule.routes
    report = verify_routes(
        topology,
        collective,
        routes,
        claimed_optimal_algbw=claimed_optimal_algbw,
        witness=witness,
        max_routes=max_routes,
        max_layers=max_layers,
        limit=limit,
    )
    if not report.is_ok:
        return report
    found = Findings(limit)
    sent = np.bincount(schedule.path, minlength=routes.n_paths)
    wrong = np.flatnonzero(sent != routes.units)
    found.add_all(
        ViolationKind.DELIVERY,
        len(wrong),
        lambda i: f"path {wrong[i]}: {sent[wrong[i]]} chunks set out, expected {routes.units[wrong[i]]}",
    )
    seconds = Fraction(0)
    for number in range(schedule.n_rounds):
        paths = schedule.path[schedule.round_offset[number] : schedule.round_offset[number + 1]]
        _check_flows(schedule, number, paths, max_flows, found)
        seconds += _round_seconds(topology, collective, schedule, paths)
    if found.total:
        return found.report(bound=report.bound)
    algbw = collective.pair_demands.buffer_units * routes.n_chunks / seconds
    check_algbw(algbw, claimed=claimed_algbw, bound=report.bound, found=found)
    return found.report(algbw=algbw, bound=report.bound, n_steps=schedule.n_rounds)


def _check_flows(
    schedule: TimedRoutes, number: int, paths: Int32Array, max_flows: int, found: Findings
) -> None:
    """No host sends or gets too many chunks in a round."""
    for ends, does in ((schedule.routes.source, "sends"), (schedule.routes.target, "gets")):
        flows = np.bincount(ends[paths], minlength=schedule.n_ranks)
        for rank in np.flatnonzero(flows > max_flows).tolist():
            found.add(
                ViolationKind.LIMIT,
                f"round {number}: rank {rank} {does} {flows[rank]} chunks, at most {max_flows} may",
            )


def _round_seconds(
    topology: Topology, collective: Collective, schedule: TimedRoutes, paths: Int32Array
) -> Fraction:
    """Seconds of a round if a chunk were a byte."""
    routes = schedule.routes
    load = np.zeros(topology.n_links, dtype=np.int64)
    for path in paths.tolist():
        load[routes.path_links[routes.path_offset[path] : routes.path_offset[path + 1]]] += 1
    used = np.flatnonzero(load).tolist()
    seconds = max((Fraction(int(load[e]), int(topology.bandwidths[e])) for e in used), default=Fraction(0))
    caps = topology.injection_bytes_per_s[np.array(collective.ranks)]
    for ends in (routes.source, routes.target):
        flows = np.bincount(ends[paths], minlength=schedule.n_ranks)
        for rank in np.flatnonzero((caps > 0) & (flows > 0)).tolist():
            seconds = max(seconds, Fraction(int(flows[rank]), int(caps[rank])))
    return seconds
