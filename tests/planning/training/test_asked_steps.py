"""What may be asked of a step, each option for itself, and prices by hand."""

from __future__ import annotations

import re

import pytest

from treadle.errors import TreadleError
from treadle.training.prices.calibrated_efficiency import calibrated_efficiency


def test_efficiencies_at_the_ends_of_their_range() -> None:
    def seconds(share: float) -> float:
        return 1 + 1 / share

    assert calibrated_efficiency(seconds, 2.0, "row").efficiency == pytest.approx(1.0, rel=1e-4)
    assert calibrated_efficiency(seconds, 1001.0, "row").efficiency == pytest.approx(1e-3, rel=1e-4)
    for measured, message in (
        (1.99, "calibrate: row: even at the peak the step takes 2 s, measured 1.99 s; check the model, the"),
        (1002, "calibrate: row: even at 0.1% of the peak the step takes 1001 s, measured 1002 s; check the"),
    ):
        with pytest.raises(TreadleError, match=f"^{re.escape(message)}"):
            calibrated_efficiency(seconds, measured, "row")


@pytest.mark.parametrize("hidden", [0.3, 0.9, 4.0])
def test_bends_of_the_time_are_met(hidden: float) -> None:
    def seconds(share: float) -> float:
        return max(hidden, 0.1 / share) + 0.2 / share

    for share in (0.05, 0.2, 0.7):
        found = calibrated_efficiency(seconds, seconds(share), "")
        assert seconds(found.efficiency) == pytest.approx(seconds(share), rel=2e-5)
