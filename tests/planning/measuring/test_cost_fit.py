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
from treadle.simulation.calibration.cost_fit import mean_error, predict_times
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


def test_figures_are_found_again() -> None:
    """From two schedules; a third, held out, is predicted as well; the bands hold what is true."""
    fit = fit_cost_model([sweep("ring"), sweep("forestcoll")], held_out=[sweep("multitree")])
    assert fit.mean_error < 0.01
    assert mean_error(fit.held_out) < 0.03
    found, true = fit.model.protocols[0], TRUE.protocols[0]
    assert float(found.network.efficiency) == pytest.approx(0.9, rel=0.02)
    # what the times tell of latencies is their sum along a path
    whole = found.launch_ns + found.box.alpha_ns + found.network.alpha_ns
    assert whole == pytest.approx(true.launch_ns + true.box.alpha_ns + true.network.alpha_ns, rel=0.25)
    assert set(fit.model.bands) == {
        "simple.launch_ns",
        *(
            f"simple.{one}.{key}"
            for one in ("box", "network")
            for key in ("alpha_ns", "occupancy_ns", "efficiency")
        ),
    }
    assert all(0 < low <= high for low, high in fit.model.bands.values())
    assert {point.protocol for point in fit.points} == {"simple"}
    assert all(point.share_of_bound and 0 < point.share_of_bound < 1 for point in fit.points)


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


def test_table_3_of_the_preprint_by_one_model() -> None:
    """28 measured times of seven schedules; by 10 us a message the mean error is 111%, the largest 386%."""
    model = planning.cost_presets()["preprint-a100"]
    points = []
    for (kind, algorithm), rates in TABLE_3.items():
        plan = planning.solve("dgx_a100_flat(2)", kind, algorithm=algorithm).plan
        measured = [
            Measurement(size, size / (rate * 1e9))
            for size, rate in zip((2**20, 2**24, 2**27, 2**30), rates, strict=True)
        ]
        points += predict_times(Sweep(f"{kind} {algorithm}", plan, measured), model)
    assert len(points) == 28
    assert mean_error(points) <= 0.12
    assert max(abs(point.error) for point in points) <= 0.40


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a.json", "b.json"], "2 files: expected one"),
        (["a.json", "--held-out", "1"], "add --plan"),
        (["a.json", "--protocols", "ll"], "add --plan"),
        (["a.json", "b.json", "--plan", "one.plan"], "1 plans for 2 files"),
        (["a.json", "--plan", "one.plan", "--held-out", "1"], "expected less than the 1 files"),
        (["a.json", "--plan", "one.plan", "--steps", "3"], "are of the alpha-beta fit"),
        (["a.json", "--plan", "one.plan"], "one.plan"),
    ],
)
def test_the_command_refuses_in_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", *words]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert says in err
