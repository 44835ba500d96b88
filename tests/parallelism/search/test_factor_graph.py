"""The value, what it refuses, and quantities of a plan."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.parallelism.search.factor_graph import Factor, FactorGraph, Quantities, factor

NAMES = Quantities(n_sections=1, n_moments=1)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([factor([0], {0: [1, 2, 3]})], r"expected \(2,\), found \(3,\)"),
        ([factor([0], {9: [1, 2]})], "no quantity 9"),
        ([factor([0], {0: [-1, 2]})], "not negative"),
        ([factor([0], {0: [np.nan, 2]})], "finite"),
        ([factor([2], {0: [1, 2]})], "names a node that is not there"),
        ([factor([0, 0], {0: [[1, 2], [3, 4]]})], "ascending"),
        ([Factor((1, 0), {0: np.ones((2, 2))})], "ascending"),
        ([factor([0], {0: [1, 2]})] * 2, "two factors"),
    ],
)
def test_what_does_not_fit_is_refused(parts: list[Factor], why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        FactorGraph((2, 2), NAMES, tuple(parts), (1,))
