"""Every command in process: exit status, text, JSON, files."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import main
from treadle.schedules.plan_files.archive import load_plan


def run_json(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> dict[str, Any]:
    """The one JSON object that a command prints; nothing else may appear."""
    assert main([*argv, "--json"]) == status
    out, err = capsys.readouterr()
    assert (err == "") == (status == 0)
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def test_bound_of_two_a100_boxes_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    values = run_json(capsys, "bound", "dgx_a100:2", "allgather")
    # dissertation, section 4.6: (8 x 300 + 8 x 25 ...) gives 1040/3 GB/s for 300 + 25 GB/s per GPU
    assert Fraction(values["optimal_algbw_exact"]) == Fraction(1040 * 10**9, 3)
    assert values["ranks"] == 16
    assert values["witness"]["kind"] == "cut"
    assert "box0.gpu0" not in values["witness"]["nodes"]


def test_solve_reports_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "plan"
    assert main(["solve", "dgx_a100:2", "allgather", "--exact", "-o", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for words in (
        "346.67 GB/s algbw, 325 GB/s busbw, optimal",
        "cut: 15 of 16 shards must enter {box0.gpu0} over 325 GB/s",
        "13 per root, 208 in total",
        "verified     yes",
        f"plan         {path}",
    ):
        assert words in out
    assert path.exists()


def test_solve_says_what_a_power_of_two_gives_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "dgx_a100:2", "allgather"]) == 0
    out = capsys.readouterr().out
    assert "345.95 GB/s algbw, 324.32 GB/s busbw, 0.21% below the optimum" in out
    assert "8 per root, 128 in total" in out
    assert "8 trees per root, 0.21% below the optimum with 13; --exact builds those" in out
    values = run_json(capsys, "solve", "dgx_a100:2", "allgather")
    assert values["power_of_two"] is True
    assert values["alternatives"] == [{"option": "--exact", "gap": 0.0, "trees_per_root": 13}]


def test_solve_json_has_the_agreed_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "plan"
    values = run_json(capsys, "solve", "torus:3,3", "reduce-scatter", "-o", str(path))
    assert values.keys() >= {
        "topology", "collective", "algorithm", "ranks", "nodes", "links", "algbw_bytes_per_s",
        "algbw_exact", "optimal_algbw_bytes_per_s", "optimal_algbw_exact", "optimal", "witness",
        "verified", "violations", "trees_per_root", "trees", "height_max", "t_b_exact",
        "chunks_per_shard", "seconds", "plan", "gap",
    }  # fmt: skip
    assert values["optimal"] is True
    assert values["gap"] == 0
    # a 9-node torus with 4 unit links per node: T_B = (N - 1)/N in units of M/B at the optimum
    assert Fraction(values["t_b_exact"]) == Fraction(8, 9)
    assert values["seconds"]["total"] > 0
    assert values["plan"] == str(path)


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"])
def test_solve_verify_run_and_lower_every_collective(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, xml = tmp_path / "plan", tmp_path / "xml"
    assert main(["solve", "dgx_a100(1, gpus_per_box=4)", kind, "-o", str(plan), "-q"]) == 0
    values = run_json(capsys, "verify", str(plan), "--topology", "dgx_a100(1, gpus_per_box=4)")
    assert values["verified"] is True
    assert values["topology_embedded"] is False
    values = run_json(capsys, "run", str(plan), "--size", "12B..1K,1000B", "--iterations", "1")
    assert values["wrong"] == 0
    assert [row["size_bytes"] for row in values["rows"]][-1] == 1000
    any_root = ["--accept-any-root"] if kind in ("broadcast", "reduce") else []
    values = run_json(capsys, "lower", str(plan), "-o", str(xml), *any_root)
    assert values["loaded_by_runtime"] is False
    assert xml.read_text().startswith("<algo ")


def test_multicast_reports_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    values = run_json(capsys, "solve", "dgx_h100(1, nvls=True)", "broadcast", "--multicast")
    # one store crosses 1 + 8 links, seven sends 14; nothing is lost
    assert (values["traffic_before"], values["traffic_after"]) == (14, 9)
    assert values["verified"] is True
    assert values["optimal"] is True
    assert main(["solve", "dgx_h100(1, nvls=True)", "broadcast", "--multicast"]) == 0
    assert "traffic      9 x size over all links after pruning, 14 before (35.7% less)\n" in (
        capsys.readouterr().out
    )
    # an allgather fills all links into GPUs: there is no room for copies that come back to who asks
    values = run_json(capsys, "solve", "dgx_h100(1, nvls=True)", "allgather", "--multicast")
    assert values["traffic_before"] == values["traffic_after"] == 14
    assert values["optimal"] is True


def test_fixed_number_of_trees(capsys: pytest.CaptureFixture[str]) -> None:
    # Table 4.1: 2-box MI250 at k = 2 reaches 1024/3 GB/s where the optimum, 5312/15, takes 83 trees
    values = run_json(capsys, "solve", "mi250:2", "allgather", "--trees", "2")
    assert Fraction(values["algbw_exact"]) == Fraction(1024 * 10**9, 3)
    assert values["optimal"] is False
    assert values["exact_trees_per_root"] == 83
    assert values["gap"] == pytest.approx(1 - (1024 / 3) / (5312 / 15))


def test_ranks_absent_or_forwarding(capsys: pytest.CaptureFixture[str]) -> None:
    absent = run_json(capsys, "bound", "mi250:2", "allgather", "--ranks", "0-7,16-23")
    assert Fraction(absent["optimal_algbw_exact"]) == 208 * 10**9
    forward = run_json(capsys, "solve", "ring:4", "allgather", "--ranks", "0,2", "--forward")
    assert forward["forwarders"] == 2
    assert forward["verified"] is True
    named = run_json(capsys, "bound", "mi250:2", "allgather", "--ranks", "box0.gpu?,box1.gpu?")
    assert named["ranks"] == 20


def test_unequal_shards_and_roots(capsys: pytest.CaptureFixture[str]) -> None:
    values = run_json(capsys, "solve", "ring:4", "allgather", "--weights", "3,1,0,2")
    assert values["weights"] == [3, 1, 0, 2]
    assert values["optimal"] is True
    values = run_json(capsys, "solve", "ring:4", "broadcast", "--root", "2")
    assert values["root"] == 2


def test_baseline_as_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    # preprint, section 5.3: the ring on two A100 boxes reaches 640/3 GB/s
    values = run_json(capsys, "solve", "dgx_a100:2", "allgather", "--algorithm", "ring")
    assert Fraction(values["algbw_exact"]) == Fraction(640 * 10**9, 3)
    assert values["optimal"] is False


def test_trim_balances_a_lopsided_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    fabric = 'with_failed_links(dgx_a100(2), "box0.gpu0->box0.nvswitch")'
    assert main(["solve", fabric, "allgather"]) == 3
    assert "box0" in capsys.readouterr().err
    values = run_json(capsys, "solve", fabric, "allgather", "--trim")
    assert values["verified"] is True
    assert any("surplus" in note for note in values["notes"])


def test_compare_shows_the_optimum_first(capsys: pytest.CaptureFixture[str]) -> None:
    values = run_json(capsys, "compare", "dgx_a100:2", "allreduce")
    schedules = values["schedules"]
    assert schedules[0]["algorithm"] == "forestcoll"
    assert schedules[0]["gap"] == pytest.approx(1 / 481)  # 128 chunks; the optimum takes 208
    by_name = {row["algorithm"]: row for row in schedules}
    assert {"forestcoll", "rs-ag", "ring", "double-binary-tree", "blink"} <= by_name.keys()
    assert all(row["verified"] for row in schedules if "refusal" not in row)
    assert main(["compare", "dgx_a100:2", "allgather", "--algorithms", "ring,forestcoll"]) == 0
    out = capsys.readouterr().out
    assert " 61.5 " in out
    assert "multitree" not in out
    assert "optimum      346.67 GB/s algbw, 325 GB/s busbw (exact: 1040/3 GB/s)" in out


def test_topology_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    values = run_json(capsys, "topology", "list")
    assert "dgx_a100" in {entry["name"] for entry in values["catalogue"]}
    path = tmp_path / "fabric.json"
    assert main(["topology", "export", "dgx_a100:2", "-o", str(path)]) == 0
    shown = run_json(capsys, "topology", "show", str(path))
    assert shown["hash"] == run_json(capsys, "topology", "show", "dgx_a100:2")["hash"]
    assert main(["topology", "export", "ring:3"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_run_prints_the_columns_of_nccl_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.plan"
    assert main(["solve", "dgx_a100:2", "allgather", "-o", str(path), "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["run", str(path), "--size", "1K..2K", "--iterations", "1"]) == 0
    out = capsys.readouterr().out
    for word in ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"):
        assert word in out
    assert "measured     on this host" in out
    assert "schedule     345.95 GB/s algbw" in out


def test_lower_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ring.plan"
    assert main(["solve", "ring:3", "allgather", "-o", str(path), "-q"]) == 0
    assert main(["lower", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("<algo ")
    assert out.rstrip().endswith("</algo>")


def test_limit_of_a_profile_is_infeasible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan"
    assert main(["solve", "complete:9", "allgather", "--weights", "1,2,3,4,5,6,7,8,9", "-o", str(path)]) == 0
    capsys.readouterr()
    xml = tmp_path / "xml"
    assert main(["lower", str(path), "-o", str(xml)]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert not xml.exists()


def test_time_limit_writes_the_incumbent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan"
    argv = ["solve", "mi250(2)", "allgather", "--exact", "--time-limit", "1us", "-o", str(path)]
    values = run_json(capsys, *argv, status=4)
    assert values["time_limit_reached"] is True
    assert values["verified"] is True
    assert 0 < values["gap"] < 1
    assert load_plan(path).algorithm == values["algorithm"] != "forestcoll"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "compare" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("treadle ")
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("Usage:")
