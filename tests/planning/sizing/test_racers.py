"""Racers whose times are made up: what is known of them, who leads, and in which order sizes are raced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from treadle.schedulers.sizes.selection import (
    SizeCandidate,
    TimedSize,
    _by_halves,
    select,
    winners,
)


@pytest.mark.parametrize(
    ("count", "order"),
    [
        (0, []),
        (1, [0]),
        (2, [1, 0]),
        (3, [2, 0, 1]),
        (4, [3, 0, 1, 2]),
        (6, [5, 0, 2, 1, 3, 4]),
        (9, [8, 0, 4, 2, 6, 1, 3, 5, 7]),
    ],
)
def test_sizes_from_the_ends_inwards(count: int, order: list[int]) -> None:
    assert list(_by_halves(count)) == order


@dataclass
class MadeUp:
    """A racer that takes what it is told, and at least its floor."""

    title: str
    seconds: dict[int, float]
    baseline: str = ""
    least: float = 0.0
    able: bool = True
    times: dict[int, TimedSize] = field(default_factory=dict)
    limits: list[float] = field(default_factory=list)

    def floor(self, size: int) -> float:
        return self.least

    def is_able(self) -> bool:
        return self.able

    def time_below(self, size: int, limit: float) -> TimedSize | None:
        self.limits.append(limit)
        if self.seconds[size] >= limit:
            return None
        self.times[size] = TimedSize(self.seconds[size], 1, "", False)
        return self.times[size]


def test_all_sizes_are_raced() -> None:
    racers = [MadeUp("a", {1: 1.0, 2: 3.0, 3: 3.0}), MadeUp("b", {1: 2.0, 2: 2.0, 3: 3.0})]
    select(cast(list[SizeCandidate], racers), [1, 2, 3])
    best = winners(cast(list[SizeCandidate], racers), [1, 2, 3, 4])
    assert {size: one.title for size, one in best.items()} == {1: "a", 2: "b", 3: "a"}
