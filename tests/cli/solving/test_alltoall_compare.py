"""``treadle compare`` and ``treadle solve`` of an all-to-all: time over optimum of the classic algorithms."""

from __future__ import annotations

import json

import pytest

from treadle.cli.main import main


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
