"""Trees of all concurrent groups, from exact allocations of every link.

The optimum gives each group a share of every link that is balanced at all nodes between its members and
carries its data to each of them. By Edmonds' theorem and edge splitting such a share holds trees that use
no more of it, so that all groups together attain the optimum. Allocations become integral numbers of unit
trees first: to round them would leave nodes unbalanced. Source: dissertation, chapter 4 and appendix B.5,
which say it of one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Protocol

import numpy as np

from treadle.context import context, under
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import height_max
from treadle.schedules.trees.forest_transforms import coarsened, equalised, reverse
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.trees.groups.group_optimum import GroupAllocation, GroupOptimum
from treadle.synthesis.trees.groups.known_trees import forests_of_trees
from treadle.synthesis.trees.groups.unit_problems import count_units, unit_allocation, unit_problem
from treadle.synthesis.trees.pipeline import pack_forest
from treadle.synthesis.trees.tree_parts import schedule_of
from treadle.topologies.topology import Topology

_FEW_UNITS = 1000
"""Unit trees of each group that are packed in an instant."""


_SURE = 16
"""Times fewer units with which trees are fewer, too."""


class SharedOptimum(Protocol):
    """Source of allocations for packing; a `GroupOptimum` is one."""

    @property
    def families(self) -> tuple[bool, ...]:
        """Shares for out-trees (False) and in-trees (True)."""

    def allocation(self, group: int, *, reducing: bool | None = None) -> GroupAllocation:
        """Links that a group may use, and how much of each; all groups together fit the bandwidths."""


def group_forests(topology: Topology, collective: Collective, optimum: SharedOptimum) -> GroupSchedule:
    """Pack the trees of every group into its shares.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        In groups.
    optimum : SharedOptimum
        Shares of every group; together within the bandwidths.

    Returns
    -------
    GroupSchedule
        Attains the sum of each group's root rates. Groups whose shares are equal up to the numbers of nodes
        and links have equal trees.

    Raises
    ------
    ScheduleError
        If the collective is one over all ranks.
    InfeasibleError
        If a group needs more unit trees than can be counted; or if its shares do not hold its trees.
    TimeLimitError
        If the deadline passed.
    """
    if collective.groups is None:
        raise ScheduleError(f"{collective.kind} is one over all ranks; expected groups")
    packed: dict[tuple[bytes, ...], Forest] = {}
    found = []
    for group in range(len(collective.groups)):
        context().report("trees of groups", group, len(collective.groups))
        name, members = f"{topology.name}: group {group}", collective.member(group).ranks
        shares = [optimum.allocation(group, reducing=turned) for turned in optimum.families]
        units, forests = unit_allocation(name, shares), []
        for turned, share in zip(optimum.families, units.families, strict=True):
            problem = unit_problem(topology, members, units.roots, share, outward=not turned)
            if problem.key not in packed:
                # any kind with out-trees is right here: the roots have the multiplicities
                gather = Collective(CollectiveKind.ALLGATHER, tuple(range(len(problem.roots))))
                fabric = problem.fabric(topology, name)
                packed[problem.key] = pack_forest(fabric, gather, problem.roots.tolist())
            links = problem.links.astype(np.int32)
            placed = packed[problem.key].with_links(links.__getitem__)
            forests.append(reverse(placed) if turned else placed)
        found.append(_schedule(collective.kind, forests))
    return GroupSchedule(collective.kind, tuple(found))


def lean_forests(topology: Topology, collective: Collective, optimum: GroupOptimum) -> GroupSchedule:
    """Return trees of every group: those of the optimum, or trees packed into its shares, in few units.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        In groups.
    optimum : GroupOptimum

    Raises
    ------
    ScheduleError, InfeasibleError
        As `group_forests`.
    """
    if optimum.has_trees:
        return forests_of_trees(optimum)

    def leanness(schedule: GroupSchedule) -> tuple[int, int, int]:
        """Trees of all groups, the greatest height, and units of a group."""
        trees = sum(forest.n_trees for one in schedule.groups for forest in one.forests)
        units = max(one.total_units for one in schedule.groups)
        return trees, max(map(height_max, schedule.groups)), units

    # without time limit: packing takes less time than the optimum did, and there is no other forest
    packing = context().unlimited
    fewer = optimum.in_fewer_units()
    with under(packing):
        if fewer is None:
            return group_forests(topology, collective, optimum)
        found = group_forests(topology, collective, fewer)
        before, after = (
            count_units([one.allocation(0, reducing=turned) for turned in one.families])
            for one in (optimum, fewer)
        )
        if before > max(_FEW_UNITS, _SURE * after):
            return found
        return min((found, group_forests(topology, collective, optimum)), key=leanness)


def _schedule(kind: CollectiveKind, forests: Sequence[Forest]) -> ForestSchedule:
    """Return in-trees or out-trees, or both; units that are always used together become one."""
    grain = gcd(*(forest.grain for forest in forests))
    return schedule_of(kind, *(coarsened(forest, grain) for forest in forests))


def two_phases(scatter: GroupSchedule, gather: GroupSchedule) -> GroupSchedule:
    """Return the allreduce of all groups as their reduce-scatters, then their allgathers."""
    found = []
    for one, other in zip(scatter.groups, gather.groups, strict=True):
        assert one.reduce is not None
        assert other.broadcast is not None
        found.append(_schedule(CollectiveKind.ALLREDUCE, equalised(one.reduce, other.broadcast)))
    return GroupSchedule(CollectiveKind.ALLREDUCE, tuple(found))
