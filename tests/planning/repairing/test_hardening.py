"""Plans for failures before they come: the same as after them, each verified on what is left."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.api.harden import single_failures
from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.planning import Failures, bound, harden, repair, solve, verify
from treadle.schedules.plan_files.archive import load_plan
from treadle.topologies import TopologyBuilder, parse, with_failed_links, with_failed_nodes
from treadle.workers import workers


def test_every_cable_and_every_node_may_fail_once() -> None:
    builder = TopologyBuilder("mixed")
    for name in "abc":
        builder.compute(name)
    builder.duplex("a", "b", 10)
    builder.duplex("b", "a", 10)
    builder.link("a", "b", 7)
    builder.link("b", "c", 5)
    builder.link("c", "c", 5)
    fabric = builder.build()
    names = ["a--b#0", "a--b#1", "a->b#2", "b->c"]
    assert [one.name for one in single_failures(fabric, Failures.CABLES)] == names
    assert [one.name for one in single_failures(fabric, Failures.NODES)] == ["a", "b", "c"]
    assert len(single_failures(fabric, Failures.ALL)) == 7
    assert [one.is_node for one in single_failures(fabric, Failures.ALL)] == [False] * 4 + [True] * 3


@pytest.mark.parametrize(
    ("fabric", "collective"), [("dgx1_v100()", "allgather"), ("hypercube(3)", "allreduce")]
)
def test_plans_and_losses_are_those_of_a_repair(fabric: str, collective: str) -> None:
    old = solve(fabric, collective).plan
    rows = list(harden(old, which="all"))
    assert [row.failure for row in rows] == list(single_failures(old.topology, Failures.ALL))
    for row in rows[:: max(1, len(rows) // 8)]:
        assert row.result is not None
        name = (row.failure.name,)
        failed = repair(old, nodes=name) if row.failure.is_node else repair(old, links=name)
        assert (row.result.new.algbw, row.loss) == (failed.new.algbw, failed.optimum_loss)
        left = (with_failed_nodes if row.failure.is_node else with_failed_links)(old.topology, *name)
        assert row.result.new.optimal_algbw == bound(left, collective).algbw
        assert verify(row.result.new, left).report.is_ok


def test_each_of_parallel_cables_has_a_plan_and_alike_ones_are_solved_once() -> None:
    """Of twelve cables one fails; kinds that differ in bandwidth are not taken for each other."""
    old = solve("with_parallel_links(complete(3), 4)", "allreduce").plan
    rows = list(harden(old))
    assert len(rows) == 12
    assert {row.loss for row in rows} == {Fraction(1, 12)}
    assert [row.result.seconds["total"] > 0 for row in rows if row.result] == [True, False, False, False] * 3
    for row in rows[1::4]:
        assert row.result is not None
        left = with_failed_links(old.topology, row.failure.name)
        assert (row.result.links, row.result.lost_links) == ((row.failure.name,), 2)
        assert row.result.new.topology.name == left.name
        assert verify(row.result.new, left).report.is_ok
    builder = TopologyBuilder("two kinds")
    for name in "ab":
        builder.compute(name)
    for bandwidth in (1, 2, 1, 2):
        builder.duplex("a", "b", bandwidth)
    unlike = list(harden(solve(builder.build(), "allgather").plan))
    assert [row.loss for row in unlike] == [Fraction(1, 6), Fraction(1, 3)] * 2
    for row in unlike:  # without the first or the third the links have other numbers
        assert row.result is not None
        assert row.result.new.topology == with_failed_links(builder.build(), row.failure.name)


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
