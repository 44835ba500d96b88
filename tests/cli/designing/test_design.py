"""``treadle design`` as a user types it."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.planning import verify
from treadle.schedules.plan_files.archive import load_plan

JOB = """
[network]
alpha = "10us"
bandwidth = "100Gbit/s"
[[collectives]]
kind = "allreduce"
size = "100MB"
count = 4
[[collectives]]
kind = "allgather"
size = "1MB"
group_size = 4
stride = 2
[[collectives]]
kind = "alltoall"
size = "1KB"
count = 50
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["design", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_rates_have_the_unit_that_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for words, shown in (([], "12.5 GB/s"), (["--unit", "Gbit/s"], "100 Gbit/s")):
        assert main(["design", "--nodes", "8", "--degree", "2", *words]) == 0
        assert f"{shown} per node in each direction" in capsys.readouterr().out


def test_frontier_of_table_3_4(capsys: pytest.CaptureFixture[str]) -> None:
    """N = 1024, d = 4: at least as good as the published frontier, beside the bounds."""
    values = answer(capsys, "--nodes", "1024", "--degree", "4", "--alpha", "10us", "--search", "0")
    rows = [(row["steps"], Fraction(row["t_b_exact"])) for row in values["frontier"]]
    for steps, t_b in ((5, "1.332"), (6, "1.020"), (8, "1.004"), (11, "1.000"), (20, "0.999")):
        assert any(s <= steps and b <= Fraction(t_b) + Fraction(1, 2000) for s, b in rows)
    assert values["bounds"]["steps"] == 5
    assert values["bounds"]["t_b_exact"] == "1023/1024"
    assert values["bounds"]["allreduce_s"] == pytest.approx(267.6e-6, abs=5e-8)
    assert values["bounds"]["alltoall_bound_s"] == pytest.approx(382.3e-6, abs=5e-8)
    best = min(row["allreduce_s"] for row in values["frontier"])
    assert best <= 291.05e-6
    assert values["best"] in {row["topology"] for row in values["frontier"]}


def test_plan_and_cabling(capsys: pytest.CaptureFixture[str], tmp_path: Path, own_cache: Path) -> None:
    plan, cabling = tmp_path / "x.plan", tmp_path / "x.csv"
    common = ["--nodes", "12", "--degree", "4", "-o", str(plan), "--cabling", str(cabling)]
    values = answer(capsys, *common)
    assert values["plan_from_cache"] is False
    result = verify(load_plan(plan))
    assert result.is_ok
    assert result.topology.n_links == 48
    assert set(result.topology.bandwidths.tolist()) == {12_500_000_000 // 4}
    assert set(result.topology.latencies_ns.tolist()) == {1550}
    with open(cabling, newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(2 if row["duplex"] == "yes" else 1 for row in rows) == 48
    again = answer(capsys, *common)
    assert again["plan_from_cache"] is True
    assert {**again, "seconds": 0, "plan_from_cache": 0} == {**values, "seconds": 0, "plan_from_cache": 0}
    (kept,) = own_cache.glob("*.plan")
    kept.write_bytes(b"damaged")
    assert answer(capsys, *common)["plan_from_cache"] is False
    assert answer(capsys, *common, "--no-cache")["plan_from_cache"] is False


def test_a_kept_plan_with_a_false_claim_is_made_anew(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, own_cache: Path
) -> None:
    """What lies in the cache is not believed: another fabric's plan under this one's name is refused."""
    common = ["--degree", "2", "-o", str(tmp_path / "x.plan")]
    answer(capsys, "--nodes", "5", *common)
    (first,) = own_cache.glob("*.plan")
    answer(capsys, "--nodes", "6", *common)
    (second,) = set(own_cache.glob("*.plan")) - {first}
    second.write_bytes(first.read_bytes())
    values = answer(capsys, "--nodes", "6", *common)
    assert values["plan_from_cache"] is False
    assert len(load_plan(tmp_path / "x.plan").topology.compute_nodes) == 6


def test_a_kept_plan_of_another_collective_is_not_taken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, own_cache: Path
) -> None:
    plan = tmp_path / "x.plan"
    common = ["--nodes", "5", "--degree", "2", "-o", str(plan), "--collective"]
    answer(capsys, *common, "allgather")
    (first,) = own_cache.glob("*.plan")
    answer(capsys, *common, "reduce-scatter")
    (second,) = set(own_cache.glob("*.plan")) - {first}
    second.write_bytes(first.read_bytes())
    assert answer(capsys, *common, "reduce-scatter")["plan_from_cache"] is False
    assert load_plan(plan).collective.kind == "reduce-scatter"


def test_workload_and_reconfiguration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    common = ["--nodes", "16", "--degree", "2", "--workload", str(job)]
    values = answer(capsys, *common, "--reconfiguration-delay", "1ns")
    times = [row["workload_s"] for row in values["frontier"]]
    best = next(row for row in values["frontier"] if row["topology"] == values["best"])
    assert best["workload_s"] == min(times)
    changing = values["reconfiguration"]
    assert len(changing["fabrics"]) == 3
    assert changing["workload_s"] <= min(times) + 3e-9
    assert "4 x " in changing["fabrics"][1]
    assert changing["fabrics"][1].endswith("stride 2")
    slow = answer(capsys, *common, "--reconfiguration-delay", "10s")["reconfiguration"]
    assert slow["changes"] == 0
    assert slow["workload_s"] == pytest.approx(min(times))


@pytest.mark.parametrize(("n", "order"), [(6, "0,2,4,1,3,5"), (10, "0,2,4,6,8,1,3,5,7,9")])
def test_placed_ranks_are_named_the_first_eight(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, n: int, order: str
) -> None:
    job = tmp_path / "pairs.toml"
    job.write_text('[[collectives]]\nkind = "allgather"\nsize = "64MB"\ngroup_size = 2\n')
    fabric = f"with_nodes_ordered(ring({n}), '{order}')"
    assert main(["design", "--topology", fabric, "--workload", str(job)]) == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("placement"))
    named = line.partition("nodes ")[2].partition(";")[0].split(", ")
    assert named[8:] == ["..."] * (n > 8)
    assert len(set(map(int, named[:8]))) == min(n, 8)


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_other_collectives_and_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    plan = tmp_path / "x.plan"
    values = answer(
        capsys, "--nodes", "16", "--degree", "2", "--pick", "1", "--collective", kind, "-o", str(plan)
    )
    loaded = load_plan(plan)
    assert loaded.collective.kind == kind
    assert verify(loaded).is_ok
    assert values["chosen"] == values["frontier"][0]["topology"]
    assert values["chosen"] in loaded.topology.name


def test_text_shows_the_frontier(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["design", "--nodes", "8", "--degree", "2", "--bidirectional"]) == 0
    text = capsys.readouterr().out
    assert "BiRing(2,8)" in text
    assert "lower bound (degree 2, no switches)" in text
    assert main(["design", "--nodes", "8", "--degree", "2", "-q"]) == 0
    assert capsys.readouterr().out == ""


def test_flows_decide_for_a_workload(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[[collectives]]\nkind = "alltoall"\nsize = "1GB"\n')
    size = ["--nodes", "16", "--degree", "2", "--alpha", "0us", "--workload", str(job)]
    flows = answer(capsys, *size)
    bounds = answer(capsys, *size, "--alltoall", "bound")
    for by_flow, by_bound in zip(flows["frontier"], bounds["frontier"], strict=True):
        assert by_flow["workload_s"] == pytest.approx(by_flow["alltoall_s"] * 1024)
        assert by_bound["workload_s"] == pytest.approx(by_bound["alltoall_bound_s"] * 1024)


def test_large_fabrics_keep_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """More than 5 10**6 pairs times links of a node."""
    assert main(["design", "--nodes", "1200", "--degree", "4", "--search", "0"]) == 0
    assert ">=" in capsys.readouterr().out.split("lower bound")[0]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--nodes", "1", "--degree", "2"], 2, "nodes must be at least 2"),
        (["--nodes", "8", "--degree", "0"], 2, "degree must be at least 1"),
        (["--nodes", "99999999999", "--degree", "2"], 2, "nodes must be at most"),
        (["--nodes", "8", "--degree", "999"], 2, "degree must be at most"),
        (["--nodes", "7", "--degree", "3", "--bidirectional"], 3, "21 ports, an odd number"),
        (["--nodes", "4", "--degree", "1", "--bidirectional"], 3, "no fabric of 4 nodes is possible"),
        (["--nodes", "8", "--degree", "2", "--size", "5"], 2, "no unit"),
        (["--nodes", "8", "--degree", "2", "--alpha", "-1us"], 2, "time"),
        (["--nodes", "8", "--degree", "2", "--bandwidth", "0GB/s"], 2, "bandwidth must be at least 1"),
        (["--nodes", "8", "--degree", "2", "--pick", "9"], 2, "the frontier has"),
        (["--nodes", "8", "--degree", "2", "--collective", "broadcast"], 2, "expected one of allreduce"),
        (["--nodes", "8", "--degree", "2", "--workload", "absent.toml"], 2, "No such file"),
        (["--nodes", "8"], 2, "--degree"),
        (["--nodes", "8", "--degree", "2", "-o", "{}/absent/x.plan"], 2, "/absent/x.plan"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], status: int, message: str
) -> None:
    words = [word.replace("{}", str(tmp_path)) for word in arguments]
    assert main(["design", *words]) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_groups_must_fit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    assert main(["design", "--nodes", "10", "--degree", "2", "--workload", str(job)]) == 2
    assert "do not divide 10 nodes" in capsys.readouterr().err
    assert main(["design", "--nodes", "8", "--degree", "2", "--workload", str(job), "--size", "1MB"]) == 2


def test_better_graphs_are_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """90 nodes of degree 4 are no size of the library."""
    words = ["design", "--nodes", "90", "--degree", "4", "--alltoall", "bound", "--no-cache"]
    assert main([*words, "--search", "5000"]) == 0
    lines = capsys.readouterr().out.splitlines()[3:]
    assert lines[0].startswith("searched     abelian Cayley digraphs: ")
    assert lines[1].startswith("searched     Cayley digraphs: ")
    assert lines[2].startswith("searched     neighbours: ")
    assert lines[3].startswith("searched     multicirculants: ")
    assert lines[4] == "found        row 1, better than the library"
    assert main([*words, "--search", "5000", "--json"]) == 0
    first = capsys.readouterr().out
    values = json.loads(first)
    assert values["found_now"] == [values["best"]]
    assert values["searched"][0]["generator_sets"] > 0
    assert main([*words, "--search", "100ms", "-q"]) == 0
    assert main([*words, "--search", "0s"]) == 2
    assert "expected a time or a number of sets" in capsys.readouterr().err
    assert main([*words, "--search", "0"]) == 0
    assert "searched" not in capsys.readouterr().out
