"""``treadle repair``: words, JSON, files and exit statuses."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.schedules.plan_files.archive import load_plan


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "two.plan"
    assert main(["solve", "dgx_a100_flat:2", "allgather", "--form", "factored", "-o", str(path), "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    return path


def test_words_say_what_the_failure_costs(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.plan"
    assert main(["repair", str(plan), "--link", "box0.gpu0--ib0", "-o", str(new)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for words in (
        "failed       box0.gpu0--ib0: 2 directed links lost\n",
        "before       optimum 346.67 GB/s algbw, 325 GB/s busbw\n",
        "15 of 16 shards must enter {box0.gpu0} over 325 GB/s\n",
        "after        optimum 320 GB/s algbw, 300 GB/s busbw\n",
        "over 300 GB/s\n",
        "loss         7.69% of the optimum\n",
        "algbw, 300 GB/s busbw, optimal",
        "verified     yes",
        f"plan         {new}",
    ):
        assert words in out
    assert load_plan(new).algbw == 320 * 10**9
    assert main(["verify", str(new), "--topology", load_plan(new).topology.name, "-q"]) == 0


def test_ranks_that_failed_and_plans_below_the_optimum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.plan"
    assert main(["solve", "dgx_a100:2", "allgather", "--trees", "1", "-o", str(path), "-q"]) == 0
    failed = ["--node", "box0.nic1", "--node", "box1.gpu7"]
    assert main(["repair", str(path), *failed]) == 0
    out = capsys.readouterr().out
    assert "failed       box0.nic1, box1.gpu7: 10 directed links, 1 rank lost\n" in out
    assert "collective   allgather, 15 ranks\n" in out
    assert "the plan " in out
    assert " of the plan's throughput\n" in out
    assert "trees        1 per root, 15 in total" in out


def test_json_has_both_sides(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new.plan"
    failed = ["--link", "box0.gpu0->ib0", "--link", "ib0->box0.gpu0", "--node", "box1.gpu3"]
    assert main(["repair", str(plan), *failed, "-o", str(new), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    values = json.loads(out)
    assert values["failed_links"] == ["box0.gpu0->ib0", "ib0->box0.gpu0"]
    assert values["failed_nodes"] == values["lost_ranks"] == ["box1.gpu3"]
    assert values["lost_links"] == 6
    assert values["ranks"] == 15
    assert values["before"]["ranks"] == 16
    assert values["before"]["witness"]["kind"] == values["witness"]["kind"] == "cut"
    assert values["before"]["piece_kinds"] >= 1
    assert Fraction(values["before"]["optimal_algbw_exact"]) == Fraction(1040 * 10**9, 3)
    assert values["verified"] is True
    assert values["plan"] == str(new)
    assert "failures" in values["seconds"]
    after, before = Fraction(values["optimal_algbw_exact"]) * 14 / 15, Fraction(325 * 10**9)
    assert values["optimum_loss"] == pytest.approx(float(1 - after / before))


@pytest.mark.parametrize(
    ("failed", "status", "words"),
    [
        ([], 2, "nothing failed"),
        (["--link", "box0.gpu0--box7.gpu0"], 2, "no node is called 'box7.gpu0'"),
        (["--node", "nobody"], 2, "no node is called 'nobody'"),
        (["--link", "box0.gpu0->ib0"], 3, "--trim"),
        (["--node", "ib0"], 3, "no link is left from ranks box0.gpu0"),
        (["--node", "box0.gpu0", "--algorithm", "alchemy"], 2, "alchemy"),
        (["--node", "box0.gpu0", "--form", "origami"], 2, "origami"),
        (["--node", "box0.gpu0", "--time-limit", "5"], 2, "time"),
    ],
)
def test_errors_are_one_line_and_write_nothing(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], failed: list[str], status: int, words: str
) -> None:
    new = tmp_path / "new.plan"
    assert main(["repair", str(plan), *failed, "-o", str(new)]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err
    assert not new.exists()


def test_files_that_are_no_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.plan"
    for content in (b"", b"PK\x03\x04", b"{}"):
        path.write_bytes(content)
        assert main(["repair", str(path), "--node", "n1"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["repair", str(tmp_path / "none.plan"), "--node", "n1"]) == 2
    assert "none.plan" in capsys.readouterr().err


def test_quiet_prints_nothing(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repair", str(plan), "--link", "box0.gpu0--ib0", "-q"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_rank_that_alone_holds_the_others_back_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its NVSwitch link a GPU has just its network card; the others do better without it."""
    whole = tmp_path / "whole.plan"
    assert main(["solve", "dgx_a100_flat(4)", "allgather", "-q", "-o", str(whole)]) == 0
    assert main(["repair", str(whole), "--link", "box3.gpu0--box3.nvswitch"]) == 0
    told = capsys.readouterr().out
    assert "box3.gpu0 alone limits the others; compare with --node box3.gpu0" in told
    assert "90.32% of the optimum" in told  # 1 - (25 / 31) / (200 / 24)
    for failed in (["--node", "box3.gpu0"], ["--link", "box3.gpu0--ib0"]):
        assert main(["repair", str(whole), *failed]) == 0
        assert "alone holds" not in capsys.readouterr().out
