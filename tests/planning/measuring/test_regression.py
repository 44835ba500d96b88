"""Fits whose weights and intervals can be reckoned by hand, and quantiles by the printed expansion."""

from __future__ import annotations

from math import inf, sqrt
from statistics import NormalDist

import pytest

from treadle.errors import ScheduleError
from treadle.simulation.calibration.regression import CONFIDENCE, Estimate, LinearFit, fit_times, student_t


@pytest.mark.parametrize(("freedom", "confidence"), [(3, 0.9), (4, 0.95), (7, 0.99), (11, 0.5)])
def test_quantiles_by_the_expansion_of_abramowitz_and_stegun(freedom: int, confidence: float) -> None:
    """Formula 26.7.5, its polynomials in the squared quantile of the normal distribution."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    s, n = z * z, freedom
    wanted = z * (
        1
        + (s + 1) / 4 / n
        + ((5 * s + 16) * s + 3) / 96 / n**2
        + (((3 * s + 19) * s + 17) * s - 15) / 384 / n**3
        + ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / 92160 / n**4
    )
    assert student_t(freedom, confidence) == pytest.approx(wanted, rel=1e-13)


def test_quantiles_of_one_and_two_degrees() -> None:
    """Cauchy's distribution has half of its mass within 1; that of two degrees within the root of 2/3."""
    assert student_t(1, 0.5) == pytest.approx(1, rel=1e-14)
    assert student_t(2, 0.5) == pytest.approx(sqrt(2 / 3), rel=1e-14)
    assert student_t(1, 0.95) == pytest.approx(12.7062047, rel=1e-8)
    assert student_t(2, 0.95) == pytest.approx(4.30265273, rel=1e-8)
    assert CONFIDENCE == 0.95
    assert student_t(5) == student_t(5, 0.95)


def test_a_symmetric_fit_by_hand() -> None:
    """Ratios of 0.8 to 1.2 to be told by one number: it is 1, and the outer two count a little less.

    The median residual is 0.1; residuals beyond 1.345 times 1.4826 of that count by their size.
    """
    fit = fit_times({"a": [2.0] * 5}, [2.0] * 5, known_s=[0.4, 0.2, 0.0, -0.2, -0.4])
    assert list(fit.estimates) == ["a"]
    assert fit.value("a") == pytest.approx(1, rel=1e-12)
    assert fit.value("b") == 0.0
    assert fit.predicted_s == pytest.approx((2.4, 2.2, 2.0, 1.8, 1.6), rel=1e-12)
    assert fit.mean_error == pytest.approx(0.12, rel=1e-12)
    assert fit.max_error == pytest.approx(0.2, rel=1e-12)
    weight = 1.345 * 1.4826 * 0.1 / 0.2
    variance = (2 * 0.1**2 + 2 * weight * 0.2**2) / 4
    reach = student_t(4) * sqrt(variance / (3 + 2 * weight))
    found = fit.estimates["a"]
    assert (found.low, found.high) == pytest.approx((1 - reach, 1 + reach), rel=1e-9)


def test_weights_are_those_of_the_residuals_in_the_end() -> None:
    """Ratios with an outlier: their mean with the weights that follow from how far they are from it."""
    ratios = [0.9, 1.0, 1.05, 1.3, 2.0]
    found = fit_times({"a": [1.0] * 5}, [1.0] * 5, known_s=[1 - one for one in ratios]).value("a")
    residuals = [abs(one - found) for one in ratios]
    scale = 1.345 * 1.4826 * sorted(residuals)[2]
    weights = [min(1.0, scale / one) if one else 1.0 for one in residuals]
    assert min(weights) < 0.5
    assert found == pytest.approx(
        sum(w * one for w, one in zip(weights, ratios, strict=True)) / sum(weights), rel=1e-8
    )


def test_columns_of_any_scale() -> None:
    """The same fit, with a column a million times as large: the number and its interval are as much less."""
    known = [0.4, 0.2, 0.0, -0.2, -0.4]
    small = fit_times({"a": [2.0] * 5}, [2.0] * 5, known_s=known).estimates["a"]
    large = fit_times({"a": [2e6] * 5}, [2.0] * 5, known_s=known).estimates["a"]
    assert (large.low, large.value, large.high) == pytest.approx(
        (small.low / 1e6, small.value / 1e6, small.high / 1e6), rel=1e-9
    )


def test_two_columns_and_times_that_are_exact() -> None:
    sizes = [1.0, 10.0, 100.0, 1000.0]
    fit = fit_times({"size": sizes, "one": [1.0] * 4}, [3 + 0.5 * size for size in sizes])
    assert fit.value("size") == pytest.approx(0.5, rel=1e-9)
    assert fit.value("one") == pytest.approx(3, rel=1e-9)
    assert fit.max_error < 1e-12
    for name, value in (("size", 0.5), ("one", 3)):
        assert fit.estimates[name].low == pytest.approx(value, rel=1e-6)
        assert fit.estimates[name].high == pytest.approx(value, rel=1e-6)


def test_nothing_is_left_to_judge_a_fit_by() -> None:
    fit = fit_times({"size": [1.0, 2.0], "one": [1.0, 1.0]}, [5.0, 8.0])
    assert {name: round(one.value, 9) for name, one in fit.estimates.items()} == {"size": 3.0, "one": 2.0}
    assert {(one.low, one.high) for one in fit.estimates.values()} == {(-inf, inf)}


def test_an_interval_of_two_columns_is_that_of_the_normal_equations() -> None:
    """Times of 1 throughout and small residuals, all of one size: all weights are 1."""
    x, noise = [1.0, 2.0, 3.0, 4.0], [0.01, -0.01, -0.01, 0.01]  # at right angles to both columns
    known = [1 - (0.1 * one + 0.2 + more) for one, more in zip(x, noise, strict=True)]
    fit = fit_times({"x": x, "one": [1.0] * 4}, [1.0] * 4, known_s=known)
    assert fit.value("x") == pytest.approx(0.1, rel=1e-9)
    assert fit.value("one") == pytest.approx(0.2, rel=1e-9)
    sigma = sqrt(4 * 0.01**2 / 2)
    # sums of squares about the mean: 5; the mean is 2.5
    for name, share in (("x", 1 / 5), ("one", 1 / 4 + 2.5**2 / 5)):
        reach = student_t(2) * sigma * sqrt(share)
        found = fit.estimates[name]
        assert found.high - found.value == pytest.approx(reach, rel=1e-6)
        assert found.value - found.low == pytest.approx(reach, rel=1e-6)


def test_a_column_that_others_make_up_is_dropped() -> None:
    x = [1.0, 2.0, 3.0, 5.0]
    columns = {"x": x, "twice": [2 * one for one in x], "one": [1.0] * 4}
    fit = fit_times(columns, [4 + 3 * one for one in x])
    assert list(fit.estimates) == ["x", "one"]
    assert fit.value("x") == pytest.approx(3, rel=1e-9)
    assert fit.value("twice") == 0.0


def test_of_negative_figures_the_last_goes_first() -> None:
    """20 - p - 2 q: without q, which is about -p, times grow with p; without p they fall with q."""
    p, q = [1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -5.0]
    times = [20 - one - 2 * other for one, other in zip(p, q, strict=True)]
    fit = fit_times({"p": p, "q": q, "one": [1.0] * 4}, times)
    assert list(fit.estimates) == ["p", "one"]
    fit = fit_times({"q": q, "p": p, "one": [1.0] * 4}, times)
    assert list(fit.estimates) == ["one"]


@pytest.mark.parametrize("times", [[], [0.0], [1.0, -1.0], [1.0, inf], [1.0, float("nan")]])
def test_times_that_are_none(times: list[float]) -> None:
    with pytest.raises(ScheduleError) as caught:
        fit_times({"one": [1.0] * len(times)}, times)
    assert str(caught.value) == "a fit needs at least one time, all of them positive"


def test_nothing_can_be_fitted() -> None:
    with pytest.raises(ScheduleError) as caught:
        fit_times({"x": [-1.0, -2.0]}, [1.0, 2.0])
    assert str(caught.value) == "the times do not grow with latency or size: nothing can be fitted"


def test_values_of_what_was_not_fitted() -> None:
    fit = LinearFit({"a": Estimate(2.0, 1.0, 3.0)}, (), 0.0, 0.0)
    assert (fit.value("a"), fit.value("b")) == (2.0, 0.0)
