"""Times of a roofline by hand, and what must hold of all of them; times as measured."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from treadle.training.compute_times import (
    ADAM_BYTES_PER_PARAMETER,
    RooflineTimes,
)
from treadle.training.devices import Accelerator

DEVICE = Accelerator("plain", MappingProxyType({"bf16": 1e12}), 2**30, 1e9, "")
"""1000 FLOPs for a byte."""
ROOFLINE = RooflineTimes(DEVICE, "bf16", 0.5, memory_efficiency=0.8)


def test_the_optimizer_is_bound_by_memory() -> None:
    assert ROOFLINE.optimizer_s(1e9) == pytest.approx(1e9 * ADAM_BYTES_PER_PARAMETER / 0.8e9)
    assert "0.5 of plain's bf16 peak" in ROOFLINE.summary
