"""Ranks in the order given: the numbering of meshes, weights, roots, demands and data."""

from __future__ import annotations

from pathlib import Path

from treadle.planning import make_problem, solve
from treadle.schedulers.third_party.placed_schedules import route_schedules
from treadle.schedules.plan_files.archive import save_plan


def test_a_plan_of_another_order_is_another_question(tmp_path: Path) -> None:
    save_plan(tmp_path / "turned.plan", solve("complete:4", "allgather", ranks=[1, 0, 2, 3]).plan)
    problems = [make_problem("complete:4", "allgather", ranks=ranks) for ranks in (None, "1,0,2-3")]
    placed = [route_schedules([tmp_path / "turned.plan"], problem)[0] for problem in problems]
    assert [one.report.is_ok for one in placed] == [False, True]
    assert "for other ranks" in placed[0].report.violations[0].message
