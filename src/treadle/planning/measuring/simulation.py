"""Plans simulated on the fabrics that they were made for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.planning.judging.verification import require_verified
from treadle.planning.measuring.execution import program_of
from treadle.schedules.collective import busbw_factor
from treadle.schedules.plan import Plan
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.simulation.critical_path import critical_path, describe_path
from treadle.simulation.picture import utilisation_picture
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import SizedSimulation, SliceLimit, simulate_sizes
from treadle.simulation.simulation_options import (
    Forwarding,
    LatencyModel,
    Sharing,
    SimulationOptions,
    default_alpha_ns,
)
from treadle.simulation.tasks import task_graph
from treadle.simulation.trace import chrome_trace
from treadle.watch import Progress, Watch

__all__ = [
    "Forwarding",
    "LatencyModel",
    "Sharing",
    "SimulatedRow",
    "Simulation",
    "SimulationOptions",
    "SimulationRun",
    "SliceLimit",
    "chrome_trace",
    "critical_path_lines",
    "default_alpha_ns",
    "simulate",
    "utilisation_picture",
]


@dataclass(frozen=True)
class SimulatedRow:
    """One size.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer.
    slices : int
    time : Fraction
        Seconds.
    is_exact : bool
        The time is exactly the model's, not rounded.
    algbw_bytes_per_s, busbw_bytes_per_s : float
    efficiency : float, optional
        Share of the proved bound on algbw; None where no bound is known.
    alpha_beta : Fraction
        Seconds by the alpha-beta formula of the schedule.
    busiest : str
        The link that is busy for longest.
    utilisation : float
        The share of the time for which it is.
    transfers : int
        Messages over links, every link and slice counted.
    slice_limit : SliceLimit, optional
        What ended the search for a number of slices; None where more had not helped, or none was looked for.
    """

    size_bytes: int
    slices: int
    time: Fraction
    is_exact: bool
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    efficiency: float | None
    alpha_beta: Fraction
    busiest: str
    utilisation: float
    transfers: int
    slice_limit: SliceLimit | None = None


@dataclass(frozen=True)
class SimulationRun:
    """Rows by size, and the whole simulation of the last size.

    Parameters
    ----------
    rows : tuple of SimulatedRow
    last : Simulation
        For traces and the critical path.
    """

    rows: tuple[SimulatedRow, ...]
    last: Simulation


def simulate(
    plan: Plan,
    sizes: Sequence[int],
    *,
    options: SimulationOptions | None = None,
    auto_slices: bool = True,
    on_row: Callable[[SimulatedRow], None] | None = None,
    progress: Progress | None = None,
) -> SimulationRun:
    """Predict how long a plan takes on its fabric.

    Parameters
    ----------
    plan : Plan
    sizes : sequence of int
        Bytes of the larger per-rank buffer, at least one.
    options : SimulationOptions, optional
        The model of the network.
    auto_slices : bool
        For each size the best of 1, 2, 4, ... slices; else the options' number.
    on_row : callable, optional
        Called with each row as soon as it is there.
    progress : callable, optional

    Raises
    ------
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    ScheduleError
        If no schedule of the plan serves a size.

    Notes
    -----
    The simulation is of the modelled fabric: links, switches and host caps as the topology has them, and
    in-network copies and sums where the plan relies on them.
    """
    options = options or SimulationOptions()
    require_verified(plan)
    rows: dict[int, SimulatedRow] = {}
    last: Simulation | None = None
    for entry in plan.entries:
        served = [place for place, size in enumerate(sizes) if plan.schedule_for(size) is entry.schedule]
        if not served:
            continue
        graph = task_graph(plan.topology, program_of(plan, sizes[served[0]]))
        found = simulate_sizes(
            graph, [sizes[place] for place in served], options, auto_slices=auto_slices, watch=Watch(progress)
        )
        for place, sized in zip(served, found, strict=True):
            rows[place] = _row(plan, sized)
            last = sized.simulation if place == len(sizes) - 1 else last
            if on_row is not None:
                on_row(rows[place])
    if last is None:
        raise ValueError("expected at least one size")
    return SimulationRun(tuple(rows[place] for place in sorted(rows)), last)


def _row(plan: Plan, sized: SizedSimulation) -> SimulatedRow:
    simulation = sized.simulation
    size, algbw = simulation.size_bytes, simulation.algbw_bytes_per_s
    bound = plan.optimal_algbw
    busiest = int(np.argmax(simulation.busy)) if simulation.busy.size else -1
    return SimulatedRow(
        size_bytes=size,
        slices=simulation.options.slices,
        time=simulation.time,
        is_exact=simulation.is_exact,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * float(busbw_factor(plan.collective.kind, plan.collective.n_ranks)),
        efficiency=None if bound is None else algbw / float(bound),
        alpha_beta=alpha_beta_time(
            plan.topology,
            plan.collective,
            plan.schedule_for(size),
            size,
            alpha_ns=simulation.options.alpha_ns,
        ),
        busiest=simulation.graph.resource_name(busiest) if busiest >= 0 else "",
        utilisation=float(simulation.utilisation[busiest]) if busiest >= 0 else 0.0,
        transfers=simulation.n_transfers,
        slice_limit=sized.limit,
    )


def critical_path_lines(simulation: Simulation) -> tuple[str, ...]:
    """What bounds a simulation's time, in a few lines; under fair sharing nothing: no message waits."""
    if simulation.options.sharing is Sharing.FAIR:
        return ()
    again = simulate_graph(simulation.graph, simulation.size_bytes, simulation.options, with_binding=True)
    return describe_path(again, critical_path(again))
