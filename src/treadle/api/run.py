"""Execution of plans on real data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Unpack

from treadle.brief import brief
from treadle.checking import checked, left_alone
from treadle.errors import MemoryLimitError, ScheduleError
from treadle.formats.request import NOTHING_ASKED, Given
from treadle.inputs.fabrics_and_plans import PlanLike, SizesLike, as_plan, as_size, as_sizes
from treadle.inputs.verification import require_verified
from treadle.program.any_schedule import programs_of
from treadle.program.program import Program
from treadle.runtime.data import ElementType as ElementType
from treadle.runtime.data import Reduction as Reduction
from treadle.runtime.device.block_lowering import left_to_switches
from treadle.runtime.device.block_program import DeviceProtocol as DeviceProtocol
from treadle.runtime.device.checked_blocks import can_switch_sum
from treadle.runtime.device.emulated import measure_emulated
from treadle.runtime.device.on_gpu import describe_gpu, measure_on_gpu
from treadle.runtime.libfabric import measure_libfabric
from treadle.runtime.measured_sizes import SweepRow as SweepRow
from treadle.runtime.measured_sizes import measure
from treadle.runtime.measured_sizes import parse_sizes as parse_sizes
from treadle.runtime.mpi import load_mpi, measure_mpi
from treadle.runtime.mpi_c import measure_mpi_c
from treadle.runtime.run_options import RunKeywords as RunKeywords
from treadle.runtime.run_options import RunOptions
from treadle.schedules.collective import busbw_factor
from treadle.schedules.plan import Plan
from treadle.simulation.block_costs import block_costs
from treadle.simulation.point_to_point import PointToPointGap, point_to_point_gap
from treadle.tabular import Cell, Tabular, plain_row
from treadle.topologies.topology import Topology
from treadle.units import format_size


class RuntimeName(StrEnum):
    """Executors of programs, spelt as on the command line.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.RuntimeName]
    ['in-process', 'mpi', 'mpi-c', 'libfabric', 'device-emulated', 'device-gpu']
    """

    IN_PROCESS = "in-process"
    MPI = "mpi"
    MPI_C = "mpi-c"
    LIBFABRIC = "libfabric"
    DEVICE_EMULATED = "device-emulated"
    DEVICE_GPU = "device-gpu"

    @property
    def is_started_here(self) -> bool:
        """Whether this process starts what it needs; else it is one of those that mpirun started."""
        return self is not RuntimeName.MPI


@brief("rows", "wrong")
@dataclass(frozen=True)
class RunResult(Tabular):
    """Measurements of this host.

    Parameters
    ----------
    rows : tuple of SweepRow
        One for each size; empty in all MPI processes but the first.
    is_reporter : bool
        Whether this process reports: the only one, or the first of MPI's.
    shortfall : PointToPointGap, optional
        Copies or sums that the plan leaves to the network, which this runtime does itself.
    measured_on : str
        Hardware that moved the data.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allreduce").plan
    >>> [row.size_bytes for row in treadle.run(plan, ["1K"]).rows]
    [1024]
    """

    rows: tuple[SweepRow, ...]
    is_reporter: bool
    shortfall: PointToPointGap | None = None
    measured_on: str = "this host"

    def records(self) -> list[dict[str, Cell]]:
        """A row for each size, as nccl-tests prints them."""
        names = [field.name for field in fields(SweepRow)]
        return [plain_row({name: getattr(row, name) for name in names}) for row in self.rows]

    @property
    def wrong(self) -> int:
        """Elements that differ from the collective's definition, over all sizes."""
        return sum(row.wrong for row in self.rows)


def is_reporter(runtime: RuntimeName | str) -> bool:
    """Whether this process is the one that prints; MissingDependencyError if MPI is wanted but absent.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.is_reporter("in-process")
    True
    """
    return RuntimeName(runtime).is_started_here or load_mpi().COMM_WORLD.Get_rank() == 0


def has_process_per_rank(plan: Plan, runtime: RuntimeName | str) -> bool:
    """Whether as many processes were started as the runtime needs: any number but for MPI.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> treadle.planning.has_process_per_rank(plan, "in-process")
    True
    """
    if RuntimeName(runtime).is_started_here:
        return True
    return int(load_mpi().COMM_WORLD.Get_size()) == plan.collective.n_ranks


def available_bytes() -> int | None:
    """Return the memory that is free without swapping; None if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, LookupError, StopIteration):
        return None


def _check_memory(plan: Plan, size_bytes: int, available: int | None) -> None:
    """Reject sizes that do not fit into memory; a process killed half-way gives no reason."""
    needed = 2 * plan.collective.n_ranks * size_bytes  # input and output of every rank
    if available is not None and needed > available:
        raise MemoryLimitError(
            f"size {format_size(size_bytes)}: the buffers of {plan.collective.n_ranks} ranks need "
            f"{format_size(needed)} on this host, and {format_size(available)} are free; "
            f"choose smaller sizes (--size)"
        )


def _check_device_options(runtime: RuntimeName, options: RunKeywords) -> None:
    """Raise ScheduleError if another runtime is given options of thread-block programs."""
    given = [flag for name, flag in _BLOCK_OPTIONS.items() if name in options]
    if given and runtime not in _DEVICES:
        raise ScheduleError(
            f"run: {', '.join(given)}: for --runtime {' and '.join(_DEVICES)} only, found {runtime}"
        )


_BLOCK_OPTIONS = {
    "device_protocols": "--protocol",
    "lanes": "--lanes",
    "threads": "--threads",
    "lane_costs": "--cost-model",
}
"""Command-line names of the options of thread-block programs."""
_DEVICES = (RuntimeName.DEVICE_EMULATED, RuntimeName.DEVICE_GPU)
"""Runtimes with thread-block programs and GPU-initiated switch operations."""
_MEASURES: Mapping[RuntimeName, Callable[..., Iterable[SweepRow]]] = {
    RuntimeName.IN_PROCESS: measure,
    RuntimeName.MPI: measure_mpi,
    RuntimeName.MPI_C: measure_mpi_c,
    RuntimeName.LIBFABRIC: measure_libfabric,
    RuntimeName.DEVICE_EMULATED: measure_emulated,
    RuntimeName.DEVICE_GPU: measure_on_gpu,
}


@checked(sizes=left_alone, slice_bytes=as_size)
def run(
    plan: PlanLike,
    sizes: SizesLike,
    *,
    runtime: RuntimeName | str = RuntimeName.IN_PROCESS,
    in_place: bool = False,
    on_row: Callable[[SweepRow], None] | None = None,
    **options: Unpack[RunKeywords],
) -> RunResult:
    """Move real data by a plan, check every element and time it.

    Parameters
    ----------
    plan : Plan
    sizes : sequence of int
        Bytes of the larger per-rank buffer.
    runtime : RuntimeName or str
        ``mpi`` must be called by every process under mpirun, one process per rank; ``mpi-c`` and
        ``libfabric`` start the processes themselves, on this host; ``device-emulated`` runs the blocks of
        GPUs' thread blocks as threads, ``device-gpu`` those of all ranks on one GPU, in one launch.
    in_place : bool
        Whether input and output are one memory.
    on_row : callable, optional
        Called with each row as soon as it is there.
    **options
        The fields of `treadle.runtime.run_options.RunOptions`: element type and reduction, how often, for how
        long, with which data, compared with MPI's own collective.

    Raises
    ------
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    ScheduleError
        If no schedule of the plan supports a size, or it cannot be executed.
    MissingDependencyError
        For MPI without mpi4py or a C compiler, or bfloat16 without ml_dtypes.

    Notes
    -----
    Times are those of copying memory on this host, or within one GPU; they say nothing about the modelled
    fabric.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allreduce")
    >>> [(row.size_bytes, row.wrong) for row in treadle.run(plan, ["1K", 64], iterations=1).rows]
    [(1024, 0), (64, 0)]
    """
    plan, sizes = as_plan(plan, "run: plan"), as_sizes(sizes, "run: sizes", least=0)
    runtime = RuntimeName(runtime)
    _check_device_options(runtime, options)
    if runtime in _DEVICES:
        options.setdefault("lane_costs", block_costs())
    reporter = is_reporter(runtime)
    require_verified(plan)
    if runtime.is_started_here:
        _check_memory(plan, max(sizes, default=0), available_bytes())
    rows: list[SweepRow] = []
    lacking: PointToPointGap | None = None
    factor = float(busbw_factor(plan.collective.kind, plan.collective.group_size))

    def with_busbw(row: SweepRow) -> SweepRow:
        """Return the row with the busbw of a group: an all-to-all in groups is one program of all ranks."""
        return replace(row, busbw_bytes_per_s=row.algbw_bytes_per_s * factor)

    for entry in plan.entries:
        supported = [size for size in sizes if plan.schedule_for(size) is entry.schedule]
        if not supported:
            continue
        programs = programs_of(plan, supported[0], in_place=in_place)
        switches = {}
        if len(programs.programs) == 1:  # groups leave nothing to switches
            in_switches = NOTHING_ASKED
            if runtime in _DEVICES:
                switches["switches"] = plan.topology
                in_switches = _in_switches(plan.topology, programs.programs[0], options)
            lacking = point_to_point_gap(plan.topology, plan.collective, programs.programs[0], in_switches)
        then = None if on_row is None else _after(with_busbw, on_row)
        rows += map(with_busbw, _MEASURES[runtime](programs, supported, on_row=then, **switches, **options))
    measured_on = "this host"
    if runtime is RuntimeName.DEVICE_GPU:
        measured_on = describe_gpu(max(sizes, default=1))
    return RunResult(tuple(rows), reporter, lacking, measured_on)


def _in_switches(topology: Topology, program: Program, options: RunKeywords) -> Given:
    """Return the switch operations of the thread-block programs; only protocol Simple has any."""
    given = RunOptions(**options)
    if given.device_protocols and DeviceProtocol.SIMPLE not in given.device_protocols:
        return NOTHING_ASKED
    sums = can_switch_sum(given.element, given.reduction)
    return Given(*left_to_switches(program, topology, switch_sums=sums))


def _after(
    complete: Callable[[SweepRow], SweepRow], on_row: Callable[[SweepRow], None]
) -> Callable[[SweepRow], None]:
    return lambda row: on_row(complete(row))
