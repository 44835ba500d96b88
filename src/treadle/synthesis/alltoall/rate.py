"""The optimal rate of an all-to-all, by the method that suits the instance."""

from __future__ import annotations

import math

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.certificate import RateResult
from treadle.synthesis.alltoall.instance import flow_instance
from treadle.synthesis.alltoall.pdhg import pdhg_rate
from treadle.synthesis.engine import Progress
from treadle.topologies.topology import Topology


def optimal_rate(
    topology: Topology,
    collective: Collective,
    *,
    gap: float = 1e-3,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    start: RateResult | None = None,
) -> RateResult:
    """F, the largest rate at which every pair's data can flow at once, between two certified sides.

    Parameters
    ----------
    topology : Topology
        Any fabric; every node forwards.
    collective : Collective
        An all-to-all.
    gap : float
        Stop when the sides are as close as this share of the upper one; from 0 to below 1.
    time_limit_s : float, optional
        Seconds after which to stop with the gap that is left (`is_late`).
    progress : callable, optional
        progress(stage, done, total).
    start : RateResult, optional
        A previous result on a similar fabric, such as one that has since lost links.

    Raises
    ------
    ScheduleError
        If the collective is no all-to-all on the fabric, or the gap is out of range.
    InfeasibleError
        If a rank has data for one that it cannot reach.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies import parse
    >>> cube = parse("hypercube(3)")
    >>> optimal_rate(cube, on_all_ranks(cube, CollectiveKind.ALLTOALL)).upper
    Fraction(1, 4)
    """
    if not (math.isfinite(gap) and 0 <= gap < 1):
        raise ScheduleError(f"gap {gap}: expected a number from 0 to below 1, such as 0.001")
    instance = flow_instance(topology, collective)
    return pdhg_rate(instance, gap=gap, time_limit_s=time_limit_s, progress=progress, start=start)
