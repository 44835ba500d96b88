"""The best ranges of sizes, against all choices there are."""

from __future__ import annotations

import pytest

from treadle.schedulers.sizes.envelope import choose_ranges, crossing


def test_without_a_limit_every_size_has_its_fastest_in_as_few_ranges_as_that_takes() -> None:
    ranges = choose_ranges([[1, 1, 2, 2], [1, 1, 1, 2], [9, 1, 1, 1]])
    assert [(one.first, one.last) for one in ranges] == [(0, 0), (1, 3)]
    assert ranges[1].schedule == 2


def test_one_schedule_has_one_range() -> None:
    (only,) = choose_ranges([[1.0, 3.0, 2.0]], 1)
    assert (only.schedule, only.first, only.last) == (0, 0, 2)


def test_ranges_meet_where_the_times_do() -> None:
    # 4 us against 1 us + size / 1 GB/s: equal at 3000 bytes; straight between logarithms it is near that
    assert crossing(2048, 4096, (3.048, 5.096), (4.0, 4.0)) == pytest.approx(3000, rel=0.05)
    assert crossing(1024, 2048, (1.0, 2.0), (1.0, 1.0)) == 2048, "nothing to go by"
    assert crossing(1000, 1001, (1.0, 3.0), (2.0, 1.0)) == 1001


@pytest.mark.parametrize(
    ("low", "high", "left", "right", "size"),
    [
        (100, 400, (1.0, 1.0), (2.0, 0.5), 200),  # as much slower as then faster: the geometric mean
        (100, 1600, (1.0, 1.0), (2.0, 0.125), 200),  # a quarter of the way
        (100, 1600, (1.0, 8.0), (8.0, 4.0), 800),  # three quarters
        (100, 400, (3.0, 2.0), (6.0, 2.0), 400),  # they meet at the next size
        (100, 400, (1.0, 3.0), (1.0, 2.0), 400),  # they meet at the first: nothing to go by
        (100, 400, (1.0, 1.0), (2.0, 1.5), 400),  # never faster
        (100, 400, (2.0, 1.0), (1.0, 0.5), 400),  # always faster
        (100, 101, (1.0, 1.0), (2.0, 0.001), 101),
        (1000, 1100, (1.0, 1.0), (1.0000001, 0.001), 1001),  # above the first size
    ],
)
def test_where_ranges_meet(
    low: int, high: int, left: tuple[float, float], right: tuple[float, float], size: int
) -> None:
    assert crossing(low, high, left, right) == size


TIMES = [[1.0, 2.0, 6.0, 4.0], [3.0, 1.0, 2.0, 4.0], [2.0, 3.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("most", "ranges"),
    [
        # ratios: 1 2 6 4, 3 1 2 4, 2 3 1 1
        (1, [(2, 0, 3)]),  # 3 at worst, as the second is 4
        (2, [(0, 0, 1), (2, 2, 3)]),  # 1 2 1 1
        (3, [(0, 0, 0), (1, 1, 1), (2, 2, 3)]),
        (4, [(0, 0, 0), (1, 1, 1), (2, 2, 3)]),
        (9, [(0, 0, 0), (1, 1, 1), (2, 2, 3)]),
        (None, [(0, 0, 0), (1, 1, 1), (2, 2, 3)]),
    ],
)
def test_ranges_of_three_schedules(most: int | None, ranges: list[tuple[int, int, int]]) -> None:
    found = choose_ranges(TIMES, most)
    assert [(one.schedule, one.first, one.last) for one in found] == ranges


def test_of_equal_choices_the_fewest_ranges_and_the_first_schedule() -> None:
    found = choose_ranges([[1.0, 1.0, 2.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert [(one.schedule, one.first, one.last) for one in found] == [(1, 0, 2)]
