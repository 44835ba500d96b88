"""``treadle simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.cost_model_option import CostModelOption, asked_cost_model, told_cost_model
from treadle.cli.fabric_arguments import topology_text
from treadle.cli.measuring.solved_or_read import (
    LoadedPlan,
    SolvedAlgorithmOption,
    SolvedCollectiveArgument,
    Solving,
    solved_or_read,
)
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, SeedOption, UnitOption, warn
from treadle.cli.plan_file import MaxMemoryOption
from treadle.cli.quantities import Rates, busbw
from treadle.cli.solving.group_report import mesh_values, print_groups
from treadle.cli.solving.problem_arguments import (
    AxesOption,
    ForwardOption,
    MeshOption,
    RanksOption,
    RootOption,
    problem_options,
)
from treadle.cli.solving.report import members
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.planning import (
    Forwarding,
    LatencyModel,
    PlacedSchedule,
    Referee,
    RefereedRow,
    Sharing,
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
from treadle.units import format_size, parse_bandwidth, parse_size, parse_time_ns

_Simulated = Plan | PlacedSchedule


def command(
    plan: Annotated[
        Any,
        typer.Argument(
            metavar="PLAN|TOPOLOGY",
            help="A plan that solve wrote, a schedule of others (with --topology), or a fabric to solve for.",
            parser=topology_text,
        ),
    ],
    collective: SolvedCollectiveArgument = None,
    algorithm: SolvedAlgorithmOption = None,
    topology: Annotated[
        Topology | None,
        typer.Option(help="Of a schedule of others: the fabric.", metavar="TOPOLOGY", parser=topology_text),
    ] = None,
    multicast: Annotated[
        bool, typer.Option("--multicast", help="With a fabric: use switches that copy and add up.")
    ] = False,
    size: Annotated[
        str, typer.Option(help="Per-rank buffer: 64M, or 1K..1G by factors of two.", metavar="SIZES")
    ] = "1K..1G",
    slices: Annotated[
        str, typer.Option(help="Parts that every message is cut into, or auto.", metavar="N|auto")
    ] = "auto",
    least_slice: Annotated[
        str, typer.Option(help="With --slices auto: no message is cut into smaller parts.", metavar="SIZE")
    ] = "4KB",
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Latency of every message on top of the links', in place of a cost model.",
            metavar="TIME",
        ),
    ] = None,
    cost_model: CostModelOption = None,
    latency_model: Annotated[
        LatencyModel, typer.Option(help="Whether a latency delays its message or also holds the link.")
    ] = LatencyModel.PIPELINED,
    forwarding: Annotated[
        Forwarding, typer.Option(help="How messages pass switches.")
    ] = Forwarding.CUT_THROUGH,
    sharing: Annotated[Sharing, typer.Option(help="How messages share a link.")] = Sharing.SLICE_ORDER,
    reduction: Annotated[
        str | None, typer.Option(help="Speed of adding up at a rank; default: no time.", metavar="BANDWIDTH")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Timeline of the last size: .json, .pftrace, or .gz of them.", metavar="FILE", writable=True
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Link utilisation over time, of the last size: .png, .svg or .pdf.",
            metavar="FILE",
            writable=True,
        ),
    ] = None,
    referee: Annotated[
        Referee | None,
        typer.Option(help="Simulate by this simulator of others too, with real data, and compare."),
    ] = None,
    ranks: RanksOption = None,
    forward: ForwardOption = False,
    root: RootOption = None,
    mesh: MeshOption = None,
    axes: AxesOption = None,
    seed: SeedOption = 0,
    max_memory: MaxMemoryOption = None,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Predict how long a plan takes on its fabric, message by message."""
    sizes = parse_sizes(size)
    if trace is not None:
        planning.check_trace_name(trace)
    model = asked_cost_model(cost_model, alpha)
    options = SimulationOptions(
        slices=_slices(slices),
        alpha_ns=0 if alpha is None else parse_time_ns(alpha),
        least_slice_bytes=parse_size(least_slice),
        latency_model=latency_model,
        forwarding=forwarding,
        sharing=sharing,
        reduction_bytes_per_s=0 if reduction is None else parse_bandwidth(reduction),
    )
    output = Output(json, quiet, Rates(unit or ""))
    options_of_problem = problem_options(ranks, forward, root, None, None, None, mesh, axes)
    asked = Solving(collective, algorithm, seed, options_of_problem, multicast)
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            loaded: _Simulated
            found: LoadedPlan | None = None
            if isinstance(plan, Topology) or read_text(Path(plan)) is None:
                if topology is not None:
                    raise FormatError(
                        f"--topology: names the fabric of a schedule of others, and {plan} is none"
                    )
                found = solved_or_read(
                    plan, asked, command="simulate", max_memory=max_memory, progress=progress
                )
                loaded = found.plan
            else:
                asked.refuse(f"{plan} is a schedule of others")
                loaded = _placed(plan, topology, progress)
            if alpha is None and model is None:
                model = planning.default_cost_model(loaded.topology)
            if referee is not None and not isinstance(loaded, Plan):
                raise FormatError(f"--referee: judges plans, and {plan} is a schedule of others")
            if referee is not None and cost_model is not None:
                raise FormatError("--referee: knows one alpha for all messages, and --cost-model has several")
            if referee is not None:
                planning.require_referee(referee, loaded.collective.n_ranks, sizes)
            Context(progress).announce("messages")
            result = planning.simulate(
                loaded,
                sizes,
                options=options,
                auto_slices=slices == "auto",
                cost_model=model,
                progress=progress,
            )
            judged = (
                ()
                if referee is None or not isinstance(loaded, Plan)
                else planning.ask_referee(
                    loaded,
                    sizes,
                    referee=referee,
                    alpha_ns=None if alpha is None else options.alpha_ns,
                    progress=progress,
                )
            )
            shared = None if found is None else found.shared(progress)
    except (planning.UnverifiedPlanError, planning.RejectedError) as error:
        warn(f"{plan.name if isinstance(plan, Topology) else plan}: {error}")
        return FAILED
    if trace is not None:
        planning.write_trace(trace, planning.simulation_trace(result.last))
    if picture is not None:
        image = planning.utilisation_picture(result.last, file_format=picture.suffix[1:].lower())
        write_bytes(picture, image)
    _print(output, loaded, options, result, shared, model)
    if referee is not None:
        _print_referee(output, referee, judged)
    if trace is not None:
        output.line(f"trace       {trace}, of size {format_size(result.last.size_bytes)}")
    if picture is not None:
        output.line(f"picture     {picture}, of size {format_size(result.last.size_bytes)}")
    files = {"trace": trace, "picture": picture}
    output.result(
        {
            **_summary(loaded, options, result, model),
            **rates_of_groups(shared),
            **mesh_values(mesh, axes),
            **({} if referee is None else {"referee": referee.value, "refereed": [*map(_refereed, judged)]}),
            **{name: str(path) for name, path in files.items() if path is not None},
        }
    )
    return FAILED if any(row.wrong for row in judged) else 0


def _slices(text: str) -> int:
    if text == "auto":
        return 1
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise FormatError(f"--slices {text[:40]!r}: expected a number or auto")
    return int(text)


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
