"""Test data: exactness of the inputs, the definition of results, the count of wrong elements."""

import numpy as np
import pytest

from treadle.errors import MissingDependencyError
from treadle.runtime.data import (
    ElementType,
    Reduction,
    finish_average,
    make_pattern,
    numpy_dtype,
)


def element_or_skip(element: ElementType) -> ElementType:
    try:
        numpy_dtype(element)
    except MissingDependencyError as error:
        pytest.skip(str(error))
    return element


@pytest.mark.parametrize("element", list(ElementType))
@pytest.mark.parametrize("n", [2, 64, 300])
@pytest.mark.parametrize("reduction", [Reduction.SUM, Reduction.AVG])
def test_sums_are_exact_in_every_order(element: ElementType, n: int, reduction: Reduction) -> None:
    element = element_or_skip(element)
    pattern = make_pattern(n, 2000, element=element, reduction=reduction, reduces=True, seed=3)
    exact = [sum(int(v) for v in column) for column in pattern.values.T]
    for order in (np.arange(n), np.arange(n)[::-1], np.random.default_rng(0).permutation(n)):
        total = np.zeros(2000, dtype=pattern.values.dtype)
        for rank in order:
            total = total + pattern.values[rank]
        if reduction is Reduction.AVG:
            finish_average(total, n)
        else:
            assert [int(v) for v in total] == exact
        assert np.array_equal(total, pattern.result)
