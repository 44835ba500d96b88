"""Test data: exactness of the inputs, the definition of results, the count of wrong elements."""

import builtins
from fractions import Fraction

import numpy as np
import pytest

from shortcuts.executed import expected
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.data import (
    PERIODS,
    ElementType,
    Reduction,
    finish_average,
    make_pattern,
    numpy_dtype,
    poison,
    reduced,
)
from treadle.schedules.collective import CollectiveKind


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


@pytest.mark.parametrize("element", list(ElementType))
def test_all_integers_up_to_the_limit_are_exact_and_the_next_is_not(element: ElementType) -> None:
    dtype = numpy_dtype(element_or_skip(element))
    assert element.n_bytes == dtype.itemsize
    if np.issubdtype(dtype, np.integer):
        assert element.exact_limit == np.iinfo(dtype).max
        return
    limit = element.exact_limit
    assert [int(np.array(value).astype(dtype)) for value in (limit - 1, limit)] == [limit - 1, limit]
    assert int(np.array(limit + 1).astype(dtype)) != limit + 1


def test_values_show_a_missing_contribution() -> None:
    # 300 ranks exceed bfloat16's 256: some values must be 0, but no rank may be silent
    element = element_or_skip(ElementType.BFLOAT16)
    pattern = make_pattern(300, 2000, element=element, reduction=Reduction.SUM, reduces=True, seed=3)
    assert np.all(np.count_nonzero(pattern.values, axis=1) > 1000)
    assert np.count_nonzero(pattern.values, axis=0).max() <= 256


@pytest.mark.parametrize("element", list(ElementType))
def test_average_is_the_correctly_rounded_quotient(element: ElementType) -> None:
    element = element_or_skip(element)
    dtype = numpy_dtype(element)
    sums = np.arange(-256, 257).astype(dtype)
    values = sums.copy()
    finish_average(values, 7)
    for total, found in zip(sums, values, strict=True):
        if np.issubdtype(dtype, np.integer):
            assert int(found) == int(total) // 7
            continue
        error = abs(Fraction(float(found)) - Fraction(int(total), 7))
        for other in (np.nextafter(found, dtype.type(1000)), np.nextafter(found, dtype.type(-1000))):
            assert error <= abs(Fraction(float(other)) - Fraction(int(total), 7))


def test_expected_follows_the_definitions() -> None:
    inputs = [np.array([1, 5, -3], dtype=np.int32), np.array([4, 2, -4], dtype=np.int32)]
    for reduction, values in (
        (Reduction.SUM, [5, 7, -7]),
        (Reduction.MAX, [4, 5, -3]),
        (Reduction.MIN, [1, 2, -4]),
        (Reduction.AVG, [2, 3, -4]),
    ):
        both = expected(CollectiveKind.ALLREDUCE, inputs, reduction=reduction)
        assert [list(row) for row in both if row is not None] == [values, values]
    one, other = expected(CollectiveKind.REDUCE_SCATTER, inputs, shard_bounds=[0, 1, 3])
    assert one is not None
    assert other is not None
    assert (one.tolist(), other.tolist()) == ([5], [7, -7])
    gathered = expected(CollectiveKind.ALLGATHER, [inputs[0], inputs[1][:1]])
    assert [row.tolist() for row in gathered if row is not None] == [[1, 5, -3, 4]] * 2
    rooted = expected(CollectiveKind.BROADCAST, inputs, root=1)
    assert [row.tolist() for row in rooted if row is not None] == [[4, 2, -4]] * 2
    missing, total = expected(CollectiveKind.REDUCE, inputs, root=1)
    assert missing is None
    assert total is not None
    assert total.tolist() == [5, 7, -7]
    with pytest.raises(ScheduleError, match="3 shard bounds"):
        expected(CollectiveKind.REDUCE_SCATTER, inputs, shard_bounds=[0, 3])


PERIOD = PERIODS[0]


@pytest.mark.parametrize("element", list(ElementType))
def test_wrong_elements_are_counted_across_periods(element: ElementType) -> None:
    element = element_or_skip(element)
    count, start = 2 * PERIOD + 100, 17
    pattern = make_pattern(3, count, element=element, reduction=Reduction.SUM, reduces=True, seed=1)
    buffer = np.empty(count - start, dtype=numpy_dtype(element))
    pattern.fill(2, buffer, start=start)
    assert buffer[0] == pattern.values[2][17]
    assert buffer[PERIOD] == buffer[0]
    assert pattern.count_wrong_copy(2, buffer, start=start) == 0
    assert pattern.count_wrong_copy(2, buffer[1:], start=start) > PERIOD / 2
    for place in (0, PERIOD, count - start - 1):
        buffer[place] = -buffer[place]
    assert pattern.count_wrong_copy(2, buffer, start=start) == 3
    poison(buffer)
    assert pattern.count_wrong_result(buffer, start=start) == count - start


def test_reduced_agrees_with_the_ufunc_in_64_bits() -> None:
    inputs = np.array([[2**31 - 1, -5], [-(2**31), 4]], dtype=np.int32)
    assert reduced(inputs, Reduction.SUM).tolist() == [-1, -1]
    assert reduced(inputs, Reduction.MIN).tolist() == [-(2**31), -5]
    # what no float holds
    wide = np.array([[2**62 + 1], [-3]], dtype=np.int64)
    assert reduced(wide, Reduction.SUM).tolist() == [2**62 - 2]
    assert reduced(wide, Reduction.AVG).tolist() == [2**61 - 1]


def test_bfloat16_names_its_extra_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name == "ml_dtypes":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"treadle\[bfloat16\]"):
        numpy_dtype(ElementType.BFLOAT16)


def test_patterns_of_many_ranks_stay_small() -> None:
    pattern = make_pattern(
        1024, 10**6, element=ElementType.INT32, reduction=Reduction.SUM, reduces=True, seed=1
    )
    assert pattern.values.shape == (1024, PERIODS[2])
