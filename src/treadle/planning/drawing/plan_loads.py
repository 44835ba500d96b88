"""For which share of its time a plan keeps each link busy, and which links all the time."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_loads
from treadle.schedules.alltoall.route_cost import route_loads
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.steps.step_cost import step_loads
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import link_loads
from treadle.topologies.topology import Topology
from treadle.verification.factored.factored_check import factored_loads


def busy_links(plan: Plan) -> tuple[NDArray[np.float64], BoolArray]:
    """Of large sizes, where latencies vanish.

    Returns
    -------
    array of float, shape (links,)
        Share of the time for which each link is busy. Steps follow each other, all else flows at once.
    array of bool, shape (links,)
        Whether it is busy all the time, by exact numbers.

    Raises
    ------
    ScheduleError
        For schedules of several groups, and routes with timetables.
    """
    topology, schedule = plan.topology, plan.entries[-1].schedule
    if isinstance(schedule, ForestSchedule):
        return _shares(topology, [link_loads(topology, schedule)])
    if isinstance(schedule, FactoredSchedule):
        return _shares(topology, [factored_loads(topology, plan.collective, schedule)])
    if isinstance(schedule, RouteSchedule):
        return _shares(topology, [route_loads(topology, schedule)])
    if isinstance(schedule, StepSchedule):
        return _shares(topology, (load for steps in schedule.phases for load in step_loads(topology, steps)))
    if isinstance(schedule, ExchangeSchedule):
        return _shares(topology, exchange_loads(topology, plan.collective, schedule))
    raise ScheduleError(
        f"draw: loads of a {schedule.kind} plan of this form are not drawn; expected trees, steps or routes"
    )


def _shares(topology: Topology, loads: Iterable[NDArray[Any]]) -> tuple[NDArray[np.float64], BoolArray]:
    """Time of each link in all steps over the time of the steps, each as long as its slowest link."""
    widths, kind = np.unique(topology.bandwidths, return_inverse=True)
    time, in_all = Fraction(0), np.zeros(topology.n_links, dtype=object)
    for load in loads:
        time += max(
            (Fraction(int(load[kind == k].max()), int(width)) for k, width in enumerate(widths)),
            default=Fraction(0),
        )
        in_all = in_all + load
    if not time:
        return np.zeros(topology.n_links), np.zeros(topology.n_links, dtype=np.bool_)
    busy = [
        Fraction(int(load), int(width)) / time
        for load, width in zip(in_all, topology.bandwidths, strict=True)
    ]
    return np.array([float(share) for share in busy]), np.array([share == 1 for share in busy])
