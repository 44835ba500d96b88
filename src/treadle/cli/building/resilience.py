"""``treadle resilience``."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle import planning
from treadle.cli.output import (
    JsonOption,
    Output,
    ProgressLine,
    QuietOption,
    SeedOption,
    TimeLimitOption,
    UnitOption,
    late,
)
from treadle.cli.quantities import Rates, counted, parse_seconds
from treadle.cli.solving.problem_arguments import FormatOption, TopologyArgument
from treadle.cli.solving.report import print_seconds
from treadle.planning.problem import resolve_topology

_HARMS = 3
"""Cables that are named for each level."""


def command(
    topology: TopologyArgument,
    cables: Annotated[
        str, typer.Option(help="Cables that fail at once, or shares of all.", metavar="N|SHARE%,...")
    ] = "1%,5%",
    nodes: Annotated[
        str | None, typer.Option(help="Compute nodes that fail at once, or shares.", metavar="N|SHARE%,...")
    ] = None,
    samples: Annotated[int, typer.Option(help="Draws of each number of failures.", metavar="N")] = 20,
    collective: Annotated[
        str, typer.Option(help="One or several, with commas between.", metavar="NAME,...")
    ] = "allreduce,alltoall",
    file_format: FormatOption = None,
    time_limit: TimeLimitOption = None,
    seed: SeedOption = 0,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Show what random failures leave of a fabric's optimum, and which cables matter most."""
    output = Output(json, quiet, Rates(unit or ""))
    fabric = resolve_topology(topology, file_format=file_format)
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            result = planning.resilience(
                fabric,
                cables=planning.parse_amounts(cables, "--cables"),
                nodes=() if nodes is None else planning.parse_amounts(nodes, "--nodes"),
                samples=samples,
                collectives=collective.split(","),
                seed=seed,
                time_limit_s=None if time_limit is None else parse_seconds(time_limit),
                progress=progress,
            )
    except planning.TimeLimitError:
        return late("nothing is told; take fewer --samples, or allow more time (--time-limit)")
    _print(output, result)
    output.result(planning.resilience_summary(result))
    return 0


def _print(output: Output, result: planning.ResilienceResult) -> None:
    whole = ", ".join(f"{name} {output.rates(rate)}" for name, rate in result.whole.items())
    loops = int((result.topology.tails == result.topology.heads).sum())
    beside = f", and {loops} from a node to itself, which carry nothing" if loops else ""
    output.line(f"fabric      {result.topology.name}: {counted(result.cables, 'cable')}{beside}")
    output.line(f"optimum     {whole} busbw, nothing failed")
    output.line()
    rows = [
        (
            level.collective,
            counted(level.cables, "cable") if level.cables else counted(level.nodes, "node"),
            str(len(level.shares)),
            f"{level.mean:.1%}",
            f"{level.worst:.1%}",
            level.worst_fabric,
        )
        for level in result.levels
    ]
    output.table(("collective", "failed", "draws", "mean", "worst", "worst draw"), rows, left=2)
    output.line()
    output.line("            mean and worst: optimal busbw of what is left, as a share of the whole fabric's")
    for level in result.levels:
        if level.harms:
            worst = ", ".join(f"{harm.cable} {harm.regained:+.1%}" for harm in level.harms[:_HARMS])
            output.line(f"hurt most   {level.collective}, {counted(level.cables, 'cable')}: {worst}")
    if any(level.harms for level in result.levels):
        output.line("            what mending that cable alone gives back in the worst draw")
    print_seconds(output, result.seconds)
