"""Steps over ways wherever schedules go: texts for runtimes, pictures, other fabrics, simulation."""

from __future__ import annotations

import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.errors import InfeasibleError
from treadle.planning import lower, solve
from treadle.schedules.plan import Plan

CASES = [
    ("allreduce", "factor-allreduce"),
    ("alltoall", "factor-exchange"),
    ("allgather", "routed-direct"),
    ("reduce-scatter", "routed-direct"),
]


def plan_of(kind: str, algorithm: str) -> Plan:
    return solve(in_boxes(3, 3), kind, algorithm=algorithm).plan


@pytest.mark.parametrize(("kind", "algorithm"), CASES)
@pytest.mark.parametrize("text", ["msccl-xml", "mscclpp-json", "cpu-xml"])
def test_texts(kind: str, algorithm: str, text: str) -> None:
    lowered = lower(plan_of(kind, algorithm), to=text)
    assert lowered.files


@pytest.mark.parametrize("kind", ["allreduce", "alltoall"])
def test_programs_of_others_than_ranks_are_refused(kind: str) -> None:
    algorithm = {"allreduce": "factor-allreduce", "alltoall": "factor-exchange"}[kind]
    plan = solve("path(3)", kind, algorithm=algorithm, ranks="n0,n2", forward=True).plan
    with pytest.raises(InfeasibleError, match="'n1', which is not a rank"):
        lower(plan, to="msccl-xml")
