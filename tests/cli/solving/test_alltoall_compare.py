"""``treadle compare`` and ``treadle solve`` of an all-to-all: time over optimum of the classic algorithms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.planning import solve
from treadle.schedules.plan_files.archive import load_plan


def ratios(capsys: pytest.CaptureFixture[str], fabric: str, names: str | None = None) -> dict[str, float]:
    arguments = ["compare", fabric, "alltoall", "--json"]
    assert main([*arguments, *(() if names is None else ("--algorithms", names))]) == 0
    values = json.loads(capsys.readouterr().out)
    return {
        row["algorithm"]: values["optimal_algbw_bytes_per_s"] / row["algbw_bytes_per_s"]
        for row in values["schedules"]
        if "algbw_bytes_per_s" in row
    }


def test_ratios_of_the_torus(capsys: pytest.CaptureFixture[str]) -> None:
    """Time / optimum on the 3x3x3 torus: EwSP 1.00, SSSP 1.78, dimension order optimal (figures 4 and 8)."""
    found = ratios(capsys, "torus:3,3,3", "ewsp,sssp,dor,routes,pipelined,shortest-paths")
    assert found["sssp"] == pytest.approx(1.78, abs=0.005)
    for name in ("ewsp", "dor", "routes", "pipelined", "shortest-paths"):
        assert found[name] == pytest.approx(1, abs=1e-9), name


def test_ratios_of_a_generalized_kautz_graph(capsys: pytest.CaptureFixture[str]) -> None:
    """Pi(4,27): EwSP 1.42, SSSP 1.34, single link-disjoint paths 1.072."""
    found = ratios(capsys, "generalized_kautz:4,27", "ewsp,sssp,ilp-disjoint,routes,pipelined")
    assert found["ewsp"] == pytest.approx(1.42, abs=0.005)
    assert found["sssp"] == pytest.approx(1.34, abs=0.005)
    assert found["ilp-disjoint"] == pytest.approx(1.072, abs=0.0015)
    assert 1 <= found["routes"] < 1.005
    assert 1 <= found["pipelined"] < 1.005


def test_default_rows_fit_the_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    """With switches only what forwards there; without them no relays of boxes."""
    switched = ratios(capsys, "dgx_a100:2")
    assert {"routes", "hierarchical-routes", "ewsp"} <= set(switched)
    assert "pipelined" not in switched
    assert switched["hierarchical-routes"] == pytest.approx(1, abs=1e-6)
    direct = ratios(capsys, "complete_bipartite:2,2")
    assert "hierarchical-routes" not in direct
    assert {"pipelined", "tsmcf", "shortest-paths", "pairwise", "native"} <= set(direct)
    assert main(["compare", "ring:4", "alltoall"]) == 0
    assert "% opt" in capsys.readouterr().out


def test_names_are_for_all_to_all_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "ring:4", "allgather", "--algorithms", "ewsp"]) == 0
    assert "ewsp: allgather is not supported; it supports alltoall" in capsys.readouterr().out
    assert main(["solve", "ring:4", "alltoall", "--algorithm", "forestcoll"]) == 2
    assert "for an all-to-all leave out --algorithm" in capsys.readouterr().err
    assert main(["solve", "ring:4", "alltoall", "--algorithm", "bfb"]) == 2
    assert "for an all-to-all leave out --algorithm" in capsys.readouterr().err


def test_solve_takes_a_fitting_algorithm_by_default() -> None:
    result = solve("hypercube:3", "alltoall")
    assert result.plan.algorithm == "pipelined"
    assert result.is_optimal
    assert result.plan.algbw == 2
    assert solve("ring:4", "allgather").plan.algorithm == "forestcoll"


def test_demands_reach_every_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Rank 0 has twice as much for its neighbour: on a one-way triangle that link carries most."""
    demands = tmp_path / "demands.csv"
    demands.write_text("0,2,1\n1,0,1\n1,1,0\n")
    fabric = ["uni_ring(1, 3)", "alltoall", "--demands", str(demands), "--json"]
    plan = tmp_path / "a.plan"
    assert main(["solve", *fabric, "-o", str(plan)]) == 0
    solved = json.loads(capsys.readouterr().out)
    assert main(["bound", *fabric]) == 0
    bound = json.loads(capsys.readouterr().out)
    # n0->n1 carries 2 to n1, 1 to n2 and 1 from n2 to n1; the buffer is 3 units
    assert bound["algbw_bytes_per_s"] == pytest.approx(3 / 4)
    assert solved["optimal"] is True
    assert load_plan(plan).collective.demands is not None
    assert main(["compare", *fabric, "--algorithms", "routes,shortest-paths"]) == 0
    rows = json.loads(capsys.readouterr().out)["schedules"]
    assert [row["algbw_bytes_per_s"] for row in rows] == pytest.approx([3 / 4, 3 / 4])
    assert main(["routes", fabric[0], *fabric[2:]]) == 0
    assert json.loads(capsys.readouterr().out)["algbw_exact"] == "3/4"
