"""``treadle simulate``: words, JSON, traces, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import main


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "ring.plan"
    words = ["solve", 'ring(4,bandwidth="1GB/s")', "allgather", "--algorithm", "ring", "-o", str(path), "-q"]
    assert main(words) == 0
    return path


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


def test_a_trace_of_the_last_size(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "trace.json"
    words = ["simulate", str(plan), "--size", "1K,2K", "--slices", "2", "--trace", str(target)]
    assert main(words) == 0
    assert f"trace {target}, of size 2KB" in " ".join(capsys.readouterr().out.split())
    trace = json.loads(target.read_text(encoding="utf-8"))
    assert trace["otherData"]["size_bytes"] == 2048
    assert sum(e["ph"] == "X" and e["pid"] == 1 for e in trace["traceEvents"]) == 4 * 2 * 3 * 2
    assert {path.name for path in tmp_path.iterdir()} == {target.name, "ring.plan"}


def test_without_simgrid_the_message_says_where_it_is(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["simulate", str(plan), "--size", "64B", "--referee", "simgrid"]) == 5
    assert "libsimgrid-dev" in capsys.readouterr().err
