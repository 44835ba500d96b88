"""Plans beside others on a fabric: which schedule serves a size, and what is wrong with any of them."""

from __future__ import annotations

import pytest

from treadle import planning
from treadle.inputs.problem import make_problem
from treadle.schedulers.third_party.placed_schedules import route_schedule
from treadle.topologies import parse
from treadle.topologies.transforms.failures import without_failures
from treadle.verification.violations import ViolationKind


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
