"""``treadle routes``: deadlock-free routes of an all-to-all for network cards that forward."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import (
    JsonOption,
    Output,
    ProgressLine,
    QuietOption,
    SeedOption,
    TimeLimitOption,
    warn,
)
from treadle.cli.problem import DemandsOption, FormatOption, RanksOption, TopologyArgument, problem_options
from treadle.cli.quantities import counted, exact_bandwidth, parse_seconds
from treadle.cli.report import print_problem, print_seconds
from treadle.errors import FormatError

FAILED = 1
TIME_LIMIT_REACHED = 4


def routes_command(
    topology: TopologyArgument,
    output_path: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write: .json, .csv or .xml.")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Choose paths for at most so many layers.", metavar="L")
    ] = None,
    max_routes: Annotated[
        int | None, typer.Option(help="Most routes from a rank to another.", metavar="R")
    ] = None,
    chunks: Annotated[
        int | None, typer.Option(help="Chunks that each pair's data are cut into.", metavar="P")
    ] = None,
    ranks: RanksOption = None,
    demands: DemandsOption = None,
    file_format: FormatOption = None,
    time_limit: TimeLimitOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Route an all-to-all over weighted paths, free of deadlock, near the optimal rate."""
    output, progress = Output(json, quiet), ProgressLine(quiet=quiet or json)
    form = None if output_path is None else _format(output_path)
    try:
        result = planning.routes(
            topology,
            max_layers=layers,
            max_routes=max_routes,
            chunks=chunks,
            seed=seed,
            time_limit_s=None if time_limit is None else parse_seconds(time_limit),
            progress=progress,
            **problem_options(ranks, False, None, None, file_format, demands),
        )
    except planning.RejectedError as error:
        warn(str(error))
        return FAILED
    except planning.TimeLimitError:
        progress.clear()
        warn("the time limit was reached before there were routes; allow more time (--time-limit)")
        return TIME_LIMIT_REACHED
    finally:
        progress.clear()
    values = planning.routes_summary(result)
    print_problem(output, result.topology, result.collective)
    output.line(f"optimum     {exact_bandwidth(result.bound)} asymptotic algbw, at most")
    gap = float(1 - result.algbw / result.bound)
    output.line(f"routes      {exact_bandwidth(result.algbw)} asymptotic algbw, {gap:.2%} below")
    hops, channels = values["hops_max"], counted(result.n_layers, "layer")
    output.line(
        f"            {counted(len(result.schedule.units), 'route')}, {values['routes_per_pair']:.2f} a "
        f"pair, at most {hops} hops, {channels}, {counted(result.schedule.n_chunks, 'chunk')} a pair"
    )
    output.line("verified    yes: every pair is served, loads are exact, no layer can deadlock")
    if output_path is not None and form is not None:
        write_bytes(output_path, planning.routes_text(result, form).encode())
        output.line(f"written     {output_path}; not loaded by any adapter")
        values["routes_file"] = str(output_path)
    print_seconds(output, result.seconds)
    output.result(values)
    return 0


def _format(path: Path) -> planning.RouteFormat:
    ending = path.suffix.removeprefix(".").lower()
    if ending not in set(planning.RouteFormat):
        raise FormatError(
            f"-o {path}: the ending {path.suffix!r} is no format of routes; expected .json, .csv or .xml"
        )
    return planning.RouteFormat(ending)
