"""Fronts of trees: verified points, none of them beaten; bounds of a height by exact pricing; pictures."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes, linked_boxes
from treadle.cli.main import main
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import make_problem, tree_front
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees.few.bounded_height_lp import bounded_height_trees
from treadle.synthesis.trees.few.height_bound import bounded, least_tree
from treadle.synthesis.trees.instance import instance_of
from treadle.topologies import parse
from treadle.verification.schedules import verify


def tree_costs(cost: np.ndarray, root: int, height: int) -> list[int]:
    """Of all spanning out-trees within the height."""
    n, found = len(cost), []
    for above in product(range(n), repeat=n - 1):
        parent = [*above[:root], -1, *above[root:]]
        for rank in range(n):
            at, hops = rank, 0
            while at != root and hops <= height:
                at, hops = parent[at], hops + 1
            if hops > height:
                break
        else:
            found.append(int(sum(cost[parent[rank], rank] for rank in range(n) if rank != root)))
    return found


def test_cheapest_trees_by_branch_and_bound() -> None:
    chance = np.random.default_rng(8)
    for _ in range(10):
        cost, root, height = chance.integers(0, 30, (5, 5)).astype(float), int(chance.integers(5)), 2
        np.fill_diagonal(cost, np.inf)
        least, parent = least_tree(cost, root, height)
        assert least == min(tree_costs(cost, root, height))
        assert parent is not None
        assert sum(int(cost[parent[rank], rank]) for rank in range(5) if rank != root) == least
    far = np.full((3, 3), np.inf)
    far[0, 1] = far[1, 2] = 1.0
    assert least_tree(far, 0, 1) == (0, None)  # no bound where there is no tree


def test_bounds_of_a_height_meet_the_trees() -> None:
    """Four GPUs in two boxes of direct links: straight to all, and in two hops."""
    for fabric, height in ((linked_boxes(2, 3), 1), (in_boxes(2, 2), 1), (parse("ring(5)"), 2)):
        problem = instance_of(fabric, on_all_ranks(fabric, CollectiveKind.ALLGATHER))
        found = bounded(bounded_height_trees(problem, height))
        assert found is not None
        attained = float(problem.bandwidths.max()) / found.found.time
        assert attained <= float(found.rate) * (1 + 1e-9)
        assert float(found.rate) <= attained * 1.01


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
