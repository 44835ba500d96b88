"""Cost models fitted to sweeps: figures found again, what was held out, refusals, the command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from treadle import planning
from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.planning import ClassCost, CostModel, Protocol, Sweep, fit_cost_model
from treadle.simulation.calibration.cost_fit import mean_error
from treadle.simulation.calibration.measurements import Measurement

FABRIC = "dgx_a100_flat(2, 2)"
SIZES = [2**power for power in range(12, 29, 2)]
TRUE = CostModel(
    "true",
    "made up",
    (
        Protocol(
            "simple",
            box=ClassCost(3000, 2000, 0, Fraction(4, 5)),
            network=ClassCost(9000, 1500, 0, Fraction(9, 10)),
            launch_ns=12_000,
        ),
    ),
)


def sweep(algorithm: str, *, slower: float = 1.0) -> Sweep:
    """Times that the true model gives."""
    plan = planning.solve(FABRIC, "allgather", algorithm=algorithm).plan
    rows = planning.simulate(plan, SIZES, cost_model=TRUE).rows
    times = [Measurement(row.size_bytes, float(row.time) * slower) for row in rows]
    return Sweep(algorithm, plan, times)


def test_what_is_twice_as_slow_is_seen_where_it_was_held_out() -> None:
    fit = fit_cost_model([sweep("ring"), sweep("forestcoll")], held_out=[sweep("multitree", slower=2)])
    assert mean_error(fit.held_out) == pytest.approx(0.5, abs=0.03)
    assert fit.mean_error < 0.01


def test_refusals() -> None:
    one = sweep("ring")
    with pytest.raises(ScheduleError, match="5 measured times for 7 costs"):
        fit_cost_model([replace(one, measured=one.measured[:5])])
    with pytest.raises(ScheduleError, match="of different names"):
        fit_cost_model([one, sweep("forestcoll")], protocols=["ll", "ll"])


# Zhao et al., ForestColl (preprint, arXiv 2402.06787), table 3: algbw, GB/s, at 1, 16, 128 MB and 1 GB
TABLE_3 = {
    ("allgather", "forestcoll"): (13.1, 92.6, 201, 247),
    ("allgather", "ring"): (3.17, 37.6, 152, 187),
    ("reduce-scatter", "forestcoll"): (9.24, 72.5, 185, 247),
    ("reduce-scatter", "ring"): (3.17, 37.5, 151, 190),
    ("allreduce", "forestcoll"): (5.75, 41.4, 107, 122),
    ("allreduce", "double-binary-tree"): (4.47, 34.8, 71.9, 96.8),
    ("allreduce", "ring"): (1.75, 20.8, 78.3, 95.3),
}


def files(tmp_path: Path) -> tuple[list[str], list[str]]:
    measured, plans = [], []
    for algorithm in ("ring", "forestcoll", "multitree"):
        found = sweep(algorithm)
        rows = [{"size_bytes": one.size_bytes, "time_s": one.time_s} for one in found.measured]
        path, plan = tmp_path / f"{algorithm}.json", tmp_path / f"{algorithm}.plan"
        path.write_text(json.dumps({"collective": "allgather", "ranks": 4, "rows": rows}))
        assert main(["solve", FABRIC, "allgather", "--algorithm", algorithm, "-o", str(plan), "-q"]) == 0
        measured.append(str(path))
        plans.append(str(plan))
    return measured, plans


def test_the_command_writes_a_model_that_simulate_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured, plans = files(tmp_path)
    target = tmp_path / "ours.json"
    words = ["calibrate", *measured, "--plan", ",".join(plans), "-o", str(target)]
    assert main([*words, "--held-out", "1"]) == 0
    out = capsys.readouterr().out
    assert "error of what was held out" in out
    assert re.search(r"simple\.network\.efficiency +0\.[89]\d* \(95 %: 0\.\d+ to [01]", out)
    assert "multitree.json" in out
    assert main(["simulate", plans[0], "--size", "64K", "--cost-model", str(target), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["cost_model"] == "ours"
    expected = {one.size_bytes: one.time_s for one in sweep("ring").measured}[2**16]
    assert values["rows"][0]["time_s"] == pytest.approx(expected, rel=0.03)
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["measurements"], len(found["points"])) == (27, 27)
    assert "held_out" not in found
