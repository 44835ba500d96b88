"""Independent check of a schedule: structure, physical paths or steps, exact loads, claims, certificate.

Shares no code with the generators: everything is recomputed here from the values. This module verifies trees,
and passes other schedules on to the verifier of their form.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Unpack

import numpy as np

from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_shape
from treadle.verification.trees.forest_check import check_forest
from treadle.verification.violations import Report as Report
from treadle.verification.violations import Violation as Violation
from treadle.verification.violations import ViolationKind as ViolationKind


def verify(
    topology: Topology, collective: Collective, schedule: Schedule, **claims: Unpack[Claims]
) -> Report:
    """Check that a schedule performs the collective on the fabric and that its claims are true.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : Schedule
    claimed_algbw : Fraction, optional
        Bytes/s; must be exactly the algbw of the loads, neither more nor less.
    claimed_optimal_algbw : Fraction, optional
        Bytes/s; must be exactly the bound that `certificate` proves.
    certificate : Certificate, optional
        Certificate of an upper bound, which is compared with the schedule even without a claimed optimum.
    limit : int
        Maximum number of violations to describe, by default 1000; all are counted.

    Returns
    -------
    Report

    Notes
    -----
    The conditions for other schedules are listed at `steps.step_check.verify_steps` (steps),
    `trees.group_check.verify_groups` (groups), `alltoall.exchange_check.verify_exchange` (steps of an
    all-to-all), `routes.route_check.verify_routes` and `routes.round_check.verify_timed_routes` (routes).

    Forests are correct if every tree spans the ranks from its root; the paths of every edge carry the
    multiplicity of the tree over contiguous links, through switches and declared forwarders only; and the
    trees per root are proportional to the shards (allreduce: any positive number). A path may begin at a
    multicast switch (BROADCAST), or end at an aggregation switch (REDUCE), if the data of each of its units
    arrive there: a switch has the data of a unit tree if a path of that tree passes through it and the start
    of that path has the data, and so on from the root. The link loads of all forests add up; algbw is
    R * min(b_e / load_e) over the links and, for compute nodes with an injection cap, the cap over the load
    in and out.

    Time is linear in the entries of the forests, with about twenty numpy calls per tree; trees with pruned
    paths also take one pass over their entries per level.
    """
    if isinstance(schedule, StepSchedule):
        from treadle.verification.steps.step_check import verify_steps

        return verify_steps(topology, collective, schedule, **claims)
    if isinstance(schedule, ExchangeSchedule):
        from treadle.verification.alltoall.exchange_check import verify_exchange

        return verify_exchange(topology, collective, schedule, **claims)
    if isinstance(schedule, RouteSchedule):
        from treadle.verification.routes.route_check import verify_routes

        return verify_routes(topology, collective, schedule, **claims)
    if isinstance(schedule, TimedRoutes):
        from treadle.verification.routes.round_check import verify_timed_routes

        return verify_timed_routes(topology, collective, schedule, **claims)
    if isinstance(schedule, FactoredSchedule):
        from treadle.verification.factored.factored_check import verify_factored

        return verify_factored(topology, collective, schedule, **claims)
    if isinstance(schedule, GroupSchedule):
        from treadle.verification.trees.group_check import verify_groups

        return verify_groups(topology, collective, schedule, **claims)
    assert isinstance(schedule, ForestSchedule)
    judge = Verifier(topology, collective, **claims)
    if not judge.is_sound or not check_shape(collective, schedule, judge.found):
        return judge.report()
    checked = [check_forest(topology, collective, forest, judge.found) for forest in schedule.forests]
    if not judge.is_sound:
        return judge.report()
    heights, loads = zip(*checked, strict=True)
    total = sum(schedule.root_multiplicity.tolist())  # Python ints: the array's own sum could wrap
    return judge.report_loads(np.sum(loads, axis=0), total, height_max=max(heights))


def pipelined_algbw(topology: Topology, collective: Collective, schedule: Schedule) -> Fraction | None:
    """Return the limit of the algbw of a sound step schedule as slices get more; None for other schedules.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : Schedule

    Returns
    -------
    Fraction, optional
        Bytes/s, as `Report.pipelined_algbw`.
    """
    if isinstance(schedule, StepSchedule):
        from treadle.verification.steps.step_check import step_rates

        return step_rates(topology, collective, schedule)[1]
    if isinstance(schedule, ExchangeSchedule):
        from treadle.verification.alltoall.exchange_check import exchange_rates

        return exchange_rates(topology, collective, schedule)[1]
    return None


def verify_plan(plan: Plan, *, topology: Topology | None = None, limit: int = 1000) -> tuple[Report, ...]:
    """Check every entry of a plan; its claims are compared with the last one.

    Parameters
    ----------
    plan : Plan
    topology : Topology, optional
        The fabric to check against, if the one in the plan is not trusted.
    limit : int
        Maximum number of violations to describe per entry; all are counted.

    Returns
    -------
    tuple of Report
        One per entry, in order.
    """
    fabric, last = plan.topology if topology is None else topology, plan.entries[-1]
    return tuple(
        verify(
            fabric,
            plan.collective,
            entry.schedule,
            claimed_algbw=plan.algbw if entry is last else None,
            claimed_optimal_algbw=plan.optimal_algbw if entry is last else None,
            certificate=plan.certificate,
            limit=limit,
        )
        for entry in plan.entries
    )
