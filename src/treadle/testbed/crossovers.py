"""Crossover sizes of pairs of schedules: as measured, and as predicted from other schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.tasks import TaskGraph
from treadle.testbed.network_fit import (
    NetworkModel,
    TimedProgram,
    fit_network,
    predicted_s,
)

MARGIN = 0.1
"""Factor by which one has to be faster at the smallest size, and the other at the largest."""

_POINTS_PER_OCTAVE = 8
_ELEMENT_BYTES = 4


@dataclass(frozen=True, eq=False)
class MeasuredCurve:
    """Measured times of a schedule.

    Parameters
    ----------
    graph : TaskGraph
        Resources have the links' nominal rates and delays.
    sizes : tuple of int
        Bytes, ascending.
    slice_bytes : int
        Longest message, more or less.
    """

    collective: CollectiveKind
    algorithm: str
    graph: TaskGraph
    sizes: tuple[int, ...]
    times_s: tuple[float, ...]
    slice_bytes: int

    def slices(self, size_bytes: int) -> int:
        """Into how many slices the interpreter cuts a size."""
        elements = size_bytes // _ELEMENT_BYTES
        chunk = -(-elements // self.graph.program.n_chunks) * _ELEMENT_BYTES
        return max(1, -(-chunk // self.slice_bytes))

    def ends(self) -> list[TimedProgram]:
        """The smallest and the largest size."""
        return [
            TimedProgram(self.graph, self.sizes[place], self.slices(self.sizes[place]), self.times_s[place])
            for place in (0, -1)
        ]


@dataclass(frozen=True)
class Crossover:
    """Two schedules of which one is faster for small sizes and the other for large ones.

    Parameters
    ----------
    small, large : str
        Algorithms: faster at small sizes, and at large ones.
    predicted_bytes, measured_bytes : float, optional
        Where that changes; None: nowhere between the smallest and the largest size.
    fitted_to : tuple of str
        Algorithms whose times at the smallest and the largest size the prediction comes from.
    model : NetworkModel
        Fitted to these.
    """

    collective: CollectiveKind
    small: str
    large: str
    predicted_bytes: float | None
    measured_bytes: float | None
    fitted_to: tuple[str, ...]
    model: NetworkModel

    @property
    def ratio(self) -> float | None:
        """Predicted over measured."""
        if self.predicted_bytes is None or self.measured_bytes is None:
            return None
        return self.predicted_bytes / self.measured_bytes


def turning_size(sizes: Sequence[float], one_s: Sequence[float], other_s: Sequence[float]) -> float | None:
    """The size from which on another schedule is the faster one.

    Parameters
    ----------
    sizes : sequence of float
        Bytes, ascending.
    one_s, other_s : sequences of float
        Seconds at these sizes.

    Returns
    -------
    float, optional
        Where the ratio of the times passes one, interpolated linearly in the logarithms of size and ratio. Of
        several places, which noise makes, the middle one: there is an odd number of them. None if the same
        is faster at both ends.

    Examples
    --------
    >>> round(turning_size([1, 4], [1.0, 4.0], [2.0, 2.0]), 9)
    2.0
    >>> turning_size([1, 4], [1.0, 2.0], [2.0, 4.0])
    """
    ratios = [log(one / other) for one, other in zip(one_s, other_s, strict=True)]
    signs = [ratio > 0 for ratio in ratios]
    places = [place for place in range(len(signs) - 1) if signs[place] != signs[place + 1]]
    if len(places) % 2 == 0:
        return None
    place = places[len(places) // 2]
    share = ratios[place] / (ratios[place] - ratios[place + 1])
    return exp(log(sizes[place]) + share * (log(sizes[place + 1]) - log(sizes[place])))


def is_clear(one_s: Sequence[float], other_s: Sequence[float]) -> bool:
    """Whether one is faster at the first size and the other at the last, by `MARGIN` each.

    Examples
    --------
    >>> is_clear([1.0, 4.0], [2.0, 2.0]), is_clear([1.0, 4.0], [2.0, 3.9])
    (True, False)
    """
    first, last = (log(one_s[place] / other_s[place]) for place in (0, -1))
    return first * last < 0 and min(abs(first), abs(last)) >= log(1 + MARGIN)


def crossovers(curves: Sequence[MeasuredCurve]) -> tuple[Crossover, ...]:
    """Every pair of schedules of a collective that cross clearly, as measured or as predicted.

    Parameters
    ----------
    curves : sequence of MeasuredCurve
        Of one network, at the same sizes.

    Raises
    ------
    ScheduleError
        If there are fewer than three algorithms.

    Notes
    -----
    The prediction for a pair comes from the other algorithms: a model (`fit_network`) is fitted to their
    times at the smallest and the largest size, of all collectives, and both of the pair are simulated with
    it. Nothing that was measured of the pair goes in.
    """
    require_enough([curve.algorithm for curve in curves])
    found = (
        _crossover(one, other, curves)
        for one, other in combinations(curves, 2)
        if one.collective == other.collective and one.algorithm != other.algorithm
    )
    return tuple(one for one in found if one is not None)


def require_enough(algorithms: Sequence[str]) -> None:
    """Raise ScheduleError if some pair has no third algorithm to fit a model to."""
    names = list(dict.fromkeys(algorithms))
    if len(names) < 3:
        raise ScheduleError(
            f"crossovers of two schedules are predicted from others: expected at least three algorithms, "
            f"found {', '.join(names)}"
        )


def _crossover(one: MeasuredCurve, other: MeasuredCurve, curves: Sequence[MeasuredCurve]) -> Crossover | None:
    pair = (one.algorithm, other.algorithm)
    others = [curve for curve in curves if curve.algorithm not in pair]
    model = fit_network([end for curve in others for end in curve.ends()])
    sizes = _sample_sizes(one.sizes[0], one.sizes[-1])
    told = [[predicted_s(model, way.graph, size, way.slices(size)) for size in sizes] for way in (one, other)]
    if not is_clear(*told) and not is_clear(one.times_s, other.times_s):
        return None
    predicted = turning_size(sizes, *told)
    measured = turning_size(one.sizes, one.times_s, other.times_s)
    firsts = (told[0][0], told[1][0]) if measured is None else (one.times_s[0], other.times_s[0])
    small, large = pair if firsts[0] < firsts[1] else reversed(pair)
    fitted = tuple(dict.fromkeys(curve.algorithm for curve in others))
    return Crossover(one.collective, small, large, predicted, measured, fitted, model)


def _sample_sizes(least: int, most: int) -> list[int]:
    """Sizes from the least to the most, `_POINTS_PER_OCTAVE` in each doubling, in whole elements."""
    points = max(2, round(_POINTS_PER_OCTAVE * np.log2(most / least)) + 1)
    sizes = np.geomspace(least / _ELEMENT_BYTES, most / _ELEMENT_BYTES, points)
    return [int(size) * _ELEMENT_BYTES for size in np.unique(np.rint(sizes))]
