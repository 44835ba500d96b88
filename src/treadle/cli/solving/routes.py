"""``treadle routes``: deadlock-free routes of an all-to-all for network cards that forward."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.fabric_arguments import topology_text
from treadle.cli.output import (
    JsonOption,
    Output,
    ProgressLine,
    QuietOption,
    SeedOption,
    TimeLimitOption,
    UnitOption,
    late,
    warn,
)
from treadle.cli.plan_file import MaxMemoryOption, read_plan
from treadle.cli.quantities import Rates, parse_seconds, shortfall
from treadle.cli.solving.problem_arguments import (
    DemandsOption,
    FormatOption,
    ForwardOption,
    RanksOption,
    problem_options,
)
from treadle.cli.solving.report import print_problem, print_routes, print_seconds, print_verification
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.topologies.topology import Topology

SourceArgument = Annotated[
    Any,
    typer.Argument(
        metavar="TOPOLOGY",
        help="A catalogue expression or file; or a plan with routes, to write these.",
        parser=topology_text,
    ),
]
"""A `Topology`, or the path of a plan."""


def command(
    topology: SourceArgument,
    output_path: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write: .json, .csv or .xml.", writable=True)
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Choose paths for at most so many layers.", metavar="L")
    ] = None,
    layer_changes: Annotated[
        bool, typer.Option("--layer-changes", help="The layer may rise along a route.")
    ] = False,
    max_routes: Annotated[
        int | None, typer.Option(help="Most routes from a rank to another.", metavar="R")
    ] = None,
    max_hops: Annotated[int | None, typer.Option(help="Most links of a route.", metavar="H")] = None,
    chunks: Annotated[
        int | None, typer.Option(help="Chunks that each pair's data are cut into.", metavar="P")
    ] = None,
    ranks: RanksOption = None,
    forward: ForwardOption = False,
    demands: DemandsOption = None,
    file_format: FormatOption = None,
    time_limit: TimeLimitOption = None,
    seed: SeedOption = 0,
    max_memory: MaxMemoryOption = None,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Route an all-to-all over weighted paths, free of deadlock, near the optimal rate; or write a plan's."""
    output = Output(json, quiet, Rates(unit or ""))
    form = None if output_path is None else _format(output_path)
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            if not isinstance(topology, Topology):
                given = (layers, max_routes, max_hops, chunks, ranks, demands, file_format, time_limit)
                if forward or layer_changes or any(option is not None for option in given):
                    raise FormatError(
                        f"{topology}: a plan has its routes; leave out the options that choose them"
                    )
                Context(progress).announce("reading")
                result = planning.routes_of(read_plan(topology, max_memory))
            else:
                result = planning.routes(
                    topology,
                    max_layers=layers,
                    layer_changes=layer_changes,
                    max_routes=max_routes,
                    max_hops=max_hops,
                    chunks=chunks,
                    seed=seed,
                    time_limit_s=None if time_limit is None else parse_seconds(time_limit),
                    progress=progress,
                    **problem_options(ranks, forward, None, None, file_format, demands),
                )
    except (planning.RejectedError, planning.UnverifiedPlanError) as error:
        warn(str(error))
        return FAILED
    values = planning.routes_summary(result)
    if output_path is not None and form is not None:
        lowered = planning.routes_lowered(result, form, path=str(output_path))
        for fault in lowered.faults[:20]:
            warn(str(fault))
        if lowered.faults:
            return FAILED
        write_bytes(output_path, lowered.text.encode())
        values |= {"routes_file": str(output_path), "judged": lowered.judgement.check.value}
    _print(output, result)
    if output_path is not None:
        output.line(f"written     {output_path}; not loaded by any adapter")
        output.line(f"checked     {lowered.checked}")
    if result.seconds:
        print_seconds(output, result.seconds)
    output.result(values)
    return late("these are quick routes in place of the wanted ones") if result.is_late else 0


def _print(output: Output, result: planning.RoutesResult) -> None:
    plan = result.plan
    print_problem(output, plan.topology, plan.collective)
    standing = ""
    if result.bound is not None:
        is_met = result.algbw == result.bound
        limit = "" if is_met else ", at most"
        output.line(f"optimum     {output.rates.both(result.bound, plan.collective)}{limit}")
        standing = ", optimal" if is_met else f", {shortfall(result.algbw, result.bound)} below the bound"
    output.line(f"schedule    {output.rates.both(result.algbw, plan.collective)}{standing}")
    print_routes(output, result.schedule, plan.algorithm)
    print_verification(output, result.report)
    for note in result.notes:
        output.line(f"note        {note}")


def _format(path: Path) -> planning.RouteFormat:
    ending = path.suffix.removeprefix(".").lower()
    if ending not in set(planning.RouteFormat):
        raise FormatError(
            f"-o {path}: the ending {path.suffix!r} is no format of routes; expected .json, .csv or .xml"
        )
    return planning.RouteFormat(ending)
