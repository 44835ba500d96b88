"""Independent check of a schedule: structure, physical paths or steps, exact loads, claims and witness.

Shares no code with the generators: everything is recomputed here from the values.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.certificate import Certificate
from treadle.schedules.collective import Collective
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_kind
from treadle.verification.trees.forest_check import ForestCheck
from treadle.verification.violations import Findings
from treadle.verification.violations import Report as Report
from treadle.verification.violations import Violation as Violation
from treadle.verification.violations import ViolationKind as ViolationKind


def verify(
    topology: Topology,
    collective: Collective,
    schedule: Schedule,
    *,
    claimed_algbw: Fraction | None = None,
    claimed_optimal_algbw: Fraction | None = None,
    witness: Certificate | None = None,
    limit: int = 1000,
) -> Report:
    """Check that a schedule performs the collective on the fabric and that its claims are true.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : Schedule
    claimed_algbw : Fraction, optional
        Bytes/s; must be exactly what the loads give, neither more nor less.
    claimed_optimal_algbw : Fraction, optional
        Bytes/s; must be exactly what `witness` proves.
    witness : Witness, optional
        Without a claimed optimum its bound is still held against the schedule.
    limit : int
        Most violations to describe; all are counted.

    Returns
    -------
    Report

    Notes
    -----
    What makes a step schedule correct is said at `steps.step_check.verify_steps`, one of groups at
    `trees.group_check.verify_groups`, and for an all-to-all at `alltoall.exchange_check.verify_exchange` and,
    of routes, `routes.route_check.verify_routes` and `routes.round_check.verify_timed_routes`.

    Forests are correct if every tree spans the ranks from its root; every edge's paths carry the tree's
    multiplicity along links that join, through switches and declared forwarders only; and the trees per root
    are in proportion to the shards (allreduce: any positive number). A path may begin at a multicasting
    switch (BROADCAST), or end at an aggregating one (REDUCE), if for each of its units the data gets there:
    a switch has the data of a unit tree when a path of that tree passes through it whose own beginning has
    the data, and so on from the root. The links' loads of all forests add up; algbw is R * min(b_e / load_e)
    over the links and, for compute nodes with an injection cap, the cap over the load in and out.

    Time is linear in the entries of the forests, with about twenty numpy calls per tree; trees with pruned
    paths take a pass over their entries per level besides.
    """
    claims: Claims = {
        "claimed_algbw": claimed_algbw,
        "claimed_optimal_algbw": claimed_optimal_algbw,
        "witness": witness,
        "limit": limit,
    }
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
    heights: list[int] = []
    loads = np.zeros(topology.n_links, dtype=object)
    if judge.is_sound and _check_shape(collective, schedule, judge.found):
        for forest in schedule.forests:
            check = ForestCheck(topology, collective, forest, judge.found)
            heights.append(check.run())
            loads += check.link_loads()
    if not judge.is_sound:
        return judge.report()
    total = sum(schedule.root_multiplicity.tolist())  # Python ints: the array's own sum could wrap
    return judge.report_loads(loads, total, height_max=max(heights))


def pipelined_algbw(topology: Topology, collective: Collective, schedule: Schedule) -> Fraction | None:
    """Return the rate of a sound step schedule as messages are cut into ever more slices; None for others.

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


def _check_shape(collective: Collective, schedule: ForestSchedule, found: Findings) -> bool:
    if not check_kind(collective, schedule, found):
        return False
    for forest in schedule.forests:
        if forest.n_ranks != collective.n_ranks:
            found.add(
                ViolationKind.SHAPE,
                f"{forest.direction} forest has {forest.n_ranks} ranks, the collective {collective.n_ranks}",
            )
            return False
    return True


def verify_plan(plan: Plan, *, topology: Topology | None = None, limit: int = 1000) -> tuple[Report, ...]:
    """Check every entry of a plan; its claims are held against the last one.

    Parameters
    ----------
    plan : Plan
    topology : Topology, optional
        The fabric to check against, if the one inside the plan is not to be trusted.
    limit : int
        Most violations to describe per entry; all are counted.

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
            witness=plan.witness,
            limit=limit,
        )
        for entry in plan.entries
    )
