"""Plans on an emulated fabric: measured times against the alpha-beta model fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from statistics import median

import numpy as np

from treadle.context import start
from treadle.errors import ScheduleError, TreadleError
from treadle.inputs.problem import make_problem
from treadle.inputs.verification import require_verified
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind, Program
from treadle.runtime.mpi_build import build_interpreter, find_mpi
from treadle.runtime.mpi_c import InterpreterTimes
from treadle.schedulers.solving import solve_problem
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule
from treadle.simulation.calibration.calibration import (
    ALPHA,
    EPSILON,
    INVERSE_BANDWIDTH,
    Calibration,
    calibrate_rows,
)
from treadle.simulation.calibration.measurements import Measurement
from treadle.simulation.tasks import task_graph
from treadle.testbed.crossovers import (
    Crossover,
    MeasuredCurve,
    crossovers,
    require_enough,
)
from treadle.testbed.delay_line import LineStatistics as LineStatistics
from treadle.testbed.launch import Timing as Timing
from treadle.testbed.launch import run_program
from treadle.testbed.layout import EmulatedLayout, burst_bytes, check_paths, make_layout, set_up_commands
from treadle.testbed.network import missing_requirement as missing_requirement
from treadle.testbed.network import network, new_prefix, remove_leftovers, require
from treadle.topologies.topology import Topology

ALGORITHMS = ("bfb", "ring-steps", "tsmcf")
"""Algorithms tried by default; those that do not support a problem are skipped with the reason."""

SLICE_BYTES = 2**17


@dataclass(frozen=True)
class Skipped:
    """A schedule that was not run, and why."""

    collective: CollectiveKind
    algorithm: str
    reason: str


@dataclass(frozen=True)
class EmulationRow:
    """One plan at one size.

    Parameters
    ----------
    steps : int
        Communication steps x of the program.
    t_b : float
        Factor y: time of the busiest link in M/B.
    bytes_factor : float
        What remains of `t_b` when every link has sent its burst, which costs no time.
    time_s, median_s : float
        Best and median of the runs' slowest rank.
    wrong : int
        Elements that differ from the collective's definition.
    is_fitted : bool
        The model was fitted to this row too; otherwise it was predicted only.
    """

    collective: CollectiveKind
    algorithm: str
    size_bytes: int
    steps: int
    t_b: float
    bytes_factor: float
    time_s: float
    median_s: float
    runs: int
    wrong: int
    is_fitted: bool = False
    predicted_s: float = 0.0

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted_s / self.time_s - 1


@dataclass(frozen=True)
class EmulationResult:
    """All rows, the fitted model, and what was left out.

    Parameters
    ----------
    rate_bytes_per_s : int
        Of the slowest link.
    node_bandwidth_bytes_per_s : Fraction
        Nominal B: the mean bandwidth out of a node.
    delay_ns : int, optional
        Of every link.
    line : LineStatistics, optional
        How well links with a delay kept it.
    crossovers : tuple of Crossover
        If they were requested.
    """

    topology: Topology
    rate_bytes_per_s: int
    node_bandwidth_bytes_per_s: Fraction
    rows: tuple[EmulationRow, ...]
    calibration: Calibration
    skipped: tuple[Skipped, ...]
    delay_ns: int | None = None
    line: LineStatistics | None = None
    crossovers: tuple[Crossover, ...] = ()

    @property
    def wrong(self) -> int:
        """Wrong elements over all rows."""
        return sum(row.wrong for row in self.rows)

    @property
    def mean_error(self) -> float:
        """Mean of |predicted - measured| / measured."""
        return sum(abs(row.error) for row in self.rows) / len(self.rows)

    @property
    def max_error(self) -> float:
        """Largest |predicted - measured| / measured."""
        return max(abs(row.error) for row in self.rows)


@dataclass(frozen=True)
class _Case:
    """A plan ready to run: its program, steps x, bandwidth factor y and the bytes of size x y that are free.

    The free bytes are the bursts of the links: an idle link sends this much without delay.
    """

    plan: Plan
    program: Program
    t_b: float
    free_bytes: float

    @property
    def steps(self) -> int:
        return int(self.program.step.max(initial=0)) + 1


def dry_run(topology: Topology, rate_bytes_per_s: int, *, delay_ns: int | None = None) -> list[str]:
    """Return the commands that would bring the network up, with their input, as lines.

    Raises
    ------
    TopologyError
        If the fabric cannot be emulated.
    """
    lines = []
    layout = make_layout(topology, rate_bytes_per_s, prefix="treadle-PID-START-ID", delay_ns=delay_ns)
    for command in set_up_commands(layout):
        lines.append(" ".join(command.words))
        lines += [f"    {line}" for line in command.lines]
    return lines


def clean_leftovers() -> list[str]:
    """Remove what testbeds whose process is dead have left; the names of what was removed.

    Raises
    ------
    MissingDependencyError
        Without root or the tools.
    """
    require()
    return remove_leftovers()


def emulate(
    topology: Topology,
    sizes: Sequence[int],
    *,
    rate_bytes_per_s: int,
    delay_ns: int | None = None,
    collectives: Sequence[CollectiveKind] = (CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE),
    algorithms: Sequence[str] = ALGORITHMS,
    plans: Sequence[Plan] = (),
    timing: Timing | None = None,
    with_crossovers: bool = False,
    on_case: Callable[[str], None] | None = None,
) -> EmulationResult:
    """Emulate a fabric, run plans on it and fit the model of section A.1.2 to their times.

    Parameters
    ----------
    topology : Topology
        Direct-connect, 2 to 32 nodes.
    sizes : sequence of int
        Bytes of the larger per-rank buffer.
    rate_bytes_per_s : int
        Of the slowest link; the others in proportion.
    delay_ns : int, optional
        Of every link; None: as little as the host's software takes.
    collectives, algorithms : sequences
        Every pair is solved and run; those that do not fit are skipped with a reason.
    plans : sequence of Plan
        Run instead of `collectives` and `algorithms`; made for this fabric.
    with_crossovers : bool
        Also compare where schedules overtake each other with what is predicted; only with a delay.
    on_case : callable, optional
        Called with the name of what is run next.

    Raises
    ------
    MissingDependencyError
        Without root, Linux's tools, MPI or a C compiler.
    TopologyError
        If the fabric cannot be emulated.
    ScheduleError
        If there is nothing to run, or a run fails.

    Notes
    -----
    Model: time = alpha x + epsilon + (M / B) y with x steps and the bandwidth factor y (source: dissertation,
    section A.1.2), less the bursts that the shapers of idle links let through. It is fitted to the smallest
    and the largest size; those between are predictions. The time is the best of the runs: what disturbs a
    shared host only adds.
    """
    if with_crossovers and delay_ns is None:
        raise ScheduleError(
            "crossovers: without a delay small sizes are within the burst of a link, and cost what the host "
            "takes; give links a --delay"
        )
    require(with_delay=delay_ns is not None)
    mpi = find_mpi()
    interpreter = build_interpreter(mpi)
    remove_leftovers()
    prefix = new_prefix()
    layout = make_layout(topology, rate_bytes_per_s, prefix=prefix, delay_ns=delay_ns)
    cases, skipped = _cases(topology, layout, max(sizes), rate_bytes_per_s, collectives, algorithms, plans)
    if with_crossovers:
        require_enough([case.plan.algorithm for case in cases])
    timing = timing or Timing()
    runs: list[list[list[InterpreterTimes]]] = [[] for _ in cases]
    with network(layout, prefix) as built:
        for _, (case, rounds) in product(range(timing.rounds), zip(cases, runs, strict=True)):
            if on_case is not None:
                on_case(f"{case.plan.collective.kind} by {case.plan.algorithm}")
            times = run_program(
                case.program,
                sizes,
                layout=layout,
                folder=built.folder,
                mpi=mpi,
                interpreter=interpreter,
                slice_bytes=SLICE_BYTES,
                timing=timing,
            )
            rounds.append(times)
        line = None if built.line is None else built.line.statistics()
    found = [
        [_row(case, *sized) for sized in zip(*rounds, strict=True) if sized[0].size_bytes]
        for case, rounds in zip(cases, runs, strict=True)
    ]
    fitted, calibration = _fit([row for rows in found for row in rows])
    curves = [
        _curve(case, rows, rate_bytes_per_s, delay_ns)
        for case, rows in zip(cases, found, strict=True)
        if with_crossovers
    ]
    return EmulationResult(
        *(topology, rate_bytes_per_s, _node_bandwidth(topology, rate_bytes_per_s), fitted, calibration),
        skipped=tuple(skipped),
        delay_ns=delay_ns,
        line=line,
        crossovers=crossovers(curves) if with_crossovers else (),
    )


def _curve(
    case: _Case, rows: Sequence[EmulationRow], rate_bytes_per_s: int, delay_ns: int | None
) -> MeasuredCurve:
    topology = case.plan.topology
    ordered = sorted(rows, key=lambda row: row.size_bytes)
    graph = task_graph(topology, case.program)
    slowest = int(topology.bandwidths.min())
    emulated = replace(
        graph,
        resource_bytes_per_s=topology.bandwidths * rate_bytes_per_s // slowest,
        resource_latency_ns=np.full(topology.n_links, delay_ns or 0, dtype=np.int64),
    )
    return MeasuredCurve(
        case.plan.collective.kind,
        case.plan.algorithm,
        emulated,
        tuple(row.size_bytes for row in ordered),
        tuple(row.time_s for row in ordered),
        SLICE_BYTES,
    )


def _cases(
    topology: Topology,
    layout: EmulatedLayout,
    size: int,
    rate_bytes_per_s: int,
    collectives: Sequence[CollectiveKind],
    algorithms: Sequence[str],
    plans: Sequence[Plan],
) -> tuple[list[_Case], list[Skipped]]:
    cases: list[_Case] = []
    skipped: list[Skipped] = []
    for plan in plans:
        if plan.topology != topology:
            raise ScheduleError(f"the plan is for {plan.topology.name}, not for {topology.name}")
        require_verified(plan)
        cases.append(_case(plan, layout, size, rate_bytes_per_s))
    for kind in () if plans else collectives:
        for algorithm in algorithms:
            try:
                with start():
                    plan = solve_problem(make_problem(topology, kind), algorithm).plan
                cases.append(_case(plan, layout, size, rate_bytes_per_s))
            except TreadleError as error:
                skipped.append(Skipped(kind, algorithm, str(error)))
    if not cases:
        reason = f": {skipped[0].algorithm}: {skipped[0].reason}" if skipped else ""
        raise ScheduleError(f"{topology.name}: no schedule to run{reason}")
    return cases, skipped


def _case(plan: Plan, layout: EmulatedLayout, size: int, rate_bytes_per_s: int) -> _Case:
    topology = plan.topology
    schedule: Schedule = plan.schedule_for(size)
    if isinstance(schedule, RouteSchedule | TimedRoutes):
        raise ScheduleError("routes choose their own paths; the testbed runs steps and trees")
    program = lower(topology, plan.collective, schedule)
    check_paths(topology, program, layout)
    node = _node_bandwidth(topology, None)
    t_b = float(node * _busiest(topology, program))
    slowest = int(topology.bandwidths.min())
    burst = burst_bytes(rate_bytes_per_s) if layout.delay_ns is None else 0
    free = float(node / slowest * burst)
    return _Case(plan, program, t_b, free)


def _busiest(topology: Topology, program: Program) -> Fraction:
    """Seconds per byte of the size that the slowest link is busy: what a pipelined execution comes near to.

    If a schedule loads all links equally in every step, it equals T_B. Others finish earlier than the sum
    of their steps, because a program's slices do not wait for a step's end.
    """
    chunks = np.zeros(topology.n_links, dtype=np.int64)
    for operation in np.flatnonzero(program.operation_kind == OperationKind.SEND).tolist():
        np.add.at(chunks, program.links(int(program.path[operation])), program.count[operation])
    loads = zip(chunks.tolist(), topology.bandwidths.tolist(), strict=True)
    return max(Fraction(load, bandwidth * program.n_chunks) for load, bandwidth in loads)


def _node_bandwidth(topology: Topology, rate_bytes_per_s: int | None) -> Fraction:
    """Mean bandwidth out of a node, as emulated, or (None) as the fabric has it."""
    total = Fraction(int(topology.egress_bytes_per_s().sum()), topology.n_nodes)
    if rate_bytes_per_s is None:
        return total
    return total * rate_bytes_per_s / int(topology.bandwidths.min())


def _row(case: _Case, *rounds: InterpreterTimes) -> EmulationRow:
    """A case at a size, of which all rounds have times."""
    size = rounds[0].size_bytes
    times_s = [time for one in rounds for time in one.times_s]
    return EmulationRow(
        collective=case.plan.collective.kind,
        algorithm=case.plan.algorithm,
        size_bytes=size,
        steps=case.steps,
        t_b=case.t_b,
        bytes_factor=max(0.0, case.t_b - case.free_bytes / size),
        time_s=min(times_s),
        median_s=median(times_s),
        runs=len(times_s),
        wrong=sum(one.wrong for one in rounds),
    )


def _fit(rows: Sequence[EmulationRow]) -> tuple[tuple[EmulationRow, ...], Calibration]:
    if not rows:
        raise ScheduleError("no size reaches one element; use larger sizes")
    ends = {min(row.size_bytes for row in rows), max(row.size_bytes for row in rows)}
    used = [row for row in rows if row.size_bytes in ends]
    calibration = calibrate_rows(
        [Measurement(row.size_bytes, row.time_s, row.bytes_factor, row.steps) for row in used]
    )
    fit = calibration.fit
    alpha, epsilon, inverse = (fit.value(name) for name in (ALPHA, EPSILON, INVERSE_BANDWIDTH))
    result = tuple(
        replace(
            row,
            is_fitted=row.size_bytes in ends,
            predicted_s=alpha * row.steps + epsilon + inverse * row.bytes_factor * row.size_bytes,
        )
        for row in rows
    )
    return result, calibration
