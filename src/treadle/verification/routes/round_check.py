"""Independent check of rounds of routed chunks: every chunk is sent once, limits of hosts, time.

Shares no code with the generators: everything is recomputed here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Unpack

import numpy as np

from treadle.arrays import Int32Array, ranges_of, sums_of
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, check_algbw
from treadle.verification.routes.route_check import verify_routes
from treadle.verification.violations import Findings, Report, ViolationKind


def verify_timed_routes(
    topology: Topology,
    collective: Collective,
    schedule: TimedRoutes,
    *,
    max_flows: int | None = None,
    max_routes: int | None = None,
    max_layers: int | None = None,
    **claims: Unpack[Claims],
) -> Report:
    """Check the routes, and that the rounds send each of their chunks once.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : TimedRoutes
    max_flows : int, optional
        Maximum number of chunks that may leave a host, or enter it, in a round.
    max_routes, max_layers, **claims
        See `verify_routes`; the claimed algbw must be exactly that of the rounds.

    Returns
    -------
    Report
        With `n_layers`, and the number of rounds as `n_steps`.

    Notes
    -----
    A round lasts until its slowest link has carried all of its chunks: max(chunks / bandwidth). Chunks may
    share a link; it only costs time. Injection caps limit a round like links.
    """
    routes = schedule.routes
    of_routes: Claims = {**claims, "claimed_algbw": None}
    report = verify_routes(
        topology, collective, routes, max_routes=max_routes, max_layers=max_layers, **of_routes
    )
    if not report.is_ok:
        return report
    found = Findings(claims.get("limit", 1000))
    sent = np.bincount(schedule.path, minlength=routes.n_paths)
    found.add_all(
        ViolationKind.DELIVERY,
        np.flatnonzero(sent != routes.units),
        lambda i: f"path {i}: {sent[i]} chunks set out, expected {routes.units[i]}",
    )
    seconds = of_round = Fraction(0)
    previous: bytes | None = None
    for number in range(schedule.n_rounds if not found.total else 0):
        paths = schedule.path[schedule.round_offset[number] : schedule.round_offset[number + 1]]
        content = paths.tobytes()
        if content != previous:  # there are often runs of equal rounds
            if max_flows is not None:
                _check_flows(schedule, number, paths, max_flows, found)
            previous, of_round = content, _round_seconds(topology, collective, schedule, paths)
        seconds += of_round
    if found.total:
        return found.report(bound=report.bound)
    algbw = collective.pair_demands.buffer_units * routes.n_chunks / seconds
    check_algbw(algbw, claimed=claims.get("claimed_algbw"), bound=report.bound, found=found)
    return found.report(algbw=algbw, bound=report.bound, n_steps=schedule.n_rounds, n_layers=report.n_layers)


def _check_flows(
    schedule: TimedRoutes, number: int, paths: Int32Array, max_flows: int, found: Findings
) -> None:
    """Check that no host sends or receives too many chunks in a round."""
    for ends, verb in ((schedule.routes.source, "sends"), (schedule.routes.target, "gets")):
        ranks, flows = np.unique(ends[paths], return_counts=True)
        for rank, count in zip(ranks[flows > max_flows], flows[flows > max_flows], strict=True):
            found.add(
                ViolationKind.LIMIT,
                f"round {number}: rank {rank} {verb} {count} chunks, at most {max_flows} may",
            )


def _round_seconds(
    topology: Topology, collective: Collective, schedule: TimedRoutes, paths: Int32Array
) -> Fraction:
    """Return the seconds of a round if a chunk were a byte, in time proportional to its sends."""
    routes = schedule.routes
    chosen, chunks = np.unique(paths, return_counts=True)
    begin = routes.path_offset[chosen]
    path, position = ranges_of(begin, routes.path_offset[chosen + 1] - begin)
    links, hop = np.unique(routes.path_links[position], return_inverse=True)
    load = sums_of(len(links), hop, chunks[path])
    capacities = [topology.bandwidths[links]]
    amounts = [load]
    caps = topology.injection_bytes_per_s[np.array(collective.ranks)]
    for ends in (routes.source, routes.target):
        ranks, flows = np.unique(ends[paths], return_counts=True)
        capped = caps[ranks] > 0
        capacities.append(caps[ranks][capped])
        amounts.append(flows[capped])
    rates = set(zip(np.concatenate(amounts).tolist(), np.concatenate(capacities).tolist(), strict=True))
    return max((Fraction(amount, capacity) for amount, capacity in rates), default=Fraction(0))
