"""Plans simulated on the fabrics that they were made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from treadle.brief import brief
from treadle.checking import checked, left_alone
from treadle.context import Context, Progress, iterate_under
from treadle.errors import FormatError
from treadle.inputs.fabrics_and_plans import FabricLike, PlanLike, SizesLike, as_fabric, as_plan, as_sizes
from treadle.inputs.problem import Problem, resolve_topology
from treadle.inputs.texts import told_name
from treadle.inputs.verification import require_verified
from treadle.schedulers.third_party.placed_schedules import PlacedSchedule, place_file
from treadle.schedules.collective import busbw_factor
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule
from treadle.schedules.witness import Witness
from treadle.simulation.alpha_beta import alpha_beta_curve
from treadle.simulation.cost_models import CostModelLike, cost_model_of
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.costs.priced_fabric import priced_fabric
from treadle.simulation.critical_path import critical_path, describe_path
from treadle.simulation.picture import utilisation_picture
from treadle.simulation.result import Simulation
from treadle.simulation.schedule_tasks import schedule_graph
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import SizedSimulation, simulate_sizes
from treadle.simulation.simulation_options import (
    Forwarding,
    LatencyModel,
    Sharing,
    SimulationOptions,
)
from treadle.simulation.size_bounds.problem_bounds import size_bounds
from treadle.simulation.size_bounds.size_witness import SizeBound
from treadle.simulation.slice_limits import SliceLimit
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.simulation.trace import simulation_trace
from treadle.tabular import Cell, Tabular, plain_row

__all__ = [
    "Forwarding",
    "LatencyModel",
    "Sharing",
    "SimulatedRow",
    "SimulatedSubject",
    "Simulation",
    "SimulationOptions",
    "SimulationRun",
    "SliceLimit",
    "critical_path_lines",
    "simulate",
    "simulated",
    "simulation_trace",
    "utilisation_picture",
]


@brief("size_bytes", "algbw_bytes_per_s", "busbw_bytes_per_s", "slices", "efficiency")
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
        The bound of this size over the time; None where no bound is known.
    alpha_beta : Fraction, optional
        Seconds by the alpha-beta formula of the schedule; None for messages that are of no schedule of ours.
    busiest : str
        The link that is busy for longest.
    utilisation : float
        The share of the time for which it is.
    transfers : int
        Messages over links, every link and slice counted.
    slice_limit : SliceLimit, optional
        What ended the search for a number of slices; None where more had not helped, or none was looked for.
    protocol : str
        That carries the messages, of a cost model's; empty without one.
    bound : SizeBound, optional
        The time before which no schedule of this size ends.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring(4, bandwidth='25GB/s')", "allgather")
    >>> row = treadle.simulate(plan, "1M").rows[0]
    >>> float(row.time), row.busiest, f"{row.efficiency:.0%}"
    (1.742864e-05, 'n0->n1', '99%')
    """

    size_bytes: int
    slices: int
    time: Fraction
    is_exact: bool
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    efficiency: float | None
    alpha_beta: Fraction | None
    busiest: str
    utilisation: float
    transfers: int
    slice_limit: SliceLimit | None = None
    protocol: str = ""
    bound: SizeBound | None = None


@brief("last.graph.topology", "rows")
@dataclass(frozen=True)
class SimulationRun(Tabular):
    """Rows by size, and the whole simulation of the last size.

    Parameters
    ----------
    rows : tuple of SimulatedRow
    last : Simulation
        For traces and the critical path.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> len(treadle.simulate(plan, ["1K", "2K"]).rows)
    2
    """

    rows: tuple[SimulatedRow, ...]
    last: Simulation

    def records(self) -> list[dict[str, Cell]]:
        """A row for each size."""
        return [
            plain_row(
                {
                    "size_bytes": row.size_bytes,
                    "slices": row.slices,
                    "time_s": row.time,
                    "algbw_bytes_per_s": row.algbw_bytes_per_s,
                    "busbw_bytes_per_s": row.busbw_bytes_per_s,
                    "share_of_bound": row.efficiency,
                    "busiest": row.busiest,
                    "utilisation": row.utilisation,
                    **({"protocol": row.protocol} if row.protocol else {}),
                }
            )
            for row in self.rows
        ]


@checked(sizes=left_alone)
def simulate(
    plan: PlanLike | PlacedSchedule,
    sizes: SizesLike = "1K..1G",
    *,
    topology: FabricLike | None = None,
    options: SimulationOptions | None = None,
    auto_slices: bool = True,
    cost_model: CostModelLike | None = None,
    on_row: Callable[[SimulatedRow], None] | None = None,
    progress: Progress | None = None,
) -> SimulationRun:
    """Predict how long a plan takes on its fabric.

    Parameters
    ----------
    plan : Plan, str, Path, result with a plan, or PlacedSchedule
        Ours, or somebody's on a fabric, or the file of one with `topology`.
    sizes : sequence of int or str
        Bytes of the larger per-rank buffer, at least one.
    topology : Topology, str, Path, networkx.Graph, plan or result, optional
        The fabric of a schedule of others, whose file names none; a plan has its own.
    options : SimulationOptions, optional
        The model of the network, with one alpha for all messages unless a cost model is given too. Default:
        as on the command line, with the fabric's `default_cost_model`.
    auto_slices : bool
        For each size the best of 1, 2, 4, ... slices; else the options' number.
    cost_model : CostModel, str or Path, optional
        What messages cost by class of link and protocol, in place of the options' alpha; of a str the name
        of one that comes with Treadle (`cost_presets`), else a file.
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

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring(4, bandwidth='25GB/s')", "allgather").plan
    >>> [row.size_bytes for row in treadle.simulate(plan, ["1K", "1M"]).rows]
    [1024, 1048576]
    """
    plan = _subject_of(plan, topology, progress)
    sizes = as_sizes(sizes, "simulate: sizes")
    model = None if options and cost_model is None else cost_model_of(plan.topology, cost_model)
    options = options or SimulationOptions()
    if isinstance(plan, PlacedSchedule):
        sized: dict[int, tuple[SimulatedRow, Simulation]] = {}
        for part, places in plan.by_size(sizes):
            subject = SimulatedSubject(
                part.problem, task_graph(part.topology, part.program), part.schedule, part.witness
            )
            own = [sizes[place] for place in places]
            runs = simulated(
                subject, own, options, auto_slices=auto_slices, cost_model=model, progress=progress
            )
            sized.update(zip(places, runs, strict=True))
        return SimulationRun(tuple(sized[place][0] for place in range(len(sizes))), sized[len(sizes) - 1][1])
    require_verified(plan)
    rows: dict[int, SimulatedRow] = {}
    last: Simulation | None = None
    for entry in plan.entries:
        served = [place for place, size in enumerate(sizes) if plan.schedule_for(size) is entry.schedule]
        if not served:
            continue
        subject = SimulatedSubject(
            Problem(plan.topology, plan.collective),
            schedule_graph(plan.topology, plan.collective, entry.schedule),
            entry.schedule,
            plan.witness,
        )
        found = simulated(
            subject,
            [sizes[place] for place in served],
            options,
            auto_slices=auto_slices,
            cost_model=model,
            progress=progress,
        )
        for place, (row, simulation) in zip(served, found, strict=True):
            rows[place] = row
            last = simulation if place == len(sizes) - 1 else last
            if on_row is not None:
                on_row(row)
    if last is None:
        raise FormatError("simulate: sizes: expected at least one, found none")
    return SimulationRun(tuple(rows[place] for place in sorted(rows)), last)


def _subject_of(
    plan: PlanLike | PlacedSchedule, topology: FabricLike | None, progress: Progress | None
) -> Plan | PlacedSchedule:
    """A plan, or a schedule of others on its fabric; TreadleError for what is neither."""
    fabric = None if topology is None else as_fabric(topology, "simulate: topology")
    is_text = isinstance(plan, str | Path) and told_name(Path(plan)) != ""
    if not is_text and fabric is not None:
        raise FormatError("simulate: topology: names the fabric of a schedule of others; a plan has its own")
    if isinstance(plan, PlacedSchedule):
        return plan
    if not (is_text and isinstance(plan, str | Path)):
        return as_plan(plan, "simulate: plan")
    if fabric is None:
        raise FormatError("a schedule of others names no fabric; expected topology=", source=str(plan))
    return place_file(Path(plan), resolve_topology(fabric), progress=progress)


@dataclass(frozen=True, eq=False)
class SimulatedSubject:
    """What is simulated, of a plan or of nobody's.

    Parameters
    ----------
    problem : Problem
    graph : TaskGraph
        Of its program; of those of all groups together.
    schedule : Schedule, optional
        What it was made of.
    witness : Witness, optional
        Of the most that any schedule reaches.
    """

    problem: Problem
    graph: TaskGraph
    schedule: Schedule | None = None
    witness: Witness | None = None


def simulated(
    subject: SimulatedSubject,
    sizes: Sequence[int],
    options: SimulationOptions,
    *,
    auto_slices: bool = True,
    most_tasks: int | None = None,
    cost_model: CostModel | None = None,
    bounds: Sequence[SizeBound] | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[SimulatedRow, Simulation]]:
    """A row and its simulation for each size; see `simulate`.

    Parameters
    ----------
    subject : SimulatedSubject
        Verified by the caller.
    sizes, options, auto_slices, progress
        See `simulate`.
    most_tasks : int, optional
        Of one trial of a number of slices; see `simulation.slice_search`.
    cost_model : CostModel, optional
        In place of the options' alpha.
    bounds : sequence of SizeBound, optional
        Of the sizes, where they are known; else they are found from the subject's witness.
    """
    if bounds is None and subject.witness is not None:
        bounds = size_bounds(subject.problem, subject.witness, sizes, options=options, cost_model=cost_model)
    found = simulate_sizes(
        subject.graph,
        sizes,
        options,
        auto_slices=auto_slices,
        most_tasks=most_tasks,
        cost_model=cost_model,
    )
    curves = {one.costs: _formula(subject, one) for one in protocol_options(options, cost_model)}
    for place, sized in enumerate(iterate_under(Context(progress), found)):
        curve = curves[sized.simulation.options.costs]
        yield _row(subject, sized, bounds[place] if bounds else None, curve), sized.simulation


def _formula(subject: SimulatedSubject, options: SimulationOptions) -> Callable[[int], Fraction] | None:
    """Seconds by size by the alpha-beta formula, messages priced by their links; None without a schedule."""
    if subject.schedule is None:
        return None
    topology, collective, costs = subject.problem.topology, subject.problem.collective, options.costs
    if costs is None:
        return alpha_beta_curve(topology, collective, subject.schedule, alpha_ns=options.alpha_ns)
    priced, alpha_ns = priced_fabric(topology, costs)
    curve = alpha_beta_curve(priced, collective, subject.schedule, alpha_ns=alpha_ns)
    launch = Fraction(costs.launch_ns, 10**9)
    return lambda size: launch + curve(size)


def _row(
    subject: SimulatedSubject,
    sized: SizedSimulation,
    bound: SizeBound | None,
    alpha_beta: Callable[[int], Fraction] | None,
) -> SimulatedRow:
    simulation, collective = sized.simulation, subject.problem.collective
    size, algbw = simulation.size_bytes, simulation.algbw_bytes_per_s
    busiest = int(np.argmax(simulation.busy)) if simulation.busy.size else -1
    costs = simulation.options.costs
    return SimulatedRow(
        size_bytes=size,
        slices=simulation.options.slices,
        time=simulation.time,
        is_exact=simulation.is_exact,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * float(busbw_factor(collective.kind, collective.group_size)),
        efficiency=None if bound is None else float(bound.time / simulation.time) if simulation.time else 1.0,
        alpha_beta=None if alpha_beta is None else alpha_beta(size),
        busiest=simulation.graph.resource_name(busiest) if busiest >= 0 else "",
        utilisation=float(simulation.utilisation[busiest]) if busiest >= 0 else 0.0,
        transfers=simulation.n_transfers,
        slice_limit=sized.limit,
        protocol="" if costs is None else costs.name,
        bound=bound,
    )


def critical_path_lines(simulation: Simulation) -> tuple[str, ...]:
    """What bounds a simulation's time, in a few lines; under fair sharing nothing: no message waits.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring(4, bandwidth='25GB/s')", "allgather")
    >>> lines = treadle.planning.critical_path_lines(treadle.simulate(plan, "1M").last)
    >>> print("\\n".join(lines))
    4 messages over 1 link one after another
     91.4%  n0->n1
      8.6%  latency
    """
    if simulation.options.sharing is Sharing.FAIR:
        return ()
    again = simulate_graph(simulation.graph, simulation.size_bytes, simulation.options, with_binding=True)
    return describe_path(again, critical_path(again))
