"""Routes from the command line: solve, verify, routes of a plan, run, lower, compare."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samples import route_samples as samples
from treadle import planning
from treadle.cli.main import main
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import make_problem
from treadle.planning import RouteOptions
from treadle.schedulers.generation import fall_back
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.schedules.transfer import transfer_schedule
from treadle.topologies import parse, subset


def run_json(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> dict[str, Any]:
    assert main([*argv, "--json"]) == status
    out, err = capsys.readouterr()
    assert (err == "") == (status == 0)
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def refusal(capsys: pytest.CaptureFixture[str], *argv: str, status: int) -> str:
    assert main(list(argv)) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("fabric", "options"),
    [
        ("torus:3,3", ("--layers", "1")),
        ("dgx_a100:2", ("--max-routes", "2", "--chunks", "4")),
        ("generalized_kautz:3,10", ("--max-flows", "2", "--chunks", "2")),
    ],
)
def test_from_a_fabric_to_moved_data(
    fabric: str, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, text, file = (str(tmp_path / name) for name in ("plan", "text.xml", "routes.json"))
    solve = ("solve", fabric, "alltoall", "--algorithm", "routes", *options, "-o", path)
    values = run_json(capsys, *solve)
    assert values["verified"] is True
    assert 0 <= values["gap"] < 0.6
    assert ("steps" in values) == ("flows_per_host" in values) == ("--max-flows" in options)
    judged = run_json(capsys, "verify", path, "--topology", fabric)
    for key in ("algbw_exact", "routes", "routes_per_pair", "layers", "hops_max", "chunks_per_unit"):
        assert judged[key] == values[key]
    rows = run_json(capsys, "run", path, "--size", "1K,3000B")["rows"]
    assert [row["wrong"] for row in rows] == [0, 0]
    assert main(["lower", path, "--to", "msccl-xml", "-o", text]) == 0
    is_relayed = fabric == "dgx_a100:2"  # GPUs of a box pass data on to other NICs, and no card does that
    assert ("NICs need them too" in capsys.readouterr().out) == (not is_relayed)
    assert 'coll="alltoall"' in Path(text).read_text()
    if is_relayed:
        assert "where no card forwards" in refusal(capsys, "routes", path, "-o", file, status=2)
        return
    written = run_json(capsys, "routes", path, "-o", file)
    assert written["routes"] == values["routes"]
    assert len(json.loads(Path(file).read_text())["routes"]) == values["routes"]
    assert any("rounds are not part" in note for note in written["notes"]) == ("--max-flows" in options)


def test_words_say_what_was_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "plan")
    assert main(["solve", "torus:3,3,3", "alltoall", "--algorithm", "routes", "-o", path]) == 0
    out = capsys.readouterr().out
    assert "3 B/s algbw, 2.89 B/s busbw, optimal" in out  # f = 1/9 of a link (section 5.1), 27 ranks
    assert "702 routes, 1.00 per pair, at most 3 hops, 1 layer, 1 chunk" in out
    assert "saturated    all 162 links" in out
    assert "every pair is connected, no layer can deadlock" in out
    timed = ("solve", "torus:3,3", "alltoall", "--algorithm", "routes", "--max-flows", "2", "-o", path)
    assert main(list(timed)) == 0
    out = capsys.readouterr().out
    assert "at most 2 flows into and out of a host" in out
    assert "saturated" not in out


def test_boxes_have_routes_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    values = run_json(capsys, "solve", "dgx_a100:2", "alltoall", "--algorithm", "hierarchical-routes")
    assert values["optimal"] is True
    assert Fraction(values["algbw_exact"]) == 50 * 10**9
    said = refusal(
        capsys,
        "solve",
        "dgx_a100:2",
        "alltoall",
        "--algorithm",
        "hierarchical-routes",
        "--layers",
        "1",
        status=3,
    )
    assert "needs 2 layers, at most 1 are allowed" in said


def test_some_ranks_with_forwarders_and_demands() -> None:
    demands = samples.random_demands(5, seed=3)
    result = planning.solve(
        "torus:3,3", "alltoall", algorithm="routes", ranks="0-4", forward=True, demands=demands
    )
    routes = result.plan.entries[0].schedule
    assert isinstance(routes, RouteSchedule)
    heads = result.plan.topology.heads[routes.path_links]
    assert np.isin(heads, result.plan.collective.forwarders).any()  # they pass data on, and run nothing
    assert planning.run(result.plan, [600]).wrong == 0
    absent = planning.solve("torus:3,3", "alltoall", algorithm="routes", ranks="0-5", max_flows=1)
    assert isinstance(absent.plan.entries[0].schedule, TimedRoutes)
    assert planning.run(absent.plan, [600]).wrong == 0
    assert planning.verify(absent.plan, "torus:3,3").n_absent == 3


def test_plans_move_to_the_same_fabric_in_another_order() -> None:
    """Links are matched by their ends' names; a fabric that lacks one is a violation."""
    plan = samples.plan_of("torus:3,3")
    fabric = plan.topology
    turned = replace(
        fabric,
        **{
            key: getattr(fabric, key)[::-1].copy() for key in ("tails", "heads", "bandwidths", "latencies_ns")
        },
    )
    for entry in plan.entries:
        moved = transfer_schedule(entry.schedule, fabric, turned)
        assert transfer_schedule(moved, turned, fabric) == entry.schedule
        assert moved != entry.schedule
    assert planning.verify(plan, turned).is_ok
    lacking = planning.verify(plan, parse("with_failed_links(torus(3, 3), 'n0_0->n0_1')"))
    assert "which with_failed_links" in str(lacking.report.violations[0])
    assert not planning.verify(plan, subset(fabric, 0, 1, 2)).is_ok


def test_a_time_limit_leaves_routes_that_were_at_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan"
    argv = ["jellyfish:48,4", "--time-limit", "1ms"]
    values = run_json(
        capsys, "solve", argv[0], "alltoall", *argv[1:], "--algorithm", "routes", "-o", str(path), status=4
    )
    assert (values["time_limit_reached"], values["verified"]) == (True, True)
    assert planning.verify(load_plan(path)).is_ok
    values = run_json(capsys, "routes", *argv, "-o", str(tmp_path / "r.csv"), status=4)
    assert values["time_limit_reached"] is True
    assert (tmp_path / "r.csv").read_text().count("\n") == values["routes"] + 1


def test_quick_routes_keep_the_limits() -> None:
    problem = make_problem("jellyfish:32,4", "alltoall")
    limits = RouteOptions(max_layers=4, max_routes=1, max_flows=2)
    found = fall_back(problem, limits)
    assert found.algorithm == "searched-routes"
    schedule = found.schedule
    assert isinstance(schedule, TimedRoutes)
    assert schedule.max_flows <= 2
    assert schedule.routes.n_layers <= 4
    assert samples.is_correct(problem.topology, problem.collective, schedule)
    one_way = make_problem("generalized_kautz:4,27", "alltoall")
    assert samples.is_correct(
        one_way.topology, one_way.collective, fall_back(one_way, RouteOptions(max_layers=3)).schedule
    )
    with pytest.raises(InfeasibleError, match=r"have no way of at most \d+ hops in 1 layers"):
        fall_back(make_problem("directed_circulant:6,1", "alltoall"), RouteOptions(max_layers=1))


def test_notes_say_what_limits_cost(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("solve", "generalized_kautz:4,27", "alltoall", "--algorithm", "routes", "--chunks", "1")
    values = run_json(capsys, *argv)
    assert any(note.startswith("whole chunks cost") for note in values["notes"])
    values = run_json(capsys, *argv, "--max-routes", "1")
    assert any("on at most 1 route cost" in note for note in values["notes"])
    values = run_json(capsys, "solve", "ring:5", "alltoall", "--algorithm", "routes", "--layers", "1")
    assert values["layers"] == 1
    assert values["notes"][0].endswith("2 are enough for all of it (--layers)")


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["uni_ring:1,4", "alltoall", "--layers", "1"], 3, "2 are enough"),
        (["ring:4", "alltoall", "--layers", "0"], 2, "layers: at most 0, expected at least 1"),
        (["ring:4", "alltoall", "--layers", "-2"], 2, "layers: at most -2, expected at least 1"),
        (["ring:4", "alltoall", "--max-routes", "0"], 2, "at most 0 routes a pair, expected at least 1"),
        (["ring:4", "alltoall", "--max-flows", "0"], 2, "at most 0 flows per host, expected at least 1"),
        (["ring:4", "alltoall", "--chunks", "0"], 2, "expected 1 to 2**24"),
        (["ring:4", "allgather"], 2, "routes: allgather is not supported; it supports alltoall"),
        (["with_failed_links(path(3), 'n1->n2')", "alltoall"], 3, "n2"),
        (
            ["ring:4", "alltoall", "--algorithm", "pipelined", "--layers", "2"],
            2,
            "--layers is for --algorithm routes, hierarchical-routes, ",
        ),
        (["ring:4", "allgather", "--algorithm", "forestcoll", "--max-flows", "2"], 2, "--algorithm routes"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(
    argv: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(capsys, "solve", "--algorithm", "routes", *argv, status=status)


def test_other_files_have_no_routes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "plan")
    assert main(["solve", "ring:4", "alltoall", "-o", path, "-q"]) == 0
    assert "has no routes; use treadle solve" in refusal(capsys, "routes", path, status=2)
    plan = samples.plan_of()
    save_plan(path, plan)
    said = refusal(capsys, "routes", path, "--layers", "2", status=2)
    assert "leave out the options that choose them" in said
    save_plan(path, replace(plan, algbw=plan.algbw * 2))
    assert "fails verification" in refusal(capsys, "routes", path, status=1)
    assert main(["verify", path]) == 1
    assert "claim: algbw is" in capsys.readouterr().out
    with pytest.raises(ScheduleError, match="has no routes"):
        planning.routes_of(planning.solve("ring:4", "allgather").plan)
    Path(path).write_bytes(b"PK\x03\x04 no more than that")
    assert main(["routes", path]) == 2


def test_compare_shows_the_routes_that_solve_makes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "compare", "generalized_kautz:3,10", "alltoall", "--algorithms", "routes")[
        "schedules"
    ]
    solved = planning.solve("generalized_kautz:3,10", "alltoall", algorithm="routes")
    assert [row["algbw_exact"] for row in rows] == [f"{solved.algbw.numerator}/{solved.algbw.denominator}"]
    assert rows[0]["layers"] == solved.report.n_layers
    rows = run_json(capsys, "compare", "ring:4", "allgather")["schedules"]
    assert not {row["algorithm"] for row in rows} & {"routes", "hierarchical-routes"}


def test_small_fabrics_take_at_most_the_layers_of_adapters_by_default() -> None:
    """The best paths of generalized_kautz(4, 64) need 5 layers; 1% of the rate is worth fewer."""
    found = planning.routes("generalized_kautz:4,64")
    assert found.report.is_ok
    assert found.schedule.n_layers <= 4
    assert found.bound is not None
    assert found.algbw >= found.bound * Fraction(99, 100)
    assert found.notes[0].endswith("5 cost nothing (--layers)")
    best = planning.routes("generalized_kautz:4,64", max_layers=5)
    assert best.algbw > found.algbw
