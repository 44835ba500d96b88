"""The alpha-beta model of a network, fitted to measured times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import FormatError
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration.measurements import Measurement, read_measurements
from treadle.simulation.calibration.regression import LinearFit, fit_times

ALPHA, EPSILON, INVERSE_BANDWIDTH = "alpha", "epsilon", "inverse_bandwidth"


@dataclass(frozen=True)
class Calibration:
    """time = alpha * steps + epsilon + size * factor / B.

    Parameters
    ----------
    fit : LinearFit
        Coefficients `ALPHA` (s a step), `EPSILON` (s), `INVERSE_BANDWIDTH` (s/byte).
    measurements : tuple of Measurement
    has_steps : bool
        The number of steps is given; otherwise alpha is the latency of the entire collective.
    """

    fit: LinearFit
    measurements: tuple[Measurement, ...]
    has_steps: bool

    @property
    def alpha_s(self) -> float:
        """Latency of a step, or of the entire collective without `has_steps`; 0 if it was not fitted."""
        return self.fit.value(ALPHA)

    @property
    def latency_ns(self) -> int:
        """Alpha in nanoseconds, rounded; a link's latency only with `has_steps`."""
        return round(self.alpha_s * 1e9)

    @property
    def bandwidth_bytes_per_s(self) -> int | None:
        """B, the bandwidth of a node; None if the sizes do not determine it."""
        inverse = self.fit.value(INVERSE_BANDWIDTH)
        return round(1 / inverse) if inverse > 0 else None

    def options(self, degree: int = 1) -> dict[str, str]:
        """Return keyword arguments for the catalogue's graphs of a degree, by which B is divided.

        They contain no latency without `has_steps`, because each step of a simulation would cost alpha, the
        latency of all steps together.
        """
        options = {"latency": f"{self.latency_ns}ns"} if self.has_steps else {}
        if self.bandwidth_bytes_per_s is not None:
            options["bandwidth"] = f"{max(1, self.bandwidth_bytes_per_s // degree)}B/s"
        return options


def calibrate(
    path: str | Path,
    *,
    collective: CollectiveKind | str | None = None,
    n_ranks: int | None = None,
    steps: int | None = None,
) -> Calibration:
    """Fit the alpha-beta model to a file of measured times.

    Parameters
    ----------
    path : str or Path
        See `treadle.simulation.calibration.measurements.read_measurements`.
    collective, n_ranks
        If the file does not contain them.
    steps : int, optional
        Communication steps of the measured algorithm, e.g. 2 (N - 1) for a ring's allreduce, if the file does
        not contain them. Without it, alpha is the latency of the entire collective.

    Raises
    ------
    FormatError
        If the file cannot be read, or its rows do not determine the ratio of busbw to algbw.
    ScheduleError
        If nothing can be fitted.
    """
    kind = None if collective is None else CollectiveKind(collective)
    rows = read_measurements(path, collective=kind, n_ranks=n_ranks)
    if any(row.bytes_factor is None for row in rows):
        raise FormatError(
            "does not say which collective of how many ranks was measured; give --collective and --ranks",
            source=str(path),
        )
    return calibrate_rows(rows, steps=steps)


def calibrate_rows(rows: Sequence[Measurement], *, steps: int | None = None) -> Calibration:
    """Fit the model to measurements that have a `bytes_factor`; `steps` as for `calibrate`."""
    known = [steps if row.steps is None else row.steps for row in rows]
    has_steps = all(count is not None for count in known)
    counts = [float(count) if count is not None and has_steps else 1.0 for count in known]
    moved = [row.size_bytes * (row.bytes_factor or 0.0) for row in rows]
    columns: Mapping[str, Sequence[float]] = {
        INVERSE_BANDWIDTH: moved,
        ALPHA: counts,
        EPSILON: [1.0] * len(rows),
    }
    fit = fit_times(columns, [row.time_s for row in rows])
    return Calibration(fit, tuple(rows), has_steps)
