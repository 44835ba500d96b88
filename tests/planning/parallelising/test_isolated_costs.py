"""Costs axis by axis and group by group, against true ones."""

from __future__ import annotations

import pytest

from treadle.parallelism.searching.fabric_matrix import IsolatedCosts
from treadle.planning import step_costs
from treadle.schedules.collective import CollectiveKind

SIZE = 2**28


def test_boxes_alone_are_boxes_together() -> None:
    """On DGX boxes groups of an aligned mesh do not meet; only fusing over both axes is lost."""
    true = step_costs("dgx_h100:4", "4,8", alpha_s=0, simulates=False)
    isolated = IsolatedCosts(true)
    for axis in ("0", "1"):
        for kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLTOALL):
            assert isolated.time_s(kind, (axis,), SIZE) == pytest.approx(
                true.time_s(kind, (axis,), SIZE), rel=5e-3
            )
    fused = isolated.time_s(CollectiveKind.ALLGATHER, ("0", "1"), SIZE)
    slow = isolated.time_s(CollectiveKind.ALLGATHER, ("0",), SIZE / 8)
    assert fused == pytest.approx(slow + isolated.time_s(CollectiveKind.ALLGATHER, ("1",), SIZE))
    assert fused > 1.3 * true.time_s(CollectiveKind.ALLGATHER, ("0", "1"), SIZE)


def test_groups_that_share_links_seem_faster_alone() -> None:
    """Four groups across an oversubscribed leaf-spine share its uplinks."""
    true = step_costs(
        "leaf_spine(4, 1, gpus_per_leaf=4, oversubscription=4)", "4,4", alpha_s=0, simulates=False
    )
    isolated = IsolatedCosts(true)
    together = true.time_s(CollectiveKind.ALLGATHER, ("0",), SIZE)
    assert together == pytest.approx(4 * isolated.time_s(CollectiveKind.ALLGATHER, ("0",), SIZE))


def test_nothing_is_sent_along_axes_of_one_rank() -> None:
    isolated = IsolatedCosts(step_costs("ring:4", "1,4"))
    for kind in (CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE):
        assert isolated.time_s(kind, ("0",), SIZE) == 0
        assert isolated.time_s(kind, ("0", "1"), SIZE) == isolated.time_s(kind, ("1",), SIZE) > 0
    assert isolated.slowdowns(((CollectiveKind.ALLGATHER, ("1",)),) * 2) == (1.0, 1.0)
