"""What pareto says, line by line, of fronts by hand, and what it asks for."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle import planning
from treadle.cli.main import main

GB = 10**9
FABRIC = 'ring(4, bandwidth="3GB/s")'


def run(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], front: Any
) -> tuple[int, list[str], str, dict[str, Any]]:
    """Status, lines without their runs of blanks, stderr, and what the front was asked with."""
    asked: dict[str, Any] = {}

    def answer(problem: planning.Problem, **options: Any) -> Any:
        options.pop("progress", None)
        asked.update(options, kind=problem.collective.kind.value, fabric=problem.topology.name)
        return front

    monkeypatch.setattr(planning, "tree_front", answer)
    monkeypatch.setattr(planning, "exact_front", answer)
    status = main(["pareto", FABRIC, "allgather", *words])
    out, err = capsys.readouterr()
    return status, [" ".join(line.split()) for line in out.splitlines()], err, asked


def point(height: int, trees: int, algbw: Fraction, most: Fraction | None) -> Any:
    return SimpleNamespace(height=height, trees_per_root=trees, algbw=algbw, most=most)


def trees() -> Any:
    """Two points below an optimum of 8 GB/s, of which one is as good as its height allows."""
    points = (point(2, 1, Fraction(6 * GB), None), point(3, 4, Fraction(7 * GB), Fraction(7 * GB)))
    return SimpleNamespace(
        optimal_algbw=Fraction(8 * GB), points=points, certified=lambda one: one.height == 3
    )


def test_fronts_of_trees(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, err, asked = run([], monkeypatch, capsys, trees())
    assert (status, err) == (0, "")
    assert lines[2:] == [
        "optimum 8 GB/s algbw, 6 GB/s busbw",
        "",
        "height trees algbw % optimum bound at height certified",
        "2 1 6 GB/s 75.0% - no",
        "3 4 7 GB/s 87.5% 7 GB/s yes",
    ]
    assert asked == {
        "trees": (1, 2, 4, 8, 16),
        "max_height": None,
        "kind": "allgather",
        "fabric": FABRIC,
    }
    words = ["--trees", "3,5", "--max-height", "7", "--time-limit", "2min", "--json"]
    status, lines, err, asked = run(words, monkeypatch, capsys, trees())
    values = json.loads(lines[0])
    assert [one["share_of_bound"] for one in values["points"]] == [0.75, 0.875]
    assert (values["ranks"], "picture" in values) == (4, False)
    assert (asked["trees"], asked["max_height"], asked["time_limit_s"]) == ((3, 5), 7, 120)


def test_a_picture_of_a_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: dict[str, Any] = {}

    def picture(front: Any, **options: Any) -> bytes:
        drawn.update(options, points=len(front.points))
        return b"picture"

    monkeypatch.setattr(planning, "plot_front", picture)
    path = tmp_path / "front.PNG"
    status, lines, _, _ = run(["--picture", str(path)], monkeypatch, capsys, trees())
    assert (status, lines[-1], path.read_bytes()) == (0, f"plot {path}", b"picture")
    assert drawn == {"title": f"allgather on {FABRIC}", "file_format": "png", "points": 2}
    _, lines, _, _ = run(["--picture", str(path), "--json"], monkeypatch, capsys, trees())
    assert json.loads(lines[0])["picture"] == str(path)
    status, lines, err, asked = run(["--picture", "front.gif"], monkeypatch, capsys, trees())
    assert (status, lines, asked) == (2, [], {})
    assert err == "treadle: picture: format 'gif', expected png, svg or pdf\n"


def steps(*points: Any, late: int = 0) -> Any:
    """A front of steps; some candidates were not decided in time."""
    reasons = ["time limit"] * late + ["proof"]
    excluded = [
        SimpleNamespace(
            steps=2, total_rounds=3, chunks=1, status=SimpleNamespace(value="unknown"), reason=reason
        )
        for reason in reasons
    ]
    return SimpleNamespace(points=points, excluded=excluded, least_steps=2, least_ratio=Fraction(3, 2))


def test_fronts_of_steps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    some = (
        SimpleNamespace(steps=2, ratio=Fraction(2), chunks=1, rounds=(1, 1), is_proved=True),
        SimpleNamespace(steps=3, ratio=Fraction(3, 2), chunks=2, rounds=(1, 2), is_proved=False),
    )
    status, lines, err, asked = run(["--max-steps", "5"], monkeypatch, capsys, steps(*some))
    assert (status, err) == (0, "")
    assert lines[2:] == [
        "lower bound 2 steps; 3/2 rounds per chunk",
        "",
        "steps rounds / chunks chunks rounds proved optimal",
        "2 2 1 1,1 yes",
        "3 3/2 2 1,2 no",
    ]
    assert asked == {
        "max_steps": 5,
        "max_chunks": 2,
        "max_extra_rounds": None,
        "time_limit_s": 60,
        "seed": 0,
        "kind": "allgather",
        "fabric": FABRIC,
    }
    words = "--max-steps 5 --max-chunks 3 --extra-rounds 1 --time-limit 7s --seed 9"
    _, _, _, asked = run(words.split(), monkeypatch, capsys, steps(*some))
    assert [asked[key] for key in ("max_chunks", "max_extra_rounds", "time_limit_s", "seed")] == [3, 1, 7, 9]
    status, lines, err, _ = run(["--max-steps", "0"], monkeypatch, capsys, steps(late=2))
    assert (status, lines[-1]) == (4, "no schedule within these limits")
    assert err == "treadle: the time limit was reached; undecided: 2 candidates\n"
    for option, value in (("--trees", "1"), ("--max-height", "2"), ("--picture", "x.png")):
        status, lines, err, _ = run(["--max-steps", "0", option, value], monkeypatch, capsys, steps())
        assert (status, lines) == (2, [])
        assert err == f"treadle: {option}: valid only for fronts of trees; leave out --max-steps\n"
