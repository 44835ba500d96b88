"""``treadle simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.cost_model_option import asked_cost_model, told_cost_model
from treadle.cli.measuring.solved_or_read import LoadedPlan, refuse_solving, solved_or_read
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.quantities import Rates, busbw
from treadle.cli.solving.group_report import mesh_values, print_groups
from treadle.cli.solving.report import members
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.options.measuring import MessageModel, Simulate
from treadle.options.rows import keywords
from treadle.planning import (
    PlacedSchedule,
    Referee,
    RefereedRow,
    SimulatedRow,
    SimulationOptions,
    SimulationRun,
    SliceLimit,
    parse_sizes,
)
from treadle.planning.group_summary import membership_values, rates_of_groups
from treadle.planning.judging.texts import read_text
from treadle.planning.measuring.size_bounds import size_bound_values
from treadle.planning.summary import exact_text, throughput
from treadle.planning.together.shared_rates import SharedRates
from treadle.schedules.plan import Plan
from treadle.schedules.steps.steps import StepSchedule
from treadle.topologies.topology import Topology
from treadle.units import format_size

_Simulated = Plan | PlacedSchedule


def command(o: Simulate) -> int:
    """Predict how long a plan takes on its fabric, message by message."""
    sizes = parse_sizes(o.size)
    if o.trace is not None:
        planning.check_trace_name(o.trace)
    model = asked_cost_model(o.cost_model, o.alpha_ns)
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
            if isinstance(o.plan, Topology) or read_text(Path(o.plan)) is None:
                if o.topology is not None:
                    raise FormatError(
                        f"--topology: names the fabric of a schedule of others, and {o.plan} is none"
                    )
                found = solved_or_read(o, command="simulate", progress=progress)
                loaded = found.plan
            else:
                refuse_solving(o, f"{o.plan} is a schedule of others")
                loaded = _placed(o.plan, o.topology, progress)
            if o.alpha_ns is None and model is None:
                model = planning.default_cost_model(loaded.topology)
            if o.referee is not None and not isinstance(loaded, Plan):
                raise FormatError(f"--referee: judges plans, and {o.plan} is a schedule of others")
            if o.referee is not None and o.cost_model is not None:
                raise FormatError("--referee: knows one alpha for all messages, and --cost-model has several")
            if o.referee is not None:
                planning.require_referee(o.referee, loaded.collective.n_ranks, sizes)
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
                else planning.ask_referee(
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
        image = planning.utilisation_picture(result.last, file_format=o.picture.suffix[1:].lower())
        write_bytes(o.picture, image)
    _print(output, loaded, options, result, shared, model)
    if o.referee is not None:
        _print_referee(output, o.referee, judged)
    if o.trace is not None:
        output.line(f"trace       {o.trace}, of size {format_size(result.last.size_bytes)}")
    if o.picture is not None:
        output.line(f"picture     {o.picture}, of size {format_size(result.last.size_bytes)}")
    files = {"trace": o.trace, "picture": o.picture}
    output.result(
        {
            **_summary(loaded, options, result, model),
            **rates_of_groups(shared),
            **mesh_values(o.mesh, o.axes),
            **(
                {}
                if o.referee is None
                else {"referee": o.referee.value, "refereed": [*map(_refereed, judged)]}
            ),
            **{name: str(path) for name, path in files.items() if path is not None},
        }
    )
    return FAILED if any(row.wrong for row in judged) else 0


def _placed(path: str, topology: Topology | None, progress: ProgressLine) -> PlacedSchedule:
    """A schedule of others on its fabric; FormatError without one, ScheduleError if it is wrong there."""
    if topology is None:
        raise FormatError(f"{path}: a schedule of others names no fabric; expected --topology TOPOLOGY")
    Context(progress).announce("placing")
    placed = planning.place_file(Path(path), topology, progress=progress)
    placed.require()
    return placed


def _how_steps_count(plan: _Simulated) -> str:
    """That the algbw of steps is of one after another, which times of messages may well exceed."""
    schedule = plan.schedule if isinstance(plan, PlacedSchedule) else plan.entries[-1].schedule
    return "; one step after another, below they overlap" if isinstance(schedule, StepSchedule) else ""


def _print(
    output: Output,
    plan: _Simulated,
    options: SimulationOptions,
    result: SimulationRun,
    shared: SharedRates | None,
    model: planning.CostModel | None,
) -> None:
    output.line(
        f"simulated   {plan.collective.kind} of {members(plan.collective)} on "
        f"{plan.topology.name} by {plan.algorithm}"
    )
    costs = f"alpha {_alpha(plan, options)}" if model is None else f"costs {model.name}"
    output.line(
        f"model       {costs}, {options.latency_model}; {options.forwarding}; links shared {options.sharing}"
    )
    if model is not None:
        output.line(f"costs       {model.source}")
    rates = output.rates
    scaled = rates(busbw(plan.algbw, plan.collective))
    output.line(
        f"asymptotic  {rates.exact(plan.algbw)} algbw, {scaled} busbw, verified{_how_steps_count(plan)}"
    )
    for note in plan.notes if isinstance(plan, PlacedSchedule) else ():
        output.line(f"note        {note}")
    if plan.optimal_algbw is not None:
        able = planning.model_of(plan.topology, plan.collective)
        output.line(
            f"bound       {rates.exact(plan.optimal_algbw)} algbw, "
            f"{rates(busbw(plan.optimal_algbw, plan.collective))} busbw; %opt is of the bound of the size"
        )
        if able:
            output.line(f"            for {able}")
    if shared is not None:
        print_groups(output, plan.topology, plan.collective, shared)
    output.line()
    in_unit = [f"{name} ({rates.column})" for name in ("algbw", "busbw")]
    several = ("protocol",) if model is not None and len(model.protocols) > 1 else ()
    headings = ("size", "slices", "time (us)", *in_unit, "%opt", *several, "alpha-beta (us)", "busiest link")
    rows = [_cells(rates, row, several) for row in result.rows]
    output.table(headings, rows, left=0, least=("alpha-beta (us)", *several, "slices", "busiest link"))
    for line in _limits(result.rows):
        output.line(line)
    lines = planning.critical_path_lines(result.last) if not (output.as_json or output.quiet) else ()
    if lines:
        output.line()
        output.line(f"critical path of {format_size(result.last.size_bytes)}: {lines[0]}")
        for line in lines[1:]:
            output.line(f"  {line}")


def _print_referee(output: Output, referee: Referee, rows: tuple[RefereedRow, ...]) -> None:
    output.line()
    alpha = f"alpha {rows[0].alpha_ns / 1000:g}us a message" if rows else "no sizes"
    output.line(f"referee     {referee}: {alpha}, whole, links shared fair; elements moved and checked")
    output.table(
        ("size", f"{referee} (us)", "ours (us)", "difference", "wrong elements"),
        [
            (
                format_size(row.size_bytes),
                f"{row.referee_s * 1e6:.2f}",
                f"{row.own_s * 1e6:.2f}",
                f"{row.difference:+.3%}",
                str(row.wrong),
            )
            for row in rows
        ],
        left=0,
    )


def _refereed(row: RefereedRow) -> dict[str, object]:
    return {
        "size_bytes": row.size_bytes,
        "referee_s": row.referee_s,
        "own_s": row.own_s,
        "wrong": row.wrong,
        "alpha_s": row.alpha_ns / 1e9,
    }


def _alpha(plan: _Simulated, options: SimulationOptions) -> str:
    """Who pays what for a message: the software, and the links where they have latencies."""
    largest_ns = int(plan.topology.latencies_ns.max(initial=0))
    links = f" and up to {largest_ns / 1000:g}us a link" if largest_ns else ""
    return f"{options.alpha_ns / 1000:g}us a message{links}"


def _limits(rows: tuple[SimulatedRow, ...]) -> list[str]:
    """Sizes for which a limit of ours, not the times, ended the search for a number of slices."""
    found = [format_size(row.size_bytes) for row in rows if row.slice_limit is SliceLimit.MESSAGES]
    if not found:
        return []
    sizes = found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"
    return [
        "",
        f"slices      {sizes}: more would be too many messages to try; --slices N takes N",
    ]


def _cells(rates: Rates, row: SimulatedRow, several: Sequence[str]) -> tuple[str, ...]:
    return (
        format_size(row.size_bytes),
        str(row.slices),
        f"{float(row.time) * 1e6:.2f}",
        rates.number(row.algbw_bytes_per_s, 3),
        rates.number(row.busbw_bytes_per_s, 3),
        "-" if row.efficiency is None else f"{row.efficiency:.1%}",
        *(row.protocol for _ in several),
        "-" if row.alpha_beta is None else f"{float(row.alpha_beta) * 1e6:.2f}",
        f"{row.utilisation:.0%} {row.busiest}",
    )


def _summary(
    plan: _Simulated, options: SimulationOptions, result: SimulationRun, model: planning.CostModel | None
) -> dict[str, object]:
    return {
        "topology": plan.topology.name,
        "collective": plan.collective.kind.value,
        "algorithm": plan.algorithm,
        "ranks": plan.collective.n_ranks,
        **membership_values(plan.collective),
        **({"alpha_s": options.alpha_ns / 1e9} if model is None else told_cost_model(model)),
        "link_latency_s": int(plan.topology.latencies_ns.max(initial=0)) / 1e9,
        "least_slice_bytes": options.least_slice_bytes,
        "latency_model": options.latency_model.value,
        "forwarding": options.forwarding.value,
        "sharing": options.sharing.value,
        "simulated_on": "the modelled fabric",
        "rows": [_row(row) for row in result.rows],
        **throughput(plan),
    }


def _row(row: SimulatedRow) -> dict[str, object]:
    return {
        "size_bytes": row.size_bytes,
        "slices": row.slices,
        "time_s": float(row.time),
        **({"time_exact": exact_text(row.time)} if row.is_exact else {}),
        "algbw_bytes_per_s": row.algbw_bytes_per_s,
        "busbw_bytes_per_s": row.busbw_bytes_per_s,
        **({} if row.efficiency is None else {"efficiency": row.efficiency}),
        **size_bound_values(row.bound),
        **({} if row.alpha_beta is None else {"alpha_beta_s": float(row.alpha_beta)}),
        "busiest_link": row.busiest,
        "utilisation": row.utilisation,
        "transfers": row.transfers,
        **({"protocol": row.protocol} if row.protocol else {}),
        **({} if row.slice_limit is None else {"slices_limited_by": row.slice_limit.value}),
    }
