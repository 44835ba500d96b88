"""For which share of its time a plan keeps each link busy, and which links all the time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_loads
from treadle.schedules.alltoall.route_cost import route_loads, route_time
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.steps.step_cost import step_loads
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import link_loads
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology
from treadle.verification.factored.factored_check import factored_loads
from treadle.verification.loads import algbw_of


def busy_links(plan: Plan) -> tuple[NDArray[np.float64], BoolArray]:
    """Compute link loads at large sizes, where latencies vanish.

    Returns
    -------
    array of float, shape (links,)
        Utilization of each link. All flows are concurrent; steps are pipelined as slices of messages follow
        each other; the time is that of the fullest link, or of a host whose injection is capped.
    array of bool, shape (links,)
        Whether it is saturated, by exact numbers.

    Raises
    ------
    ScheduleError
        For schedules of several groups, and routes with timetables.
    """
    topology, schedule = plan.topology, plan.entries[-1].schedule
    if isinstance(schedule, RouteSchedule):  # hosts that are capped pass on what is not theirs for nothing
        time = route_time(topology, plan.collective, schedule) * schedule.n_chunks
        return _shares(topology, route_loads(topology, schedule), time)
    load = sum(_loads(plan), start=np.zeros(topology.n_links, dtype=object))
    return _shares(topology, load, 1 / algbw_of(topology, load, 1))


def _loads(plan: Plan) -> Iterator[NDArray[Any]]:
    """Yield the units over each link, step by step; concurrent flows are one step."""
    topology, schedule = plan.topology, plan.entries[-1].schedule
    if isinstance(schedule, ForestSchedule):
        yield link_loads(topology, schedule)
    elif isinstance(schedule, FactoredSchedule):
        yield factored_loads(topology, plan.collective, schedule)
    elif isinstance(schedule, StepSchedule):
        for steps in schedule.phases:
            yield from (load.astype(object) for load in step_loads(topology, steps))
    elif isinstance(schedule, ExchangeSchedule):
        yield from (load.astype(object) for load in exchange_loads(topology, plan.collective, schedule))
    else:
        what = "several groups" if isinstance(schedule, GroupSchedule) else "routes with timetables"
        raise ScheduleError(f"draw: loads of {what} are not drawn; expected trees, steps or routes")


def _shares(
    topology: Topology, load: NDArray[Any], time: Fraction | int
) -> tuple[NDArray[np.float64], BoolArray]:
    shares = {
        (units, width): Fraction(units, width) / time
        for units, width in set(zip(load.tolist(), topology.bandwidths.tolist(), strict=True))
    }
    busy = [shares[own] for own in zip(load.tolist(), topology.bandwidths.tolist(), strict=True)]
    return np.array([float(share) for share in busy]), np.array([share == 1 for share in busy])
