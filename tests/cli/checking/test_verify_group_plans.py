"""``treadle verify`` of groups at once, and commands that know one group."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import places
from treadle.cli.main import main
from treadle.planning import verify
from treadle.schedules.plan_files.archive import load_plan
from treadle.topologies import with_failed_links

KEPT = sorted((places.GOLDEN / "plans").glob("v2-groups-*.plan"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_plans_of_groups_are_verified(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(path)]) == 0
    assert (
        "verified     yes: all trees span, all paths exist, link loads and claims are exact"
        in capsys.readouterr().out
    )
    fabric = load_plan(path).topology.name
    assert main(["verify", str(path), "--topology", fabric, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["verified"]
    assert not value["topology_embedded"]
    assert main(["verify", str(path), "--topology", "ring:5"]) == 1
    told = capsys.readouterr().out
    assert "verified     NO: " in told
    assert ", which ring(5) does not have" in told


def test_a_trusted_fabric_without_a_link_is_no_fabric_for_the_plan() -> None:
    plan = load_plan(KEPT[0])
    less = with_failed_links(plan.topology, "leaf0--spine0", "leaf1--spine1")
    result = verify(plan, less)
    assert not result.is_ok
    assert "link" in result.report.violations[0].message


def test_plans_of_groups_stand_beside_no_schedule_of_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    fabric = load_plan(KEPT[0]).topology.name
    assert main(["compare", fabric, "allgather", "--with", str(KEPT[0]), "--json"]) in (0, 1)
    assert "the plan is for other ranks, groups, weights or demands" in capsys.readouterr().out
