"""NCCL graphs against plans: damages that NCCL would turn into other rings are seen."""

from __future__ import annotations

import pytest

from treadle import planning
from treadle.formats.nccl.interpreter import interpret
from treadle.formats.verdict import Check, Planned, Terms, Verdict
from treadle.schedules.plan import Plan
from treadle.synthesis.trees.baselines.boxes import find_boxes


def ring_plan(fabric: str, collective: str = "allgather") -> Plan:
    return planning.solve(fabric, collective, algorithm="ring").plan


def written(plan: Plan) -> list[bytes]:
    return [data for _, data in planning.lower(plan, to="nccl-graph").files]


def judged(files: list[bytes], plan: Plan) -> Verdict:
    boxes = find_boxes(plan.topology, plan.collective)
    planned = Planned(plan.topology, plan.collective, plan.entries[-1].schedule, lambda: boxes)
    return interpret(files, Terms(planned=planned))


@pytest.mark.parametrize("fabric", ["ring(5)", "dgx_a100(2)", "mi250(1)"])
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
def test_what_is_written_is_the_plans(fabric: str, collective: str) -> None:
    plan = ring_plan(fabric, collective)
    found = judged(written(plan), plan)
    (channels,) = {data.count(b"<channel>") for data in written(plan)}
    assert found == Verdict(
        Check.COMPARED,
        (),
        (("channel", channels), ("file", len(written(plan)))),
        plan.collective.n_ranks,
        detail=", its rings joined as NCCL joins boxes",
    )
