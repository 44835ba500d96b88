"""Throughput of groups at once: loads add up, link by link."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shortcuts.group_plans import random_groups, solved_alone
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.trees.forest_cost import algbw
from treadle.schedules.trees.group_cost import group_algbw


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
