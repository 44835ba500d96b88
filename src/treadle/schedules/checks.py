"""Checks of constructors of schedules: lengths, ranges and sums of arrays. The verifier checks meaning."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from treadle.errors import ScheduleError

UNIT_LIMIT = 2**61
"""Capacity units and unit trees are counted below this, so that sums of two fit int64."""


def check_length(what: str, key: str, array: NDArray[Any], length: int) -> None:
    """ScheduleError unless a column has `length` rows."""
    if len(array) != length:
        raise ScheduleError(f"{what}: {key} has {len(array)} rows, expected {length}")


def check_range(what: str, key: str, array: NDArray[Any], low: int, high: int) -> None:
    """ScheduleError unless low <= a < high for all values."""
    if array.size and (array.min() < low or array.max() >= high):
        wrong = array.min() if array.min() < low else array.max()
        raise ScheduleError(f"{what}: {key}: found {wrong}, expected {low} to {high - 1}")


def check_sum(what: str, key: str, array: NDArray[Any], limit: int = UNIT_LIMIT) -> None:
    """ScheduleError if the sum of nonnegative values reaches the limit; exact."""
    if array.size and int(array.max()) * array.size >= limit and sum(array.ravel().tolist()) >= limit:
        raise ScheduleError(
            f"{what}: {key} sum to 2**{limit.bit_length() - 1} or more; use a smaller number of trees"
        )
