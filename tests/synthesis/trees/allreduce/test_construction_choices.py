"""Which construction of an allreduce is taken, their order, and how many trees they are asked for."""

from __future__ import annotations

from fractions import Fraction

import pytest

from samples.allreduce_fabrics import allreduce
from treadle.synthesis.trees import pack_forest
from treadle.synthesis.trees.allreduce.allreduce_forests import Construction, UnitLimits, solve_allreduce
from treadle.topologies import parse

C = Construction
F = Fraction


@pytest.mark.parametrize(
    ("packed", "limits", "by", "rate", "units", "exact"),
    [
        # a ring holds the four paths of three links, a third of a byte/s each
        (False, None, C.TREES, F(4, 3), 4, 4),
        (False, UnitLimits(2), C.TREES, 1, 1, 4),
        (False, UnitLimits(2, is_fixed=True), C.TREES, 1, 1, 4),
        (False, UnitLimits(6), C.TREES, F(4, 3), 4, 4),
        (True, None, C.TREES, F(4, 3), 4, 4),
        (True, UnitLimits(2), C.WHOLE_TREES, 1, 1, 4),
        (True, UnitLimits(6), C.WHOLE_TREES, F(4, 3), 4, 4),
        (True, UnitLimits(2, is_fixed=True), C.WHOLE_TREES, 1, 2, None),
    ],
)
def test_units_of_what_attains_the_bound(
    packed: bool,
    limits: UnitLimits | None,
    by: Construction,
    rate: Fraction,
    units: int,
    exact: int | None,
) -> None:
    """They are told also where fewer are taken; a ring of four."""
    ring = parse("ring(4)")
    found = solve_allreduce(ring, allreduce(ring), pack=pack_forest if packed else None, limits=limits)
    assert (found.construction, found.algbw, found.bound.algbw) == (by, rate, F(4, 3))
    assert (found.schedule.total_units, found.exact_units) == (units, exact)
