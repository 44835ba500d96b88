"""Simulation of plans on their fabrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.brief import brief
from treadle.context import Context, Progress, iterate_under
from treadle.errors import FormatError
from treadle.inputs.problem import Problem
from treadle.inputs.verification import require_verified
from treadle.schedules.certificate import Certificate
from treadle.schedules.collective import busbw_factor
from treadle.schedules.plan import Plan, serving
from treadle.schedules.schedule import Schedule
from treadle.simulation.alpha_beta import alpha_beta_curve
from treadle.simulation.cost_models import cost_model_of
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.costs.priced_fabric import priced_fabric
from treadle.simulation.critical_path import critical_path, describe_path
from treadle.simulation.result import Simulation as Simulation
from treadle.simulation.schedule_tasks import schedule_graph
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import SizedSimulation, simulate_sizes
from treadle.simulation.simulation_options import Forwarding as Forwarding
from treadle.simulation.simulation_options import LatencyModel as LatencyModel
from treadle.simulation.simulation_options import Sharing as Sharing
from treadle.simulation.simulation_options import SimulationOptions as SimulationOptions
from treadle.simulation.size_bounds.problem_bounds import size_bounds
from treadle.simulation.size_bounds.size_certificate import SizeBound
from treadle.simulation.slice_search import SliceLimit as SliceLimit
from treadle.simulation.tasks import TaskGraph
from treadle.simulation.trace import simulation_trace as simulation_trace
from treadle.simulation.utilization_drawing import draw_utilization as draw_utilization
from treadle.tabular import Cell, Tabular, plain_row


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
        The time lower bound of this size over the time; None without a bound.
    alpha_beta : Fraction, optional
        Seconds by the alpha-beta formula of the schedule; None for programs without a schedule.
    busiest : str
        The link with the longest busy time.
    utilisation : float
        Busy time of that link over the time.
    transfers : int
        Messages over links, every link and slice counted.
    slice_limit : SliceLimit, optional
        Limit that ended the search for a number of slices; None if more slices did not help, or without a
        search.
    protocol : str
        Protocol of the cost model that carries the messages; empty without a model.
    bound : SizeBound, optional
        The time lower bound of this size.

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
    """Rows by size, and the full simulation of the last size.

    Parameters
    ----------
    rows : tuple of SimulatedRow
    last : Simulation
        Source of traces and the critical path.

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
        """Return a row for each size."""
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


@dataclass(frozen=True, eq=False)
class SimulatedSubject:
    """A program to simulate (for groups: all programs together), with its schedule if there is one.

    The certificate is that of the upper bound on algbw.
    """

    problem: Problem
    graph: TaskGraph
    schedule: Schedule | None = None
    certificate: Certificate | None = None


SizedParts = Iterable[tuple[SimulatedSubject, list[int]]]
"""Subjects, and the indices of the sizes that each is simulated at."""


def plan_parts(plan: Plan, sizes: Sequence[int]) -> SizedParts:
    """Yield the schedules of a plan that apply to some sizes."""
    problem = Problem(plan.topology, plan.collective)
    for entry, places in serving(plan.entries, sizes):
        graph = schedule_graph(plan.topology, plan.collective, entry.schedule)
        yield SimulatedSubject(problem, graph, entry.schedule, plan.certificate), places


def simulate_parts(
    parts: SizedParts,
    sizes: Sequence[int],
    options: SimulationOptions,
    *,
    auto_slices: bool = True,
    cost_model: CostModel | None = None,
    on_row: Callable[[SimulatedRow], None] | None = None,
    progress: Progress | None = None,
) -> SimulationRun:
    """Simulate the subject of each size; see `treadle.simulate`."""
    found: dict[int, tuple[SimulatedRow, Simulation]] = {}
    for subject, places in parts:
        runs = simulated(
            subject,
            [sizes[place] for place in places],
            options,
            auto_slices=auto_slices,
            cost_model=cost_model,
            progress=progress,
        )
        for place, run in zip(places, runs, strict=True):
            found[place] = run
            if on_row is not None:
                on_row(run[0])
    if not found:
        raise FormatError("simulate: sizes: expected at least one, found none")
    return SimulationRun(tuple(found[place][0] for place in sorted(found)), found[len(sizes) - 1][1])


def simulate_plan(plan: Plan, sizes: Sequence[int], *, progress: Progress | None = None) -> SimulationRun:
    """Verify a plan and simulate it under the default cost model of its fabric."""
    require_verified(plan)
    model = cost_model_of(plan.topology, None)
    parts = plan_parts(plan, sizes)
    return simulate_parts(parts, sizes, SimulationOptions(), cost_model=model, progress=progress)


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
    """Yield a row and its simulation for each size; see `simulate`. The caller has verified the subject.

    Without `bounds` of the sizes, these are computed from the subject's certificate.
    """
    if bounds is None and subject.certificate is not None:
        bounds = size_bounds(
            subject.problem, subject.certificate, sizes, options=options, cost_model=cost_model
        )
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
    """Return the alpha-beta time, seconds, as a function of the size; None without a schedule."""
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
    """Return the critical path in a few lines; none under fair sharing, where no message waits.

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
