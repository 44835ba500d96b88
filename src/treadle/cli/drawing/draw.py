"""``treadle draw``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.measuring.solved_or_read import (
    PlanOrFabricArgument,
    SolvedAlgorithmOption,
    SolvedCollectiveArgument,
    Solving,
    solved_or_read,
)
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, warn
from treadle.cli.plan_file import MaxMemoryOption
from treadle.cli.quantities import Rates
from treadle.cli.status import FAILED
from treadle.errors import FormatError
from treadle.topologies.topology import Topology


def command(
    topology: PlanOrFabricArgument,
    collective: SolvedCollectiveArgument = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The picture: .svg, .png or .pdf.", metavar="FILE", writable=True
        ),
    ] = None,
    show: Annotated[
        str,
        typer.Option(
            help="Of a plan: how busy links are, what proves the optimum, how a rank's data spread.",
            metavar="load|cut|tree:RANK",
        ),
    ] = "",
    algorithm: SolvedAlgorithmOption = None,
    max_memory: MaxMemoryOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Draw a fabric, or what a plan does on it: loads, the bottleneck, a tree."""
    told = Output(json, quiet, Rates(""))
    if output is None:
        raise FormatError("-o FILE is missing: where to draw, as .svg, .png or .pdf")
    asked = Solving(collective, algorithm, 0, {})
    planning.check_picture_name(output)
    with ProgressLine(quiet=quiet or json) as progress:
        subject = topology
        if collective is not None or not isinstance(topology, Topology):
            found = solved_or_read(topology, asked, command="draw", max_memory=max_memory, progress=progress)
            subject = found.plan
        try:
            picture = planning.draw(subject, show=show, file_format=output.suffix[1:].lower())
        except planning.UnverifiedPlanError as error:
            warn(f"draw: {error}")
            return FAILED
    write_bytes(output, picture)
    told.line(f"picture     {output}, {len(picture):,} bytes")
    told.result({"picture": str(output), "bytes": len(picture)})
    return 0
