"""All-to-all in steps from the command line: solve, verify, run, lower."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from samples.table import GENERAL_STEPS
from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.planning import SizeRequest, solve
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.plan_files.archive import load_plan


def run_json(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> dict[str, Any]:
    assert main([*argv, "--json"]) == status
    out, err = capsys.readouterr()
    assert (err == "") == (status == 0)
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


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


def test_a_time_limit_leaves_shortest_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan"
    argv = ["solve", "generalized_kautz:4,64", "alltoall", "--algorithm", "tsmcf", "--time-limit", "1ms"]
    values = run_json(capsys, *argv, "-o", str(path), status=4)
    assert values["algorithm"] == "shortest-paths"
    assert values["time_limit_reached"] is True
    assert load_plan(path).algorithm == "shortest-paths"


@pytest.mark.parametrize("size", [None, SizeRequest(2**20)])
def test_steps_keep_to_the_limit_of_chunks(size: SizeRequest | None) -> None:
    """Pipelining cuts what the routes take again, and the limit is of both cuts together."""
    for chunks in (1, 3):
        made = solve("torus:4,4", "alltoall", chunks=chunks, size=size).plan.entries[0].schedule
        assert isinstance(made, ExchangeSchedule)
        assert made.n_chunks <= chunks


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ScheduleError, match="one of the two"):
        solve("hypercube:3", "alltoall", size=SizeRequest(1024), rounds=(4,))
    for kind, algorithm in (("alltoall", "tsmcf"), ("allgather", None)):
        with pytest.raises(ScheduleError, match="--size is for --algorithm bfb, taccl, pipelined, shortest"):
            solve("hypercube:3", kind, algorithm=algorithm, size=SizeRequest(1024))


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
