"""Rows that commands share: problems, bounds, schedules and verification, of odd fabrics and by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import treadle
from harness.snapshots import check
from treadle.render.problems import (
    group_rows,
)
from treadle.render.quantities import Rates
from treadle.render.solving import bound_result_rows
from treadle.schedules.collective import Collective, CollectiveKind

GB = 10**9


def alone(rate: Fraction, groups: int, *, is_exact: bool = True) -> Any:
    return SimpleNamespace(algbw=rate, groups=tuple(range(groups)), is_exact=is_exact)


def shared(lower: Fraction, *others: Any, rs_ag: Fraction | None = None) -> Any:
    upper = Fraction(10 * GB, 3)
    found = {"lower": lower, "upper": upper, "is_exact": lower == upper, "rs_ag": rs_ag}
    return SimpleNamespace(**found, alone=others, bottleneck=(0, 3))


def test_groups() -> None:
    """Brackets of all widths; groups that reach more when they run alone."""
    rate, ring = Fraction(10 * GB, 3), treadle.parse("ring:4")
    posed = Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3), groups=((0, 1), (2, 3)))
    four = [alone(Fraction(number * GB), number) for number in (1, 2, 3, 4)]
    views = [
        shared(rate, alone(Fraction(9 * GB), 2), rs_ag=rate),
        shared(rate * 99999 / 10**5, alone(rate, 1, is_exact=False), four[1]),
        shared(rate * 9999 / 10**4, *four[:3], rs_ag=Fraction(3 * GB)),
        shared(rate / 2, *four),
    ]
    check("groups", *(group_rows(ring, posed, one, Rates()) for one in views))


def test_lower_bounds_of_sizes() -> None:
    found = treadle.bound("ring(3, bandwidth='4GB/s')", "allgather", sizes="1K,3M", cost_model="reference")
    check("size_bounds", bound_result_rows(replace(found, seconds={"total": 1.0})))
