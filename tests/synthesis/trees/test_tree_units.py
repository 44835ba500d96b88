"""Divisors of the trees' multiplicities, which are as large as bandwidths in bytes/s may be."""

from math import isqrt

import pytest

from treadle.synthesis.trees.packers.packers import divisors


def test_small_numbers_have_their_divisors() -> None:
    for number in range(1, 700):
        assert divisors(number) == [d for d in range(number, 0, -1) if number % d == 0]


def test_all_divisors_below_two_to_the_32() -> None:
    number = 2_999_999_958  # trees of each root in a test of allreduces on odd bandwidths
    low = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    assert divisors(number) == sorted({*low, *(number // d for d in low)}, reverse=True)
    prime = 2**31 - 1
    assert divisors(2 * prime) == [2 * prime, prime, 2, 1]


@pytest.mark.parametrize("number", [2**61 - 1, 2**62, (2**31 - 1) * (2**31 - 19), 3 * (2**61 - 1)])
def test_huge_numbers_take_no_time(number: int) -> None:
    """Trying every number up to them would take days."""
    found = divisors(number)
    assert (found[0], found[-1]) == (number, 1)
    assert all(number % divisor == 0 for divisor in found)
    assert found == sorted(set(found), reverse=True)
