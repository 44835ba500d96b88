"""``treadle repair``: words, JSON, files and exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import main


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "two.plan"
    assert main(["solve", "dgx_a100_flat:2", "allgather", "--form", "factored", "-o", str(path), "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    return path


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
