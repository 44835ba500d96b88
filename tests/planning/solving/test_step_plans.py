"""Plans of step schedules, from the file to text and moved data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from samples import greedy_steps as samples
from treadle.api.lower import lower
from treadle.cli.main import main
from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.verification import UnverifiedPlanError
from treadle.planning import SizeRequest, make_problem, run, solve, verify
from treadle.schedulers import exact_synthesis, step_candidates
from treadle.schedulers.exact_synthesis import exact
from treadle.schedulers.given_options import given_options
from treadle.schedulers.step_candidates import bound_of_steps, breadth_first, te_ccl, volume_bound
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.schedules.steps.step_cost import algbw
from treadle.schedules.steps.steps import StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.synthesis.steps.bfb import bfb_schedule
from treadle.topologies import parse, save_topology
from treadle.topologies.topology import Topology, TopologyBuilder


def step_plan(topology: Topology, collective: Collective, schedule: StepSchedule) -> Plan:
    return Plan(topology, collective, (PlanEntry(0, None, schedule),), "bfb", algbw(topology, schedule))


def bfb_plan(name: str, kind: CollectiveKind) -> Plan:
    topology = parse(name)
    return step_plan(topology, on_all_ranks(topology, kind), bfb_schedule(topology, kind))


def greedy_plan(kind: CollectiveKind) -> Plan:
    topology = samples.ring(4, links=2)
    return step_plan(topology, *samples.greedy_schedule(topology, kind, root=2))


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_saved_plans_verify_run_and_lower(
    kind: CollectiveKind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, xml = tmp_path / "plan", tmp_path / "xml"
    save_plan(path, greedy_plan(kind) if kind.is_rooted else bfb_plan("torus(3,3)", kind))
    assert main(["verify", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is True
    any_root = ["--accept-any-root"] if kind.is_rooted else []
    assert main(["lower", str(path), "--to", "msccl-xml", "-o", str(xml), *any_root]) == 0
    assert f'coll="{kind.value.replace("-", "")}"' in xml.read_text()
    assert main(["run", str(path), "--size", "4B,1K..2K", "--iterations", "1", "--json"]) == 0
    assert main(["run", str(path), "--size", "36B", "--iterations", "1", "--in-place"]) == 0
    lowered = lower(load_plan(path), in_place=True, channels=2, accept_any_root=kind.is_rooted)
    assert lowered.faults == ()
    assert lowered.shortfall is None


def test_entries_of_both_kinds_serve_their_sizes() -> None:
    latency = bfb_plan("ring(4)", CollectiveKind.ALLGATHER)
    steps = StepSchedule(CollectiveKind.ALLGATHER, broadcast=samples.ring_steps(4, Direction.BROADCAST))
    topology = samples.ring(4)
    plan = step_plan(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), steps)
    small = samples.greedy_schedule(topology, CollectiveKind.ALLGATHER, n_chunks=1, waste=0.5)[1]
    plan = replace(plan, entries=(PlanEntry(0, 99, small), PlanEntry(100, None, steps)))
    result = run(plan, [16, 400], iterations=1)
    assert [row.size_bytes for row in result.rows] == [16, 400]
    assert result.wrong == 0
    assert run(latency, [16], iterations=1).wrong == 0


def test_false_plans_are_neither_run_nor_lowered() -> None:
    plan = greedy_plan(CollectiveKind.ALLREDUCE)
    schedule = plan.entries[0].schedule
    assert isinstance(schedule, StepSchedule)
    assert schedule.reduce is not None
    steps = schedule.reduce
    late = replace(schedule, reduce=replace(steps, low=steps.low[::-1], high=steps.high[::-1]))
    for false in (
        replace(plan, algbw=plan.algbw * 2),
        replace(plan, entries=(PlanEntry(0, None, late),)),
    ):
        with pytest.raises(UnverifiedPlanError):
            run(false, [64], iterations=1)
        with pytest.raises(UnverifiedPlanError):
            lower(false)


def test_a_trusted_fabric_may_number_its_links_otherwise() -> None:
    plan = bfb_plan("torus(3,3)", CollectiveKind.REDUCE_SCATTER)
    own = plan.topology
    builder = TopologyBuilder("cabled")
    for name in reversed(own.node_names):
        builder.compute(name)
    for link in reversed(range(own.n_links)):
        builder.link(own.node_names[own.tails[link]], own.node_names[own.heads[link]], 1)
    result = verify(plan, builder.build())
    assert result.is_ok
    assert not result.is_embedded
    lacking = TopologyBuilder("lacking")
    for name in own.node_names:
        lacking.compute(name)
    for link in range(1, own.n_links):
        lacking.link(own.node_names[own.tails[link]], own.node_names[own.heads[link]], 1)
    (report,) = verify(plan, lacking.build()).reports
    assert "which lacking does not have" in str(report.violations[0])


def relayed_plan() -> Plan:
    """A broadcast to rank 1 by way of a forwarder."""
    builder = TopologyBuilder("relay")
    for name in ("a", "b", "relay"):
        builder.compute(name)
    for one, other in (("a", "relay"), ("relay", "b")):
        builder.link(one, other, 10)
    collective = Collective(CollectiveKind.BROADCAST, (0, 1), root=0, forwarders=(2,))
    sends = [(0, 0, 0, 0, 1), (0, 1, 1, 0, 1)]
    steps = steps_from_sends(Direction.BROADCAST, 2, 1, sends, homes=[0])
    return step_plan(builder.build(), collective, StepSchedule(CollectiveKind.BROADCAST, broadcast=steps))


def test_what_programs_cannot_express_is_infeasible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = samples.ring(3)
    ring = StepSchedule(CollectiveKind.ALLREDUCE, reduce=samples.ring_steps(3, Direction.REDUCE))
    whole = step_plan(topology, on_all_ranks(topology, CollectiveKind.ALLREDUCE), ring)
    for plan, message in ((relayed_plan(), "is no(t a)? rank"), (whole, "entire buffer")):
        assert verify(plan).is_ok
        rooted = plan.collective.root is not None
        with pytest.raises(InfeasibleError, match=message):
            lower(plan, accept_any_root=rooted)
        save_plan(tmp_path / "plan", plan)
        for command in (["lower", *["--accept-any-root"] * rooted], ["run", "--size", "1K"]):
            assert main([command[0], str(tmp_path / "plan"), *command[1:]]) == 3
            error = capsys.readouterr().err
            assert re.search(message, error)
            assert error.count("\n") == 1


def test_limits_of_a_profile_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_plan(tmp_path / "plan", bfb_plan("complete(70)", CollectiveKind.ALLGATHER))
    assert main(["lower", str(tmp_path / "plan"), "--profile", "rccl", "-o", str(tmp_path / "xml")]) == 3
    assert "thread blocks, the limit is 64" in capsys.readouterr().err
    assert not (tmp_path / "xml").exists()


def test_breadth_first_broadcast_is_made_for_a_size(tmp_path: Path) -> None:
    """Links of 50 us among links of 1 us are left idle at 6 kB; the plan says what it was made for."""
    fabric = parse('complete_bipartite(3, 3, bandwidth="1GB/s")')
    is_long = abs(fabric.tails - fabric.heads) == 3
    fabric = replace(fabric, name="unequal", latencies_ns=np.where(is_long, 50_000, 1000))
    path, plan = tmp_path / "fabric.json", tmp_path / "plan"
    save_topology(path, fabric)
    times = {}
    for asked in (None, SizeRequest(6000)):
        save_plan(plan, solve(path, "allgather", algorithm="bfb", size=asked))
        made = load_plan(plan)
        times[asked] = alpha_beta_time(made.topology, made.collective, made.entries[0].schedule, 6000)
    assert times[SizeRequest(6000)] == Fraction("53e-6")
    assert times[None] > Fraction("101e-6")
    assert given_options(made) == {"size": SizeRequest(6000)}
    notes = {6000: "at 5.86KB the steps take 53 us, the least", 10**6: "345.1 us, 0.0019% above the least"}
    for size, words in notes.items():
        (note,) = solve(fabric, "allgather", algorithm="bfb", size=SizeRequest(size)).notes
        assert f"{words} of any breadth-first broadcast" in note
    with pytest.raises(ScheduleError, match="bfb"):
        solve(path, "allgather", algorithm="ring", size=SizeRequest(6000))


def test_steps_on_many_boxes_whose_switches_sum_have_a_bound() -> None:
    """More switches that branch than the volume bound sums over: the exact optimum is asked."""
    result = solve("dgx_h100(13, nvls=True)", "allreduce", algorithm="factor-allreduce")
    assert result.bound is not None
    assert result.bound.is_tight
    assert result.algbw < result.bound.algbw


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


def test_steps_of_an_allreduce_are_held_against_both_phases() -> None:
    problem = make_problem("ring(4, bandwidth='1GB/s')", "allreduce")
    found = breadth_first(problem.topology, problem.collective, size=SizeRequest(4 * 10**6, 1e-6))
    assert found.notes == (  # type: ignore[union-attr]
        "at 3.81MB the steps take 3004 us, the least of any breadth-first broadcast",
    )


def test_volumes_of_allreduces() -> None:
    """A ring of five: 8 fifths of the data for each rank over ten links of 1 byte/s."""
    found = volume_bound(make_problem("ring:5", "allreduce"))
    assert found.algbw == Fraction(10, 8)
    assert not found.is_tight
    assert found.model == "allreduce without in-network multicast and aggregation"


def test_bounds_beside_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The volume where it is attained, or where the program would take long; else the optimum."""
    asked: list[CollectiveKind] = []
    quick = volume_bound(make_problem("ring:5", "allreduce"))

    def found(problem: Any) -> str:
        asked.append(problem.collective.kind)
        return "exact"

    rates = [quick.algbw]
    monkeypatch.setattr(step_candidates, "find_bound", found)
    monkeypatch.setattr(step_candidates, "algbw", lambda topology, schedule: rates[0])
    problem, schedule = (
        make_problem("ring:5", "allreduce"),
        bfb_schedule(parse("ring:5"), CollectiveKind.ALLREDUCE),
    )
    assert bound_of_steps(problem, schedule) == replace(quick, is_tight=True)
    rates[0] = quick.algbw / 2
    assert bound_of_steps(problem, schedule) == "exact"  # type: ignore[comparison-overlap]
    assert step_candidates._LARGEST_EXACT_ALLREDUCE == 128
    monkeypatch.setattr(step_candidates, "_LARGEST_EXACT_ALLREDUCE", 5)
    assert bound_of_steps(problem, schedule) == "exact"  # type: ignore[comparison-overlap]
    monkeypatch.setattr(step_candidates, "_LARGEST_EXACT_ALLREDUCE", 4)
    assert bound_of_steps(problem, schedule) == quick
    assert asked == [CollectiveKind.ALLREDUCE] * 2
    assert bound_of_steps(make_problem("ring:5", "allgather"), schedule) == "exact"  # type: ignore[comparison-overlap]

    def too_many(problem: Any) -> Any:
        raise ScheduleError("switches")

    monkeypatch.setattr(step_candidates, "volume_bound", too_many)
    assert bound_of_steps(problem, schedule) == "exact"  # type: ignore[comparison-overlap]


def test_gaps_of_an_integer_program(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    answer = SimpleNamespace(schedule="schedule", gap=step_candidates.GAP, is_late=True)

    def gather(*given: Any, chunks: int, seed: int) -> Any:
        told.append((chunks, seed))
        return answer

    monkeypatch.setattr(step_candidates, "teccl_gather", gather)
    problem = make_problem("ring:4", "allgather")
    found = te_ccl(problem.topology, problem.collective)
    assert (found.schedule, found.notes, found.is_late) == ("schedule", (), False)
    answer.gap = 0.25
    with under(Context(None, 9.0)):
        found = te_ccl(problem.topology, problem.collective, chunks=3, seed=7)
    assert found.notes == ("the value of its program is within 25% of the best",)
    assert found.is_late
    assert told == [(1, 0), (3, 7)]


@pytest.mark.parametrize(
    ("is_proved", "reason", "error", "said"),
    [
        (
            True,
            "own",
            InfeasibleError,
            "exact: ring(4) has no schedule with 3 chunks and rounds 1, 2 (own); allow more rounds or steps",
        ),
        (False, "time limit", TimeLimitError, "exact: the time limit was reached"),
        (
            False,
            "own",
            ScheduleError,
            "exact: own; that proves nothing, search without --symmetric",
        ),
    ],
)
def test_what_exact_synthesis_says(
    is_proved: bool, reason: str, error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = exact_synthesis.synthesis
    ring = parse("ring:4")
    allgather = on_all_ranks(ring, CollectiveKind.ALLGATHER)
    status = module.ExactStatus.INFEASIBLE if is_proved else module.ExactStatus.UNKNOWN
    phases = [SimpleNamespace(reason="first"), SimpleNamespace(reason=reason)]
    result = SimpleNamespace(schedule=None, phases=phases, status=status)
    monkeypatch.setattr(module, "synthesise_exact", lambda *given, **words: result)
    with pytest.raises(error) as caught:
        exact(ring, allgather, chunks=3, rounds=(1, 2))
    assert str(caught.value) == said
    result.schedule = "found"  # type: ignore[assignment]
    found: Any = exact(ring, allgather, chunks=3, rounds=(1, 2))
    assert found == "found"
    with pytest.raises(ScheduleError) as caught:
        exact(ring, allgather, chunks=3, symmetric=True)
    assert str(caught.value) == "exact: the symmetric search needs --rounds"
