"""All-to-all in steps from the command line: solve, verify, run, lower."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from samples.table import GENERAL_STEPS
from treadle import planning
from treadle.cli.main import main
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import SizeRequest, solve, verify
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_runtime_s
from treadle.schedules.plan_files.archive import load_plan


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


@pytest.mark.parametrize("algorithm", GENERAL_STEPS)
def test_from_a_fabric_to_moved_data(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, text = tmp_path / "plan", tmp_path / "text.xml"
    values = run_json(capsys, "solve", "hypercube:3", "alltoall", "--algorithm", algorithm, "-o", str(path))
    assert Fraction(values["algbw_exact"]) == 2  # f = 1/4 of a link (figure 3), times 8 ranks
    assert (values["pair_rate_bytes_per_s"], values["f"]) == (0.25, 0.25)
    assert values["optimal"] is True
    assert values["verified"] is True
    assert values["steps"] == (4 if algorithm == "taccl-alltoall" else 3)  # its order on links is greedy
    values = run_json(capsys, "verify", str(path), "--topology", "hypercube:3")
    assert values["verified"] is True
    rows = run_json(capsys, "run", str(path), "--size", "1K,3000B")["rows"]
    assert [row["wrong"] for row in rows] == [0, 0]
    assert main(["lower", str(path), "--to", "msccl-xml", "-o", str(text)]) == 0
    assert 'coll="alltoall"' in text.read_text()
    capsys.readouterr()


def test_pipelined_schedules_come_near_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    values = run_json(capsys, "solve", "generalized_kautz:4,27", "alltoall", "--algorithm", "pipelined")
    assert values["gap"] < 0.01
    assert values["witness"]["kind"] == "distances"
    coarse = run_json(
        capsys, "solve", "generalized_kautz:4,27", "alltoall", "--algorithm", "pipelined", "--chunks", "2"
    )
    assert coarse["gap"] > values["gap"]
    assert coarse["chunks_per_shard"] <= 2
    assert any("whole chunks take" in note for note in coarse["notes"])
    few = run_json(
        capsys, "solve", "generalized_kautz:4,27", "alltoall", "--algorithm", "pipelined", "--rounds", "2"
    )
    assert few["steps"] < values["steps"]


def test_steps_of_a_time_stepped_flow(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("solve", "generalized_kautz:3,10", "alltoall", "--algorithm", "tsmcf")
    found = {n: run_json(capsys, *argv, "--steps", str(n), "--chunks", "100") for n in (3, 4)}
    assert [values["steps"] for values in found.values()] == [3, 4]
    said = refusal(capsys, *argv, "--steps", "1", status=3)
    assert "steps: 1 do not reach every rank; expected at least" in said


def test_some_ranks_with_forwarders(tmp_path: Path) -> None:
    result = planning.solve("torus:3,3", "alltoall", algorithm="pipelined", ranks="0-4", forward=True)
    assert result.report.is_ok
    assert isinstance(result.plan.entries[0].schedule, ExchangeSchedule)
    assert planning.run(result.plan, [600]).wrong == 0
    size = 2**30
    (row,) = planning.simulate(result.plan, [size]).rows
    assert result.plan.optimal_algbw is not None
    assert row.time >= Fraction(size) / result.plan.optimal_algbw
    with pytest.raises(InfeasibleError, match="which is not a rank; cpu-xml has no program for it"):
        planning.lower(result.plan, to="cpu-xml")
    absent = planning.solve("torus:3,3", "alltoall", algorithm="tsmcf", ranks="0-5")
    assert absent.report.is_ok
    assert planning.run(absent.plan, [600]).wrong == 0


def test_a_time_limit_leaves_shortest_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan"
    argv = ["solve", "generalized_kautz:4,64", "alltoall", "--algorithm", "tsmcf", "--time-limit", "1ms"]
    values = run_json(capsys, *argv, "-o", str(path), status=4)
    assert values["algorithm"] == "shortest-paths"
    assert values["time_limit_reached"] is True
    assert load_plan(path).algorithm == "shortest-paths"


def test_switched_fabrics_get_routes(capsys: pytest.CaptureFixture[str]) -> None:
    for fabric, algorithm in (("dgx_a100:2", "routes"), ("torus:3,3", "pipelined")):
        values = run_json(capsys, "solve", fabric, "alltoall")
        assert values["algorithm"] == algorithm
        assert values["optimal"] is True


def test_what_does_not_fit_is_refused_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, "solve", "hypercube:3", "allgather", "--algorithm", "tsmcf", status=2)
    assert "tsmcf: allgather is not supported; it supports alltoall" in said
    said = refusal(capsys, "solve", "dgx_a100:1", "alltoall", "--algorithm", "pipelined", status=2)
    assert "steps store and forward, which the switches of dgx_a100(1) cannot" in said
    said = refusal(
        capsys, "solve", "hypercube:3", "alltoall", "--algorithm", "pipelined", "--rounds", "1,2", status=2
    )
    assert "expected one number" in said
    for option, expected in (("--chunks", "expected 1 to 2**24"), ("--rounds", "expected at least 1")):
        argv = ("solve", "hypercube:3", "alltoall", "--algorithm", "shortest-paths", option, "0")
        assert expected in refusal(capsys, *argv, status=2)


@pytest.mark.parametrize("size", [None, SizeRequest(2**20)])
def test_steps_keep_to_the_limit_of_chunks(size: SizeRequest | None) -> None:
    """Pipelining cuts what the routes take again, and the limit is of both cuts together."""
    for chunks in (1, 3):
        made = solve("torus:4,4", "alltoall", chunks=chunks, size=size).plan.entries[0].schedule
        assert isinstance(made, ExchangeSchedule)
        assert made.n_chunks <= chunks


def test_a_size_chooses_the_rounds() -> None:
    """Small sizes want few steps, large ones full links; each beats the other at its own size."""
    fabric = 'with_links(generalized_kautz(4, 32), bandwidth="12GB/s")'
    made = {}
    for size in (2**10, 2**28):
        plan = solve(fabric, "alltoall", size=SizeRequest(size)).plan
        assert verify(plan).is_ok
        made[size] = plan.entries[0].schedule
    few, many = made.values()
    assert isinstance(few, ExchangeSchedule)
    assert isinstance(many, ExchangeSchedule)
    assert few.n_steps < many.n_steps
    for size, best in made.items():
        times = {
            other.n_steps: exchange_runtime_s(plan.topology, plan.collective, other, size, alpha_s=1e-5)
            for other in (few, many)
        }
        assert times[best.n_steps] == min(times.values())
    slow = solve(fabric, "alltoall", size=SizeRequest(2**28, alpha_s=1.0)).plan.entries[0].schedule
    assert isinstance(slow, ExchangeSchedule)
    assert slow.n_steps <= few.n_steps


def test_links_with_latencies_are_all_that_a_size_is_chosen_by() -> None:
    """1 us of the links or of every step make the same steps, and more than 10 us; by default 1.55 us."""
    steps = []
    for latency, alpha in (
        ("1us", None),
        ("0us", 1e-6),
        ("1us", 1e-5),
        ("0us", None),
        ("0us", 1.55e-6),
    ):
        fabric = f'with_links(generalized_kautz(4, 32), bandwidth="12GB/s", latency="{latency}")'
        made = solve(fabric, "alltoall", size=SizeRequest(2**24, alpha)).plan.entries[0].schedule
        assert isinstance(made, ExchangeSchedule)
        steps.append(made.n_steps)
    own, alone, both, default, same = steps
    assert own == alone == default == same > both


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ScheduleError, match="one of the two"):
        solve("hypercube:3", "alltoall", size=SizeRequest(1024), rounds=(4,))
    for kind, algorithm in (("alltoall", "tsmcf"), ("allgather", None)):
        with pytest.raises(ScheduleError, match="--size is for --algorithm bfb, taccl, pipelined, shortest"):
            solve("hypercube:3", kind, algorithm=algorithm, size=SizeRequest(1024))


@pytest.mark.parametrize(
    ("algorithm", "option"),
    [
        *(
            ("routes", option)
            for option in ("--trees 2", "--max-trees 2", "--exact", "--multicast", "--trim")
        ),
        *(("pipelined", option) for option in ("--trees 2", "--packer growth", "--steps 4", "--symmetric")),
        *(("routes", option) for option in ("--steps 3", "--rounds 4")),
        ("tsmcf", "--rounds 4"),
        ("shortest-paths", "--steps 4"),
    ],
)
def test_options_of_other_algorithms_are_refused(
    capsys: pytest.CaptureFixture[str], algorithm: str, option: str
) -> None:
    argv = ["solve", "hypercube:3", "alltoall", "--algorithm", algorithm, *option.split()]
    said = refusal(capsys, *argv, status=2)
    assert said.startswith(f"treadle: {algorithm}: ")
    assert option.split()[0] in said


@pytest.mark.parametrize("algorithm", ["pipelined", "tsmcf"])
def test_what_a_time_limit_leaves_has_a_gap(capsys: pytest.CaptureFixture[str], algorithm: str) -> None:
    """Pipelined routes of a flow cut short, or shortest paths: below a bound that is proved all the same."""
    argv = ["solve", "generalized_kautz:4,64", "alltoall", "--algorithm", algorithm, "--chunks", "2"]
    assert main([*argv, "--time-limit", "1ns", "--json"]) == 4
    values = json.loads(capsys.readouterr().out)
    assert values["time_limit_reached"]
    assert values["chunks_per_shard"] <= 2
    assert 0 < values["gap"] < 0.9
    assert values["optimal_algbw_bytes_per_s"] > values["algbw_bytes_per_s"]


def test_taking_flows_apart_is_watched() -> None:
    """What makes the paths of pipelined routes reports, so that it can be stopped as well."""
    stages: set[str] = set()
    planning.solve(
        "hypercube:3",
        "alltoall",
        algorithm="pipelined",
        progress=lambda stage, done, total: stages.add(stage),
    )
    assert "peeling" in stages
