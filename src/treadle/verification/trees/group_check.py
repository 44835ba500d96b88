"""Judge of groups of ranks that communicate at once: each group's trees, and the loads of all together.

Shares no code with the generators; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.schedules.witness import Witness
from treadle.topologies.topology import Topology
from treadle.verification.claims import check_algbw, check_bound, check_compute_nodes
from treadle.verification.loads import add_overloads, algbw_of
from treadle.verification.trees.forest_check import ForestCheck
from treadle.verification.violations import Findings, Report, ViolationKind

_MAX_UNITS_BITS = 2**12
"""Of the units that all groups' units are whole numbers of: loads are counted in them, link by link."""


def verify_groups(
    topology: Topology,
    collective: Collective,
    schedule: GroupSchedule,
    *,
    claimed_algbw: Fraction | None = None,
    claimed_optimal_algbw: Fraction | None = None,
    witness: Witness | None = None,
    limit: int = 1000,
) -> Report:
    """Check that each group performs its collective, and that the claims hold with all groups at once.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Of groups.
    schedule : GroupSchedule
    claimed_algbw, claimed_optimal_algbw : Fraction, optional
        Bytes/s of every group.
    witness : Witness, optional
    limit : int
        Most violations to describe; all are counted.

    Notes
    -----
    Each group's forests must be correct for its own collective (`Collective.member`): they span its ranks
    with shards in proportion, along paths through switches and declared forwarders and, only where the
    collective lets ranks forward, ranks of other groups. Switches copy and add nothing for groups, whatever
    they are capable of: a path that begins or ends at one is a violation.

    A unit of group g is 1 / R_g of the M bytes that every group moves, so a link carries the sum over g of
    load_g(e) / R_g, and algbw is the least b(e) over that sum: of the links, and of hosts with an injection
    cap. Time is that of the forests one after the other.
    """
    found = Findings(limit)
    if not _fits(collective, schedule, found):
        return found.report()
    check_compute_nodes(topology, collective, found)
    if found.total:
        return found.report()
    bound = check_bound(topology, collective, claimed_optimal_algbw, witness, found)
    n_claims = found.total
    plain = _without_operations(topology)
    loads: dict[int, Int64Array] = {}  # by R_g: groups that cut their data alike add up first
    heights = []
    for number, one in enumerate(schedule.groups):
        own = Findings(limit)
        member = collective.member(number)
        total = sum(one.root_multiplicity.tolist())  # Python ints: the array's own sum could wrap
        crossed = loads.get(total, np.zeros(topology.n_links, dtype=object))
        for forest in one.forests:
            check = ForestCheck(plain, member, forest, own)
            heights.append(check.run())
            crossed = crossed + check.link_loads()
        loads[total] = crossed
        found.adopt(f"group {number}", own)
    if found.total > n_claims:
        return found.report(bound=bound)
    units, load = _superposed(topology, loads)
    if units.bit_length() > _MAX_UNITS_BITS:
        found.add(
            ViolationKind.SHARES,
            f"the groups' units have no common part below 1 / 2**{_MAX_UNITS_BITS} of the data",
        )
        return found.report(bound=bound)
    algbw = algbw_of(topology, load, units)
    if claimed_algbw is not None and algbw != claimed_algbw:
        add_overloads(topology, load, units, claimed_algbw, found)
    check_algbw(algbw, claimed=claimed_algbw, bound=bound, found=found)
    return found.report(algbw=algbw, bound=bound, height_max=max(heights))


def _fits(collective: Collective, schedule: GroupSchedule, found: Findings) -> bool:
    """Whether the schedule is of as many groups, as large, as the collective."""
    if collective.groups is None:
        found.add(
            ViolationKind.SHAPE,
            f"the schedule is for {len(schedule.groups)} groups, the collective is one of all ranks",
        )
    elif schedule.kind is not collective.kind:
        found.add(ViolationKind.SHAPE, f"the schedule is for {schedule.kind}, not {collective.kind}")
    elif (len(schedule.groups), schedule.group_size) != (len(collective.groups), collective.group_size):
        found.add(
            ViolationKind.SHAPE,
            f"the schedule is for {len(schedule.groups)} groups of {schedule.group_size} ranks, the "
            f"collective has {len(collective.groups)} of {collective.group_size}",
        )
    return not found.total


def _without_operations(topology: Topology) -> Topology:
    """The fabric with switches that only pass on."""
    none = np.zeros(topology.n_nodes, dtype=bool)
    return replace(topology, multicast=none, aggregation=none, turns_round=none)


def _superposed(topology: Topology, loads: dict[int, Int64Array]) -> tuple[int, Int64Array]:
    """How many equal parts the data is cut into, and those that cross each link, as Python ints."""
    units = 1
    for total in loads:
        units = lcm(units, total)
        if units.bit_length() > _MAX_UNITS_BITS:
            return units, np.zeros(0, dtype=object)
    load = np.zeros(topology.n_links, dtype=object)
    for total, crossed in loads.items():
        load += crossed * (units // total)
    return units, load
