"""Steps side by side: against times worked out by hand, calibration, options and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.errors import TreadleError
from treadle.planning import TrainResult, train
from treadle.training.prices.calibrated_efficiency import calibrated_efficiency
from treadle.training.timeline.task import Category

LINE = "leaf_spine:2,1,gpus_per_leaf=2"


def trained(**changes: Any) -> TrainResult:
    asked: dict[str, Any] = {
        "mesh": "fsdp=4",
        "gpu": "a100",
        "schedules": "treadle",
        "sequence": 512,
        "efficiency": 0.5,
    }
    model, fabric = changes.pop("model", "gpt2"), changes.pop("fabric", LINE)
    return train(model, fabric, **{**asked, **changes})


def test_bounds_are_below_all_schedules() -> None:
    found = trained(
        model="gpt2-medium",
        fabric="dgx_h100:2",
        mesh="fsdp=2,tp=8",
        schedules=["treadle", "ring", "tree", "bound"],
        batch=2,
    )
    times = {row.schedule: float(row.outcome.iteration_s) for row in found.rows}
    assert times["bound"] == min(times.values())
    assert [row.is_bound for row in found.rows] == [False, False, False, True]
    assert found.exposed_categories
    assert {row["schedule"] for row in found.records()} == set(times)


@pytest.mark.parametrize("measured", [1e-6, 1e6])
def test_times_that_no_efficiency_gives(measured: float) -> None:
    with pytest.raises(TreadleError, match=r"calibrate: .* even at .* check the model"):
        trained(efficiency=None, calibrate_s=measured)


def test_calibration_of_a_step_that_hides_part_of_its_time() -> None:
    found = calibrated_efficiency(lambda share: max(0.5, 0.1 / share) + 0.2 / share, 1.5, "")
    assert found.efficiency == pytest.approx(0.2, rel=1e-4)


def test_measured_layer_times(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text("layer,forward_s,backward_s\n*,0.001,0.003\n", encoding="utf-8")
    found = trained(efficiency=None, layer_times=path, fabric="complete:4", mesh="dp=4", contention=1)
    assert float(found.rows[0].outcome.compute_s) == pytest.approx(0.004 * found.model.n_layers)
    with pytest.raises(TreadleError, match="leave one of them out"):
        trained(layer_times=path)
    path.write_text("layer,forward\n", encoding="utf-8")
    with pytest.raises(TreadleError, match=r"layers.csv: layer times: line 1"):
        trained(efficiency=None, layer_times=path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "gpt9"}, "gpt9"),
        ({"mesh": "rows=4"}, "axis 'rows' has no meaning"),
        ({"mesh": "fsdp=8"}, "lays out 8 ranks, and leaf_spine"),
        ({"gpu": "a1000"}, "a1000"),
        ({"gpu": "nowhere.toml"}, "nowhere.toml"),
        ({"schedules": []}, "at least one"),
        ({"fabric": []}, "at least one"),
        ({"schedules": "quick"}, "unknown schedule 'quick'"),
        ({"batch": 3}, "multiple of 4"),
        ({"batch": 0}, "at least 1"),
        ({"sequence": "many"}, "expected a number of tokens"),
        ({"sequence": "1,2"}, "1 stream of tokens, found 2 numbers"),
        ({"sequence": 0}, "from 1 to"),
        ({"sequence": {"x": 1}}, "tokens of the streams"),
        ({"sequence": 4096}, "model gpt2: 4096 tokens; expected at most its 1024 learned positions"),
        ({"mesh": "tp=4", "model": "gpt2-xl"}, "expected tp to divide the 25 attention heads of gpt2-xl"),
        ({"efficiency": 1.5}, "expected a share of the peak"),
        ({"efficiency": 0.5, "calibrate_s": 1.0}, "leave one of them out"),
        ({"contention": "3"}, "from 1"),
        ({"contention": "nccl"}, "unknown contention 'nccl'"),
        ({"precision": "fp4"}, "fp4"),
        ({"precision": "fp8"}, "has no 'fp8'"),
        ({"recompute": "half"}, "half"),
        ({"streams": "three"}, "three"),
        ({"prefetch": -1}, "prefetch"),
        ({"capacity_factor": float("nan")}, "capacity-factor nan: expected a number above 0"),
        ({"capacity_factor": 0}, "capacity-factor 0"),
        ({"micro_batch": 2}, "did you mean micro_batches"),
        ({"batch": "four"}, "expected an integer"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        trained(**changes)


def test_streams_per_axis_are_no_slower_than_one() -> None:
    asked: dict[str, Any] = {"mesh": "fsdp=2,tp=2", "batch": 2}
    one, several = (trained(streams=streams, **asked).rows[0].outcome for streams in ("one", "per-axis"))
    assert float(several.iteration_s) <= float(one.iteration_s) * 1.001
    assert Category.ALLGATHER in one.exposed_s


def test_models_of_files(tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text("layer,parameters,flops\nfirst,1000,2000\nsecond,10,20\n", encoding="utf-8")
    tokens = trained(model=str(table))
    assert (tokens.model.name, tokens.model.parameters) == ("own", 1010)
    found = trained(model=table, samples=True, sequence=None, batch=8)
    assert (found.model.unit, found.setup.sequences) == ("sample", 8)
    with pytest.raises(TreadleError, match="trained on samples; give the number"):
        trained(model=table, samples=True, sequence=None)
    table.write_text("layer,parameters\nx\n", encoding="utf-8")
    with pytest.raises(TreadleError, match=r"own.csv"):
        trained(model=table)
    for missing in ("nowhere.json", tmp_path / "nowhere", "./gpt2"):
        with pytest.raises(TreadleError, match=r"nowhere|gpt2"):
            trained(model=missing)


def test_recomputing_attention_needs_attention() -> None:
    with pytest.raises(TreadleError, match="resnet-18 has no attention"):
        trained(model="resnet-18", mesh="dp=4", batch=4, sequence=None, recompute="attention")
