"""Presets of efficiencies: which is taken, that both commands price alike, and errors on published steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.training_fit import FILE, errors, predicted, read_rows, trend

import treadle
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import ACCELERATORS, accelerator
from treadle.training.prices.efficiency_presets import PRESETS, efficiency_of, roofline_times

ROWS = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "measured"


@pytest.mark.parametrize(
    ("device", "precision", "taken"),
    [
        ("a100", "bf16", ("a100", "bf16")),
        ("h100", "bf16", ("h100", "bf16")),
        ("h100", "fp8", ("h100", "fp8")),
        ("a100", "fp16", ("a100", "bf16")),
        ("v100", "fp16", ("a100", "bf16")),
        ("h200", "bf16", ("h100", "bf16")),
        ("mi300x", "fp8", ("h100", "fp8")),
        ("b200", "fp32", ("a100", "bf16")),
    ],
)
def test_the_nearest_peak_counts(device: str, precision: str, taken: tuple[str, str]) -> None:
    found = efficiency_of(accelerator(device), precision)
    assert (found.device, found.precision) == taken
    words = roofline_times(accelerator(device), precision).summary
    is_measured = (device, precision) == taken
    assert ("the nearest measured" in words) != is_measured
    assert (found.source in words) == is_measured


def test_presets_are_shares_with_a_source() -> None:
    for preset in PRESETS:
        assert preset.precision in ACCELERATORS[preset.device].peak_flops
        assert 0 < preset.attention < preset.products < 1
        assert preset.source


def test_a_given_efficiency_is_that_of_products_and_attention() -> None:
    found = roofline_times(accelerator("h100"), "bf16", 0.5)
    assert (found.efficiency, found.attention_efficiency) == (0.5, None)
    assert found.attention_flops_per_s == 0.5 * accelerator("h100").peak("bf16")


@pytest.mark.parametrize("given", [{}, {"efficiency": 0.4}])
def test_train_and_parallelize_take_the_same_rates(given: dict[str, float]) -> None:
    trained = treadle.train(
        "gpt2",
        "dgx_h100:1",
        mesh="dp=8",
        gpu="h100",
        schedules="bound",
        **given,  # type: ignore[arg-type]
    )
    times = parallel_request("h100", None, given).times  # type: ignore[arg-type]
    assert trained.setup.times == times
    assert isinstance(times, RooflineTimes)
    numbers = DeviceNumbers.of(times)
    assert (numbers.flops_per_s, numbers.attention_flops_per_s) == (
        times.device.peak("bf16") * times.efficiency,
        times.attention_flops_per_s,
    )


def test_ranks_of_errors() -> None:
    assert trend([(1, 1.0), (2, 1.1), (4, 1.2)]) == pytest.approx((1.0, 0.1))
    assert trend([(1, 1.0), (1, 1.2), (8, 1.1)])[0] == pytest.approx(0.0)
    found = errors([0.9, 1.2])
    assert (found.mean, found.worst, found.rows) == pytest.approx((0.15, 0.2, 2))


def test_steps_that_were_not_fitted_are_within_their_errors() -> None:
    if not (ROWS / FILE).is_file():
        pytest.skip("no measured rows next to the checkout")
    rows = [row for row in read_rows(ROWS) if row.use == "held"]
    assert len(rows) == 15
    ratios = [predicted(row) / row.measured for row in rows]
    assert errors(ratios).mean <= 0.10
    assert errors(ratios).worst <= 0.25
    megatron = [
        (row.model_axes, ratio) for row, ratio in zip(rows, ratios, strict=True) if row.count("hidden")
    ]
    assert abs(trend(megatron[:10])[1]) <= 0.01
