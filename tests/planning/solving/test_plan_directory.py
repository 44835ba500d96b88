"""Directories of plans: what is found, and what damaged, false and hostile files do."""

import json
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from shortcuts.group_plans import solved_alone
from treadle.errors import FormatError
from treadle.inputs.problem import make_problem
from treadle.planning import solve, verify
from treadle.schedulers import plan_directory
from treadle.schedulers.plan_directory import find_group_plans, find_plans, has_gap, index_plans
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies import parse, topology_hash


@pytest.fixture(scope="module")
def ring_plan() -> Plan:
    return solve("ring:4", "allgather").plan


def test_plans_are_found_by_fabric_collective_and_root(tmp_path: Path, ring_plan: Plan) -> None:
    save_plan(tmp_path / "ring.plan", ring_plan)
    save_plan(tmp_path / "root2.plan", solve("ring:4", "broadcast", root=2).plan)
    (tmp_path / "notes.txt").write_text("no plan")
    index = index_plans(tmp_path)
    assert index.problems == ()
    assert [listing.path.name for listing in index.listings] == ["ring.plan", "root2.plan"]
    assert index.listings[0].topology_sha256 == topology_hash(parse("ring:4"))
    assert index.listings[0].sizes == ((0, None),)
    for fabric, kind, root, names in (
        ("ring:4", "allgather", None, ["ring.plan"]),
        ("ring:4", "reduce-scatter", None, []),
        ("ring:4", "broadcast", 2, ["root2.plan"]),
        ("ring:4", "broadcast", 1, []),
        ("complete:4", "allgather", None, []),
    ):
        problem = make_problem(fabric, kind, root=root)
        found = find_plans(index, problem.topology, problem.collective)
        assert [path.name for path, _ in found.plans] == names, (fabric, kind, root)
        assert found.problems == ()


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


def test_damaged_files_are_problems_and_the_rest_is_used(tmp_path: Path, ring_plan: Plan) -> None:
    save_plan(tmp_path / "good.plan", ring_plan)
    content = (tmp_path / "good.plan").read_bytes()
    (tmp_path / "short.plan").write_bytes(content[: len(content) // 2])
    (tmp_path / "flipped.plan").write_bytes(content[:60] + b"\xff" * 40 + content[100:])
    (tmp_path / "folder.plan").mkdir()
    index = index_plans(tmp_path)
    assert [listing.path.name for listing in index.listings] == ["good.plan"]
    assert len(index.problems) == 3
    assert all("\n" not in line for line in index.problems)


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


def test_a_group_finds_its_part_of_a_plan_of_all_groups(tmp_path: Path) -> None:
    kind, root = CollectiveKind.BROADCAST, 1
    plan = solved_alone("torus:2,4", kind, Mesh((2, 4), ("dp", "tp")), "tp", root=root)
    save_plan(tmp_path / "all.plan", plan)
    index = index_plans(tmp_path / "all.plan")
    assert index == index_plans(tmp_path)
    schedule = plan.entries[0].schedule
    assert isinstance(schedule, GroupSchedule)
    for number, nodes in enumerate(((0, 1, 2, 3), (4, 5, 6, 7))):
        wanted = Collective(kind, nodes, root=root)
        found = find_group_plans(index, plan.topology, wanted)
        ((path, part),) = found.plans
        assert path == tmp_path / "all.plan"
        assert part.collective.ranks == nodes
        assert part.entries[0].schedule == schedule.groups[number]
        assert verify(part).is_ok
    for other in (
        Collective(kind, (0, 1, 2, 3), root=0),
        Collective(kind, (1, 0, 2, 3), root=1),
        Collective(CollectiveKind.REDUCE, (0, 1, 2, 3), root=1),
        Collective(kind, (0, 1, 2, 3, 4, 5, 6, 7), root=1),
    ):
        assert find_group_plans(index, plan.topology, other).plans == ()
    assert find_group_plans(index, parse("torus:4,2"), wanted).plans == ()
    everything = Collective(kind, tuple(range(8)), root=1)
    assert find_plans(index, plan.topology, everything).plans == ()


def test_a_false_plan_of_groups_is_left_out(tmp_path: Path) -> None:
    plan = solved_alone("torus:2,4", CollectiveKind.ALLGATHER, Mesh((2, 4), ("dp", "tp")), "tp")
    save_plan(tmp_path / "false.plan", replace(plan, algbw=plan.algbw * 2))
    found = find_group_plans(
        index_plans(tmp_path), plan.topology, Collective(CollectiveKind.ALLGATHER, (0, 1, 2, 3))
    )
    assert found.plans == ()
    assert "fails verification" in found.problems[0]
