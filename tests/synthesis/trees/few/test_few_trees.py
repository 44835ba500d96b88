"""Few and low trees: verified, within the height, against exact pricing by brute force, moved data, files."""

from __future__ import annotations

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import run, solve
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.synthesis.trees.few.bounded_height_lp import BoundedHeightLp
from treadle.synthesis.trees.few.fixed_k import fixed_k_trees
from treadle.synthesis.trees.instance import instance_of
from treadle.topologies import parse

K = CollectiveKind


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 9, 12])
def test_any_number_of_ranks(n: int) -> None:
    fabric = parse(f"complete({n})") if n % 2 else in_boxes(2, n // 2)
    found = solve(fabric, "allreduce", algorithm="few-trees", height=2)
    assert found.report.is_ok
    assert not any(row.wrong for row in run(found.plan, [4 * 13], iterations=1).rows)


def test_what_is_refused() -> None:
    ring = parse("ring(6)")
    with pytest.raises(InfeasibleError, match="some rank is 3 hops from a root, expected trees of height 2"):
        solve(ring, "allgather", algorithm="few-trees", height=2)
    with pytest.raises(ScheduleError, match="few-trees: height 0, expected at least 1"):
        solve(ring, "allgather", algorithm="few-trees", height=0)
    with pytest.raises(ScheduleError, match="few-trees: trees 0, expected at least 1"):
        fixed_k_trees(ring, on_all_ranks(ring, K.ALLGATHER), trees=0)
    too_many = r"few-trees: 18000 unit trees within a height, at most 16384 are chosen; use fewer --trees"
    with pytest.raises(ScheduleError, match=too_many):
        fixed_k_trees(ring, on_all_ranks(ring, K.ALLGATHER), trees=3000, height=3)
    program = BoundedHeightLp(instance_of(ring, on_all_ranks(ring, K.ALLGATHER)), 3)
    assert program.add_at(np.ones(12))[0] > 0
    assert program.add_at(np.ones(12))[0] == 0  # known already


def test_plan_files_keep_what_was_asked() -> None:
    plan = solve(in_boxes(2, 2), "allgather", algorithm="few-trees", trees=2, height=2).plan
    assert parse_plan(dump_plan(plan), source="test") == plan
    assert plan.provenance["asked_height"] == 2
