"""Exact sums and equal rows of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.arrays import distinct, distinct_rows, exact_sum


@pytest.mark.parametrize(
    "values", [[], [0], [2**62, 2**62, 2**62], [-(2**63), 2**63 - 1, -5], [2**32 - 1, 1, -(2**32)]]
)
def test_sums_are_exact_beyond_64_bits(values: list[int]) -> None:
    assert exact_sum(np.array(values, dtype=np.int64)) == sum(values)


@pytest.mark.parametrize("values", [1, 2, 4])
@pytest.mark.parametrize("width", [0, 1, 3])
def test_equal_rows_share_their_first_one(values: int, width: int) -> None:
    table = np.random.default_rng(values).integers(0, values, (60, width))
    first, kind = distinct_rows(table)
    assert len(first) == len({row.tobytes() for row in table})
    assert np.all(np.diff(first) > 0)
    assert np.array_equal(table[first][kind], table)
    rows = [row.tobytes() for row in table]
    assert [rows.index(rows[place]) for place in first] == first.tolist()


def test_a_table_without_rows_has_no_kinds() -> None:
    first, kind = distinct_rows(np.zeros((0, 2), dtype=np.int64))
    assert len(first) == len(kind) == 0


def test_different_values_rise() -> None:
    values = np.random.default_rng(3).integers(-5, 5, 100)
    assert distinct(values).tolist() == sorted(set(values.tolist()))
    assert len(distinct(values[:0])) == 0
