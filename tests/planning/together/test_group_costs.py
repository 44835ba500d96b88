"""Rates and times of collectives in the groups of a mesh."""

import pytest

from treadle.api.group_costs import group_costs
from treadle.errors import FormatError, InfeasibleError, ScheduleError


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"lays out 8 ranks, and .* has 16"):
        group_costs("dgx_h100:2", "2,4")
    with pytest.raises(FormatError, match="expected NAME=SIZE"):
        group_costs("dgx_h100:2", "x")
    costs = group_costs("ring:4", "2,2")
    with pytest.raises(ScheduleError, match="no axis 'tp'"):
        costs.cost("allgather", "tp")
    with pytest.raises(InfeasibleError):
        costs.cost("allgather", "0")  # opposite ranks of a ring, without forwarding
    with pytest.raises(ScheduleError, match="more than 0"):
        costs.time_s("allgather", "1", 0)
