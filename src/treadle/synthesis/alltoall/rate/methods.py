"""Published methods for an all-to-all's rate, each with a flow and link lengths that certify both sides.

`rate.optimal_rate` is faster and closer than all of them; they are here for comparison. Sources: link
MCF (1)-(5) and decomposed MCF (6)-(9) of the all-to-all paper; Fleischer's approximation scheme; cuts as
published bounds on all-to-alls have them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from enum import StrEnum

from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.bisection import best_cut
from treadle.synthesis.alltoall.rate.certificate import RateResult, certified, rounded_certificate
from treadle.synthesis.alltoall.rate.fleischer import fleischer_rate
from treadle.synthesis.alltoall.rate.flow import check_flow
from treadle.synthesis.alltoall.rate.host_caps import folded
from treadle.synthesis.alltoall.rate.mcf_programs import link_mcf, master_mcf
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_bottleneck import with_host_bottleneck


class RateMethod(StrEnum):
    """Published methods, spelt as on the command line."""

    LINK_MCF = "link-mcf"
    DECOMPOSED_MCF = "decomposed-mcf"
    FLEISCHER = "fleischer"
    CUT = "cut"
    BISECTION = "bisection"

    @property
    def is_cut(self) -> bool:
        """Whether it bounds the rate from above only."""
        return self in (RateMethod.CUT, RateMethod.BISECTION)


def rate_by(
    topology: Topology,
    collective: Collective,
    method: RateMethod,
    *,
    gap: float,
    time_limit_s: float | None = None,
) -> RateResult:
    """Compute both sides of the optimum by a method that is not a cut.

    Parameters
    ----------
    topology : Topology
        Any fabric; every node forwards, and what it forwards counts against its injection cap.
    collective : Collective
        An all-to-all.
    method : RateMethod
    gap : float
        At which Fleischer's scheme stops; linear programs are solved to 1e-9.
    time_limit_s : float, optional

    Raises
    ------
    ScheduleError
        If the instance is too large for the method.
    InfeasibleError
        If a rank has data for one that it cannot reach.
    TimeLimitError
        If the time limit is reached before a linear program is solved.
    """
    if topology.injection_bytes_per_s.any():
        whole = rate_by(
            with_host_bottleneck(topology), collective, method, gap=gap, time_limit_s=time_limit_s
        )
        return folded(whole, topology)
    began = time.process_time()
    if method is RateMethod.FLEISCHER:
        found = fleischer_rate(topology, collective, epsilon=gap, time_limit_s=time_limit_s)
    else:
        solve = link_mcf if method is RateMethod.LINK_MCF else master_mcf
        flows = solve(topology, collective, time_limit_s=time_limit_s)
        rate, certificate = check_flow(topology, collective, flows.flow), rounded_certificate(flows.lengths)
        found = certified(topology, collective, rate, certificate, flows.flow, method.value)
    return replace(found, seconds=time.process_time() - began)


def cut_certificate(
    topology: Topology, collective: Collective, method: RateMethod, *, seed: int
) -> FlowDualCertificate:
    """Return the lengths of the best cut, or bisection, that is found.

    Raises
    ------
    ScheduleError
        If the fabric is too large, or no such cut has demand across it.
    """
    best = best_cut(topology, collective, is_balanced=method is RateMethod.BISECTION, seed=seed)
    return best.certificate(topology)
