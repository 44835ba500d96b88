"""One plan with the fastest schedule of every size, against simulations of each candidate by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.inputs.problem import make_problem
from treadle.planning import Protocol, as_cost_model, compare, simulate, solve_sizes
from treadle.schedulers.sizes.candidate_options import entrants, factorings
from treadle.schedulers.sizes.cost_ranges import cost_range
from treadle.schedulers.sizes.size_sets import SET_ALGORITHM, SizeSet
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.simulation.costs.cost_model import ClassCost, CostModel

FABRIC = "dgx_a100(2, 2)"
SIZES = (2**10, 2**15, 2**20, 2**25, 2**30)


@pytest.fixture(scope="module")
def found() -> SizeSet:
    return solve_sizes(FABRIC, "allreduce", SIZES, cost_model="reference")


def test_no_scheduler_is_faster_at_any_size(found: SizeSet) -> None:
    """`compare` simulates all by themselves, without leaving any out."""
    rows = compare(FABRIC, "allreduce", sizes=SIZES, cost_model="reference").rows
    others: dict[int, float] = {}
    baselines: dict[int, float] = {}
    marked = {one.name: one.is_baseline for one, _ in entrants(make_problem(FABRIC, "allreduce"), 0.0)}
    for row in rows:
        for at in row.measured.sizes if row.measured else ():
            seconds = float(at.time)
            others[at.size_bytes] = min(seconds, others.get(at.size_bytes, seconds))
            if marked.get(row.algorithm):
                baselines[at.size_bytes] = min(seconds, baselines.get(at.size_bytes, seconds))
    assert set(others) == set(SIZES)
    for one in found.rows:
        assert one.seconds <= others[one.size_bytes] * (1 + 1e-9)
        assert one.baseline_seconds is not None
        assert one.seconds <= one.baseline_seconds <= baselines[one.size_bytes] * (1 + 1e-9)
    assert len(found.plan.entries) > 2, "which is no test if one schedule serves all sizes"
    assert found.plan.algorithm == SET_ALGORITHM


def test_the_times_are_those_that_simulate_has_of_the_plan(found: SizeSet, tmp_path: Path) -> None:
    save_plan(tmp_path / "set.plan", found.plan)
    loaded = load_plan(tmp_path / "set.plan")
    assert loaded == found.plan
    run = simulate(loaded, SIZES, cost_model="reference")
    for ours, its in zip(found.rows, run.rows, strict=True):
        assert ours.seconds == pytest.approx(float(its.time), rel=1e-9)
        cut = next(
            entry.pipelining_at(ours.size_bytes)
            for entry in loaded.entries
            if entry.schedule is loaded.schedule_for(ours.size_bytes)
        )
        assert cut is not None
        assert (cut.slices, cut.protocol) == (its.slices, its.protocol)


@pytest.mark.parametrize("most", [1, 2])
def test_fewer_ranges_cost_what_is_told(found: SizeSet, most: int) -> None:
    names = sorted({entry.algorithm for entry in found.plan.entries})
    few = solve_sizes(
        FABRIC, "allreduce", SIZES, cost_model="reference", max_schedules=most, algorithms=names
    )
    assert len(few.plan.entries) == most
    best = {row.size_bytes: row.seconds for row in found.rows}
    ratios = [row.seconds / best[row.size_bytes] for row in few.rows]
    assert few.worst_ratio == pytest.approx(max(ratios))
    assert few.mean_ratio == pytest.approx(sum(ratios) / len(ratios))
    assert few.worst_ratio > 1


def banded(low: float, high: float) -> CostModel:
    cost = ClassCost(alpha_ns=1000, occupancy_ns=50)
    far = ClassCost(alpha_ns=5000, occupancy_ns=200)
    bands = {"simple.box.alpha_ns": (low, high), "simple.network.alpha_ns": (5000, 5000)}
    return CostModel("banded", "by hand", (Protocol("simple", cost, far, far),), bands=bands)


def test_doubts_are_choices_that_fall_otherwise_in_the_band() -> None:
    few, sizes = {"algorithms": ["factor-allreduce"]}, (2**12, 2**13, 2**14, 2**15, 2**16)
    sure = solve_sizes(FABRIC, "allreduce", sizes, cost_model=banded(1000, 1000), **few)
    assert sure.doubts == ()
    loose = solve_sizes(FABRIC, "allreduce", sizes, cost_model=banded(100, 20_000), **few)
    assert loose.plan == replace(sure.plan, provenance=loose.plan.provenance)
    assert loose.doubts
    doubt = loose.doubts[0]
    ((_, moved),) = [one for one in cost_range(banded(100, 20_000)) if one[0] == doubt.corner]
    again = solve_sizes(FABRIC, "allreduce", (doubt.size_bytes,), cost_model=moved, **few)
    assert again.rows[0].title != doubt.chosen


def test_factorings_multiply_to_the_ranks_or_are_bruck_s() -> None:
    boxes = factorings(make_problem("dgx_a100:4", "allreduce"))
    assert (32,) in boxes
    assert (8, 4) in boxes
    assert (8, 2, 2) in boxes
    assert (2, 2, 2, 2) in factorings(make_problem("ring:16", "alltoall"))


def test_one_group_only() -> None:
    with pytest.raises(ScheduleError, match="one group of ranks"):
        solve_sizes("dgx_a100:2", "allreduce", "1K", mesh="2,8", axes="1")


def test_the_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "set.plan"
    words = ["solve", FABRIC, "allgather", "--size", "1K,1M", "-o", str(path)]
    words += ["--cost-model", "reference", "--algorithm", "ring,one-shot,forestcoll"]
    assert main([*words, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema"].startswith("solve-sizes/")
    loaded = load_plan(path)
    assert [row["min_bytes"] for row in value["entries"]] == [one.min_bytes for one in loaded.entries]
    assert [row["algorithm"] for row in value["entries"]] == [one.algorithm for one in loaded.entries]
    assert main([*words, "--max-schedules", "1"]) == 0
    out = capsys.readouterr().out
    assert "times the fastest candidate" in out or len(loaded.entries) == 1
    assert "cost model   reference" in out
    assert as_cost_model("reference").bands == {}
    assert "no error ranges" in out
    assert main(["verify", str(path), "-q"]) == 0


def test_options_of_one_schedule_are_refused_beside_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", FABRIC, "allgather", "--size", "1K", "--trees", "2"]) == 2
    assert "--trees: with --size" in capsys.readouterr().err
