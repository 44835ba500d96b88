"""A plan file, executed beside the module that it is for, and exported."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.exporting.layouts import laid_out
from parallelism.exporting.small_model import make
from treadle import planning
from treadle.errors import FormatError, TreadleError
from treadle.parallelism.plan.plan_json import plan_text
from treadle.planning import ModelGraph
from treadle.schedules.mesh import Mesh

MESH = Mesh((2, 2), ("dp", "tp"))


@pytest.fixture(scope="module")
def model() -> ModelGraph:
    return planning.capture(make)


@pytest.fixture(scope="module")
def file(model: ModelGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = laid_out(model, MESH, {"dp": "c", "tp": "ehaqd"}, sharded=("dp",), recompute="selective")
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(plan_text(plan))
    return path


def test_a_model_captured_as_a_whole_is_executed_by_its_plan(file: Path) -> None:
    found = planning.execute_plan(file, make)
    assert found.faults == ()
    assert found.execution.largest_error < 1e-13
    assert len([name for name in found.execution.errors if "weight" in name]) == 1 + 2 * 9 + 2
    assert abs(found.memory_error) < 0.05


def test_a_plan_is_written_for_other_frameworks(file: Path, model: ModelGraph) -> None:
    code = planning.export_plan(file, model)
    assert "fully_shard(model, mesh=data, reshard_after_forward=True)" in code.text
    assert all(str(one.reason) in code.text for one in code.lost)
    settings = planning.export_plan(file, model, to="torchtitan")
    assert "tensor_parallel_degree = 2" in settings.text
    with pytest.raises(FormatError, match="expected torch or torchtitan"):
        planning.export_plan(file, model, to="jax")


def test_unknown_backends_and_other_models_are_refused(file: Path) -> None:
    with pytest.raises(FormatError, match="expected gloo or treadle"):
        planning.execute_plan(file, make, backend="nccl")
    with pytest.raises(TreadleError, match="nothing of it can be run"):
        planning.execute_plan(file, "llama-3-8b", repeats=2)
