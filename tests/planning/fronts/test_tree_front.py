"""Fronts of trees: verified points, none of them beaten; bounds of a height by exact pricing; pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.cli.main import main
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import make_problem, tree_front
from treadle.topologies import parse
from treadle.verification.schedules import verify


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_points(kind: str) -> None:
    problem = make_problem(in_boxes(2, 3), kind)
    front = tree_front(problem, trees=(1, 2))
    assert front.points
    for point in front.points:
        report = verify(problem.topology, problem.collective, point.schedule)
        assert report.is_ok
        assert report.algbw == point.algbw
        assert report.height_max == point.height
        assert set(point.schedule.root_multiplicity.tolist()) == {point.trees_per_root}
        assert point.most is None or point.algbw <= point.most
        for other in front.points:
            assert (
                other is point
                or other.height > point.height
                or other.trees_per_root > point.trees_per_root
                or other.algbw < point.algbw
            )
    last = max(front.points, key=lambda one: one.algbw)
    assert last.algbw == front.optimal_algbw
    assert front.certified(last)


def test_what_is_refused() -> None:
    ring = make_problem(parse("ring(6)"), "allgather")
    with pytest.raises(InfeasibleError, match="expected trees of height 2"):
        tree_front(ring, max_height=2)
    with pytest.raises(ScheduleError, match="expected trees and heights of at least 1"):
        tree_front(ring, trees=())
    with pytest.raises(ScheduleError, match="allreduce is not supported"):
        tree_front(make_problem(parse("ring(4)"), "allreduce"))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pareto", "dgx_a100(2, gpus_per_box=2)", "allgather", "--trees", "1,2"]
    assert main([*command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [point["height"] for point in values["points"]] == sorted(p["height"] for p in values["points"])
    assert max(point["share_of_bound"] for point in values["points"]) == 1.0
    target = tmp_path / "front.svg"
    assert main([*command, "--picture", str(target)]) == 0
    assert target.read_bytes().startswith(b"<?xml")
    assert f"plot {target}" in " ".join(capsys.readouterr().out.split())
