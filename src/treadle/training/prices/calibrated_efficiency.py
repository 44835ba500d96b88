"""Calibration: the share of the peak at which a simulated step takes as long as a measured one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treadle.errors import TreadleError

_CLOSE = 1e-5
_LEAST = 1e-3
_MOST_TRIALS = 60


@dataclass(frozen=True)
class CalibratedEfficiency:
    """A fitted efficiency.

    Parameters
    ----------
    efficiency : float
    measured_s : float
    row : str
        The fabric and schedule of the measured step; all other rows are predictions.
    """

    efficiency: float
    measured_s: float
    row: str


def calibrated_efficiency(
    seconds_at: Callable[[float], float], measured_s: float, row: str
) -> CalibratedEfficiency:
    """Find the efficiency by bisection.

    Parameters
    ----------
    seconds_at : callable
        Seconds of the step at an efficiency; never increases with it.
    measured_s : float
    row : str

    Raises
    ------
    TreadleError
        If no efficiency from 0.1% to 100% gives the measured time.

    Examples
    --------
    >>> found = calibrated_efficiency(lambda share: 1 + 0.4 / share, 2.0, "a cluster")
    >>> round(found.efficiency, 4)
    0.4
    """
    fastest, slowest = seconds_at(1.0), seconds_at(_LEAST)
    if not fastest <= measured_s <= slowest:
        which = "even at the peak" if measured_s < fastest else f"even at {_LEAST:.1%} of the peak"
        bound = fastest if measured_s < fastest else slowest
        raise TreadleError(
            f"calibrate: {row}: {which} the step takes {bound:.4g} s, measured {measured_s:.4g} s; check the "
            f"model, the batch, the mesh and the fabric"
        )
    # the time is nearly linear in 1 / efficiency: regula falsi, and bisection in every third round
    low, high = 1.0, 1 / _LEAST
    low_s, high_s = fastest, slowest
    middle = low
    for trial in range(_MOST_TRIALS):
        if high_s - low_s <= 0 or high - low <= _CLOSE * low:
            break
        share = (measured_s - low_s) / (high_s - low_s)
        middle = low + (min(max(share, 1e-3), 1 - 1e-3) if trial % 3 < 2 else 0.5) * (high - low)
        found = seconds_at(1 / middle)
        if abs(found - measured_s) <= _CLOSE * measured_s:
            break
        if found < measured_s:
            low, low_s = middle, found
        else:
            high, high_s = middle, found
    return CalibratedEfficiency(1 / middle, measured_s, row)
