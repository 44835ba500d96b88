"""Figure A.3: the regression that verifies the cost model, on simulated times of the testbed.

The measured times are not printed, only the fitted constants. The simulator has these constants, so what the
fit shows is its own error: it leaves out the bandwidth at 1 KB and the latency at 1 GB, as the paper does.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from treadle.reproduction.curve_settings import AR, BEST, BEST_TOPOLOGIES, GIB, testbed_panel
from treadle.reproduction.paper_figure import Rows, yes_or_no
from treadle.reproduction.simulated_curves import measure, panels_of, plan_of
from treadle.schedules.steps.steps import StepSchedule
from treadle.simulation.calibration.regression import fit_times

KIB = 2**10
_STEPS = {"ShiftedRing": lambda n: 2 * (n - 1), "ShiftedBFBRing": lambda n: 2 * (n // 2)}
"""Steps of an allreduce as section A.1.2 has them."""


def figure_a_3(_full: bool) -> Rows:
    """Yield Alpha, epsilon and 1/B by least squares from allreduces of 1 KB and 1 GB on 5 to 12 nodes."""
    setting = replace(panels_of("testbed")[0], sizes=(KIB, GIB))
    steps: list[float] = []
    moved: list[float] = []
    small_s: list[float] = []
    large_s: list[float] = []
    has_steps, is_optimal = dict.fromkeys(_STEPS, True), True
    for n in BEST_TOPOLOGIES:
        panel = testbed_panel(n, AR, f"{AR}, N={n}")
        for curve in panel.curves:
            if curve.label not in (BEST, *_STEPS):
                continue
            plan = plan_of(curve, AR)
            schedule = plan.entries[-1].schedule
            assert isinstance(schedule, StepSchedule), "rings and breadth-first broadcasts have steps"
            if curve.label in _STEPS:
                has_steps[curve.label] &= schedule.n_steps == _STEPS[curve.label](n)
            factor = 2 * Fraction(n - 1, n)
            is_optimal &= plan.algbw == plan.topology.n_links // n * int(plan.topology.bandwidths[0]) / factor
            times = measure(setting, panel, replace(curve, slices=1)).seconds
            steps.append(schedule.n_steps)
            moved.append(float(factor * GIB))
            small_s.append(times[KIB])
            large_s.append(times[GIB])
    for name, holds in has_steps.items():
        yield f"steps of {name}", _FORMULAS[name] if holds else "other"
    yield "all three bandwidth-optimal", yes_or_no(is_optimal)
    latency = fit_times({"alpha": steps, "epsilon": [1.0] * len(steps)}, small_s)
    bandwidth = fit_times({"1/B": moved}, large_s)
    yield "alpha", 1e6 * latency.value("alpha"), "us"
    yield "epsilon", 1e6 * latency.value("epsilon"), "us"
    yield "1/B", 1e12 * bandwidth.value("1/B"), "ps/byte"
    yield "B", 8e-9 / bandwidth.value("1/B"), "Gbit/s"
    for size, fit in (("1 KB", latency), ("1 GB", bandwidth)):
        yield f"{size}: mean error of the fit to simulated times", 100 * fit.mean_error, "%"
        yield f"{size}: largest error of the fit to simulated times", 100 * fit.max_error, "%"


_FORMULAS = {"ShiftedRing": "2(N - 1)", "ShiftedBFBRing": "2 floor(N / 2)"}
