"""Rates and times of collectives in the groups of a mesh."""

from fractions import Fraction

import pytest

from treadle import planning
from treadle.api import group_costs as module
from treadle.api.group_costs import CURVE_BYTES, group_costs
from treadle.errors import FormatError, InfeasibleError, ScheduleError


def test_rates_are_the_bounds_of_all_groups_at_once() -> None:
    costs = group_costs("dgx_h100:4", "dp=4,tp=8")
    within = costs.cost("allgather", "tp")
    assert (within.algbw, within.is_exact) == (Fraction(4000 * 10**9, 7), True)
    assert (within.n_groups, within.group_size) == (4, 8)
    across = costs.cost("allreduce", "dp")
    assert across.algbw == planning.bound("dgx_h100:4", "allreduce", mesh="4,8", axes="0").algbw
    both = costs.cost("reduce-scatter", ("dp", "tp"))
    assert (both.n_groups, both.group_size) == (1, 32)
    assert both.algbw == planning.bound("dgx_h100:4", "reduce-scatter").algbw
    # together is slower than alone where links are shared
    shared = group_costs("leaf_spine:4,2,gpus_per_leaf=8,oversubscription=4", "4,8")
    assert shared.cost("allgather", "0").algbw == Fraction(50 * 10**9, 3)
    assert shared.cost("alltoall", "0").algbw == Fraction(50 * 10**9, 3)


def test_rates_are_kept_by_the_fabric_and_not_by_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN", {})
    asked = []
    monkeypatch.setattr(module, "bound", lambda *a, **b: asked.append(a) or planning.bound(*a, **b))
    for expression in ("torus:2,4", "torus:2,4", "torus:4,2"):
        group_costs(expression, "2,4", forward=True).cost("allgather", "1")
    assert len(asked) == 2
    group_costs("torus:2,4", "4,2", forward=True).cost("allgather", "1")
    group_costs("torus:2,4", "2,4").cost("allgather", "1")
    assert len(asked) == 4


def test_times_are_those_of_the_simulated_plan_and_approach_the_rate() -> None:
    costs = group_costs("dgx_h100:2", "dp=2,tp=8", alpha_s=5e-6)
    curve = costs.curve("allgather", "tp")
    assert [size for size, _ in curve] == list(CURVE_BYTES)
    times = [time for _, time in curve]
    assert times == sorted(times)
    assert times[0] >= 5e-6
    rate = float(costs.cost("allgather", "tp").algbw)
    size, last = curve[-1]
    assert size / last <= rate
    assert size / last > 0.95 * rate
    middle = (curve[3][0] + curve[4][0]) / 2
    assert costs.time_s("allgather", "tp", middle) == pytest.approx((curve[3][1] + curve[4][1]) / 2)
    assert costs.time_s("allgather", "tp", 1) == curve[0][1]
    assert costs.time_s("allgather", "tp", 4 * size) == pytest.approx(last + 3 * size / rate)


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
