"""A cost model fitted to sweeps of several schedules, by simulating them.

The time of a collective is, along its critical path, a sum of launches, latencies, occupancies and bytes over
bandwidth. So a fit by Gauss-Newton steps in the logarithms of the costs needs few rounds (damping: D. W.
Marquardt, SIAM J. Appl. Math. 11, 1963). Errors are relative, because times range over decades, and large
ones count linearly, so that single outliers do not move the fit. The times alone leave some sums undetermined
(e.g. launch and latencies), so every cost is weakly attracted to its starting value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from treadle.brief import brief
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.inputs.verification import require_verified
from treadle.program.any_schedule import programs_of
from treadle.program.operation_lists import OperationKind
from treadle.schedules.plan import Plan
from treadle.simulation.calibration.measurements import Measurement
from treadle.simulation.calibration.regression import student_t
from treadle.simulation.costs.cost_model import ClassCost, CostModel, LinkClass, Protocol
from treadle.simulation.costs.link_classes import CLASSES
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import best_slices
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import TaskGraph, task_graph

Floats = NDArray[np.float64]

_MOST_TASKS = 2**16
"""Tasks of one trial of a number of slices: some hundredths of a second."""
_MOST_POINTS = 4096
_ROUNDS = 25
_STEP = 0.02
_LONGEST = 0.7
_HUBER = 0.25
"""Relative error above which an error counts linearly, not by its square."""
_PRIOR = 0.1 / log(5)
"""A factor of five from the start counts as much as an error of 10 %."""
_SHARES = 10_000
_STARTS: dict[str, tuple[float, float, float, float]] = {
    "ll": (6600, 1, 0.45, 0.3),
    "ll128": (10_000, 1.5, 0.85, 0.5),
    "simple": (15_000, 4, 0.85, 1),
}
"""Launch, ns; factor of the alphas below; efficiency; factor of the occupancies."""
_ALPHA_NS = {LinkClass.BOX: 1500, LinkClass.NETWORK: 5000, LinkClass.HOP: 5000}
_OCCUPANCY_NS = {LinkClass.BOX: 3000, LinkClass.NETWORK: 2000, LinkClass.HOP: 2000}
_REDUCTION = 5e11


@brief("plan.topology", "measured")
@dataclass(frozen=True, eq=False)
class Sweep:
    """Measured times of a plan.

    Parameters
    ----------
    name : str
        Name in reports.
    plan : Plan
        The plan that was run, on its fabric.
    measured : sequence of Measurement

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> from treadle.simulation.calibration.measurements import Measurement
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> planning.Sweep("ring", plan, [Measurement(2**20, 1e-4, 0.75)])
    <Sweep ring(4), 1 measured>
    """

    name: str
    plan: Plan
    measured: Sequence[Measurement]


@dataclass(frozen=True)
class FittedPoint:
    """A measured time next to the model's, with the protocol and slices that the model chooses.

    Parameters
    ----------
    share_of_bound : float, optional
        Measured algbw over the plan's upper bound on algbw; None without a bound.
    """

    sweep: str
    size_bytes: int
    measured_s: float
    predicted_s: float
    protocol: str
    slices: int
    share_of_bound: float | None

    @property
    def error(self) -> float:
        """Relative error of the prediction; positive if it is too slow."""
        return self.predicted_s / self.measured_s - 1


@brief("model", "mean_error", "max_error")
@dataclass(frozen=True)
class CostFit:
    """A cost model with the errors of its predictions.

    Parameters
    ----------
    model : CostModel
        With 95 % confidence intervals.
    points : tuple of FittedPoint
        Times that the model was fitted to.
    held_out : tuple of FittedPoint
        Times that were only predicted.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> from treadle.simulation.calibration.measurements import Measurement
    >>> plan = treadle.solve("ring(4, bandwidth='25GB/s')", "allgather").plan
    >>> times = [Measurement(2**k, 2e-5 + 2**k / 3e10, 0.75) for k in (12, 16, 20, 24)]
    >>> fit = planning.fit_cost_model([planning.Sweep("ring", plan, times)])
    >>> f"{fit.mean_error:.1%}", fit.model.protocols[0]
    ('0.9%', <Protocol simple, launch ns 7025>)
    """

    model: CostModel
    points: tuple[FittedPoint, ...]
    held_out: tuple[FittedPoint, ...]

    @property
    def mean_error(self) -> float:
        """Mean absolute error of the fitted points."""
        return mean_error(self.points)

    @property
    def max_error(self) -> float:
        """Largest absolute error of the fitted points."""
        return max((abs(point.error) for point in self.points), default=0.0)


def mean_error(points: Sequence[FittedPoint]) -> float:
    """Return the mean of the absolute relative errors; 0 without points."""
    return sum(abs(point.error) for point in points) / max(1, len(points))


def fit_cost_model(
    sweeps: Sequence[Sweep],
    *,
    protocols: Sequence[str] = ("simple",),
    held_out: Sequence[Sweep] = (),
    name: str = "fitted",
    source: str = "fitted by treadle calibrate",
) -> CostFit:
    """Fit a cost model to measured times of plans.

    Parameters
    ----------
    sweeps : sequence of Sweep
        Better from several schedules: a single one does not separate its latencies.
    protocols : sequence of str
        Each has its own costs, and the fastest predicts each size. ``ll``, ``ll128`` and ``simple`` start at
        typical values, others at those of ``simple``.
    held_out : sequence of Sweep
        Not fitted, only predicted.
    name, source : str
        Name and source of the model.

    Raises
    ------
    ScheduleError
        If there are fewer times than costs to fit, too many times, or a plan without a schedule for a size.
    UnverifiedPlanError
        If a plan is false.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> from treadle.simulation.calibration.measurements import Measurement
    >>> plan = treadle.solve("ring(4, bandwidth='25GB/s')", "allgather").plan
    >>> times = [Measurement(2**k, 2e-5 + 2**k / 3e10, 0.75) for k in (12, 16, 20, 24)]
    >>> fit = planning.fit_cost_model([planning.Sweep("ring", plan, times)])
    >>> [f"{point.error:.1%}" for point in fit.points]
    ['0.7%', '0.8%', '-1.5%', '0.7%']
    """
    for sweep in (*sweeps, *held_out):
        require_verified(sweep.plan)
    points = [point for sweep in sweeps for point in _points(sweep)]
    costs = _Costs(points, protocols)
    if not len(costs.start) <= len(points) <= _MOST_POINTS:
        raise ScheduleError(
            f"cost model: {len(points)} measured times for {len(costs.start)} costs; measure at least as "
            f"many, and at most {_MOST_POINTS}"
        )
    logs, deviations = _fit(points, costs)
    reach = student_t(max(1, len(points) - len(logs)))
    bands = {
        label: (_value(label, log_value - away), _value(label, log_value + away))
        for label, log_value, away in zip(costs.start, logs, reach * deviations, strict=True)
    }
    model = replace(costs.model(logs, name, source), bands=bands)
    unseen = tuple(point for sweep in held_out for point in predict_times(sweep, model))
    return CostFit(model, tuple(_predict(point, model) for point in points), unseen)


def predict_times(sweep: Sweep, model: CostModel) -> tuple[FittedPoint, ...]:
    """Return the measured times of a plan next to the model's."""
    return tuple(_predict(point, model) for point in _points(sweep))


@dataclass(frozen=True, eq=False)
class _Point:
    sweep: Sweep
    graph: TaskGraph
    measured: Measurement


def _points(sweep: Sweep) -> Iterator[_Point]:
    """Yield each measured time with the program for its size."""
    graphs: dict[int, TaskGraph] = {}
    for row in sweep.measured:
        key = id(sweep.plan.schedule_for(row.size_bytes))
        if key not in graphs:
            graphs[key] = task_graph(sweep.plan.topology, programs_of(sweep.plan, row.size_bytes).lists)
        yield _Point(sweep, graphs[key], row)


class _Costs:
    """The costs of a model as a vector of logarithms; efficiencies stay at most 1.

    `start` has the starting values by label, in the order of the vector.
    """

    def __init__(self, points: Sequence[_Point], protocols: Sequence[str]) -> None:
        self.protocols = tuple(protocols)
        numbers = sorted({int(one) for point in points for one in set(point.graph.resource_class.tolist())})
        self.classes = [CLASSES[number] for number in numbers]
        self.start: dict[str, float] = {}
        for name in self.protocols:
            launch, slower, share, busier = _STARTS.get(name, _STARTS["simple"])
            self.start[f"{name}.launch_ns"] = launch
            for one in self.classes:
                self.start[f"{name}.{one}.alpha_ns"] = _ALPHA_NS[one] * slower
                self.start[f"{name}.{one}.occupancy_ns"] = _OCCUPANCY_NS[one] * busier
                self.start[f"{name}.{one}.efficiency"] = share
        if any(OperationKind.RECEIVE_REDUCE in point.graph.program.operation_kind for point in points):
            self.start["reduction_bytes_per_s"] = _REDUCTION
        self.start_logs: Floats = np.log(np.array([*self.start.values()]))
        self.is_share = np.array([label.endswith("efficiency") for label in self.start])

    def model(self, logs: Floats, name: str, source: str) -> CostModel:
        values = {label: _value(label, float(one)) for label, one in zip(self.start, logs, strict=True)}
        rows = []
        for protocol in self.protocols:
            costs = {
                str(one): ClassCost(
                    min(10**11, round(values[f"{protocol}.{one}.alpha_ns"])),
                    min(10**11, round(values[f"{protocol}.{one}.occupancy_ns"])),
                    efficiency=Fraction(
                        max(1, round(values[f"{protocol}.{one}.efficiency"] * _SHARES)), _SHARES
                    ),
                )
                for one in self.classes
            }
            launch = min(10**11, round(values[f"{protocol}.launch_ns"]))
            box, network, hop = (costs.get(one, ClassCost()) for one in ("box", "network", "hop"))
            rows.append(Protocol(protocol, box, network, hop, launch))
        reduction = min(2**49, round(values.get("reduction_bytes_per_s", 0)))
        return CostModel(name, source, tuple(rows), reduction_bytes_per_s=reduction)


def _value(label: str, log_value: float) -> float:
    """Return a cost from its logarithm."""
    value = exp(min(log_value, 60.0))
    return min(1.0, value) if label.endswith("efficiency") else value


_Run = tuple[float, int, int]
"""Seconds, number of the protocol, and slices."""


def _options(model: CostModel, protocol: int, slices: int = 1) -> SimulationOptions:
    return SimulationOptions(
        slices, costs=model.protocols[protocol], reduction_bytes_per_s=model.reduction_bytes_per_s
    )


def _best(point: _Point, model: CostModel) -> _Run:
    """Return the fastest protocol with its best number of slices."""
    found = []
    for number in range(len(model.protocols)):
        options = _options(model, number)
        one = best_slices(point.graph, point.measured.size_bytes, options, most_tasks=_MOST_TASKS).simulation
        found.append((one.time_s, number, one.options.slices))
    return min(found)


def _seconds(point: _Point, model: CostModel, run: _Run) -> float:
    options = _options(model, *run[1:])
    return simulate_graph(point.graph, point.measured.size_bytes, options).time_s


def _fit(points: Sequence[_Point], costs: _Costs) -> tuple[Floats, Floats]:
    """Return the logarithms of the costs and their standard deviations."""

    def errors(logs: Floats) -> tuple[Floats, list[_Run]]:
        model = costs.model(logs, "trial", "trial")
        runs = [_best(point, model) for point in points]
        ratios = [log(run[0] / point.measured.time_s) for run, point in zip(runs, points, strict=True)]
        return np.array(ratios), runs

    def loss(residual: Floats, logs: Floats) -> float:
        size = np.abs(residual)
        parts = np.where(size < _HUBER, size**2 / 2, _HUBER * (size - _HUBER / 2))
        return float(parts.sum() + (_PRIOR**2 * (logs - costs.start_logs) ** 2).sum() / 2)

    logs, damping = costs.start_logs.copy(), 1e-2
    residual, runs = errors(logs)
    slopes = _slopes(points, costs, logs, runs)
    for round_number in range(_ROUNDS):
        context().report("fitting", round_number, _ROUNDS)
        step = _step(slopes, residual, logs - costs.start_logs, damping)
        trial = logs + np.clip(step, -_LONGEST, _LONGEST)
        trial[costs.is_share] = np.minimum(trial[costs.is_share], 0)
        next_residual, next_runs = errors(trial)
        gain = loss(residual, logs) - loss(next_residual, trial)
        if gain <= 0:
            damping *= 8
            if damping > 1e4:
                break
            continue
        logs, residual, runs, damping = trial, next_residual, next_runs, damping / 4
        slopes = _slopes(points, costs, logs, runs)
        if gain < 1e-7 * len(points):
            break
    weights = _weights(residual)
    normal = (slopes * weights[:, None]).T @ slopes + _PRIOR**2 * np.eye(len(logs))
    variance = float(weights @ residual**2) / max(1, len(points) - len(logs))
    return logs, np.sqrt(np.maximum(0, np.diag(np.linalg.inv(normal)) * variance))


def _weights(residual: Floats) -> Floats:
    return np.asarray(np.minimum(1.0, _HUBER / np.maximum(np.abs(residual), 1e-12)))


def _step(slopes: Floats, residual: Floats, moved: Floats, damping: float) -> Floats:
    """Return the step to the weighted least squares, damped, and drawn to the start."""
    weighted = slopes * _weights(residual)[:, None]
    normal = weighted.T @ slopes + (_PRIOR**2 + damping) * np.eye(slopes.shape[1])
    pull = weighted.T @ residual + _PRIOR**2 * moved
    return -np.asarray(np.linalg.solve(normal, pull), dtype=np.float64)


def _slopes(points: Sequence[_Point], costs: _Costs, logs: Floats, runs: Sequence[_Run]) -> Floats:
    """Return the derivative of each time's logarithm by each cost's logarithm, with the slices fixed."""
    slopes = np.zeros((len(points), len(logs)))
    for column in range(len(logs)):
        moved = logs.copy()
        step = -_STEP if costs.is_share[column] else _STEP  # an efficiency cannot exceed 1
        moved[column] += step
        model = costs.model(moved, "trial", "trial")
        for row, (point, run) in enumerate(zip(points, runs, strict=True)):
            slopes[row, column] = log(_seconds(point, model, run) / run[0]) / step
    return slopes


def _predict(point: _Point, model: CostModel) -> FittedPoint:
    measured, bound = point.measured, point.sweep.plan.optimal_algbw
    seconds, protocol, slices = _best(point, model)
    return FittedPoint(
        point.sweep.name,
        measured.size_bytes,
        measured.time_s,
        seconds,
        model.protocols[protocol].name,
        slices,
        None if bound is None else measured.size_bytes / measured.time_s / float(bound),
    )


def errors_by_sweep(points: Sequence[FittedPoint]) -> dict[str, float]:
    """Return the mean absolute error of each sweep."""
    names = dict.fromkeys(point.sweep for point in points)
    return {name: mean_error([point for point in points if point.sweep == name]) for name in names}
