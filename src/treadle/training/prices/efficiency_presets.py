"""Shares of the peak that products and attention reach, by device and precision, fitted on published steps.

`tools/training_fit.py` fits them and states the errors; docs/records/training-figures.json has every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import ACCELERATORS, Accelerator


@dataclass(frozen=True)
class EfficiencyPreset:
    """Efficiencies of a device at a precision.

    Parameters
    ----------
    device, precision : str
    products, attention : float
        Shares of the peak at that precision.
    source : str
        Fitted rows, and errors on other rows.
    """

    device: str
    precision: str
    products: float
    attention: float
    source: str


PRESETS = (
    EfficiencyPreset(
        "a100",
        "bf16",
        0.719,
        0.303,
        "fitted on MPT; held rows (Megatron, 32 to 3072 GPUs): 8% off on average, at most 12%",
    ),
    EfficiencyPreset(
        "h100",
        "bf16",
        0.564,
        0.5,
        "products fitted on MPT (7% off on average, at most 16%), attention on cuDNN's kernels in NeMo",
    ),
    EfficiencyPreset(
        "h100",
        "fp8",
        0.649,
        0.250,
        "fitted on NeMo; held rows (NeMo, 8 to 1024 GPUs): 10% off on average, at most 21%",
    ),
)
"""Presets. Attention stays in bf16 with fp8, at half the peak; other stacks than NeMo reach less."""
_ELSEWHERE = "on other devices expect errors of 25%"
"""Half of the spread between A100 and H100, whose shares for bf16 products differ by a fifth."""


def efficiency_of(device: Accelerator, precision: str) -> EfficiencyPreset:
    """Return the preset of a device and precision, or of the device whose peak is nearest.

    Examples
    --------
    >>> from treadle.training.devices import accelerator
    >>> efficiency_of(accelerator("mi300x"), "bf16").device
    'h100'
    """
    peak = device.peak(precision)

    def distance(preset: EfficiencyPreset) -> tuple[bool, float]:
        other = ACCELERATORS[preset.device].peak_flops[preset.precision]
        return (preset.precision == "fp8") != (precision == "fp8"), abs(log(peak / other))

    return min(PRESETS, key=distance)


def roofline_times(device: Accelerator, precision: str, efficiency: float | None = None) -> RooflineTimes:
    """Return times by one efficiency for products and attention, or by the preset with its source.

    Raises TreadleError if the device lacks the precision, or the efficiency is out of range.
    """
    if efficiency is not None:
        return RooflineTimes(device, precision, efficiency)
    found = efficiency_of(device, precision)
    source = found.source
    if (device.name, precision) != (found.device, found.precision):
        source = f"taken from {found.device} {found.precision}, the nearest measured: {_ELSEWHERE}"
    return RooflineTimes(
        device, precision, found.products, attention_efficiency=found.attention, source=source
    )
