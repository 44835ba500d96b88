"""What is said of sets by size and of least times at sizes, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from treadle.cli.main import main
from treadle.cli.output import Output
from treadle.cli.solving import size_report, size_set_report

GB = 10**9


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints."""

    def told(function: Any, *arguments: Any) -> list[str]:
        capsys.readouterr()
        function(*arguments)
        return capsys.readouterr().out.splitlines()

    return told


def entry(low: int, high: int | None) -> Any:
    return SimpleNamespace(min_bytes=low, max_bytes=high, title="mine")


def choice(size: int, us: float, **fields: Any) -> Any:
    values = {"size_bytes": size, "slices": 1, "seconds": us / 1e6, "baseline": "", "baseline_seconds": None}
    return SimpleNamespace(**(values | {"bound": None} | fields))


def test_cells_of_sets_by_size() -> None:
    rows = (
        choice(1023, 1),
        choice(
            1024, 2, baseline="ring", baseline_seconds=3e-6, bound=SimpleNamespace(time=Fraction(1, 10**6))
        ),
        choice(4096, 8, slices=4, baseline="bfb", baseline_seconds=10e-6),
        choice(
            8192,
            16,
            slices=2,
            baseline="x",
            baseline_seconds=32e-6,
            bound=SimpleNamespace(time=Fraction(12, 10**6)),
        ),
        choice(8193, 99),
    )
    result = SimpleNamespace(rows=rows)

    def cells(low: int, high: int | None) -> tuple[str, ...]:
        return size_set_report._cells(entry(low, high), result)  # type: ignore[arg-type]

    assert cells(1024, 8192) == ("1KB to 8KB", "mine", "1 to 4", "2 to 16", "bfb 1.25x", "50% to 75%")
    assert cells(0, 1023) == ("up to 1023B", "mine", "1", "1", "-", "-")
    assert cells(8193, None) == ("8KB and more", "mine", "1", "99", "-", "-")
    assert cells(0, None)[0] == "all"
    assert cells(2000, 2001) == ("1.95KB to 1.95KB", "mine", "-", "-", "-", "-")
    assert cells(0, 1024)[3:] == ("1 to 2", "ring 1.50x", "50%")


def test_doubts_about_choices(lines: Any) -> None:
    doubt = SimpleNamespace(size_bytes=2048, other="ring", gain=0.125, chosen="mine", corner="at twice alpha")
    said = "certainty   2KB: ring would save 12.5% of mine, at twice alpha"
    sure = SimpleNamespace(bands=("x",))
    for doubts, wanted in (
        ((), ["certainty   no choice falls otherwise at any corner of the bands that was tried"]),
        ((doubt,) * 8, [said] * 8),
        ((doubt,) * 10, [*[said] * 8, "certainty   and 2 more sizes (see --json)"]),
    ):
        result = SimpleNamespace(cost_model=sure, doubts=doubts)
        assert lines(size_set_report._print_doubts, Output(), result) == wanted
    unsure = SimpleNamespace(cost_model=SimpleNamespace(bands=()), doubts=(doubt,))
    assert lines(size_set_report._print_doubts, Output(), unsure) == [
        "certainty   the costs have no bands, so nothing is known of how sure these choices are"
    ]


def test_options_of_one_schedule_beside_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "ring:4", "allgather", "--size", "1K", "--exact", "--trees", "2"]) == 2
    assert capsys.readouterr().err == (
        "treadle: --trees and --exact: with --size candidates are tried with options of their own; leave out "
        "one or the other\n"
    )


def test_least_times_of_sizes(lines: Any) -> None:
    found = treadle.bound("ring(3, bandwidth='4GB/s')", "allgather", sizes="1K,3M", cost_model="reference")
    told = lines(size_report.print_size_bounds, Output(), found)
    assert told[1] == (
        f"least times costs {found.cost_model.name}; the latest of the proofs, each checked anew"
        if found.cost_model
        else ""
    )
    cells = [line.split() for line in told if line.strip().startswith(("1KB", "3MB"))]
    for one, own in zip(found.at_sizes, cells, strict=True):
        assert own[1] == f"{float(one.time) * 1e6:.2f}"
        assert own[2] == f"{one.size_bytes / float(one.time) * 2 / 3 / GB:.3f}"  # of 3 ranks 2 send
    assert lines(size_report.print_size_bounds, Output(), SimpleNamespace(at_sizes=())) == []


def test_a_whole_set(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = treadle.solve("ring:3", "allgather").plan
    monkeypatch.setattr(size_set_report, "size_set_summary", lambda result: {})
    monkeypatch.setattr(size_set_report, "told_cost_model", lambda model: {})
    values: dict[str, Any] = {
        "plan": plan,
        "bound": None,
        "n_candidates": 5,
        "cost_model": SimpleNamespace(name="mine", bands=()),
        "n_timed": 3,
        "left_out": (),
        "rows": (choice(1024, 2),),
        "worst_ratio": 1.0,
        "mean_ratio": 1.0,
        "doubts": (),
        "reports": (1, 2),
        "seconds": {"total": 1.0},
        "is_late": False,
    }
    told = lines(size_set_report.report_size_set, Output(), SimpleNamespace(**values), None)
    assert told[2:4] == ["simulated   costs mine; 5 schedules, all verified, 3 of them timed", ""]
    assert told[-3:] == [
        "certainty   the costs have no bands, so nothing is known of how sure these choices are",
        "verified    yes: 2 schedules, by an independent checker",
        "CPU s       total 1.00",
    ]
    assert not any("beside" in line for line in told)
    more = {"worst_ratio": 1.0625, "mean_ratio": 1.03125, "left_out": ("x", "y"), "n_candidates": 1}
    told = lines(
        size_set_report.report_size_set, Output(), SimpleNamespace(**(values | more)), Path("out.plan")
    )
    assert told[2:5] == [
        "simulated   costs mine; 1 schedule, all verified, 3 of them timed",
        "left out    x, y",
        "",
    ]
    assert ("beside the fastest of all: at worst 1.062 times its time, 1.031 on average over 1 size") in told
    assert told[-1] == "plan        out.plan"
    late = SimpleNamespace(**(values | {"is_late": True}))
    assert size_set_report.report_size_set(Output(quiet=True), late, None) == 4
    late.is_late = False
    assert size_set_report.report_size_set(Output(quiet=True), late, None) == 0
