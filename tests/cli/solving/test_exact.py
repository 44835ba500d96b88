"""``treadle solve --algorithm exact`` and ``treadle pareto`` as a user types them."""

from __future__ import annotations

import json

import pytest

from treadle.cli.main import main

pytest.importorskip("ortools")


def test_allreduce_without_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "hypercube:2", "allreduce", "--algorithm", "exact", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["steps"], values["t_b_exact"], values["optimal"]) == (4, "3/2", True)


def test_front_of_modified_de_bruijn(capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer steps or more bandwidth: 3 steps at 5 rounds a chunk, 4 at 7/2 (table A.3: T_L = 4)."""
    assert main(["pareto", "modified_de_bruijn(2, 3)", "allgather", "--max-steps", "4", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    points = [(p["steps"], p["rounds_per_chunk"], p["proved"]) for p in values["points"]]
    assert points == [(3, "5/1", True), (4, "7/2", True)]
    assert all(entry["status"] == "infeasible" for entry in values["excluded"])
    assert main(["pareto", "ring:4", "allgather", "--max-steps", "2"]) == 0
    assert "proved optimal" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["diamond", "allgather", "--rounds", "2,2,2"],
            3,
            "has no schedule with 2 chunks and rounds 2, 2, 2",
        ),
        (["diamond", "allgather", "--steps", "2"], 3, "the least possible is 3"),
        (["diamond", "allgather", "--rounds", "2,x"], 2, "integers with commas"),
        (["diamond", "allgather", "--rounds", "2,-1"], 2, "rounds"),
        (["diamond", "allgather", "--chunks", "-1", "--rounds", "2"], 2, "chunks"),
        (["diamond", "allgather", "--symmetric"], 2, "needs --rounds"),
        (["dgx_a100:2", "allgather"], 2, "switches"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    assert main(["solve", *arguments, "--algorithm", "exact"]) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
