"""What the commands say of claims that are false, of models, and of text that falls short of its plan."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import main
from treadle.cli.quantities import counted
from treadle.schedules.files import load_plan, save_plan
from treadle.schedules.witness import CutWitness

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
    plan = edited(solved(tmp_path, "ring:4", "allgather"), witness=CutWitness((0, 99999)))
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
        assert model in out
        assert "warp" not in out
    capable = json_of(capsys, "bound", "dgx_h100(1, nvls=True)", "allreduce")
    assert capable["model"] == "allreduce with in-network multicast and aggregation"


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
