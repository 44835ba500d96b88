"""``treadle simulate``: words, JSON, traces, refusals."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from engines import missing_engines
from treadle.cli.main import main
from treadle.simulation.calibration import cross_check

needs_simgrid = pytest.mark.skipif(
    "SimGrid" in missing_engines(), reason="needs SimGrid's smpicc and smpirun"
)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "ring.plan"
    words = ["solve", 'ring(4,bandwidth="1GB/s")', "allgather", "--algorithm", "ring", "-o", str(path), "-q"]
    assert main(words) == 0
    return path


def test_a_plan_over_sizes(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(plan), "--size", "1K..4K", "--alpha", "1us"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "alpha 1us per message\n               pipelined; cut-through; links shared slice-order" in out
    rows = [line.split() for line in out.splitlines() if line.split()[:1] in (["1KB"], ["2KB"], ["4KB"])]
    assert [row[0] for row in rows] == ["1KB", "2KB", "4KB"]
    assert "critical path  of 4KB:" in out
    assert "latency" in out
    assert "optimum        2.67 GB/s algbw, 2 GB/s busbw" in out


def test_json_is_exact(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two rings of opposite sense, half of each shard: 3 hops of alpha + M / 8 / B each (3.3.2)."""
    words = ["--size", "4096B", "--slices", "1", "--alpha", "1us", "--latency-model", "per-message", "--json"]
    assert main(["simulate", str(plan), *words]) == 0
    values = json.loads(capsys.readouterr().out)
    (row,) = values["rows"]
    assert Fraction(row["time_exact"]) == 3 * (Fraction(1, 10**6) + Fraction(512, 10**9))
    assert row["time_s"] == pytest.approx(row["alpha_beta_s"])
    assert row["bound_s"] == pytest.approx(1e-6 + 4096 / values["optimal_algbw_bytes_per_s"])
    assert row["bound_by"] == "crossing"
    assert row["efficiency"] == pytest.approx(row["bound_s"] / row["time_s"])
    assert row["transfers"] == 4 * 2 * 3
    assert (values["sharing"], values["alpha_s"]) == ("slice-order", 1e-6)


def test_a_cost_model_is_named(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bidirectional ring's three steps of g, half a shard, a hop and alpha; the launch once."""
    assert main(["simulate", str(plan), "--size", "4KB", "--cost-model", "reference"]) == 0
    out = capsys.readouterr().out
    assert "cost model     reference: round figures" in out
    file = tmp_path / "mine.json"
    hop = {"alpha_ns": 700, "occupancy_ns": 30, "hop_ns": 100, "efficiency": "1/2"}
    values = {"treadle": "cost-model", "version": 1, "name": "mine", "source": "a bench"}
    file.write_text(json.dumps({**values, "protocols": [{"name": "ll", "launch_ns": 5000, "hop": hop}]}))
    words = ["--size", "4KB", "--slices", "1", "--cost-model", str(file), "--json"]
    assert main(["simulate", str(plan), *words]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["rows"]
    assert (found["cost_model"], found["cost_model_source"], row["protocol"]) == ("mine", "a bench", "ll")
    assert "alpha_s" not in found
    seconds = Fraction(5000 + 3 * (30 + 1024 + 100 + 700), 10**9)
    assert Fraction(row["time_exact"]) == seconds
    assert row["alpha_beta_s"] == pytest.approx(float(seconds), rel=1e-12)


@pytest.mark.parametrize("sharing", ["fifo", "slice-order", "fair"])
def test_a_fabric_is_solved_first(sharing: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "simulate",
        "hypercube:2",
        "allreduce",
        "--algorithm",
        "bfb",
        "--sharing",
        sharing,
        "--size",
        "64B",
    ]
    assert main([*words, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["algorithm"], values["collective"]) == ("bfb", "allreduce")
    assert values["rows"][0]["time_s"] >= 64 / values["optimal_algbw_bytes_per_s"]


def test_design_and_simulate_count_alpha_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A designed fabric's links have the latency of a hop; nothing comes on top unless it is asked for."""
    path = str(tmp_path / "designed.plan")
    assert main(["design", "--nodes", "9", "--degree", "2", "--no-cache", "-o", path, "--json"]) == 0
    designed = json.loads(capsys.readouterr().out)
    (best,) = (row for row in designed["frontier"] if row["topology"] == designed["best"])
    seconds = best["allreduce_s"]
    rows = {}
    for alpha in ([], ["--alpha", "0us"], ["--alpha", "10us"]):
        assert main(["simulate", path, "--size", "1MB", *alpha, "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        rows[tuple(alpha)] = values["rows"][0]["alpha_beta_s"]
        assert values["link_latency_s"] == 1.55e-6
        assert values.get("alpha_s") == ((10e-6 if "10us" in alpha else 0) if alpha else None)
        assert values.get("cost_model") == (None if alpha else "link-latencies")
    assert rows[()] == rows["--alpha", "0us"] == pytest.approx(seconds, rel=1e-9)
    assert rows["--alpha", "10us"] == pytest.approx(seconds + best["steps"] * 2 * 10e-6, rel=1e-9)
    assert main(["simulate", path, "--size", "1MB"]) == 0
    assert "cost model     link-latencies" in capsys.readouterr().out
    assert main(["simulate", path, "--size", "1MB", "--alpha", "0us"]) == 0
    assert "alpha 0us per message and up to 1.55us per link" in capsys.readouterr().out


def test_a_graph_costs_the_same_designed_and_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hop costs the same by default for `design`, on the fabric that it writes, and on the catalogue's."""
    path = str(tmp_path / "designed.plan")
    words = ["design", "--topology", "torus:3,3", "--no-cache", "-o", path, "--json"]
    assert main(words) == 0
    designed = json.loads(capsys.readouterr().out)
    seconds = []
    for subject in ([path], ['torus(3, 3, bandwidth="25Gbit/s")', "allreduce", "--algorithm", "bfb"]):
        assert main(["simulate", *subject, "--size", "1MB", "--json"]) == 0
        seconds.append(json.loads(capsys.readouterr().out)["rows"][0]["alpha_beta_s"])
    (row,) = designed["frontier"]
    assert seconds == [pytest.approx(row["allreduce_s"], rel=1e-9)] * 2


def test_a_fabric_without_latencies_has_those_of_the_reference_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["simulate", 'path(4, bandwidth="1GB/s")', "allgather", "--size", "4K", "--json"]
    for least, slices in ((4096, 1), (64, 8)):
        assert main([*words, *(["--least-slice", f"{least}B"] if slices > 1 else [])]) == 0
        values = json.loads(capsys.readouterr().out)
        assert (values["cost_model"], values["link_latency_s"]) == ("reference", 0)
        assert values["least_slice_bytes"] == least
        (row,) = values["rows"]
        assert (row["slices"], row["slices_limited_by"]) == (slices, "least slice")


def test_sizes_with_fewer_slices_than_would_help_are_named(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.simulation.simulated_sizes.MAX_AUTO_TASKS", 100)
    words = ["simulate", str(plan), "--size", "64K..256K", "--alpha", "0us"]
    assert main(words) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("slices  "))
    assert line == "slices         64KB to 256KB: more would be too many messages to try; --slices N takes N"
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["slices_limited_by"] for row in rows] == ["messages"] * 3
    assert main([*words, "--slices", "8"]) == 0
    assert "too many messages" not in capsys.readouterr().out


def test_a_trace_of_the_last_size(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "trace.json"
    words = ["simulate", str(plan), "--size", "1K,2K", "--slices", "2", "--trace", str(target)]
    assert main(words) == 0
    assert f"trace {target}, of size 2KB" in " ".join(capsys.readouterr().out.split())
    trace = json.loads(target.read_text(encoding="utf-8"))
    assert trace["otherData"]["size_bytes"] == 2048
    assert sum(e["ph"] == "X" and e["pid"] == 1 for e in trace["traceEvents"]) == 4 * 2 * 3 * 2
    assert {path.name for path in tmp_path.iterdir()} == {target.name, "ring.plan"}


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["{}/absent.plan"], 2, "absent.plan"),
        (["ring:4", "allgather", "--size", "64"], 2, "size with a unit"),
        (["ring:4", "allgather", "--slices", "some"], 2, "expected a number or auto"),
        (["ring:4", "allgather", "--slices", "0"], 2, "0 slices, expected 1 to"),
        (["ring:4", "allgather", "--alpha", "10"], 2, "no unit"),
        (["ring:4", "allgather", "--cost-model", "referense"], 2, "nor one of reference, "),
        (["ring:4", "allgather", "--cost-model", "{}"], 2, "neither a file that exists"),
        (
            ["ring:4", "allgather", "--cost-model", "reference", "--alpha", "1us"],
            2,
            "expected one of the two",
        ),
        (
            ["ring:4", "allgather", "--cost-model", "reference", "--referee", "simgrid"],
            2,
            "supports one alpha for all messages",
        ),
        (["ring:4", "allgather", "--sharing", "none"], 2, "none"),
        (["ring:4", "allgather", "--reduction", "fast"], 2, "fast"),
        (["ring:4", "nothing"], 2, "nothing"),
        (["ring:4", "allgather", "--size", "1K", "--slices", "1048576"], 2, "use fewer slices"),
        (["ring:4", "allgather", "--size", "1K", "--trace", "{}/absent/trace"], 2, "/absent/trace"),
    ],
)
def test_refusals_are_one_line(
    words: list[str], status: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *(word.replace("{}", str(tmp_path)) for word in words)]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


def test_a_plan_needs_no_algorithm(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(plan), "--algorithm", "ring"]) == 2
    assert "expected a fabric to solve for" in capsys.readouterr().err


@needs_simgrid
def test_a_referee_is_asked(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both rings carry half a shard in each of three steps; SMPI moves the elements."""
    words = ["simulate", str(plan), "--size", "64K,128K", "--alpha", "1us", "--referee", "simgrid"]
    assert main([*words, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["referee"] == "simgrid"
    for row, size in zip(values["refereed"], (2**16, 2**17), strict=True):
        assert (row["size_bytes"], row["wrong"]) == (size, 0)
        assert row["own_s"] == pytest.approx(3 * (1e-6 + size / 8e9))
        assert row["referee_s"] == pytest.approx(row["own_s"], rel=0.01)
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("cross-check"))
    assert [line.split()[0] for line in lines[place + 2 :][:3] if line.strip()][-2:] == ["64KB", "128KB"]


@needs_simgrid
def test_data_that_do_not_fit_are_refused_at_once(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(plan), "--size", "1G", "--referee", "simgrid"]) == 6
    assert "expected sizes up to 256MB" in capsys.readouterr().err


@needs_simgrid
def test_wrong_elements_fail(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = cross_check.CrossCheckRow(64, 1e-6, 1e-6, 1, 1550)
    monkeypatch.setattr(cross_check, "run_cross_check", lambda *_, **__: (row,))
    assert main(["simulate", str(plan), "--size", "64B", "--referee", "simgrid"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "1"


def test_without_simgrid_the_message_says_where_it_is(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["simulate", str(plan), "--size", "64B", "--referee", "simgrid"]) == 5
    assert "libsimgrid-dev" in capsys.readouterr().err


def test_the_algbw_of_steps_is_told_from_times_that_overlap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chunks of a step wait for no other step: at a large size only what the links carry counts."""
    fabric, plan = "with_failed_nodes(dgx_a100(2, 2), 'box0.nic0')", str(tmp_path / "steps.plan")
    steps = ["--algorithm", "factor-allreduce", "--chunks", "4"]
    assert main(["solve", fabric, "allreduce", *steps, "-o", plan, "-q"]) == 0
    assert main(["simulate", plan, "--size", "8G"]) == 0
    out = capsys.readouterr().out
    assert "asymptotic 25 GB/s pipelined, 23.76 GB/s step by step\n" in out
    assert "35.64 GB/s step by step; verified (factor-allreduce)\n" in out
    row = next(line for line in out.splitlines() if line.strip().startswith("8GB "))
    assert 24.9 < float(row.split()[3]) <= 25
    assert main(["simulate", fabric, "allreduce", "--size", "1G"]) == 0
    assert "busbw, verified (forestcoll)\n" in capsys.readouterr().out
