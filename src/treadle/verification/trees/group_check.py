"""Verifier of groups of ranks that communicate concurrently: the trees of each, and the loads of all.

Shares no code with the generators. `treadle.verification.schedules.verify` is the entry point.
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
from treadle.verification.claims import Claims, Verifier, check_compute_nodes, check_shape
from treadle.verification.trees.forest_check import check_forest
from treadle.verification.violations import Findings, Report, ViolationKind

_MAX_UNITS_BITS = 2**12
"""Maximum size of the common unit: loads are counted in the least common multiple of the groups' units."""


def verify_groups(
    topology: Topology,
    collective: Collective,
    schedule: GroupSchedule,
    **claims: Unpack[Claims],
) -> Report:
    """Check that each group performs its collective, and that the claims hold for concurrent groups.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        With groups.
    schedule : GroupSchedule
    **claims
        As in `treadle.verification.schedules.verify`; bytes/s are those of every group.

    Notes
    -----
    The forests of each group must be correct for its own collective (`Collective.member`): they span its
    ranks with proportional shards, along paths through switches and declared forwarders and, only if the
    collective lets ranks forward, ranks of other groups. Groups do not use in-network operations, whatever
    the switches support: a path that begins or ends at a switch is a violation.

    A unit of group g is 1 / R_g of the M bytes that every group moves, so a link carries the sum over g of
    load_g(e) / R_g, and algbw is the smallest b(e) over that sum: for links, and for hosts with an injection
    cap. Time is that of the forests one after the other.
    """

    def check(topology: Topology, collective: Collective, found: Findings) -> None:
        if _fits(collective, schedule, found):
            check_compute_nodes(topology, collective, found)

    judge = Verifier(topology, collective, check=check, **claims)
    if not judge.is_sound:
        return judge.report()
    none = np.zeros(topology.n_nodes, dtype=bool)
    plain = replace(topology, multicast=none, aggregation=none, turns_round=none)  # switches only forward
    loads: dict[int, Int64Array] = {}  # by R_g: the loads of groups with equal units are added first
    heights = []
    for number, group in enumerate(schedule.groups):
        found = Findings(judge.found.limit)
        total = sum(group.root_multiplicity.tolist())  # Python ints: the array's own sum could wrap
        for forest in group.forests:
            height, load = check_forest(plain, collective.member(number), forest, found)
            heights.append(height)
            loads[total] = loads.get(total, 0) + load
        judge.found.adopt(f"group {number}", found)
    if not judge.is_sound:
        return judge.report()
    units = 1
    for total in loads:
        units = lcm(units, total)
        if units.bit_length() > _MAX_UNITS_BITS:
            judge.found.add(
                ViolationKind.SHARES,
                f"the groups' units have no common part below 1 / 2**{_MAX_UNITS_BITS} of the data",
            )
            return judge.report()
    scaled = [load * (units // total) for total, load in loads.items()]
    return judge.report_loads(np.sum(scaled, axis=0), units, height_max=max(heights))


def _fits(collective: Collective, schedule: GroupSchedule, found: Findings) -> bool:
    """Whether the schedule has the kind, the number of groups and the group size of the collective."""
    if collective.groups is None:
        found.add(
            ViolationKind.SHAPE,
            f"the schedule is for {len(schedule.groups)} groups, the collective is one of all ranks",
        )
    elif not check_shape(collective, schedule, found):
        pass  # the violation is added
    elif (len(schedule.groups), schedule.group_size) != (len(collective.groups), collective.group_size):
        found.add(
            ViolationKind.SHAPE,
            f"the schedule is for {len(schedule.groups)} groups of {schedule.group_size} ranks, the "
            f"collective has {len(collective.groups)} of {collective.group_size}",
        )
    return not found.total
