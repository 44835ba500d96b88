"""Steps side by side: against times worked out by hand, calibration, options and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import TreadleError
from treadle.planning import TrainResult, step_costs, train
from treadle.schedules.collective import CollectiveKind
from treadle.training.compute_times import RooflineTimes
from treadle.training.prices.calibrated_efficiency import calibrated_efficiency
from treadle.training.prices.contention_presets import PRESETS, contention_of
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


def test_one_rank_a_group_only_computes() -> None:
    """No communication on a mesh of one: the step is its computing, and MFU follows from FLOPs and time."""
    found = trained(mesh="dp=4", fabric="complete:4", contention="free", schedules="bound", alpha_s=0)
    row = found.rows[0].outcome
    parts = float(row.compute_s) + float(row.contention_s) + sum(map(float, row.exposed_s.values()))
    assert float(row.iteration_s) == pytest.approx(parts + float(row.idle_s))
    flops = float(found.setup.model.step_flops({"": 512})) * 4
    assert row.mfu == pytest.approx(flops / (312e12 * 4 * float(row.iteration_s)))


def test_replicas_sum_each_gradient_once() -> None:
    """All gradients of gpt2 in bf16, tied embedding once; at kappa 2 no second of it is hidden."""
    found = trained(mesh="dp=4", contention="serial", bucket_bytes=2**40, simulates=False)
    costs = step_costs(LINE, "dp=4", simulates=False)
    whole = costs.time_s(CollectiveKind.ALLREDUCE, ("dp",), 2 * found.model.parameters)
    sent = [task for task in found.rows[0].outcome.timeline.tasks if task.traffic is not None]
    assert sum(task.size_bytes for task in sent) == 2 * found.model.parameters
    assert sum(float(task.seconds) for task in sent) == pytest.approx(whole, rel=1e-3)


def test_contention_only_makes_it_slower() -> None:
    times = [float(trained(contention=kappa).rows[0].outcome.iteration_s) for kappa in (1, 1.5, 2)]
    assert times == sorted(times)
    assert times[0] < times[-1]
    by_preset = trained().contention
    assert (by_preset.kappa, by_preset.is_given) == (1.5, False)
    assert by_preset.words.startswith("llm-foundry-a100 (fitted")


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


def test_several_fabrics_side_by_side() -> None:
    found = trained(fabric=[LINE, "complete:4"], schedules=["treadle", "ring"])
    assert [(row.fabric, row.schedule) for row in found.rows] == [
        ("leaf_spine(2, 1, gpus_per_leaf=2)", "treadle"),
        ("leaf_spine(2, 1, gpus_per_leaf=2)", "ring"),
        ("complete(4)", "treadle"),
        ("complete(4)", "ring"),
    ]


def test_calibration_fits_the_first_row_and_predicts_the_others() -> None:
    truth = trained(efficiency=0.37, schedules=["treadle", "ring"], contention=1)
    measured = float(truth.rows[0].outcome.iteration_s)
    found = trained(efficiency=None, calibrate_s=measured, schedules=["treadle", "ring"], contention=1)
    assert found.calibration is not None
    # products a little faster, since the preset's attention is slower than its products
    assert found.calibration.efficiency == pytest.approx(0.37, rel=1e-2)
    assert isinstance(found.setup.times, RooflineTimes)
    assert found.setup.times.attention_efficiency is not None
    assert 0 < found.setup.times.attention_efficiency < found.calibration.efficiency
    assert found.calibration.row == "leaf_spine(2, 1, gpus_per_leaf=2), treadle"
    for one, other in zip(found.rows, truth.rows, strict=True):
        assert float(one.outcome.iteration_s) == pytest.approx(float(other.outcome.iteration_s), rel=1e-4)


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


def test_a_device_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(
        'name="x"\nmemory="96GB"\nmemory_bandwidth="4TB/s"\ntflops={bf16=500}\n', encoding="utf-8"
    )
    found = trained(gpu=path)
    assert found.setup.device.peak("bf16") == 5e14
    assert found.contention.words.startswith("free: nothing was measured for x")


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


def test_contention_presets() -> None:
    assert contention_of("MSCCL_A100", "h100").kappa == 2
    assert contention_of(1.25, "h100").words == "as given"
    assert "nearest one measured for b200" in contention_of(None, "b200").words
    devices = [device for one in PRESETS.values() for device in one.devices]
    assert len(set(devices)) == len(devices)


def test_streams_per_axis_are_no_slower_than_one() -> None:
    asked: dict[str, Any] = {"mesh": "fsdp=2,tp=2", "batch": 2}
    one, several = (trained(streams=streams, **asked).rows[0].outcome for streams in ("one", "per-axis"))
    assert float(several.iteration_s) <= float(one.iteration_s) * 1.001
    assert Category.ALLGATHER in one.exposed_s


def test_streams_have_one_number_of_tokens_or_each_their_own(tmp_path: Path) -> None:
    small = {"model_type": "t5", "d_model": 16, "d_ff": 32, "d_kv": 8, "num_heads": 2, "num_layers": 1}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**small, "vocab_size": 64}), encoding="utf-8")
    options: dict[str, Any] = {"model": file, "mesh": "dp=4", "schedules": "bound"}
    by_stream = [
        trained(**options, sequence=asked).setup.tokens for asked in (8, "8,8", {"encoder": 8, "decoder": 8})
    ]
    assert by_stream == [{"encoder": 8, "decoder": 8}] * 3
    assert trained(**options, sequence="8,4").setup.tokens == {"encoder": 8, "decoder": 4}
    with pytest.raises(TreadleError, match="2 streams of tokens, found 3 numbers"):
        trained(**options, sequence="8,8,8")


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


@pytest.mark.parametrize(
    ("mesh", "changes", "message"),
    [
        ("dp=4", {"prefetch": 2}, "--prefetch: it needs an axis fsdp, which mesh dp=4 lacks"),
        ("dp=4", {"reshard": True}, "--reshard: it needs an axis fsdp"),
        ("dp=4", {"sequence_parallel": False}, "--no-sequence-parallel: it needs an axis tp"),
        ("dp=4", {"context_exchange": "ring"}, "--context-exchange ring: it needs an axis cp"),
        ("dp=4", {"capacity_factor": 1.5}, "--capacity-factor: it needs an axis ep"),
        ("dp=4", {"alltoall_overtakes": True}, "--alltoall-overtakes: it needs an axis ep"),
        ("fsdp=4", {"bucket_bytes": 10**6}, "--bucket: it needs replicas"),
        ("tp=4", {"bucket_bytes": 10**6}, "--bucket: it needs replicas"),
    ],
)
def test_options_without_their_axis_are_refused(mesh: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        trained(mesh=mesh, simulates=False, **changes)


def test_recomputing_attention_needs_attention() -> None:
    with pytest.raises(TreadleError, match="resnet-18 has no attention"):
        trained(model="resnet-18", mesh="dp=4", batch=4, sequence=None, recompute="attention")


def test_scores_are_kept_or_computed_again_where_attention_is_not_fused() -> None:
    """Of each of 12 heads and 512 tokens 512 scores: softmax of 2 bytes, its mask of 1, what is left of 2."""
    asked: dict[str, Any] = {"mesh": "dp=4", "schedules": "bound", "simulates": False}
    fused, kept, again = (
        trained(**asked, **options).rows[0].outcome
        for options in ({}, {"fused_attention": False}, {"fused_attention": False, "recompute": "attention"})
    )
    scores = 12 * 12 * 512 * 512 * (2 + 1 + 2)
    sizes = [row.memory[0].activations_bytes for row in (fused, kept, again)]
    assert [size - sizes[0] for size in sizes] == [0, scores, 0]
    assert float(kept.compute_s) < float(again.compute_s)
    with pytest.raises(TreadleError, match="a fused kernel saves no scores"):
        trained(**asked, recompute="attention")


def test_weights_that_are_trained_stay_wide_in_fp8() -> None:
    told = "fp8 is for operands of products: weights and activations stay in 2 bytes"
    asked: dict[str, Any] = {"gpu": "h100", "schedules": "bound", "simulates": False}
    narrow, wide = (trained(precision=one, **asked) for one in ("fp8", "bf16"))
    assert narrow.rows[0].outcome.memory == wide.rows[0].outcome.memory
    assert [told in found.notes for found in (narrow, wide)] == [True, False]


def test_a_baseline_that_is_quicker_is_told() -> None:
    """On a ring messages of a chain of trees wait for one another where the ring's own do not."""
    asked = {"mesh": "fsdp=8", "fabric": 'ring(8, bandwidth="25GB/s")', "sequence": 1024}
    found = trained(schedules=["treadle", "ring"], **asked)
    own, ring = (float(row.outcome.iteration_s) for row in found.rows)
    assert ring < own
    (told,) = [note for note in found.notes if "less by ring than by Treadle's schedules" in note]
    assert f"a step takes {1 - ring / own:.1%} less" in told
    assert not [note for note in trained(schedules=["treadle", "bound"], **asked).notes if "less by" in note]


def test_one_stream_for_what_layers_wait_for_and_what_they_do_not_is_noted() -> None:
    def noted(mesh: str, **options: Any) -> bool:
        found = train(
            "gpt2", "ring:4", mesh=mesh, gpu="a100", schedules="bound", batch=4, forward=True, **options
        )
        return "one communication at a time: those of tp wait behind those of fsdp (--streams per-axis)" in (
            found.notes
        )

    assert noted("fsdp=2,tp=2", streams="one")
    assert not noted("fsdp=2,tp=2")
    assert not noted("fsdp=4", streams="one")
    assert not noted("tp=4", streams="one")
