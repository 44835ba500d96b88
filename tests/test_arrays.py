"""Exact sums, offsets and equal rows of arrays."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import treadle
from treadle.arrays import distinct, distinct_rows, exact_sum, offsets_of


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


@pytest.mark.parametrize("shape", [(0,), (5,), (3, 4), (2, 3, 0), (2, 3, 4)])
def test_offsets_are_where_runs_begin_and_end(shape: tuple[int, ...]) -> None:
    counts = np.random.default_rng(1).integers(0, 5, shape).astype(np.int32)
    offsets = offsets_of(counts)
    assert offsets.dtype == np.int64
    for row in np.ndindex(*shape[:-1]):
        assert offsets[row].tolist() == [sum(counts[row][:i]) for i in range(shape[-1] + 1)]


def test_offsets_of_lists_and_of_what_is_chosen() -> None:
    assert offsets_of([2**40, 3]).tolist() == [0, 2**40, 2**40 + 3]
    assert offsets_of(np.array([True, False, True])).tolist() == [0, 1, 1, 2]
    assert offsets_of([]).tolist() == [0]


def test_offsets_are_summed_up_in_one_place() -> None:
    idiom = re.compile(r"concatenate\(\s*[\[(]\s*\[0\],\s*np\.cumsum|np\.cumsum\([^\n]*out=\w+\[1:\]")
    source = Path(treadle.__file__).parent
    found = [path.name for path in source.rglob("*.py") if idiom.search(path.read_text(encoding="utf-8"))]
    # sums of other types: words modulo 2**64
    assert found == ["colour_refinement.py"]
