"""Ranges of a set fitted to other costs: against a set made under these costs of the same schedules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.planning import CostModel, Protocol, UnverifiedPlanError, retune, solve_sizes
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.simulation.costs.cost_model import ClassCost

FABRIC = "dgx_a100(2, 2)"


def costs(box_ns: int) -> CostModel:
    near, far = ClassCost(alpha_ns=box_ns, occupancy_ns=50), ClassCost(alpha_ns=5000, occupancy_ns=200)
    return CostModel(f"box of {box_ns} ns", "by hand", (Protocol("simple", near, far, far),))


def test_false_plans_are_refused(tmp_path: Path) -> None:
    plan = solve_sizes(FABRIC, "allreduce", (1024,), algorithms=["ring"]).plan
    with pytest.raises(UnverifiedPlanError):
        retune(replace(plan, algbw=plan.algbw * 2), costs(1000), (1024,))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, new = tmp_path / "set.plan", tmp_path / "new.plan"
    save_plan(path, solve_sizes(FABRIC, "allgather", (1024, 2**20), algorithms=["ring", "one-shot"]))
    assert main(["retune", str(path)]) == 2
    assert "--cost-model is missing" in capsys.readouterr().err
    words = ["retune", str(path), "--cost-model", "reference", "--size", "1K,1M", "-o", str(new)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "cost model   reference" in out
    assert load_plan(new).provenance["cost_model"] == "reference"
