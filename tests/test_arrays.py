"""Exact sums, offsets and equal rows of arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

import treadle
from treadle.arrays import (
    FrozenArrays,
    Int32Array,
    Int64Array,
    exact_sum,
)
from treadle.errors import ScheduleError


@pytest.mark.parametrize(
    "values", [[], [0], [2**62, 2**62, 2**62], [-(2**63), 2**63 - 1, -5], [2**32 - 1, 1, -(2**32)]]
)
def test_sums_are_exact_beyond_64_bits(values: list[int]) -> None:
    assert exact_sum(np.array(values, dtype=np.int64)) == sum(values)


def test_offsets_are_summed_up_in_one_place() -> None:
    idiom = re.compile(r"concatenate\(\s*[\[(]\s*\[0\],\s*np\.cumsum|np\.cumsum\([^\n]*out=\w+\[1:\]")
    source = Path(treadle.__file__).parent
    found = [path.name for path in source.rglob("*.py") if idiom.search(path.read_text(encoding="utf-8"))]
    # sums of other types: words modulo 2**64
    assert found == ["isomorphism.py"]


@dataclass(frozen=True, eq=False)
class Sample(FrozenArrays):
    """A value over arrays, as all of them are."""

    name: str = field(compare=False)
    count: int
    links: Int32Array
    table: Int64Array

    def __post_init__(self) -> None:
        self._freeze("sample", axes={"table": 2})


def sample(**changes: object) -> Sample:
    """A sample with some other values."""
    values: dict[str, object] = {"name": "a", "count": 1, "links": [1, 2], "table": [[1, 2], [3, 4]]}
    return Sample(**(values | changes))  # type: ignore[arg-type]


def test_values_over_arrays_are_read_only_and_adopt_what_is() -> None:
    own = np.array([1, 2], dtype=np.int32)
    one = sample(links=own)
    own[0] = 5
    assert one.links.tolist() == [1, 2]
    assert one.links.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        one.table[0, 0] = 1
    assert replace(one, count=2).links is one.links
    assert sample(table=one.table.T).table.flags.c_contiguous


def test_values_over_arrays_are_equal_by_content() -> None:
    one = sample()
    assert one == sample(name="b") == sample(links=np.array([1, 2]))
    assert hash(one) == hash(sample(name="b"))
    for changes in ({"count": 2}, {"links": [1, 3]}, {"links": [1]}, {"table": [[1, 2]]}):
        assert one != sample(**changes)
    assert one != "sample"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"links": [0.5]}, r"sample: links: expected int32 \(found 0.5\)"),
        ({"links": [2**31]}, "sample: links: expected int32"),
        ({"links": ["x"]}, "sample: links: expected int32"),
        ({"links": [[1]]}, "sample: links must have one dimension"),
        ({"table": [1]}, "sample: table has 1 axes, expected 2"),
    ],
)
def test_values_over_arrays_refuse_other_types_and_axes(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        sample(**changes)
