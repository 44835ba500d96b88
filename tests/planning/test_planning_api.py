"""The public Python API on small fabrics: every algorithm, every collective, verified and below the bound."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle
from samples import strategies as own
from samples.table import table_restored
from treadle.context import Context, under
from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.planning import (
    RejectedError,
    TimeLimitError,
    algorithm_names,
    bound,
    compare,
    make_problem,
    program_of,
    scheduler,
    solve,
    verify,
)
from treadle.schedulers import forestcoll, generation
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.plan import PlanEntry
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.allreduce import solve_allreduce
from treadle.topologies import (
    Topology,
    TopologyBuilder,
    dump_topology,
    load_topology,
    parse,
    topology_from_json,
)


@settings(max_examples=25)
@given(st.data())
def test_random_fabrics_are_solved_verified_and_run(data: st.DataObject) -> None:
    topology = data.draw(own.eulerian_topologies())
    collective = data.draw(own.collectives(topology))
    result = solve(topology, collective, exact=True)
    assert result.report.is_ok
    assert result.optimal_algbw is not None
    assert result.algbw <= result.optimal_algbw
    if collective.kind is not CollectiveKind.ALLREDUCE:
        assert result.is_optimal
    assert verify(result.plan, topology).is_ok
    assert treadle.run(result.plan, [4 * 37], iterations=1).wrong == 0


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("fabric", ["ring:4", "dgx_a100(2, gpus_per_box=2)", "torus:2,3"])
def test_every_scheduler_is_verified_and_within_the_bound(fabric: str, kind: CollectiveKind) -> None:
    result = compare(fabric, kind)
    assert [row for row in result.rows if row.algbw is not None]
    for row in result.rows:
        if row.report is None:
            assert row.refusal
            continue
        assert row.report.is_ok, (row.algorithm, row.report.violations)
        assert row.algbw is not None
        assert row.rate is not None
        assert row.algbw <= row.rate <= result.bound.algbw
    values = [row.rate for row in result.rows if row.rate is not None]
    assert values == sorted(values, reverse=True)


def test_verify_matches_a_trusted_fabric_by_names() -> None:
    fabric = parse("dgx_a100(2, gpus_per_box=2)")
    plan = solve(fabric, "allgather").plan
    value = json.loads(dump_topology(fabric))
    value["links"].reverse()
    shuffled = topology_from_json(value)
    assert shuffled != fabric
    assert verify(plan, shuffled).is_ok
    assert verify(plan, shuffled).report.is_optimal


def test_verify_on_a_weaker_fabric_fails() -> None:
    plan = solve("ring:4", "allgather").plan
    weaker = parse('with_failed_links(ring(4), "n0->n1")')
    result = verify(plan, weaker)
    assert not result.is_ok
    assert "n0->n1" in str(result.report.violations[0])
    faster = parse('ring(4, bandwidth="2B/s")')
    assert not verify(plan, faster).is_ok  # the claims are false there


def test_allreduce_witnesses_on_another_fabric() -> None:
    plan = solve("ring:4", "allreduce").plan
    assert verify(plan, "ring:4").report.is_optimal
    assert not verify(plan, 'with_failed_links(ring(4), "n0--n1")').is_ok


def test_late_solve_falls_back_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "GRACE_S", 60.0)  # so that a busy machine has its bound too
    result = solve("mi250:2", "allgather", time_limit_s=1e-9)
    assert result.is_late
    assert result.report.is_ok
    assert result.plan.algorithm in generation.FALLBACKS
    assert result.optimal_algbw is not None


def test_fabrics_on_which_no_schedule_is_quick_are_refused_when_time_is_up() -> None:
    with pytest.raises(TimeLimitError, match="quick enough"):
        solve("dgx_h100:128", "allgather", time_limit_s=0.0)


@pytest.mark.parametrize("name", [name for name in generation.FALLBACKS if name != "bfb"])
def test_fallbacks_heed_the_limit(name: str) -> None:
    problem = make_problem("mi250:2", "allreduce")
    with under(Context(deadline=0.0)), pytest.raises(TimeLimitError):
        find_scheduler(name).make(problem.topology, problem.collective, {})


def test_one_ring_stands_in_where_no_search_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "GRACE_S", -1.0)
    for fabric, kind in (
        ("mi250:2", "allreduce"),
        ("leaf_spine:3,2", "reduce-scatter"),
        ("mesh:2,3", "broadcast"),
    ):
        found = generation.fall_back(make_problem(fabric, kind))
        assert found.algorithm == ("bfb" if fabric.startswith("mesh") else "ring")


def test_what_stands_in_when_late_is_the_fastest_of_the_quick_schedules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generation, "GRACE_S", 60.0)
    monkeypatch.setattr(generation, "FALLBACKS", generation.FALLBACKS[::-1])
    rows = compare("torus:6,6", "allgather", algorithms=generation.FALLBACKS).rows
    found = {row.algorithm: row.algbw for row in rows if row.algbw is not None}
    first = next(name for name in generation.FALLBACKS if name in found)
    best = max(found, key=lambda name: found[name])
    assert found[best] > found[first]  # so that taking the first that fits would fail here
    assert generation.fall_back(make_problem("torus:6,6", "allgather")).algorithm == best


def test_a_late_allreduce_keeps_its_two_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline passes after reduce-scatter and allgather were packed, within the linear program."""

    def past(*problem: Any, **others: Any) -> Any:
        with under(Context(None, 0.0)):
            return solve_allreduce(*problem, **others)

    monkeypatch.setattr(forestcoll.allreduce, "solve_allreduce", past)
    result = solve("dgx_a100:2", "allreduce", time_limit_s=60)
    assert result.is_late
    assert result.report.is_ok
    assert result.plan.algorithm == "forestcoll"
    assert result.algbw == solve("dgx_a100:2", "allgather").algbw / 2
    assert result.bound is None
    assert any("reduce-scatter + allgather" in note for note in result.notes)


def test_a_late_bound_is_an_exception() -> None:
    stages: list[str] = []
    with pytest.raises(TimeLimitError):
        bound("dgx_a100:2", "allreduce", time_limit_s=1e-9)
    assert bound("ring:4", "allreduce", progress=lambda stage, done, total: stages.append(stage)).algbw
    assert stages


def test_a_wrong_generator_yields_no_plan() -> None:
    def wrong(topology: Topology, collective: Any) -> ForestSchedule:
        good = solve(topology, collective).plan.entries[0].schedule
        assert good.broadcast is not None
        parent = good.broadcast.parent.copy()
        parent[0][parent[0] >= 0] = 1
        return dataclasses.replace(good, broadcast=dataclasses.replace(good.broadcast, parent=parent))

    with table_restored():
        scheduler("wrong", form="trees", collectives=["allgather"])(wrong)
        with pytest.raises(RejectedError, match=f"fails verification.*defect of {__name__}"):
            solve("ring:4", "allgather", algorithm="wrong")
        [row] = compare("ring:4", "allgather", algorithms=["wrong"]).rows
    assert row.report is not None
    assert not row.report.is_ok
    assert row.algbw is None


def test_algorithms_by_name() -> None:
    assert algorithm_names()[:2] == ("forestcoll", "rs-ag")
    with pytest.raises(FormatError, match="unknown algorithm"):
        solve("ring:4", "allgather", algorithm="magic")
    with pytest.raises(ScheduleError, match="rs-ag: allgather is not supported; it supports allreduce"):
        solve("ring:4", "allgather", algorithm="rs-ag")


@pytest.mark.parametrize(
    ("fabric", "ranks", "phases", "optimum"),
    [("mi250:2", "0-7,16-23", 104, 128), ("dgx_a100:2", "0-11", 75, 100)],
)
def test_allreduce_beats_its_phases_where_they_fall_short(
    fabric: str, ranks: str, phases: int, optimum: int
) -> None:
    # GB/s: 8 of 16 GPUs in each of two MI250 boxes, the dissertation's own case; A100 boxes with 8 and 4 GPUs
    assert solve(fabric, "allreduce", algorithm="rs-ag", ranks=ranks, exact=True).algbw == phases * 10**9
    best = solve(fabric, "allreduce", ranks=ranks)
    assert best.algbw == optimum * 10**9
    assert best.is_optimal


def test_injection_caps_are_refused() -> None:
    builder = TopologyBuilder("capped")
    for name in "abc":
        builder.compute(name, injection_bytes_per_s=10)
    for one, other in ("ab", "bc", "ca"):
        builder.duplex(one, other, 10)
    with pytest.raises(InfeasibleError, match="injection cap"):
        solve(builder.build(), "allgather")


def test_plans_with_size_ranges_run_each_size_with_its_schedule() -> None:
    plan = solve("ring:4", "allgather").plan
    ring = solve("ring:4", "allgather", algorithm="multitree").plan
    both = dataclasses.replace(
        plan,
        entries=(
            PlanEntry(0, 4096, ring.entries[0].schedule),
            PlanEntry(4097, None, plan.entries[0].schedule),
        ),
    )
    assert verify(both).is_ok
    rows = treadle.run(both, [1024, 8192], iterations=1).rows
    assert [row.size_bytes for row in rows] == [1024, 8192]
    assert program_of(both, 1024) is not None


def test_topology_files_round_trip_through_parse(tmp_path: Any) -> None:
    path = tmp_path / "fabric.json"
    path.write_text(dump_topology(parse("mi250:1")))
    assert load_topology(path) == parse(str(path)) == parse("mi250:1")
