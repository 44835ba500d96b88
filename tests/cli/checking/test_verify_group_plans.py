"""``treadle verify`` of groups at once, and commands that know one group."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import places
from treadle.cli.main import main
from treadle.planning import model_of, verify
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.topologies import Topology, parse, with_failed_links

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


def test_lies_are_found_and_their_group_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = load_plan(KEPT[0])
    for wrong in (
        replace(plan, algbw=plan.algbw + 1),
        replace(plan, optimal_algbw=plan.algbw, certificate=GroupDualCertificate((Fraction(1),) * 24)),
        replace(plan, collective=replace(plan.collective, groups=((0, 1), (2, 3), (4, 5), (6, 7)))),
    ):
        save_plan(tmp_path / "plan", wrong)
        assert main(["verify", str(tmp_path / "plan"), "--json"]) == 1
        value = json.loads(capsys.readouterr().out)
        assert not value["verified"]
    assert all(": group " in line for line in value["violations"])


def test_a_trusted_fabric_without_a_link_is_no_fabric_for_the_plan() -> None:
    plan = load_plan(KEPT[0])
    less = with_failed_links(plan.topology, "leaf0--spine0", "leaf1--spine1")
    result = verify(plan, less)
    assert not result.is_ok
    assert "link" in result.report.violations[0].message


def test_nodes_of_the_plan_are_found_by_name() -> None:
    """The same fabric, its nodes and links numbered the other way round."""
    plan = load_plan(KEPT[0])
    old = plan.topology
    last = old.n_nodes - 1
    turned = Topology(
        "turned",
        old.node_names[::-1],
        old.is_compute[::-1],
        last - old.tails[::-1],
        last - old.heads[::-1],
        old.bandwidths[::-1],
    )
    result = verify(plan, turned)
    assert result.is_ok
    assert result.report.algbw == plan.algbw


def test_plans_of_groups_stand_beside_no_schedule_of_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    fabric = load_plan(KEPT[0]).topology.name
    assert main(["compare", fabric, "allgather", "--with", str(KEPT[0]), "--json"]) in (0, 1)
    assert "the plan is for other ranks, groups, weights or demands" in capsys.readouterr().out


def test_the_model_says_that_switches_do_nothing_for_groups() -> None:
    fabric = parse("dgx_h100:1")
    capable = replace(fabric, multicast=~fabric.is_compute, aggregation=~fabric.is_compute)
    pairs = ((0, 1), (2, 3), (4, 5), (6, 7))
    said = {
        kind: model_of(capable, Collective(kind, tuple(range(8)), groups=pairs))
        for kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
    }
    assert list(said.values()) == [
        "allgather in groups, without in-network multicast",
        "reduce-scatter in groups, without in-network aggregation",
        "allreduce in groups, without in-network multicast and aggregation",
    ]
    assert model_of(capable, Collective(CollectiveKind.ALLGATHER, tuple(range(8)))) == ""
