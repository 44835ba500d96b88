"""Directories of plans: what is found, and what damaged, false and hostile files do."""

import json
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.inputs.problem import make_problem
from treadle.planning import solve
from treadle.schedulers import plan_directory
from treadle.schedulers.plan_directory import find_plans, has_gap, index_plans
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan


@pytest.fixture(scope="module")
def ring_plan() -> Plan:
    return solve("ring:4", "allgather").plan


def test_other_weights_or_ranks_are_another_question(tmp_path: Path) -> None:
    save_plan(tmp_path / "weights.plan", solve("ring:4", "allgather", weights=[1, 2, 1, 2]).plan)
    save_plan(tmp_path / "part.plan", solve("ring:4", "allgather", ranks=[0, 1, 2], forward=True).plan)
    problem = make_problem("ring:4", "allgather")
    assert find_plans(index_plans(tmp_path), problem.topology, problem.collective).plans == ()


def test_a_plan_that_claims_too_much_is_left_out(tmp_path: Path, ring_plan: Plan) -> None:
    save_plan(tmp_path / "false.plan", replace(ring_plan, algbw=ring_plan.algbw * Fraction(2)))
    problem = make_problem("ring:4", "allgather")
    found = find_plans(index_plans(tmp_path), problem.topology, problem.collective)
    assert found.plans == ()
    assert len(found.problems) == 1
    assert "false.plan: fails verification" in found.problems[0]


def test_a_listing_is_no_more_than_a_claim(tmp_path: Path, ring_plan: Plan) -> None:
    """A manifest that says another collective than the arrays hold."""
    save_plan(tmp_path / "plan.plan", ring_plan)
    problem = make_problem("ring:4", "reduce-scatter")
    listing = replace(index_plans(tmp_path).listings[0], kind=CollectiveKind.REDUCE_SCATTER)
    index = plan_directory.PlanIndex((listing,), ())
    assert find_plans(index, problem.topology, problem.collective).plans == ()


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{}",
        '{"treadle": "topology"}',
        '{"treadle": "plan", "topology_sha256": 1}',
        '{"treadle": "plan", "topology_sha256": "x", "collective": [], "entries": []}',
        '{"treadle": "plan", "topology_sha256": "x", "collective": {"kind": "nothing"}, "entries": []}',
        json.dumps(
            {
                "treadle": "plan",
                "topology_sha256": "x",
                "collective": {"kind": "allgather", "ranks": [2**70], "root": None},
                "entries": [],
            }
        ),
        json.dumps(
            {
                "treadle": "plan",
                "topology_sha256": "x",
                "collective": {"kind": "allgather", "ranks": [0, 1], "root": None},
                "entries": [{"min_bytes": "0"}],
            }
        ),
        "[" * 100_000,
    ],
)
def test_strange_manifests_are_one_line_each(tmp_path: Path, manifest: str) -> None:
    with zipfile.ZipFile(tmp_path / "strange.plan", "w") as archive:
        archive.writestr("manifest.json", manifest)
    index = index_plans(tmp_path)
    assert index.listings == ()
    assert len(index.problems) == 1
    assert index.problems[0].startswith(str(tmp_path / "strange.plan"))
    assert "\n" not in index.problems[0]


def test_directories_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="no readable directory of plans"):
        index_plans(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match="no readable directory of plans"):
        index_plans(tmp_path / "file")
    monkeypatch.setattr(plan_directory, "MAX_FILES", 1)
    for name in ("a.plan", "b.plan"):
        (tmp_path / name).touch()
    with pytest.raises(FormatError, match="2 plan files, at most 1"):
        index_plans(tmp_path)


def test_gaps_between_sizes() -> None:
    assert has_gap([])
    assert has_gap([(1, None)])
    assert has_gap([(0, 10)])
    assert not has_gap([(5, None), (0, 7)])
    assert not has_gap([(0, 9), (10, None)])
    assert has_gap([(0, 9), (11, None)])
