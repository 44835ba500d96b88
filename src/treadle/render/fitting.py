"""Views of ``calibrate`` and ``testbed``: fitted models, and times on an emulated network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from treadle.render.quantities import AS_THEY_COME, Rates, percent
from treadle.render.rows import Column, Row, Rows, facts, fields_of, given, row, table_of
from treadle.simulation.calibration.calibration import ALPHA, EPSILON, INVERSE_BANDWIDTH
from treadle.simulation.calibration.cost_fit import CostFit, FittedPoint, errors_by_sweep, mean_error
from treadle.simulation.costs.cost_model_file import cost_model_to_json
from treadle.units import format_seconds, format_size

if TYPE_CHECKING:
    from treadle.simulation.calibration.calibration import Calibration
    from treadle.simulation.calibration.regression import Estimate
    from treadle.testbed.crossovers import Crossover
    from treadle.testbed.testbed import EmulationResult, EmulationRow


def calibration_rows(result: Calibration, degree: int = 1, rates: Rates = AS_THEY_COME) -> Rows:
    """The alpha-beta model, and the options of a graph that has it on `degree` links a node."""
    fit, options = result.fit, result.options(degree)
    alpha_is = "a step" if result.has_steps else "the whole collective"
    yield facts(
        measurements=len(result.measurements),
        alpha_is=alpha_is,
        latency_ns=result.latency_ns if result.has_steps else None,
    )
    for name, label in ((ALPHA, f"alpha ({alpha_is})"), (EPSILON, "epsilon (constant)")):
        if name in fit.estimates:
            yield Row(label, f"{_interval(fit.estimates[name], 1e6)} us", _estimate(result, name, "s"))
    bandwidth = {"bandwidth_bytes_per_s": result.bandwidth_bytes_per_s}
    if result.bandwidth_bytes_per_s is None:
        yield facts(bandwidth)
    else:
        values = _estimate(result, INVERSE_BANDWIDTH, "s_per_byte")
        yield Row("1/B", f"{_interval(fit.estimates[INVERSE_BANDWIDTH], 1e6)} us/byte", values)
        yield Row("B (bandwidth of a node)", rates(result.bandwidth_bytes_per_s), bandwidth)
    errors = f"mean {fit.mean_error:.2%}, max {fit.max_error:.2%} over {len(result.measurements)} times"
    yield row("error of the fit", errors, mean_error=fit.mean_error, max_error=fit.max_error)
    text = ", ".join(f'{key}="{value}"' for key, value in options.items())
    if not result.has_steps:
        text = f"{text or 'none'}; say --steps for the latency of a link"
    yield row(f"options of a graph, degree {degree}", text, degree=degree, options=options)


def _estimate(result: Calibration, name: str, unit: str) -> Mapping[str, object]:
    one = result.fit.estimates[name]
    ends = None if one.high == float("inf") else [one.low, one.high]
    return {f"{name}_{unit}": one.value, f"{name}_{unit}_95": ends}


def _interval(estimate: Estimate, scale: float) -> str:
    text = f"{estimate.value * scale:.6g}"
    if estimate.high == float("inf"):
        return f"{text} (no confidence interval)"
    return f"{text} (95 %: {estimate.low * scale:.6g} to {estimate.high * scale:.6g})"


def cost_fit_rows(fit: CostFit) -> Rows:
    """View of a fitted cost model: its values with their ranges, and the errors of sweeps and times."""
    yield facts(
        measurements=len(fit.points),
        cost_model=fit.model.name,
        cost_model_source=fit.model.source,
        model=cost_model_to_json(fit.model),
        mean_error=fit.mean_error,
        max_error=fit.max_error,
    )
    for label, (low, high) in fit.model.bands.items():
        name, scale, unit = label, 1.0, ""
        for ending, factor, shown in (("_ns", 1e-3, " us"), ("_bytes_per_s", 1e-9, " GB/s")):
            if label.endswith(ending):
                name, scale, unit = label.removesuffix(ending), factor, shown
        value = _fitted_value(fit, label)
        yield row(name, f"{value * scale:.4g}{unit} (95 %: {low * scale:.4g} to {high * scale:.4g})")
    for what, points in (("error of the fit", fit.points), ("error of what was held out", fit.held_out)):
        if points:
            most = max(abs(point.error) for point in points)
            yield row(what, f"mean {mean_error(points):.1%}, max {most:.1%} over {len(points)} times")
            for name, error in errors_by_sweep(points).items():
                yield row(f"  {name}", f"mean {error:.1%}")
    yield facts(points=_points(fit.points))
    if fit.held_out:
        yield facts(held_out=_points(fit.held_out), held_out_mean_error=mean_error(fit.held_out))
    yield row(None, "")
    columns: list[Column[FittedPoint]] = [
        ("sweep", lambda point: point.sweep),
        ("size", lambda point: format_size(point.size_bytes)),
        ("measured (us)", lambda point: f"{point.measured_s * 1e6:.2f}"),
        ("predicted (us)", lambda point: f"{point.predicted_s * 1e6:.2f}"),
        ("error", lambda point: f"{point.error:+.1%}"),
        ("protocol", lambda point: point.protocol),
        ("slices", lambda point: point.slices),
        ("% of bound", lambda point: percent(point.share_of_bound, sign="%")),
    ]
    yield table_of((*fit.points, *fit.held_out), columns, least=("slices",))


def _fitted_value(fit: CostFit, label: str) -> float:
    """The value of the model that has this range: ``reduction_bytes_per_s`` or ``simple.box.alpha_ns``."""
    if label == "reduction_bytes_per_s":
        return float(fit.model.reduction_bytes_per_s)
    name, *path = label.split(".")
    value: object = next(one for one in fit.model.protocols if one.name == name)
    for part in path:
        value = getattr(value, part)
    return float(value)  # type: ignore[arg-type]


def _points(points: Iterable[FittedPoint]) -> list[dict[str, object]]:
    keys = ("sweep", "size_bytes", "predicted_s", "error", "protocol", "slices")
    return [
        fields_of(point, *keys) | given(time_s=point.measured_s, efficiency=point.share_of_bound)
        for point in points
    ]


def emulation_rows(result: EmulationResult, rates: Rates = AS_THEY_COME) -> Rows:
    """View of times on an emulated network, compared with those of the model fitted to them."""
    keys = ("size_bytes", "steps", "t_b", "bytes_factor", "time_s", "median_s", "runs", "wrong", "is_fitted")
    nominal, bandwidth = result.node_bandwidth_bytes_per_s, result.calibration.bandwidth_bytes_per_s
    place = f"measured on {result.topology.name}, emulated on this host"
    yield row(
        None,
        f"{place}, {rates(result.rate_bytes_per_s)} a link and more:",
        topology=result.topology.name,
        ranks=len(result.topology.compute_nodes),
        measured_on="an emulated network on this host",
        rate_bytes_per_s=result.rate_bytes_per_s,
        node_bandwidth_bytes_per_s=float(nominal),
        rows=[
            {
                "collective": one.collective.value,
                "algorithm": one.algorithm,
                **fields_of(one, *keys, "predicted_s", "error"),
            }
            for one in result.rows
        ],
    )
    columns: list[Column[EmulationRow]] = [
        ("collective", lambda one: one.collective.value),
        ("algorithm", lambda one: one.algorithm),
        ("size", lambda one: format_size(one.size_bytes)),
        ("steps", lambda one: one.steps),
        ("T_B (M/B)", lambda one: f"{one.t_b:.4f}"),
        ("measured", lambda one: f"{one.time_s * 1e3:.3f} ms"),
        ("predicted", lambda one: f"{one.predicted_s * 1e3:.3f} ms"),
        ("error", lambda one: f"{one.error:+.1%}"),
        ("", lambda one: "fitted" if one.is_fitted else ""),
    ]
    yield table_of(result.rows, columns, 2, ("T_B (M/B)", "steps", "", "predicted"))
    yield row(None, "")
    alpha, epsilon, inverse = map(result.calibration.fit.value, (ALPHA, EPSILON, INVERSE_BANDWIDTH))
    shown = "not to be seen" if bandwidth is None else rates(bandwidth)
    model = f"alpha {alpha * 1e6:.1f} us a step, epsilon {epsilon * 1e6:.1f} us, B {shown}"
    values = {"alpha_s": alpha, "epsilon_s": epsilon, "inverse_bandwidth_s_per_byte": inverse}
    yield Row(None, f"{model} (nominal {rates(nominal)})", values)
    errors = f"error: mean {result.mean_error:.1%}, max {result.max_error:.1%}"
    yield row(None, errors, mean_error=result.mean_error, max_error=result.max_error)
    yield from _delayed_rows(result)
    wrong = f"{result.wrong} elements WRONG" if result.wrong else "every element is right"
    yield row(None, wrong, wrong=result.wrong)
    yield facts(
        skipped=[
            {"collective": skip.collective.value, "algorithm": skip.algorithm, "reason": skip.reason}
            for skip in result.skipped
        ]
    )
    for skip in result.skipped:
        yield row(None, f"skipped {skip.collective} by {skip.algorithm}: {skip.reason}")


def _delayed_rows(result: EmulationResult) -> Rows:
    """Rows on how links kept their delay, and where schedules cross."""
    line = result.line
    if line is None or result.delay_ns is None:
        return
    kept = f"{line.frames} frames, {line.dropped} dropped, at most {format_seconds(line.latest_s)} late"
    yield row(
        None,
        f"links of {format_seconds(result.delay_ns / 1e9)}: {kept}",
        delay_ns=result.delay_ns,
        frames=line.frames,
        frames_dropped=line.dropped,
        frames_latest_s=line.latest_s,
        crossovers=[
            {
                "collective": one.collective.value,
                **fields_of(one, "small", "large", "predicted_bytes", "measured_bytes", "ratio"),
                "fitted_to": list(one.fitted_to),
                **fields_of(one.model, "alpha_s", "epsilon_s"),
                "share_of_rate": one.model.share,
            }
            for one in result.crossovers
        ],
    )
    if not result.crossovers:
        return
    yield row(None, "")
    yield row(None, "where the second becomes faster, each pair predicted from other schedules:")
    columns: list[Column[Crossover]] = [
        ("collective", lambda one: one.collective.value),
        ("small sizes", lambda one: one.small),
        ("large sizes", lambda one: one.large),
        ("predicted", lambda one: _size(one.predicted_bytes)),
        ("measured", lambda one: _size(one.measured_bytes)),
        ("ratio", lambda one: "" if one.ratio is None else f"{one.ratio:.2f}"),
        ("fitted to", lambda one: ", ".join(one.fitted_to)),
    ]
    yield table_of(result.crossovers, columns, 3, ("fitted to",))


def _size(size: float | None) -> str:
    return "none" if size is None else format_size(round(size))
