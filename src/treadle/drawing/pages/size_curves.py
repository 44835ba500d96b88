"""Simulated time by size, of plans beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.context import Progress
from treadle.schedules.plan import Plan
from treadle.simulation.cost_models import default_cost_model
from treadle.simulation.simulated_plans import SimulatedRow, SimulationRun, simulate_plan

SIZES = tuple(2**power for power in range(10, 31, 2))
"""1 KiB to 1 GiB."""
_MANY_RANKS = 64
"""Above so many every other size is enough: what takes long to simulate is large anyway."""


def shown_sizes(plan: Plan) -> tuple[int, ...]:
    """Those of `SIZES` at which a plan is simulated."""
    return SIZES if plan.collective.n_ranks <= _MANY_RANKS else SIZES[::2]


def size_curves(
    sizes: Sequence[int],
    own: SimulationRun,
    others: Sequence[Plan],
    names: Sequence[str],
    *,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Seconds at each size, best of several numbers of slices, and before which no schedule ends.

    Parameters
    ----------
    sizes : sequence of int
    own : SimulationRun
        Of the page's own plan, at these sizes and whatever follows them.
    others : sequence of Plan
    names : sequence of str
        Of all.
    """
    first, rows = own.last.options, own.rows[: len(sizes)]
    bounds = _bounds(rows)
    costs = f"alpha {first.alpha_ns / 1000:g} us a message"
    if first.costs is not None:
        costs = f"costs {default_cost_model(own.last.graph.topology).name}"
    series = [rows, *(simulate_plan(plan, sizes, progress=progress).rows for plan in others)]
    return {
        "sizes": list(sizes),
        "series": [
            {"name": name, "seconds": _seconds(found), "slices": [row.slices for row in found]}
            for name, found in zip(names, series, strict=True)
        ],
        "bound": bounds,
        "note": _note(f"{costs}, {first.sharing.value} links", bounds),
    }


def _note(model: str, bounds: list[float] | None) -> str:
    words = f"Simulated on this fabric's model, the best of several numbers of slices: {model}."
    return words if bounds is None else f"{words} The bound of each size is proved: no schedule ends before."


def _bounds(rows: Sequence[SimulatedRow]) -> list[float] | None:
    """Of each size; None where nothing is proved."""
    times = [None if row.bound is None else row.bound.time for row in rows]
    known = [time for time in times if time is not None]
    return [float(f"{float(time):.6g}") for time in known] if len(known) == len(times) else None


def _seconds(rows: Sequence[SimulatedRow]) -> list[float]:
    return [float(f"{float(row.time):.6g}") for row in rows]
