"""Robust linear least squares of times, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt, tan
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from treadle.errors import ScheduleError

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
_HUBER = 1.345
_ROUNDS = 50
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class Estimate:
    """A coefficient and its 95 % confidence interval; the ends are infinite without spare observations."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LinearFit:
    """Times as a sum of known quantities times fitted coefficients.

    Parameters
    ----------
    estimates : mapping of str to Estimate
        Only coefficients that the data determine and that are not negative; others count as 0.
    predicted_s : tuple of float
        For every observation.
    mean_error, max_error : float
        Mean and maximum of |predicted - observed| / observed.
    """

    estimates: Mapping[str, Estimate]
    predicted_s: tuple[float, ...]
    mean_error: float
    max_error: float

    def value(self, name: str) -> float:
        """Return a coefficient, 0 if it was not fitted."""
        return self.estimates[name].value if name in self.estimates else 0.0


def fit_times(
    columns: Mapping[str, Sequence[float]],
    times_s: Sequence[float],
    *,
    known_s: Sequence[float] | None = None,
) -> LinearFit:
    """Fit times = known + sum of coefficient x column, each observation by its relative error.

    Parameters
    ----------
    columns : mapping of str to sequence of float
        Ordered by importance: a later column that is a combination of earlier ones is dropped, as is one
        whose coefficient comes out negative (the last such first).
    times_s : sequence of float
        Seconds, positive.
    known_s : sequence of float, optional
        Part of each time that does not depend on the coefficients; default 0.

    Raises
    ------
    ScheduleError
        Without observations, or if all columns are dropped.

    Notes
    -----
    Iteratively reweighted least squares with Huber's weights; the scale is the median absolute residual.
    Relative errors, because times range over decades. Intervals are those of the last weighted regression
    with Student's t.
    """
    times = np.asarray(times_s, dtype=np.float64)
    if not times.size or not (np.isfinite(times).all() and times.min() > 0):
        raise ScheduleError("a fit needs at least one time, all of them positive")
    known = np.zeros(len(times)) if known_s is None else np.asarray(known_s, dtype=np.float64) / times
    names: list[str] = []
    for name in columns:
        trial = _design(columns, [*names, name], times)
        if np.linalg.matrix_rank(trial / np.maximum(np.abs(trial).max(axis=0), 1e-300)) > len(names):
            names.append(name)
    while names:
        design = _design(columns, names, times)
        values, weights = _robust(design, 1 - known)
        negative = [name for name, value in zip(names, values, strict=True) if value < 0]
        if not negative:
            return _summary(names, times, design, known, values, weights)
        names.remove(negative[-1])
    raise ScheduleError("the times do not grow with latency or size: nothing can be fitted")


def _design(columns: Mapping[str, Sequence[float]], names: Sequence[str], times: Floats) -> Floats:
    return np.stack([np.asarray(columns[name], dtype=np.float64) / times for name in names], axis=1)


def _robust(design: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients by Huber's robust regression, and the weight of each row."""
    weights = np.ones(len(design))
    values = _weighted(design, targets, weights)
    for _ in range(_ROUNDS):
        residuals = np.abs(design @ values - targets)
        scale = _MAD_TO_SIGMA * float(np.median(residuals))
        if scale < 1e-12:
            break
        weights = np.minimum(1.0, _HUBER * scale / np.maximum(residuals, 1e-300))
        following = _weighted(design, targets, weights)
        done = np.allclose(following, values, rtol=1e-10, atol=0)
        values = following
        if done:
            break
    return values, weights


def _weighted(design: Floats, targets: Floats, weights: Floats) -> Floats:
    root = np.sqrt(weights)
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    solution: Floats = np.linalg.lstsq(design / scale * root[:, None], root * targets, rcond=None)[0]
    return np.asarray(solution / scale)


def _summary(
    names: Sequence[str],
    times: Floats,
    design: Floats,
    known: Floats,
    values: Floats,
    weights: Floats,
) -> LinearFit:
    ratios = known + design @ values
    spare = len(times) - len(names)
    scale = np.abs(design).max(axis=0)
    inverse = np.linalg.pinv((design / scale).T @ (weights[:, None] * design / scale))
    variance = float(weights @ (ratios - 1) ** 2) / spare if spare else float("inf")
    estimates = {}
    for place, name in enumerate(names):
        value = float(values[place])
        deviation = sqrt(float(inverse[place, place])) / float(scale[place])
        reach = student_t(spare) * sqrt(variance) * deviation if spare else float("inf")
        estimates[name] = Estimate(value, value - reach, value + reach)
    errors = np.abs(ratios - 1)
    predicted = tuple(float(time) for time in ratios * times)
    return LinearFit(estimates, predicted, float(errors.mean()), float(errors.max()))


def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t distribution.

    Notes
    -----
    Exact for 1 and 2 degrees of freedom; from 3 on the Cornish-Fisher expansion to the fourth order, within
    0.5 % (source: Abramowitz and Stegun, 26.7.5).

    Examples
    --------
    >>> round(student_t(1), 2), round(student_t(2), 3), round(student_t(10), 3)
    (12.71, 4.303, 2.228)
    """
    tail = (1 + confidence) / 2
    if freedom == 1:
        return tan(np.pi * (tail - 0.5))
    if freedom == 2:
        return (2 * tail - 1) / sqrt(2 * tail * (1 - tail))
    z = NormalDist().inv_cdf(tail)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum((term / float(freedom**power) for power, term in enumerate(terms, start=1)), 0.0)
