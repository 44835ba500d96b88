"""Plans of `design` after failures: several algorithms are compared, and the fastest at a size is taken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem
from treadle.planning import repair, simulate, solve, verify
from treadle.schedulers.repairing import repair_candidates
from treadle.schedulers.solving import SolveResult, solve_problem
from treadle.schedulers.step_candidates import volume_bound
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan
from treadle.simulation.simulated_plans import SimulationOptions
from treadle.topologies import with_failed_links, with_failed_nodes

MB = 2**20


@pytest.fixture
def designed(tmp_path: Path, request: pytest.FixtureRequest) -> Plan:
    nodes, degree, kind = request.param
    path = tmp_path / "d.plan"
    argv = [
        "design",
        "--nodes",
        nodes,
        "--degree",
        degree,
        "--collective",
        kind,
        "--size",
        "2MB",
        "--no-cache",
    ]
    assert main([*argv, "-o", str(path), "-q"]) == 0
    return load_plan(path)


def seconds(plan: Plan, size: int) -> float:
    [row] = simulate(plan, [size], options=SimulationOptions()).rows  # the links' latencies are all there are
    return float(row.time)


@pytest.mark.parametrize(
    "designed",
    [("16", "2", "allreduce"), ("16", "4", "allgather"), ("12", "3", "reduce-scatter")],
    indirect=True,
)
@pytest.mark.parametrize("node", [False, True])
def test_the_fastest_plan_for_what_is_left_is_taken(designed: Plan, node: bool) -> None:
    fabric = designed.topology
    assert designed.algorithm.startswith("finder: ")
    assert designed.provenance[repair_candidates.JUDGED_AT] == 2 * MB
    if node:
        result = repair(designed, nodes=[fabric.node_names[3]])
        left = with_failed_nodes(fabric, fabric.node_names[3])
    else:
        result = repair(designed, links=[fabric.link_name(0)])
        left = with_failed_links(fabric, fabric.link_name(0))
    assert result.new.topology == left
    assert verify(result.new, left).is_ok
    contest = result.candidates
    assert contest is not None
    assert contest.size_bytes == 2 * MB
    assert contest.old_seconds == seconds(designed, 2 * MB)
    times = {}
    for one in contest.outcomes:
        name, _, trees = one.algorithm.partition(" --trees ")
        again = solve(left, designed.collective.kind, algorithm=name, trees=int(trees) if trees else None)
        assert one.algbw == again.algbw
        times[one.algorithm] = seconds(again.plan, 2 * MB)
    assert {"bfb", "forestcoll", "forestcoll --trees 1"} <= set(times)
    assert seconds(result.new, 2 * MB) == min(times.values()) == contest.outcomes[0].seconds
    assert result.new.provenance[repair_candidates.JUDGED_AT] == 2 * MB
    # the bound is the least that anyone proved
    assert result.new.optimal_algbw == solve(left, designed.collective.kind).optimal_algbw


@pytest.mark.parametrize("designed", [("24", "3", "allreduce")], indirect=True)
def test_large_sizes_want_bandwidth(designed: Plan) -> None:
    """Breadth-first steps lose a third of the damaged fabric's optimum, trees nothing."""
    link = designed.topology.link_name(0)
    large = repair(designed, links=[link], size_bytes=1024 * MB)
    alone = repair(designed, links=[link], algorithm="bfb")
    assert large.new.optimal_algbw is not None
    assert alone.new.algbw < 0.7 * large.new.optimal_algbw
    assert large.new.algbw == large.new.optimal_algbw
    assert alone.candidates is None
    twice = repair(large.new, nodes=[designed.topology.node_names[5]])
    assert twice.candidates is not None
    assert twice.candidates.size_bytes == 1024 * MB


def test_any_plan_may_be_compared_at_a_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.plan"
    assert main(["solve", "torus:3,3", "allgather", "-o", str(path), "-q"]) == 0
    assert main(["repair", str(path), "--link", "n0_0--n1_0", "--size", "1KB"]) == 0
    out = capsys.readouterr().out
    assert "candidates   simulated at 1KB: " in out
    assert "             bfb: " in out
    assert main(["repair", str(path), "--link", "n0_0--n1_0", "--size", "1KB", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    contest = values["contest"]
    assert contest["size_bytes"] == 1024
    assert contest["time_before_s"] > 0
    times = [one["time_s"] for one in contest["contenders"] if "time_s" in one]
    assert times == sorted(times)
    assert all("reason" in one for one in contest["contenders"] if "time_s" not in one)
    assert contest["contenders"][0]["algorithm"].startswith(values["algorithm"])
    assert main(["repair", str(path), "--link", "n0_0--n1_0", "--size", "1KB", "--algorithm", "bfb"]) == 2
    assert "give none of --algorithm" in capsys.readouterr().err
    with pytest.raises(ScheduleError, match="at least 1 byte"):
        repair(load_plan(path), links=["n0_0--n1_0"], size_bytes=0)


def test_the_least_bound_stands_beside_the_fastest_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on more than 128 ranks, where steps come with a looser bound than trees."""

    def loosened(*args: Any, **options: Any) -> SolveResult:
        found = solve_problem(*args, **options)
        if found.plan.algorithm == "forestcoll":
            return found
        bound = volume_bound(Problem(found.plan.topology, found.plan.collective))
        plan = replace(found.plan, optimal_algbw=bound.algbw, certificate=bound.certificate)
        return replace(found, bound=bound, plan=plan)

    monkeypatch.setattr(repair_candidates, "solve_problem", loosened)
    plan = solve("mesh(2, 3)", "allreduce").plan
    corner = plan.topology.node_names[0]
    result = repair(plan, nodes=[corner], size_bytes=1024)
    assert result.new.algorithm != "forestcoll"
    left = with_failed_nodes(plan.topology, corner)
    best = solve(left, "allreduce").optimal_algbw
    assert best is not None
    assert best < volume_bound(Problem(left, result.new.collective)).algbw
    assert result.new.optimal_algbw == best
    assert verify(result.new, left).is_ok


def test_who_cannot_serve_is_named_with_the_reason() -> None:
    """Steps do not pass switches."""
    result = repair(solve("dgx_h100:2", "allgather").plan, nodes=["box0.gpu3"], size_bytes=MB)
    assert result.candidates is not None
    [left_out] = [one for one in result.candidates.outcomes if one.seconds is None]
    assert left_out.algorithm == "bfb"
    assert "comes with switches" in left_out.reason
    assert result.candidates.outcomes[-1] == left_out


def test_small_fabrics_are_searched_too() -> None:
    """Of a ring of 4 without a link, all gathered in 3 steps; exact synthesis takes part."""
    result = repair(solve("ring:4", "allgather").plan, links=["n0->n1"], size_bytes=1024)
    assert result.candidates is not None
    [exact] = [one for one in result.candidates.outcomes if one.algorithm == "exact"]
    assert exact.seconds is not None
    assert exact.seconds >= result.candidates.outcomes[0].seconds
