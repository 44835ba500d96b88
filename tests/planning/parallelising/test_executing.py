"""A plan file, executed beside the module that it is for, and exported."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.exporting.layouts import laid_out
from parallelism.exporting.small_model import make
from treadle import planning
from treadle.errors import FormatError, TreadleError
from treadle.parallelism.plan.plan_json import format_plan_json
from treadle.planning import ModelGraph
from treadle.schedules.mesh import Mesh

MESH = Mesh((2, 2), ("dp", "tp"))


@pytest.fixture(scope="module")
def model() -> ModelGraph:
    return planning.capture(make, name="model")


@pytest.fixture(scope="module")
def file(model: ModelGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = laid_out(model, MESH, {"dp": "c", "tp": "ehaqd"}, sharded=("dp",), recompute="selective")
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(format_plan_json(plan))
    return path


def test_a_model_captured_as_a_whole_is_executed_by_its_plan(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the example in the documentation, which needs a plan and PyTorch."""
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_bytes(file.read_bytes())
    Path("model.py").write_text("from parallelism.exporting.small_model import make\n\n__all__ = ['make']\n")
    names: dict[str, Any] = {}
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(planning.execute_plan) or "", names, "", "", 0
    )
    assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0
    found = example.globs["found"]
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
    with pytest.raises(TreadleError, match="cannot be run"):
        planning.execute_plan(file, "llama-3-8b", repeats=2)
