"""The costs of a model as logarithms, and the parts of its fit, on invented points."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import Sweep, fit_cost_model, solve
from treadle.program.operation_lists import OperationKind
from treadle.simulation.calibration import cost_fit
from treadle.simulation.calibration.cost_fit import _Costs, _slopes, _step, _value
from treadle.simulation.calibration.measurements import Measurement
from treadle.simulation.costs.cost_model import ClassCost, LinkClass
from treadle.simulation.costs.link_classes import CLASSES


def point(*classes: LinkClass, adds: bool = False) -> Any:
    numbers = np.array([list(CLASSES).index(one) for one in classes])
    kinds = [OperationKind.RECEIVE_REDUCE if adds else OperationKind.SEND]
    program = SimpleNamespace(operation_kind=np.array(kinds))
    return SimpleNamespace(graph=SimpleNamespace(resource_class=numbers, program=program))


def costs_of(points: list[Any], *protocols: str) -> _Costs:
    return _Costs(cast(Any, points), protocols)


def test_sums_have_a_speed_where_there_are_any() -> None:
    found = costs_of([point(LinkClass.HOP), point(LinkClass.HOP, adds=True)], "ll128")
    assert list(found.start)[-1] == "reduction_bytes_per_s"
    assert np.exp(found.start_logs) == pytest.approx([10_000, 7500, 1000, 0.85, 5e11])
    model = found.model(found.start_logs, "a", "b")
    assert (model.name, model.source, model.reduction_bytes_per_s) == ("a", "b", 5 * 10**11)
    (protocol,) = model.protocols
    assert (protocol.name, protocol.launch_ns) == ("ll128", 10_000)
    assert protocol.hop == ClassCost(7500, 1000, 0, Fraction(85, 100))
    assert (protocol.box, protocol.network) == (ClassCost(), ClassCost())
    none = costs_of([point(LinkClass.HOP)], "ll128")
    assert none.model(none.start_logs, "a", "b").reduction_bytes_per_s == 0


def test_figures_stay_in_their_range() -> None:
    found = costs_of([point(LinkClass.BOX, adds=True)], "simple")
    assert _value("x.efficiency", log(0.25)) == pytest.approx(0.25)
    assert _value("x.efficiency", 1.0) == 1.0
    assert _value("x.alpha_ns", 1.0) == pytest.approx(exp(1))
    assert _value("x.alpha_ns", 99.0) == exp(60)
    large = found.model(np.full(5, 59.0), "a", "b")
    assert large.protocols[0].launch_ns == 10**11
    assert large.protocols[0].box == ClassCost(10**11, 10**11, 0, Fraction(1))
    assert large.reduction_bytes_per_s == 2**49
    small = found.model(np.full(5, -59.0), "a", "b")
    assert small.protocols[0].box == ClassCost(0, 0, 0, Fraction(1, 10_000))


def test_a_step_by_hand() -> None:
    """One figure, slope 2, an error of a tenth, moved by 3: -(0.2 + prior 3) over (4 + prior + damping)."""
    prior = (0.1 / log(5)) ** 2
    step = _step(np.array([[2.0]]), np.array([0.1]), np.array([3.0]), 0.5)
    assert step == pytest.approx([-(0.2 + 3 * prior) / (4 + prior + 0.5)])
    # an error of a half has half of the weight
    step = _step(np.array([[2.0]]), np.array([0.5]), np.array([0.0]), 0.0)
    assert step == pytest.approx([-0.5 * 2 * 0.5 / (0.5 * 4 + prior)])


def test_slopes_are_of_each_figure_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that is launch squared times efficiency to the minus third: slopes 2 and -3."""
    found = costs_of([point(LinkClass.BOX)], "simple")

    def seconds(point: Any, model: Any, best: Any) -> float:
        cost = model.protocols[0]
        return float(cost.launch_ns**2 / float(cost.box.efficiency) ** 3)

    monkeypatch.setattr(cost_fit, "_seconds", seconds)
    start = seconds(None, found.model(found.start_logs, "a", "b"), None)
    best = (start, 0, 1)
    slopes = _slopes(cast(Any, [None, None]), found, found.start_logs, [best, best])
    assert slopes.shape == (2, 4)
    assert slopes[0] == pytest.approx([2, 0, 0, -3], abs=0.01)
    assert slopes[1].tolist() == slopes[0].tolist()


def test_as_many_times_as_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of three has launch, alpha, occupancy and efficiency: four times do."""
    plan = solve("ring(3, bandwidth='25GB/s')", "allgather").plan
    times = [Measurement(2**power, 2e-5 + 2**power / 3e10) for power in (10, 14, 18, 22)]
    fit = fit_cost_model([Sweep("ring", plan, times)], name="ours", source="here")
    assert (fit.model.name, fit.model.source, len(fit.points), fit.held_out) == ("ours", "here", 4, ())
    assert set(fit.model.bands) == {
        "simple.launch_ns",
        "simple.hop.alpha_ns",
        "simple.hop.occupancy_ns",
        "simple.hop.efficiency",
    }
    for label, (low, high) in fit.model.bands.items():
        assert low <= high, label
    assert fit.model.bands["simple.hop.efficiency"][1] <= 1
    with pytest.raises(ScheduleError) as caught:
        fit_cost_model([Sweep("ring", plan, times[:3])])
    assert str(caught.value) == (
        "cost model: 3 measured times for 4 costs; measure at least as many, and at most 4096"
    )
    monkeypatch.setattr(cost_fit, "_MOST_POINTS", 3)
    with pytest.raises(ScheduleError, match=r"4 measured times for 4 costs; .* at most 3$"):
        fit_cost_model([Sweep("ring", plan, times)])
