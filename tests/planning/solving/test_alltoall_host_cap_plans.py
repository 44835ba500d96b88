"""Plans of an all-to-all on hosts with injection caps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle.inputs.problem import Problem
from treadle.schedulers.alltoall_candidates import late_bound, quick_alltoall
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.topologies import torus


@pytest.mark.parametrize(("cards_forward", "rate"), [(False, Fraction(2, 27)), (True, Fraction(1, 9))])
def test_what_is_proven_once_time_has_run_out(cards_forward: bool, rate: Fraction) -> None:
    """Hosts of 4 units among 27: what steps pass on crosses them twice, what cards forward does not."""
    fabric = replace(torus(3, 3, 3), injection_bytes_per_s=np.full(27, 4))
    problem = Problem(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    assert late_bound(problem, cards_forward=cards_forward).algbw == 27 * rate
    if not cards_forward:
        assert quick_alltoall(problem).bound.algbw == 27 * rate
