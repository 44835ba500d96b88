"""What a run on an emulated network comes to, as JSON and in words."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from treadle.simulation.calibration.calibration import ALPHA, EPSILON, INVERSE_BANDWIDTH
from treadle.testbed.testbed import EmulationResult
from treadle.units import format_bandwidth


def emulation_summary(result: EmulationResult) -> dict[str, object]:
    """What ``testbed --json`` says; ``calibrate`` reads it."""
    keys = ("size_bytes", "steps", "t_b", "bytes_factor", "time_s", "median_s", "runs", "wrong", "is_fitted")
    fit = result.calibration.fit
    return {
        "topology": result.topology.name,
        "ranks": len(result.topology.compute_nodes),
        "measured_on": "an emulated network on this host",
        "rate_bytes_per_s": result.rate_bytes_per_s,
        "node_bandwidth_bytes_per_s": float(result.node_bandwidth_bytes_per_s),
        "rows": [
            {
                "collective": row.collective.value,
                "algorithm": row.algorithm,
                **{key: getattr(row, key) for key in keys},
                "predicted_s": row.predicted_s,
                "error": row.error,
            }
            for row in result.rows
        ],
        "alpha_s": fit.value(ALPHA),
        "epsilon_s": fit.value(EPSILON),
        "inverse_bandwidth_s_per_byte": fit.value(INVERSE_BANDWIDTH),
        "mean_error": result.mean_error,
        "max_error": result.max_error,
        "wrong": result.wrong,
        **_delayed_summary(result),
        "skipped": [
            {"collective": skip.collective.value, "algorithm": skip.algorithm, "reason": skip.reason}
            for skip in result.skipped
        ],
    }


def _delayed_summary(result: EmulationResult) -> dict[str, object]:
    """What there is to say of links with a delay."""
    if result.line is None:
        return {}
    return {
        "delay_ns": result.delay_ns,
        "frames": result.line.frames,
        "frames_dropped": result.line.dropped,
        "frames_latest_s": result.line.latest_s,
        "crossovers": [
            {
                "collective": one.collective.value,
                "small": one.small,
                "large": one.large,
                "predicted_bytes": one.predicted_bytes,
                "measured_bytes": one.measured_bytes,
                "ratio": one.ratio,
                "fitted_to": list(one.fitted_to),
                "alpha_s": one.model.alpha_s,
                "epsilon_s": one.model.epsilon_s,
                "share_of_rate": one.model.share,
            }
            for one in result.crossovers
        ],
    }


def model_line(result: EmulationResult, *, show: Callable[[int | Fraction], str] = format_bandwidth) -> str:
    """The fitted model in one line; `show` writes a bandwidth in bytes/s."""
    fit, nominal = result.calibration.fit, result.node_bandwidth_bytes_per_s
    bandwidth = result.calibration.bandwidth_bytes_per_s
    shown = "not to be seen" if bandwidth is None else show(bandwidth)
    return (
        f"alpha {fit.value(ALPHA) * 1e6:.1f} us a step, epsilon {fit.value(EPSILON) * 1e6:.1f} us, "
        f"B {shown} (nominal {show(nominal)})"
    )
