"""Repair of plans of several groups at once: solved anew for all of them, on what is left."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.options.keywords import ProblemOptions
from treadle.planning import (
    CutOffGroupError,
    RepairResult,
    bound,
    harden,
    repair,
    solve,
    verify,
)
from treadle.topologies import with_failed_links

SPINES = "leaf_spine:3,2,gpus_per_leaf=2"
SPREAD: ProblemOptions = {"mesh": "3,2", "axes": "0"}
RAILS: ProblemOptions = {"mesh": "4,8", "axes": "0"}


def held(result: RepairResult, **options: object) -> RepairResult:
    """The new plan attains the bound of the fabric that is left, posed by itself."""
    fabric = with_failed_links(result.old.topology, *result.links)
    collective = result.new.collective
    told = bound(fabric, collective.kind, **options)  # type: ignore[arg-type]
    assert told.collective == collective
    assert result.new.algbw == told.algbw == result.new.optimal_algbw
    assert verify(result.new, fabric).is_ok
    assert result.lost_ranks == ()
    return result


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"])
def test_groups_are_solved_anew_together(kind: str) -> None:
    old = solve(SPINES, kind, **SPREAD).plan
    result = held(repair(old, links=["leaf1--spine0"]), **SPREAD)
    assert result.old is old
    # a leaf has half of its links; the roots of an allreduce may all lie there, which saves what leaves it
    lost = Fraction(1, 3 if kind == "allreduce" else 2)
    assert result.optimum_loss == result.throughput_loss == lost
    assert [one.groups for one in result.solved.alone][-1]


def test_a_group_that_is_cut_off_is_named_and_may_be_reached_through_others() -> None:
    old = solve("rail_optimized:4", "allgather", **RAILS).plan
    with pytest.raises(CutOffGroupError, match=r"group 3 .*'box0.gpu3' does not reach 'box2.gpu3'") as caught:
        repair(old, links=["box2.gpu3--rail3"])
    assert caught.value.forwarding is not None
    through = held(repair(old, links=["box2.gpu3--rail3"], forward=True), **RAILS, forward=True)
    assert through.new.algbw == caught.value.forwarding.algbw == Fraction(175 * 10**9, 3)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"nodes": ["leaf0.gpu1"]}, "leaf0.gpu1 failed, and its group would be smaller than the 1 others"),
        ({"links": ["leaf1--spine0"], "size_bytes": 2**20}, "compared at a size for one group of ranks"),
        ({}, "nothing failed"),
    ],
)
def test_what_groups_have_no_plan_for(what: dict[str, object], said: str) -> None:
    old = solve(SPINES, "allgather", **SPREAD).plan
    with pytest.raises(ScheduleError, match=said):
        repair(old, **what)  # type: ignore[arg-type]


def test_one_group_has_no_others_that_forward() -> None:
    old = solve("ring:4", "allgather").plan
    with pytest.raises(ScheduleError, match="found one group; leave it out"):
        repair(old, links=["n0--n1"], forward=True)
    with pytest.raises(ScheduleError, match="found one group; leave it out"):
        list(harden(old, forward=True))


def test_groups_are_hardened_cable_by_cable() -> None:
    old = solve("rail_optimized(2, gpus_per_box=4)", "allgather", mesh="2,4", axes="0").plan
    rows = {row.failure.name: row for row in harden(old)}
    assert len(rows) == 16
    assert rows["box0.gpu0--box0.nvswitch"].loss == 0  # which no group of two uses
    assert "group 0" in rows["box0.gpu0--rail0"].refusal
    forwarding = {row.failure.name: row for row in harden(old, forward=True)}
    row = forwarding["box0.gpu0--rail0"]
    assert row.result is not None
    assert row.loss == Fraction(1, 4)  # three NICs of four are left to a box
