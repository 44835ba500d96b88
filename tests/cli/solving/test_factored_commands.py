"""Commands on factored plans: what they print, and their exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import main

SMALL = "dgx_a100(3, gpus_per_box=4)"


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "plan"
    assert main(["solve", SMALL, "allgather", "--form", "factored", "--explain", "-o", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "4 subproblems of 2 classes in 1 component, nested 2 levels deep" in printed
    assert "tight cuts   2 kinds of subproblems: 1 of 3 children by circulant trees" in printed
    return path


def test_a_rank_is_lowered_and_verified(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "part.xml"
    assert main(["lower", str(plan), "--to", "cpu-xml", "--rank", "11", "-o", str(part)]) == 0
    assert "rank 11 alone; not yet loaded by" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", str(part)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "cpu-xml, part of rank 11 of 12" in printed
    assert "checked allgather: this rank alone" in printed
    text = part.read_text().replace("<sync/>", "")
    part.write_text(text)
    assert main(["verify", str(part)]) == 1


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--to", "cpu-xml", "--rank", "12"], 2, "rank 12: expected 0 to 11"),
        (["--to", "msccl-xml", "--rank", "0"], 2, "--rank is for chakra and cpu-xml"),
        (["--to", "cpu-xml", "--rank", "-1"], 2, "--rank"),
    ],
)
def test_ranks_that_cannot_be(
    plan: Path, words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lower", str(plan), *words]) == status
    caught = capsys.readouterr()
    assert said in caught.err
    assert caught.out == ""
