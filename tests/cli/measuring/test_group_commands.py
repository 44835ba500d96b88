"""``treadle run`` and ``simulate`` of plans of several groups at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shortcuts.group_plans import solved_alone
from treadle.cli.main import main
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan_files.archive import load_plan, save_plan

LEAVES = "leaf_spine:2,2,gpus_per_leaf=4,oversubscription=2"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "x.plan"
    save_plan(path, solved_alone(LEAVES, CollectiveKind.ALLREDUCE, Mesh((2, 4), ("dp", "tp")), "dp"))
    return path


def test_all_groups_are_simulated(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    words = ["simulate", str(plan), "--size", "1GB", "--alpha", "1us", "--trace", str(trace), "--json"]
    assert main(words) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    claimed = float(load_plan(plan).algbw)
    assert 0.97 * claimed < row["algbw_bytes_per_s"] <= claimed
    assert row["alpha_beta_s"] == pytest.approx(2**30 / claimed, rel=0.01)
    assert "group 3, rank 7: " in trace.read_text()
