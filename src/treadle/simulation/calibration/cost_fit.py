"""A cost model fitted to sweeps of several schedules, by simulating them.

What a collective takes is, along its critical path, a sum of launches, latencies, occupancies and bytes over
bandwidth, so a fit by Gauss and Newton's steps in the logarithms of the figures needs few rounds (damping: D.
W. Marquardt, SIAM J. Appl. Math. 11, 1963). Errors are relative, because times range over decades, and large
ones count by their size, so that single outliers do not move the fit. The times alone leave some sums
undetermined (launch and latencies, say): every figure is held, weakly, by where it starts.
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
from treadle.program.operation_lists import OperationKind
from treadle.program.plan_programs import programs_of
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
"""Of one trial of a number of slices: some hundredths of a second."""
_MOST_POINTS = 4096
_ROUNDS = 25
_STEP = 0.02
_LONGEST = 0.7
_HUBER = 0.25
"""Relative error from which on an error counts by its size, not its square."""
_PRIOR = 0.1 / log(5)
"""A factor of five from the start weighs as much as an error of a tenth."""
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
        Of reports.
    plan : Plan
        What was run, on its fabric.
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
    """A measured time beside the model's.

    Parameters
    ----------
    sweep : str
    size_bytes : int
    measured_s, predicted_s : float
    protocol : str
        That the model takes.
    slices : int
    share_of_bound : float, optional
        Measured algbw over the proved bound on algbw; None where no bound is known.
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
        """Of the prediction, relative to what was measured; positive: predicted too slow."""
        return self.predicted_s / self.measured_s - 1


@brief("model", "mean_error", "max_error")
@dataclass(frozen=True)
class CostFit:
    """A cost model and how well it tells the times.

    Parameters
    ----------
    model : CostModel
        With 95 % bands.
    points : tuple of FittedPoint
        That it was fitted to.
    held_out : tuple of FittedPoint
        That it was not, only predicted.

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
        """Of the fitted points, absolute."""
        return mean_error(self.points)

    @property
    def max_error(self) -> float:
        """Of the fitted points, absolute."""
        return max((abs(point.error) for point in self.points), default=0.0)


def mean_error(points: Sequence[FittedPoint]) -> float:
    """Mean of the absolute relative errors; 0 of none."""
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
        Of several schedules, better: one schedule at a time does not tell its latencies apart.
    protocols : sequence of str
        Each has figures of its own, and each size is told by the fastest; ``ll``, ``ll128`` and ``simple``
        start near what such protocols are, others as ``simple``.
    held_out : sequence of Sweep
        Not fitted, only predicted.
    name, source : str
        Of the model.

    Raises
    ------
    ScheduleError
        If there are fewer times than figures to fit, too many, or a plan does not serve a size.
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
    figures = _Figures(points, protocols)
    if not len(figures.start) <= len(points) <= _MOST_POINTS:
        raise ScheduleError(
            f"a cost model: {len(points)} measured times for {len(figures.start)} figures; expected at "
            f"least as many, and at most {_MOST_POINTS}"
        )
    logs, deviations = _fitted(points, figures)
    reach = student_t(max(1, len(points) - len(logs)))
    bands = {
        label: (figures.exp_value(label, value - away), figures.exp_value(label, value + away))
        for label, value, away in zip(figures.labels, logs, reach * deviations, strict=True)
    }
    model = replace(figures.model(logs, name, source), bands=bands)
    unseen = tuple(point for sweep in held_out for point in predict_times(sweep, model))
    return CostFit(model, tuple(_told(one, model) for one in points), unseen)


def predict_times(sweep: Sweep, model: CostModel) -> tuple[FittedPoint, ...]:
    """Measured times of a plan beside what a cost model says of them."""
    return tuple(_told(point, model) for point in _points(sweep))


@dataclass(frozen=True, eq=False)
class _Point:
    sweep: Sweep
    graph: TaskGraph
    measured: Measurement


def _points(sweep: Sweep) -> Iterator[_Point]:
    """Each measured time with the program that serves its size."""
    known: dict[int, TaskGraph] = {}
    for row in sweep.measured:
        key = id(sweep.plan.schedule_for(row.size_bytes))
        if key not in known:
            known[key] = task_graph(sweep.plan.topology, programs_of(sweep.plan, row.size_bytes).lists)
        yield _Point(sweep, known[key], row)


class _Figures:
    """The figures of a model as a vector of logarithms, each with a label; efficiencies stay below 1."""

    def __init__(self, points: Sequence[_Point], protocols: Sequence[str]) -> None:
        self.protocols = tuple(protocols)
        numbers = sorted({int(one) for point in points for one in set(point.graph.resource_class.tolist())})
        self.classes = [CLASSES[number] for number in numbers]
        self.labels: list[str] = []
        start: list[float] = []
        for name in self.protocols:
            launch, slower, share, busier = _STARTS.get(name, _STARTS["simple"])
            self.labels.append(f"{name}.launch_ns")
            start.append(launch)
            for one in self.classes:
                self.labels += [f"{name}.{one}.{key}" for key in ("alpha_ns", "occupancy_ns", "efficiency")]
                start += [_ALPHA_NS[one] * slower, _OCCUPANCY_NS[one] * busier, share]
        adds = any(OperationKind.RECEIVE_REDUCE in point.graph.program.operation_kind for point in points)
        if adds:
            self.labels.append("reduction_bytes_per_s")
            start.append(_REDUCTION)
        self.start: Floats = np.log(np.array(start))
        self.is_share = np.array([label.endswith("efficiency") for label in self.labels])

    def exp_value(self, label: str, value: float) -> float:
        """A figure from its logarithm."""
        figure = exp(min(value, 60.0))
        return min(1.0, figure) if label.endswith("efficiency") else figure

    def model(self, logs: Floats, name: str, source: str) -> CostModel:
        values = {
            label: self.exp_value(label, float(value)) for label, value in zip(self.labels, logs, strict=True)
        }
        rows = []
        for protocol in self.protocols:
            costs = {}
            for one in self.classes:
                alpha, occupancy, share = (
                    values[f"{protocol}.{one}.{key}"] for key in ("alpha_ns", "occupancy_ns", "efficiency")
                )
                efficiency = Fraction(max(1, round(share * _SHARES)), _SHARES)
                alpha_ns, occupancy_ns = (min(10**11, round(figure)) for figure in (alpha, occupancy))
                costs[one.value] = ClassCost(alpha_ns, occupancy_ns, efficiency=efficiency)
            launch = min(10**11, round(values[f"{protocol}.launch_ns"]))
            box, network, hop = (costs.get(one, ClassCost()) for one in ("box", "network", "hop"))
            rows.append(Protocol(protocol, box, network, hop, launch))
        reduction = min(2**49, round(values.get("reduction_bytes_per_s", 0)))
        return CostModel(name, source, tuple(rows), reduction_bytes_per_s=reduction)


@dataclass(frozen=True)
class _Best:
    seconds: float
    protocol: int
    slices: int


def _options(model: CostModel, protocol: int, slices: int = 1) -> SimulationOptions:
    return SimulationOptions(
        slices, costs=model.protocols[protocol], reduction_bytes_per_s=model.reduction_bytes_per_s
    )


def _best(point: _Point, model: CostModel) -> _Best:
    """The fastest protocol and its best number of slices."""
    found = []
    for number in range(len(model.protocols)):
        options = _options(model, number)
        one = best_slices(point.graph, point.measured.size_bytes, options, most_tasks=_MOST_TASKS).simulation
        found.append(_Best(one.time_s, number, one.options.slices))
    return min(found, key=lambda one: one.seconds)


def _seconds(point: _Point, model: CostModel, best: _Best) -> float:
    options = _options(model, best.protocol, best.slices)
    return simulate_graph(point.graph, point.measured.size_bytes, options).time_s


def _fitted(points: Sequence[_Point], figures: _Figures) -> tuple[Floats, Floats]:
    """Logarithms of the figures and their standard deviations."""

    def errors(logs: Floats) -> tuple[Floats, list[_Best]]:
        model = figures.model(logs, "trial", "trial")
        best = [_best(point, model) for point in points]
        return (
            np.array([log(one.seconds / p.measured.time_s) for one, p in zip(best, points, strict=True)]),
            best,
        )

    def loss(residual: Floats, logs: Floats) -> float:
        size = np.abs(residual)
        parts = np.where(size < _HUBER, size**2 / 2, _HUBER * (size - _HUBER / 2))
        return float(parts.sum() + (_PRIOR**2 * (logs - figures.start) ** 2).sum() / 2)

    logs = figures.start.copy()
    residual, best = errors(logs)
    damping = 1e-2
    slopes = _slopes(points, figures, logs, best)
    for round_number in range(_ROUNDS):
        context().report("fitting", round_number, _ROUNDS)
        step = _step(slopes, residual, logs - figures.start, damping)
        trial = logs + np.clip(step, -_LONGEST, _LONGEST)
        trial[figures.is_share] = np.minimum(trial[figures.is_share], 0)
        next_residual, next_best = errors(trial)
        gain = loss(residual, logs) - loss(next_residual, trial)
        if gain <= 0:
            damping *= 8
            if damping > 1e4:
                break
            continue
        logs, residual, best, damping = trial, next_residual, next_best, damping / 4
        slopes = _slopes(points, figures, logs, best)
        if gain < 1e-7 * len(points):
            break
    weights = _weights(residual)
    normal = (slopes * weights[:, None]).T @ slopes + _PRIOR**2 * np.eye(len(logs))
    spare = max(1, len(points) - len(logs))
    variance = float(weights @ residual**2) / spare
    return logs, np.sqrt(np.maximum(0, np.diag(np.linalg.inv(normal)) * variance))


def _weights(residual: Floats) -> Floats:
    weights: Floats = np.asarray(np.minimum(1.0, _HUBER / np.maximum(np.abs(residual), 1e-12)))
    return weights


def _step(slopes: Floats, residual: Floats, moved: Floats, damping: float) -> Floats:
    """Towards the least weighted squares, damped, and drawn to the start."""
    weighted = slopes * _weights(residual)[:, None]
    normal = weighted.T @ slopes + (_PRIOR**2 + damping) * np.eye(slopes.shape[1])
    return np.asarray(np.linalg.solve(normal, -(weighted.T @ residual + _PRIOR**2 * moved)), dtype=np.float64)


def _slopes(points: Sequence[_Point], figures: _Figures, logs: Floats, best: Sequence[_Best]) -> Floats:
    """How the logarithm of each time moves with the logarithm of each figure, its slices kept."""
    slopes = np.zeros((len(points), len(logs)))
    for column in range(len(logs)):
        moved = logs.copy()
        # efficiencies end at 1: towards less
        step = -_STEP if figures.is_share[column] else _STEP
        moved[column] += step
        model = figures.model(moved, "trial", "trial")
        for row, (point, one) in enumerate(zip(points, best, strict=True)):
            slopes[row, column] = log(_seconds(point, model, one) / one.seconds) / step
    return slopes


def _told(point: _Point, model: CostModel) -> FittedPoint:
    best, measured = _best(point, model), point.measured
    bound = point.sweep.plan.optimal_algbw
    return FittedPoint(
        point.sweep.name,
        measured.size_bytes,
        measured.time_s,
        best.seconds,
        model.protocols[best.protocol].name,
        best.slices,
        None if bound is None else measured.size_bytes / measured.time_s / float(bound),
    )


def errors_by_sweep(points: Sequence[FittedPoint]) -> dict[str, float]:
    """Mean absolute error of each sweep."""
    names = dict.fromkeys(point.sweep for point in points)
    return {name: mean_error([point for point in points if point.sweep == name]) for name in names}
