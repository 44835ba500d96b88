"""``treadle simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.cost_model_option import given_cost_model
from treadle.cli.measuring.solved_or_read import LoadedPlan, reject_solver_options, solved_or_read
from treadle.cli.output import Output, ProgressLine
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.inputs.runtime_files import read_runtime_file
from treadle.options.measuring import MessageModel, Simulate
from treadle.options.rows import keywords
from treadle.planning import PlacedSchedule, SimulationOptions, parse_sizes
from treadle.render.measuring import cross_check_rows, simulation_rows
from treadle.render.rows import Row, file_row
from treadle.schedules.plan import Plan
from treadle.topologies.topology import Topology
from treadle.units import format_size


def command(o: Simulate) -> int:
    """Predict how long a plan takes on its fabric, message by message."""
    sizes = parse_sizes(o.size)
    if o.trace is not None:
        planning.check_trace_name(o.trace)
    model = given_cost_model(o.cost_model, o.alpha_ns)
    slices = 1 if o.slices == "auto" else int(o.slices)
    options = SimulationOptions(slices=slices, alpha_ns=o.alpha_ns or 0, **keywords(o, MessageModel))
    output = Output.of(o)
    with ProgressLine(quiet=output.is_silent) as progress:
        plan, loaded = _subject(o, progress)
        if o.alpha_ns is None and model is None:
            model = planning.default_cost_model(plan.topology)
        if o.referee is not None:
            _check_cross_check(o, plan, sizes)
        Context(progress).announce("messages")
        result = planning.simulate(
            plan,
            sizes,
            options=options,
            auto_slices=o.slices == "auto",
            cost_model=model,
            progress=progress,
        )
        checked = None
        if o.referee is not None and isinstance(plan, Plan):
            checked = planning.run_cross_check(
                plan, sizes, referee=o.referee, alpha_ns=o.alpha_ns, progress=progress
            )
        shared = None if loaded is None else loaded.shared(progress)
    path = () if output.is_silent else planning.critical_path_lines(result.last)
    rows = [
        *simulation_rows(
            plan, options, result, model, output.rates, shared=shared, mesh=o.mesh, axes=o.axes, path=path
        )
    ]
    if checked is not None:
        rows += cross_check_rows(o.referee, checked)
    output.show([*rows, *_file_rows(o, result)])
    return FAILED if checked is not None and any(one.wrong for one in checked) else 0


def _subject(o: Simulate, progress: ProgressLine) -> tuple[Plan | PlacedSchedule, LoadedPlan | None]:
    """Return the plan to simulate, with what is known of its solution, or a third-party schedule."""
    if not isinstance(o.plan, Topology) and read_runtime_file(Path(o.plan)) is not None:
        reject_solver_options(o, f"{o.plan} is a third-party schedule")
        if o.topology is None:
            raise FormatError(
                f"{o.plan}: a third-party schedule does not name its fabric; give --topology TOPOLOGY"
            )
        Context(progress).announce("placing")
        placed = planning.route_file(Path(o.plan), o.topology, progress=progress)
        placed.require()
        return placed, None
    if o.topology is not None:
        raise FormatError(f"--topology: only for a third-party schedule, and {o.plan} is a plan")
    found = solved_or_read(o, command="simulate", progress=progress)
    return found.plan, found


def _check_cross_check(o: Simulate, plan: Plan | PlacedSchedule, sizes: Sequence[int]) -> None:
    """Raise an error, before any simulation, if the other simulator cannot run this."""
    if not isinstance(plan, Plan):
        raise FormatError(f"--referee: only for plans, and {o.plan} is a third-party schedule")
    if o.cost_model is not None:
        raise FormatError("--referee: supports one alpha for all messages, and --cost-model has several")
    planning.require_cross_check(o.referee, plan.collective.n_ranks, sizes)


def _file_rows(o: Simulate, result: planning.SimulationRun) -> list[Row]:
    """Write the timeline and the plot of the last size."""
    if o.trace is not None:
        planning.write_trace(o.trace, planning.simulation_trace(result.last))
    if o.picture is not None:
        image = planning.draw_utilization(result.last, file_format=o.picture.suffix[1:].lower())
        write_bytes(o.picture, image)
    size = f", of size {format_size(result.last.size_bytes)}"
    files = {"trace": o.trace, "picture": o.picture}
    return [file_row(name, path, name, more=size) for name, path in files.items()]
