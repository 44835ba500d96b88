"""The optimal rate of an all-to-all, and its figures under the keys that commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treadle.context import context, under
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem, format_exact
from treadle.synthesis import alltoall

if TYPE_CHECKING:
    from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
    from treadle.synthesis.alltoall import RateResult
    from treadle.synthesis.alltoall.rate.methods import RateMethod

DEFAULT_GAP = 1e-3
FLEISCHER_GAP = 0.05
"""Fleischer's scheme takes minutes where 0.001 is asked of it."""


def alltoall_rate(problem: Problem, *, gap: float | None = None, cards_forward: bool = False) -> RateResult:
    """Both sides of the optimum.

    Parameters
    ----------
    problem : Problem
    gap : float, optional
        How close they are to come, as a share of the upper one; default 0.001.
    cards_forward : bool
        Whether what a node passes on stays out of its host.
    """
    gap, left = DEFAULT_GAP if gap is None else gap, context().seconds_left
    with under(context().unlimited):
        return alltoall.optimal_rate(
            problem.topology, problem.collective, gap=gap, time_limit_s=left, cards_forward=cards_forward
        )


def rate_by_method(
    problem: Problem, method: RateMethod, *, gap: float | None = None, seed: int = 0
) -> RateResult | FlowDualCertificate:
    """Both sides of the optimum by a published method; of a cut the lengths that prove the upper side.

    Parameters
    ----------
    problem : Problem
    method : RateMethod
    gap : float, optional
        Of Fleischer's scheme; default 0.05.
    seed : int
        Of the search for cuts.

    Raises
    ------
    ScheduleError
        If a gap is asked of another method, or the instance is too large for it.
    """
    from treadle.synthesis.alltoall.rate.methods import cut_certificate, rate_by  # bring solvers

    if gap is not None and method != "fleischer":
        raise ScheduleError(f"gap: {method} takes none; it is for fleischer and the default")
    topology, collective = problem.topology, problem.collective
    if method.is_cut:
        return cut_certificate(topology, collective, method, seed=seed)
    return rate_by(
        topology,
        collective,
        method,
        gap=FLEISCHER_GAP if gap is None else gap,
        time_limit_s=context().seconds_left,
    )


def uniform_bandwidth(found: RateResult) -> int | None:
    """Bytes/s of every link that carries something, or None where they differ: `f` is in units of it.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.bound("ring(4, bandwidth='25GB/s')", "alltoall")
    >>> treadle.planning.uniform_bandwidth(found.rate)
    25000000000
    """
    topology = found.topology
    carries = topology.tails != topology.heads
    if not carries.any():
        return None
    first = topology.bandwidths[np.argmax(carries)]
    return None if np.any(carries & (topology.bandwidths != first)) else int(first)


def rate_summary(found: RateResult) -> dict[str, object]:
    """What JSON says of an all-to-all's rate: the certified lower side, unless a key says otherwise."""
    n = found.collective.group_size
    values: dict[str, object] = {
        "method": found.method,
        "pair_rate_bytes_per_s": found.rate,
        "pair_rate_upper_bytes_per_s": float(found.upper),
        "pair_rate_upper_exact": format_exact(found.upper),
        "inverse": 1 / found.rate,
        "algbw_bytes_per_s": found.algbw,
        "busbw_bytes_per_s": found.algbw * (n - 1) / n,
        "gap": found.gap,
        "optimal": True if found.exact is not None else None,
        "time_limit_reached": found.is_late,
        "binding_links": found.binding_links().tolist(),
    }
    hosts = found.binding_hosts()
    if hosts.size:
        values["binding_hosts"] = [found.topology.node_names[host] for host in hosts]
    if found.exact is not None:
        values["pair_rate_exact"] = format_exact(found.exact)
    link = uniform_bandwidth(found)
    if link is not None:
        values["f"] = found.rate / link
        values["inverse_f"] = link / found.rate
        values["f_upper"] = float(found.upper / link)
        if found.exact is not None:
            values["f_exact"] = format_exact(found.exact / link)
    return values
