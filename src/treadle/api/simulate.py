"""Predict how long a plan takes on its fabric."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from treadle.checking import checked, left_alone
from treadle.context import Progress
from treadle.errors import FormatError
from treadle.inputs.fabrics_and_plans import FabricLike, PlanLike, SizesLike, as_fabric, as_plan, as_sizes
from treadle.inputs.problem import resolve_topology
from treadle.inputs.runtime_files import report_name
from treadle.inputs.verification import require_verified
from treadle.schedulers.third_party.placed_schedules import PlacedSchedule, route_file
from treadle.schedules.plan import Plan
from treadle.simulation.cost_models import CostModelLike, cost_model_of
from treadle.simulation.simulated_plans import (
    SimulatedRow,
    SimulatedSubject,
    SimulationRun,
    plan_parts,
    simulate_parts,
)
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import task_graph


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
        Treadle's, or a third-party one on a fabric, or the file of one with `topology`.
    sizes : sequence of int or str
        Bytes of the larger per-rank buffer, at least one.
    topology : Topology, str, Path, networkx.Graph, plan or result, optional
        Fabric of a third-party schedule, whose file does not name one; a plan has its own.
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
        If no schedule of the plan supports a size.

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
    subject = _subject_of(plan, topology, progress)
    at = as_sizes(sizes, "simulate: sizes")
    model = None if options and cost_model is None else cost_model_of(subject.topology, cost_model)
    options = options or SimulationOptions()
    if isinstance(subject, Plan):
        require_verified(subject)
        parts = plan_parts(subject, at)
    else:
        parts = (
            (
                SimulatedSubject(
                    one.problem, task_graph(one.topology, one.program), one.schedule, one.certificate
                ),
                own,
            )
            for one, own in subject.by_size(at)
        )
    return simulate_parts(
        parts, at, options, auto_slices=auto_slices, cost_model=model, on_row=on_row, progress=progress
    )


def _subject_of(
    plan: PlanLike | PlacedSchedule, topology: FabricLike | None, progress: Progress | None
) -> Plan | PlacedSchedule:
    """Return a plan, or a third-party schedule on its fabric; TreadleError for anything else."""
    fabric = None if topology is None else as_fabric(topology, "simulate: topology")
    is_text = isinstance(plan, str | Path) and report_name(Path(plan)) != ""
    if not is_text and fabric is not None:
        raise FormatError("simulate: topology: only for a third-party schedule; a plan has its own fabric")
    if isinstance(plan, PlacedSchedule):
        return plan
    if not (is_text and isinstance(plan, str | Path)):
        return as_plan(plan, "simulate: plan")
    if fabric is None:
        raise FormatError("a third-party schedule does not name its fabric; give topology=", source=str(plan))
    return route_file(Path(plan), resolve_topology(fabric), progress=progress)
