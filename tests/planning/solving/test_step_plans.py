"""Plans of step schedules, from the file to text and moved data."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.planning import SizeRequest, make_problem
from treadle.schedulers.step_candidates import breadth_first
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import save_plan
from treadle.schedules.steps.step_cost import algbw
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.bfb import bfb_schedule
from treadle.topologies import parse
from treadle.topologies.topology import Topology


def step_plan(topology: Topology, collective: Collective, schedule: StepSchedule) -> Plan:
    return Plan(topology, collective, (PlanEntry(0, None, schedule),), "bfb", algbw(topology, schedule))


def bfb_plan(name: str, kind: CollectiveKind) -> Plan:
    topology = parse(name)
    return step_plan(topology, on_all_ranks(topology, kind), bfb_schedule(topology, kind))


def test_limits_of_a_profile_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_plan(tmp_path / "plan", bfb_plan("complete(70)", CollectiveKind.ALLGATHER))
    assert main(["lower", str(tmp_path / "plan"), "--profile", "rccl", "-o", str(tmp_path / "xml")]) == 3
    assert "thread blocks, the limit is 64" in capsys.readouterr().err
    assert not (tmp_path / "xml").exists()


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        # a shard of 1 MB over either link, then half of one: 1.5 ms and two messages
        (None, "1502 us, the least of any breadth-first broadcast"),
        # a whole one in the second step: 2002 us
        (1, "2002 us, 33% above the least of any breadth-first broadcast"),
    ],
)
def test_steps_of_a_size_are_held_against_the_least(chunks: int | None, words: str) -> None:
    problem = make_problem("ring(4, bandwidth='1GB/s')", "allgather")
    size = SizeRequest(4 * 10**6, 1e-6)
    found = breadth_first(problem.topology, problem.collective, chunks=chunks, size=size)
    assert found.notes == (f"at 3.81MB the steps take {words}",)  # type: ignore[union-attr]
