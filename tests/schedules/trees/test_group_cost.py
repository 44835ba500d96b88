"""Throughput of groups at once: loads add up, link by link."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shortcuts.group_plans import random_groups, solved_alone
from treadle.errors import ScheduleError
from treadle.planning import solve
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.trees.forest_cost import algbw, group_algbw
from treadle.schedules.trees.group_schedule import GroupSchedule


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_loads_of_all_groups_add_up_link_by_link(kind: CollectiveKind) -> None:
    for seed in range(8):
        topology, _, schedule = random_groups(seed, kind)
        bytes_on = [Fraction(0)] * topology.n_links
        for one in schedule.groups:
            for forest in one.forests:
                for root in range(forest.n_ranks):
                    for tree in forest.trees(root):
                        for path, units in zip(tree.entry_path, tree.entry_units, strict=True):
                            for link in forest.path(int(path)).tolist():
                                bytes_on[link] += Fraction(int(units), one.total_units)
        times = [load / int(topology.bandwidths[link]) for link, load in enumerate(bytes_on)]
        assert group_algbw(topology, schedule) == 1 / max(times)


def test_groups_that_share_no_link_keep_their_own_rate() -> None:
    plan = solved_alone("dgx_a100:2", CollectiveKind.ALLGATHER, Mesh((2, 8), ("box", "gpu")), "gpu")
    schedule = plan.entries[0].schedule
    assert plan.algbw == min(algbw(plan.topology, one) for one in schedule.groups)


def test_groups_are_of_one_kind_and_size() -> None:
    three, four = (solve(f"ring:{n}", "allgather", trees=1).plan.entries[0].schedule for n in (3, 4))
    turned = solve("ring:3", "reduce-scatter", trees=1).plan.entries[0].schedule
    kind = CollectiveKind.ALLGATHER
    assert GroupSchedule(kind, (three, three)).n_ranks == 6
    for groups, said in (
        ((), "no group; expected at least one"),
        ((three, turned), "group 1 is for reduce-scatter, not allgather"),
        ((three, three, four), "group 2 has 4 ranks, the first 3"),
    ):
        with pytest.raises(ScheduleError) as caught:
            GroupSchedule(kind, groups)
        assert str(caught.value) == f"group schedule: {said}"
