"""Plans beside others on a fabric: which schedule serves a size, and what is wrong with any of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from treadle import planning
from treadle.errors import ScheduleError
from treadle.inputs.problem import make_problem
from treadle.schedulers.third_party.placed_schedules import route_schedule
from treadle.schedules.plan import Plan, PlanEntry, serving
from treadle.schedules.steps.steps import StepSchedule
from treadle.topologies import parse
from treadle.topologies.transforms.failures import without_failures
from treadle.verification.violations import ViolationKind

SIZES = (2**10, 2**20, 2**30)


def by_size(fabric: str = "dgx_a100(1)") -> Plan:
    """One step up to 1 MB, a ring's trees from there on: two schedules whose times are far apart."""
    small, large = (
        planning.solve(fabric, "allreduce", algorithm=name).plan for name in ("factor-allreduce", "ring")
    )
    entries = (
        PlanEntry(0, 2**20 - 1, small.entries[0].schedule, "factor-allreduce"),
        PlanEntry(2**20, None, large.entries[0].schedule, "ring"),
    )
    return dataclasses.replace(large, entries=entries)


def test_a_plan_by_size_is_priced_at_each_size_by_what_serves_it() -> None:
    plan = by_size()
    found = planning.compare(
        plan.topology,
        "allreduce",
        algorithms=["factor-allreduce", "ring"],
        beside=dataclasses.replace(plan, algorithm="both"),
        sizes=SIZES,
    )
    times = {row.algorithm: [at.time for at in row.measured.sizes] for row in found.rows if row.measured}
    steps, ring = times["factor-allreduce"], times["ring"]
    [brought] = [row for row in found.rows if row.form == "plan"]
    assert brought.measured is not None
    assert [at.size_bytes for at in brought.measured.sizes] == list(SIZES)
    assert [at.time for at in brought.measured.sizes] == [steps[0], ring[1], ring[2]]
    assert steps[0] < ring[0]
    assert ring[2] < steps[2]


def test_a_placed_plan_by_size_is_simulated_as_the_plan_is() -> None:
    plan = by_size()
    placed = route_schedule(plan, make_problem(plan.topology, "allreduce"))
    sizes = (SIZES[2], SIZES[0], SIZES[1])
    own, others = (planning.simulate(one, sizes).rows for one in (plan, placed))
    assert [(row.size_bytes, row.time) for row in own] == [(row.size_bytes, row.time) for row in others]


def test_what_is_wrong_with_small_sizes_is_told_too() -> None:
    """A report of the largest sizes alone would let a plan pass whose other schedules are false."""
    plan = by_size()
    small = plan.entries[0].schedule
    assert isinstance(small, StepSchedule)
    assert small.reduce is not None
    one_way = dataclasses.replace(small.reduce, link=np.zeros_like(small.reduce.link))
    first = dataclasses.replace(plan.entries[0], schedule=dataclasses.replace(small, reduce=one_way))
    false = dataclasses.replace(plan, entries=(first, plan.entries[1]))
    found = planning.verify(false, "dgx_a100(1)")
    assert found.report.is_ok
    assert not found.full_report.is_ok
    placed = route_schedule(false, make_problem("dgx_a100(1)", "allreduce"))
    assert not placed.report.is_ok


def test_a_size_between_the_ranges_is_served_by_none() -> None:
    plan = by_size()
    small, large = plan.entries
    gap = (dataclasses.replace(small, max_bytes=2**12), large)
    assert serving(gap, [2**20, 1]) == [(gap[0], [1]), (large, [0])]
    with pytest.raises(ScheduleError, match="no schedule for 8192 bytes"):
        serving(gap, [2**13])


@pytest.mark.parametrize(
    ("fabric", "kind", "failed", "certificate"),
    [
        ("ring(4)", "allreduce", "n0--n1", "lengths"),
        ("complete(4)", "allgather", "n0--n1", "cut"),
        ("torus(3, 3)", "alltoall", "n0_0--n0_1", "distances"),
    ],
)
def test_a_plan_for_a_part_of_the_fabric_is_judged_as_a_schedule(
    fabric: str, kind: str, failed: str, certificate: str
) -> None:
    """A plan that leaves a link out runs on the whole fabric, whatever proves the optimum of its own."""
    part = without_failures(parse(fabric), failed)
    plan = planning.solve(part, kind).plan
    assert plan.certificate is not None
    assert plan.certificate.kind == certificate
    placed = route_schedule(plan, make_problem(fabric, kind))
    assert placed.report.violations == ()
    assert placed.notes == (f"the plan was made for {part.name}; its claims are left aside",)
    assert placed.algbw == plan.algbw
    found = planning.verify(plan, fabric)
    assert found.is_sound
    assert {violation.kind for violation in found.report.violations} == {ViolationKind.BOUND}


@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
def test_every_link_that_a_fabric_lacks_is_told(kind: str) -> None:
    """Whatever the certificate is: it hides nothing of the schedule, and is told itself."""
    plan = planning.solve("dgx_a100(2)", kind).plan
    left = without_failures(plan.topology, "box0.nic3")
    found = planning.verify(plan, left)
    told = {str(violation) for violation in found.report.violations}
    lost = {"box0.gpu3->box0.nic3", "box0.nic3->ib1", "ib1->box0.nic3", "box0.nic3->box0.gpu3"}
    expected = {f"membership: the schedule uses link {one}, which {left.name} does not have" for one in lost}
    assert expected <= told
    # the cut that proves the allgather's optimum is around another GPU, and is the same on what is left
    others = ViolationKind.BOUND in {violation.kind for violation in found.report.violations}
    assert others == (kind == "allreduce")
    assert len(told) == len(lost) + others
    assert not found.is_sound


def test_ranks_that_a_fabric_lacks_are_counted() -> None:
    found = planning.verify(planning.solve("ring(8)", "allreduce"), "ring(4)")
    first = found.report.violations[0]
    assert str(first) == (
        "membership: the plan has 8 ranks, ring(4) has 4 compute nodes, and none called n4, n5, n6 and 1 more"
    )
    lost = [one.message for one in found.report.violations if "uses link" in one.message]
    assert "the schedule uses link n3->n4, which ring(4) does not have" in lost
    assert "the schedule uses link n6->n7, which ring(4) does not have" in lost
