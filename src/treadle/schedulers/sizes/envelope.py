"""Assignment of schedules to sizes with a limited number of ranges: exact, by dynamic programming."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log2

Times = Sequence[Sequence[float]]
"""Seconds by schedule and size."""


@dataclass(frozen=True)
class ChosenRange:
    """A range of sizes with one schedule.

    Parameters
    ----------
    schedule : int
        Its number.
    first, last : int
        Places of its first and last size.
    """

    schedule: int
    first: int
    last: int


def choose_ranges(times: Times, most: int | None = None) -> tuple[ChosenRange, ...]:
    """Ranges of sizes, at most `most`, at which the schedules are nearest to the fastest of all.

    Parameters
    ----------
    times : sequence of sequences of float
        Seconds, more than 0, of each schedule at each size; every size's best is finite.
    most : int, optional
        Default: as many as it takes to be the fastest at every size.

    Notes
    -----
    The worst ratio to the fastest is minimised first; among choices of that worst ratio the mean ratio; then
    the number of ranges. Both passes are exact: O(sizes x schedules x ranges).

    Examples
    --------
    >>> choose_ranges([[1, 4], [3, 2]])
    (ChosenRange(schedule=0, first=0, last=0), ChosenRange(schedule=1, first=1, last=1))
    >>> choose_ranges([[1, 4], [3, 2]], 1)
    (ChosenRange(schedule=0, first=0, last=1),)
    """
    n_sizes = len(times[0])
    best = [min(row[place] for row in times) for place in range(n_sizes)]
    ratios = [[row[place] / best[place] for place in range(n_sizes)] for row in times]
    most = n_sizes if most is None else min(most, n_sizes)
    worst = _least_worst(ratios, most)
    return _least_mean(ratios, most, worst)


def _least_worst(ratios: Times, most: int) -> float:
    """The least worst ratio of at most `most` ranges."""
    values = sorted({value for row in ratios for value in row if value < inf})
    return values[
        bisect_left(values, 1, 0, len(values) - 1, key=lambda value: _ranges_needed(ratios, value) <= most)
    ]


def _ranges_needed(ratios: Times, limit: float) -> float:
    """The fewest ranges whose ratios are all up to a limit: each as long as some schedule allows."""
    place, needed, n_sizes = 0, 0, len(ratios[0])
    while place < n_sizes:
        ends = [_end_of(row, place, limit) for row in ratios]
        if max(ends) == place:
            return inf
        place, needed = max(ends), needed + 1
    return needed


def _end_of(row: Sequence[float], place: int, limit: float) -> int:
    while place < len(row) and row[place] <= limit:
        place += 1
    return place


def _least_mean(ratios: Times, most: int, worst: float) -> tuple[ChosenRange, ...]:
    """The least sum of ratios, each up to `worst`, in at most `most` ranges; of equal sums the fewest."""
    n_sizes = len(ratios[0])
    # by number of ranges so far and schedule of the last one: sum of ratios, and the ranges
    states: dict[tuple[int, int], tuple[float, tuple[ChosenRange, ...]]] = {}
    for place in range(n_sizes):
        reached: dict[tuple[int, int], tuple[float, tuple[ChosenRange, ...]]] = {}
        ended: dict[int, tuple[float, tuple[ChosenRange, ...]]] = {} if place else {0: (0.0, ())}
        for (count, _), state in states.items():
            if count not in ended or state[0] < ended[count][0]:
                ended[count] = state
        for number, row in enumerate(ratios):
            if row[place] > worst:
                continue
            for (count, last), (total, ranges) in states.items():
                if last == number:
                    grown = (*ranges[:-1], ChosenRange(number, ranges[-1].first, place))
                    _keep(reached, (count, number), total + row[place], grown)
            for count, (total, ranges) in ended.items():
                if count < most:
                    begun = (*ranges, ChosenRange(number, place, place))
                    _keep(reached, (count + 1, number), total + row[place], begun)
        states = reached
    best = min(states, key=lambda key: (round(states[key][0], 12), key))
    return states[best][1]


def _keep(
    states: dict[tuple[int, int], tuple[float, tuple[ChosenRange, ...]]],
    key: tuple[int, int],
    total: float,
    ranges: tuple[ChosenRange, ...],
) -> None:
    if key not in states or total < states[key][0]:
        states[key] = total, ranges


def crossing(low: int, high: int, left: tuple[float, float], right: tuple[float, float]) -> int:
    """The first size, above one and up to the next, from which the right schedule is taken to be faster.

    Parameters
    ----------
    low, high : int
        Neighbouring sizes in bytes.
    left, right : tuple of float
        Seconds of either schedule at both.

    Notes
    -----
    The logarithm of the ratio of their times is taken as straight between the logarithms of the sizes.
    """
    before, after = log2(right[0] / left[0]), log2(right[1] / left[1])
    if not before > 0 >= after:
        return high
    share = before / (before - after)
    size: int = round(low * (high / low) ** share)
    return min(high, max(low + 1, size))
