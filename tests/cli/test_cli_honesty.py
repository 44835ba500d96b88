"""What the commands say of claims that are false, of models, and of text that falls short of its plan."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import main
from treadle.render.quantities import counted
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.plan_files.archive import load_plan, save_plan

LOPSIDED = 'with_failed_links(dgx_a100(2, gpus_per_box=2), "box0.gpu0->box0.nvswitch")'


def solved(tmp_path: Path, *argv: str) -> Path:
    path = tmp_path / "solved.plan"
    assert main(["solve", *argv, "-o", str(path), "-q"]) == 0
    return path


def edited(path: Path, **changes: Any) -> Path:
    save_plan(path, dataclasses.replace(load_plan(path), **changes))
    return path


def json_of(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> dict[str, Any]:
    assert main([*argv, "--json"]) == status
    value = json.loads(capsys.readouterr().out)
    assert isinstance(value, dict)
    return value


def test_a_witness_with_unknown_nodes_is_a_violation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = edited(solved(tmp_path, "ring:4", "allgather"), certificate=BottleneckCut((0, 99999)))
    values = json_of(capsys, "verify", str(plan), status=1)
    assert values["witness"]["nodes"] == ["n0", 99999]
    assert any("the cut names a node beyond" in violation for violation in values["violations"])


def test_verify_says_how_far_from_its_bound_a_plan_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = solved(tmp_path, "dgx_a100:2", "allgather", "--algorithm", "ring")
    values = json_of(capsys, "verify", str(plan))
    assert values["optimal"] is None
    assert values["gap"] == pytest.approx(1 - 640 / 1040)


def test_an_allreduce_names_its_model_by_the_fabric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = edited(solved(tmp_path, "ring:4", "allreduce"), provenance={"model": "with warp drive"})
    model = "allreduce without in-network multicast and aggregation"
    assert json_of(capsys, "verify", str(plan))["model"] == model
    assert json_of(capsys, "run", str(plan), "--size", "1K", "--iterations", "1")["model"] == model
    assert json_of(capsys, "compare", "ring:4", "allreduce", "--algorithms", "ring")["model"] == model
    for command in (["verify"], ["run", "--size", "1K", "--iterations", "1"]):
        assert main([command[0], str(plan), *command[1:]]) == 0
        out = capsys.readouterr().out
        assert "allreduce, 4 ranks; no in-network reduction (SHARP, NVLS)" in out
        assert "warp" not in out
    capable = json_of(capsys, "bound", "dgx_h100(1, nvls=True)", "allreduce")
    assert capable["model"] == "allreduce with in-network multicast and aggregation, for ranks that ask"
    for fabric, how in (
        ("dgx_h100(2, sharp=True)", ""),
        ("dgx_h100(2, nvls=True, sharp=True)", ", by themselves or for ranks that ask"),
    ):
        model = json_of(capsys, "bound", fabric, "allreduce")["model"]
        assert model == f"allreduce with in-network multicast and aggregation{how}"


def test_compare_chooses_readable_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "ring:4", "allgather", "--algorithms", "forestcoll,ring"]) == 0
    out = capsys.readouterr().out
    assert "2.67 B/s" in out
    assert "0.00 " not in out.split("verified")[0]


def test_compare_can_trim(capsys: pytest.CaptureFixture[str]) -> None:
    refused = json_of(capsys, "compare", LOPSIDED, "allgather", "--algorithms", "forestcoll")
    assert "--trim" in refused["schedules"][0]["refusal"]
    values = json_of(capsys, "compare", LOPSIDED, "allgather", "--algorithms", "forestcoll", "--trim")
    assert values["schedules"][0]["verified"] is True


def test_numbers_agree_with_their_nouns() -> None:
    assert [counted(1, "switch"), counted(2, "switch"), counted(0, "tree")] == [
        "1 switch",
        "2 switches",
        "0 trees",
    ]


def test_no_hint_where_nothing_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "ring:3", "allgather", "--trees", "1000"]) == 0
    assert "--exact" not in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "lower"])
def test_plans_with_false_claims_are_not_used(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = edited(solved(tmp_path, "ring:4", "allgather"), algbw=Fraction(400 * 10**9))
    xml = tmp_path / "x.xml"
    argv = [command, str(plan), *(["-o", str(xml)] if command == "lower" else ["--size", "1K"])]
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "fails verification" in err
    assert not xml.exists()


def test_lowered_text_disclaims_what_only_switches_can_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = solved(tmp_path, "dgx_h100(1, nvls=True)", "allreduce")
    xml = str(tmp_path / "x.xml")
    assert main(["lower", str(plan), "-o", xml]) == 0
    out = capsys.readouterr().out
    assert "sends point to point where the plan leaves copies or reductions to switches" in " ".join(
        out.split()
    )
    assert "400 GB/s do not hold" in " ".join(out.split())
    assert main(["lower", str(plan)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("<algo ")
    assert "point to point" in err
    values = json_of(capsys, "lower", str(plan), "-o", xml)
    assert values["in_network_sends"] > 0
    assert 0 < values["point_to_point_algbw_bytes_per_s"] < values["algbw_bytes_per_s"]
    assert main(["run", str(plan), "--size", "1K", "--iterations", "1"]) == 0
    assert "400 GB/s do not hold" in " ".join(capsys.readouterr().out.split())
    values = json_of(capsys, "run", str(plan), "--size", "1K", "--iterations", "1")
    assert values["in_network_sends"] > 0


def test_plans_without_in_network_work_hold_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = solved(tmp_path, "dgx_a100(2, gpus_per_box=2)", "allreduce")
    values = json_of(capsys, "lower", str(plan), "-o", str(tmp_path / "x.xml"))
    assert values["in_network_sends"] == 0
    assert "point_to_point_algbw_exact" not in values
    assert main(["lower", str(plan), "-o", str(tmp_path / "x.xml")]) == 0
    assert "point to point" not in capsys.readouterr().out


def test_point_to_point_algbw_is_that_of_the_unpruned_trees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # one switch: the completed routes are the only ones, so they are those from before the pruning
    fabric = "dgx_h100(4, 1, sharp=True)"
    before = json_of(capsys, "solve", fabric, "allgather")
    plan = solved(tmp_path, fabric, "allgather", "--multicast")
    values = json_of(capsys, "lower", str(plan), "-o", str(tmp_path / "x.xml"))
    assert values["point_to_point_algbw_exact"] == before["algbw_exact"]


def test_a_run_that_moves_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = solved(tmp_path, "ring:4", "allgather")
    assert main(["run", str(plan), "--size", "3B", "--iterations", "1"]) == 0
    out = capsys.readouterr().out
    assert "nothing was moved" in out
    assert "every element" not in out


def test_plans_of_some_ranks_verify_against_the_whole_fabric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = solved(tmp_path, "dgx_a100:2", "allgather", "--ranks", "0-2")
    values = json_of(capsys, "verify", str(plan), "--topology", "dgx_a100:2")
    assert values["verified"] is True
    assert values["absent_compute_nodes"] == 13
    assert main(["verify", str(plan), "--topology", "dgx_a100:2"]) == 0
    assert "13 compute nodes of this topology are not in the plan" in capsys.readouterr().out
    weaker = 'dgx_a100(2, nvlink_bandwidth="100GB/s")'
    assert json_of(capsys, "verify", str(plan), "--topology", weaker, status=1)["verified"] is False


def test_nodes_that_are_absent_from_a_plan_of_another_fabric_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both rings have n0 to n3; so has the complete graph, where the plan even holds."""
    plan = solved(tmp_path, "complete:4", "allgather")
    for fabric, status in (("ring:5", 1), ("complete:6", 0)):
        assert main(["verify", str(plan), "--topology", fabric, "--json"]) == status
        out, err = capsys.readouterr()
        name = fabric.replace(":", "(") + ")"
        absent = "n4, which it lacks, counts" if status else "n4, n5, which it lacks, count"
        note = f"the plan is for complete(4), not for {name}: {absent} as absent"
        assert err == f"treadle: warning: {note}\n"
        assert json.loads(out)["notes"] == [note]
        assert main(["verify", str(plan), "--topology", fabric, "-q"]) == status
        assert capsys.readouterr() == ("", "")
    part = solved(tmp_path, "complete:6", "allgather", "--ranks", "0-3")
    assert main(["verify", str(part), "--topology", "complete:6"]) == 0
    assert capsys.readouterr().err == ""


def test_a_late_bound_has_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "dgx_a100:2", "allreduce", "--time-limit", "1ns", "--json"]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "time limit" in err


def test_saturated_links_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    # the optimum of two boxes keeps every GPU's 300 + 25 GB/s busy
    assert main(["solve", "dgx_a100:2", "allgather", "--exact"]) == 0
    assert "saturated    all 96 links" in capsys.readouterr().out
    assert main(["solve", 'with_failed_links(ring(3), "n2--n0")', "broadcast"]) == 0
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("saturated"))
    assert line == "saturated    2 of 4 links n -> n (1 B/s)"


def test_lower_counts_what_its_limits_are_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, xml = solved(tmp_path, "ring:4", "allgather"), tmp_path / "x.xml"
    values = json_of(capsys, "lower", str(plan), "-o", str(xml))
    text = xml.read_text()
    assert values["steps"] == text.count("<step ") > 0
    assert values["thread_blocks"] == text.count("</tb>") > 0
