"""``treadle simulate``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.cost_model_option import given_cost_model
from treadle.cli.measuring.solved_or_read import LoadedPlan, reject_solver_options, solved_or_read
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.inputs.runtime_files import read_runtime_file
from treadle.options.measuring import MessageModel, Simulate
from treadle.options.rows import keywords
from treadle.planning import PlacedSchedule, SimulationOptions, parse_sizes
from treadle.render.measuring import cross_check_rows, simulation_rows
from treadle.render.rows import Row
from treadle.schedules.plan import Plan
from treadle.topologies.topology import Topology
from treadle.units import format_size

_Simulated = Plan | PlacedSchedule


def command(o: Simulate) -> int:
    """Predict how long a plan takes on its fabric, message by message."""
    sizes = parse_sizes(o.size)
    if o.trace is not None:
        planning.check_trace_name(o.trace)
    model = given_cost_model(o.cost_model, o.alpha_ns)
    options = SimulationOptions(
        slices=1 if o.slices == "auto" else int(o.slices),
        alpha_ns=o.alpha_ns or 0,
        **keywords(o, MessageModel),
    )
    output = Output.of(o)
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            loaded: _Simulated
            found: LoadedPlan | None = None
            if isinstance(o.plan, Topology) or read_runtime_file(Path(o.plan)) is None:
                if o.topology is not None:
                    raise FormatError(
                        f"--topology: names the fabric of a schedule of others, and {o.plan} is none"
                    )
                found = solved_or_read(o, command="simulate", progress=progress)
                loaded = found.plan
            else:
                reject_solver_options(o, f"{o.plan} is a schedule of others")
                loaded = _placed(o.plan, o.topology, progress)
            if o.alpha_ns is None and model is None:
                model = planning.default_cost_model(loaded.topology)
            if o.referee is not None and not isinstance(loaded, Plan):
                raise FormatError(f"--referee: judges plans, and {o.plan} is a schedule of others")
            if o.referee is not None and o.cost_model is not None:
                raise FormatError("--referee: knows one alpha for all messages, and --cost-model has several")
            if o.referee is not None:
                planning.require_cross_check(o.referee, loaded.collective.n_ranks, sizes)
            Context(progress).announce("messages")
            result = planning.simulate(
                loaded,
                sizes,
                options=options,
                auto_slices=o.slices == "auto",
                cost_model=model,
                progress=progress,
            )
            judged = (
                ()
                if o.referee is None or not isinstance(loaded, Plan)
                else planning.run_cross_check(
                    loaded,
                    sizes,
                    referee=o.referee,
                    alpha_ns=o.alpha_ns,
                    progress=progress,
                )
            )
            shared = None if found is None else found.shared(progress)
    except (planning.UnverifiedPlanError, planning.RejectedError) as error:
        warn(f"{o.plan.name if isinstance(o.plan, Topology) else o.plan}: {error}")
        return FAILED
    if o.trace is not None:
        planning.write_trace(o.trace, planning.simulation_trace(result.last))
    if o.picture is not None:
        image = planning.draw_utilization(result.last, file_format=o.picture.suffix[1:].lower())
        write_bytes(o.picture, image)
    path = () if output.is_silent else planning.critical_path_lines(result.last)
    files = {"trace": o.trace, "picture": o.picture}
    size = format_size(result.last.size_bytes)
    output.show(
        [
            *simulation_rows(
                loaded,
                options,
                result,
                model,
                output.rates,
                shared=shared,
                mesh=o.mesh,
                axes=o.axes,
                path=path,
            ),
            *(() if o.referee is None else cross_check_rows(o.referee, judged)),
            *(
                Row(name, f"{file}, of size {size}", {name: str(file)})
                for name, file in files.items()
                if file
            ),
        ]
    )
    return FAILED if any(one.wrong for one in judged) else 0


def _placed(path: str, topology: Topology | None, progress: ProgressLine) -> PlacedSchedule:
    """A schedule of others on its fabric; FormatError without one, ScheduleError if it is wrong there."""
    if topology is None:
        raise FormatError(f"{path}: a schedule of others names no fabric; expected --topology TOPOLOGY")
    Context(progress).announce("placing")
    placed = planning.route_file(Path(path), topology, progress=progress)
    placed.require()
    return placed
