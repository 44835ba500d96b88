"""Judge of groups of ranks that communicate at once: each group's trees, and the loads of all together.

Shares no code with the generators; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import Unpack

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_compute_nodes
from treadle.verification.trees.forest_check import ForestCheck
from treadle.verification.violations import Findings, Report, ViolationKind

_MAX_UNITS_BITS = 2**12
"""Of the units that all groups' units are whole numbers of: loads are counted in them, link by link."""


def verify_groups(
    topology: Topology,
    collective: Collective,
    schedule: GroupSchedule,
    **claims: Unpack[Claims],
) -> Report:
    """Check that each group performs its collective, and that the claims hold with all groups at once.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Of groups.
    schedule : GroupSchedule
    **claims
        As in `treadle.verification.schedules.verify`; bytes/s are those of every group.

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

    def check(topology: Topology, collective: Collective, found: Findings) -> None:
        if _fits(collective, schedule, found):
            check_compute_nodes(topology, collective, found)

    judge = Verifier(topology, collective, check=check, **claims)
    found = judge.found
    if not judge.is_sound:
        return judge.report()
    none = np.zeros(topology.n_nodes, dtype=bool)
    plain = replace(topology, multicast=none, aggregation=none, turns_round=none)  # switches only pass on
    loads: dict[int, Int64Array] = {}  # by R_g: groups that cut their data alike add up first
    heights = []
    for number, one in enumerate(schedule.groups):
        own = Findings(found.limit)
        member = collective.member(number)
        total = sum(one.root_multiplicity.tolist())  # Python ints: the array's own sum could wrap
        crossed = loads.get(total, np.zeros(topology.n_links, dtype=object))
        for forest in one.forests:
            forest_check = ForestCheck(plain, member, forest, own)
            heights.append(forest_check.run())
            crossed = crossed + forest_check.link_loads()
        loads[total] = crossed
        found.adopt(f"group {number}", own)
    if not judge.is_sound:
        return judge.report()
    units, load = _superposed(topology, loads)
    if units.bit_length() > _MAX_UNITS_BITS:
        found.add(
            ViolationKind.SHARES,
            f"the groups' units have no common part below 1 / 2**{_MAX_UNITS_BITS} of the data",
        )
        return judge.report()
    return judge.report_loads(load, units, height_max=max(heights))


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
