"""``treadle run`` and ``simulate`` of plans of several groups at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shortcuts.group_plans import solved_alone
from treadle import planning
from treadle.cli.main import main
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.simulation.simgrid import find_simgrid

LEAVES = "leaf_spine:2,2,gpus_per_leaf=4,oversubscription=2"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "x.plan"
    save_plan(path, solved_alone(LEAVES, CollectiveKind.ALLREDUCE, Mesh((2, 4), ("dp", "tp")), "dp"))
    return path


@pytest.mark.parametrize("runtime", ["in-process", "mpi-c"])
def test_a_run_checks_all_groups(runtime: str, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", str(plan), "--size", "1K,64K", "--runtime", runtime, "--iterations", "1", "--json"]
    assert main(words) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["wrong"] == 0
    for row in value["rows"]:
        # busbw of groups of 2: 2 (n - 1) / n = 1
        assert row["busbw_bytes_per_s"] == pytest.approx(row["algbw_bytes_per_s"])
        assert "worst_group" not in row


def test_all_groups_are_simulated(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    words = ["simulate", str(plan), "--size", "1GB", "--alpha", "1us", "--trace", str(trace), "--json"]
    assert main(words) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    claimed = float(load_plan(plan).algbw)
    assert 0.97 * claimed < row["algbw_bytes_per_s"] <= claimed
    assert row["alpha_beta_s"] == pytest.approx(2**30 / claimed, rel=0.01)
    assert "group 3, rank 7: " in trace.read_text()


def test_what_knows_one_group_only_says_so(plan: Path) -> None:
    loaded = load_plan(plan)
    with pytest.raises(ScheduleError, match="a schedule of 4 concurrent groups; expected a single group"):
        planning.program_of(loaded, 2**20)
    assert planning.programs_of(loaded, 2**20).groups == loaded.collective.groups


def test_the_referee_moves_the_data_of_all_groups(plan: Path) -> None:
    try:
        find_simgrid()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    for row in planning.run_cross_check(load_plan(plan), [2**16, 2**20]):
        assert row.wrong == 0
        assert abs(row.difference) < 0.05
