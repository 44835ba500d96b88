"""Plans of an all-to-all on hosts with injection caps."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from treadle import planning
from treadle.cli.main import main
from treadle.inputs.problem import Problem
from treadle.schedulers.alltoall_candidates import late_bound, quick_alltoall
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.topologies import torus
from treadle.topologies.files import save_topology


def test_plans_and_routes_respect_caps() -> None:
    fabric = replace(torus(3, 3), injection_bytes_per_s=np.full(9, 3))
    solved = planning.solve(fabric, "alltoall")
    assert solved.report.is_ok
    assert solved.bound is not None
    assert solved.bound.algbw == 9 * Fraction(3, 12)  # 12 units cross each host at 3 links' rate
    assert Fraction(9, 10) * solved.bound.algbw <= solved.algbw <= solved.bound.algbw
    assert planning.verify(solved.plan).is_ok
    routed = planning.routes(fabric)
    assert routed.algbw == routed.bound == 9 * Fraction(1, 3)
    rows = planning.compare(fabric, "alltoall", algorithms=["pipelined", "routes"]).rows
    assert all(row.report is not None and row.report.is_ok for row in rows)


@pytest.mark.parametrize(("cards_forward", "rate"), [(False, Fraction(2, 27)), (True, Fraction(1, 9))])
def test_what_is_proven_once_time_has_run_out(cards_forward: bool, rate: Fraction) -> None:
    """Hosts of 4 units among 27: what steps pass on crosses them twice, what cards forward does not."""
    fabric = replace(torus(3, 3, 3), injection_bytes_per_s=np.full(27, 4))
    problem = Problem(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    assert late_bound(problem, cards_forward=cards_forward).algbw == 27 * rate
    if not cards_forward:
        assert quick_alltoall(problem).bound.algbw == 27 * rate


def test_the_bound_names_the_caps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "capped.json"
    save_topology(path, replace(torus(3, 3), name="capped", injection_bytes_per_s=np.full(9, 2)))
    assert main(["bound", str(path), "alltoall"]) == 0
    assert "bottleneck   injection caps of " in capsys.readouterr().out
    assert main(["bound", str(path), "alltoall", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert len(values["binding_hosts"]) == 9
    assert values["f_exact"] == "1/6"  # 12 units through a host at 2 links' rate
