"""What a fitted cost model is told as: lines of text, and JSON."""

from __future__ import annotations

from treadle.simulation.calibration.cost_fit import CostFit, FittedPoint, errors_by_sweep, mean_error
from treadle.simulation.costs.cost_model_file import cost_model_to_json


def cost_fit_lines(fit: CostFit) -> list[str]:
    """The figures with their bands, and the errors of each sweep."""
    lines = []
    values = _figures(fit)
    for label, (low, high) in fit.model.bands.items():
        name, scale, unit = label, 1.0, ""
        if label.endswith("_ns"):
            name, scale, unit = label.removesuffix("_ns"), 1e-3, " us"
        elif label.endswith("_bytes_per_s"):
            name, scale, unit = label.removesuffix("_bytes_per_s"), 1e-9, " GB/s"
        lines.append(
            f"{name:<32}{values[label] * scale:.4g}{unit} (95 %: {low * scale:.4g} to {high * scale:.4g})"
        )
    for what, points in (("error of the fit", fit.points), ("error of what was held out", fit.held_out)):
        if not points:
            continue
        most = max(abs(point.error) for point in points)
        lines.append(f"{what:<32}mean {mean_error(points):.1%}, max {most:.1%} over {len(points)} times")
        lines += [f"  {name:<30}mean {error:.1%}" for name, error in errors_by_sweep(points).items()]
    return lines


def _figures(fit: CostFit) -> dict[str, float]:
    """Figures of the model by the labels of its bands."""
    found: dict[str, float] = {"reduction_bytes_per_s": float(fit.model.reduction_bytes_per_s)}
    for protocol in fit.model.protocols:
        found[f"{protocol.name}.launch_ns"] = float(protocol.launch_ns)
        for link_class in ("box", "network", "hop"):
            cost = getattr(protocol, link_class)
            for key in ("alpha_ns", "occupancy_ns", "efficiency"):
                found[f"{protocol.name}.{link_class}.{key}"] = float(getattr(cost, key))
    return found


def cost_fit_summary(fit: CostFit) -> dict[str, object]:
    """What ``calibrate --plan --json`` says."""
    values: dict[str, object] = {
        "measurements": len(fit.points),
        "cost_model": fit.model.name,
        "cost_model_source": fit.model.source,
        "model": cost_model_to_json(fit.model),
        "mean_error": fit.mean_error,
        "max_error": fit.max_error,
        "points": [_row(point) for point in fit.points],
    }
    if fit.held_out:
        values |= {
            "held_out": [_row(point) for point in fit.held_out],
            "held_out_mean_error": mean_error(fit.held_out),
        }
    return values


def _row(point: FittedPoint) -> dict[str, object]:
    return {
        "sweep": point.sweep,
        "size_bytes": point.size_bytes,
        "time_s": point.measured_s,
        "predicted_s": point.predicted_s,
        "error": point.error,
        "protocol": point.protocol,
        "slices": point.slices,
        **({} if point.share_of_bound is None else {"efficiency": point.share_of_bound}),
    }
