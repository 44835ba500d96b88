"""Plans for failures before they come: the same as after them, each verified on what is left."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.planning import harden, repair, solve, verify
from treadle.schedules.plan_files.archive import load_plan
from treadle.topologies import parse, with_failed_links, with_failed_nodes
from treadle.workers import workers


def test_what_a_plan_loses_is_told_beside_what_the_optimum_loses() -> None:
    """A ring's plan on all links of a graph of degree 3 keeps or loses more than the optimum does."""
    old = solve("complete(4)", "allgather", algorithm="ring").plan
    row = next(harden(old))
    assert row.result is not None
    assert row.loss == row.optimum_loss == row.result.optimum_loss
    assert row.throughput_loss == row.result.throughput_loss == 1 - row.result.new.algbw / old.algbw
    assert row.throughput_loss != row.optimum_loss


def test_what_cuts_ranks_off_has_no_plan_and_a_reason() -> None:
    rows = list(harden(solve("path(3)", "allgather").plan, which="all"))
    assert all(row.result is None and "no link is left" in row.refusal for row in rows[:2])
    served = [row.failure.name for row in rows if row.result is not None]
    assert served == ["n0", "n2"]  # without the one in the middle the others are cut off


def test_losses_of_fewer_ranks_are_of_busbw() -> None:
    """Of algbw, which grows as ranks leave, a path would gain a third by losing an end."""
    lost = {row.failure.name: row.loss for row in harden(solve("path(3)", "allgather").plan, which="all")}
    assert lost["n0"] == lost["n2"] == 0  # 1 byte/s into every rank before and after
    old = solve("complete(4)", "allgather").plan
    assert [row.loss for row in harden(old, which="nodes")] == [Fraction(1, 3)] * 4  # of three links in
    result = repair(old, nodes=["n3"])
    assert (result.new.algbw, old.algbw) == (3, 4)
    assert result.optimum_loss == result.throughput_loss == Fraction(1, 3)


def test_failures_that_come_after_the_time_limit_are_late() -> None:
    rows = list(harden(solve("ring(4)", "allgather").plan, time_limit_s=0))
    assert [(row.is_late, row.result) for row in rows] == [(True, None)] * 4


def test_workers_make_the_same_plans() -> None:
    old = solve("ring(4)", "allgather").plan
    alone = [(row.failure, row.loss) for row in harden(old)]
    with workers(threads=2):
        assert [(row.failure, row.loss) for row in harden(old)] == alone


def test_a_plan_with_a_false_witness_is_refused() -> None:
    old = solve("ring(4)", "allgather").plan
    assert old.optimal_algbw is not None
    with pytest.raises(ScheduleError, match="its certificate proves"):
        list(harden(replace(old, optimal_algbw=2 * old.optimal_algbw)))


def test_the_command_writes_a_plan_for_each_and_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, folder = tmp_path / "ring.plan", tmp_path / "spare"
    assert main(["solve", "ring:4", "allgather", "-o", str(plan), "-q"]) == 0
    assert main(["harden", str(plan), "--failures", "all", "-o", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "50.0% at worst (n0--n1)" in " ".join(text.split())
    index = json.loads((folder / "failures.json").read_text())["failures"]
    assert {path.name for path in folder.iterdir()} == {"failures.json", *(one["plan"] for one in index)}
    fabric = parse("ring(4)")
    for one in index:
        left = (with_failed_nodes if one["kind"] == "node" else with_failed_links)(fabric, one["failure"])
        assert verify(load_plan(folder / one["plan"]), left).report.is_ok
    assert main(["harden", str(plan), "--json"]) == 0
    assert [one["loss"] for one in json.loads(capsys.readouterr().out)["failures"]] == [0.5] * 4
    assert main(["harden", str(plan), "--time-limit", "1ns"]) == 4


def test_the_command_fails_where_no_failure_has_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "path.plan")
    assert main(["solve", "path:3", "allgather", "-o", plan, "-q"]) == 0
    assert main(["harden", plan]) == 3
    assert "no plan      for 2 failures" in capsys.readouterr().out
    assert main(["harden", plan, "--failures", "all"]) == 0  # without an end the rest goes on
