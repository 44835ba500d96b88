"""``treadle cabling``: cables of a fabric, written and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.building.cabling_report import (
    CostsOption,
    FloorOption,
    ObjectiveOption,
    OcsOption,
    RackSizeOption,
    check_racks,
    print_cabling,
)
from treadle.cli.command import Command
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, SeedOption
from treadle.cli.quantities import counted
from treadle.cli.solving.problem_arguments import FormatOption, TopologyArgument
from treadle.cli.status import FAILED
from treadle.planning.problem import resolve_topology

app = typer.Typer(no_args_is_help=True, help="Cables of a fabric: write the list, check what was plugged.")


@app.callback()
def group() -> None:
    """Cables of a fabric: write the list, check what was plugged."""


@app.command("list", cls=Command)
def list_command(
    topology: TopologyArgument,
    output_file: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Cabling list to write (CSV).", metavar="FILE", writable=True),
    ] = None,
    rack_size: RackSizeOption = None,
    floor: FloorOption = None,
    objective: ObjectiveOption = None,
    ocs: OcsOption = None,
    costs: CostsOption = None,
    file_format: FormatOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write the cables of a fabric: ports, racks, lengths, bundles, and planes of optical switches."""
    output = Output(json, quiet)
    check_racks(rack_size, {"--floor": floor, "--objective": objective})
    fabric = resolve_topology(topology, file_format=file_format)
    with ProgressLine(quiet=output.is_silent) as progress:
        built = planning.cabling(
            fabric,
            rack_size=rack_size,
            floor=floor,
            objective=objective or planning.Objective.METRES,
            ocs=ocs,
            costs=costs,
            seed=seed,
            progress=progress,
        )
    output.line(f"fabric      {fabric.name}: {counted(len(built.sheet.wires), 'cable')}")
    print_cabling(output, built)
    values = {"topology": fabric.name, **planning.cabling_summary(built)}
    if output_file is not None:
        write_bytes(output_file, built.sheet.text().encode())
        output.line(f"cabling     {output_file}")
        values["cabling"] = str(output_file)
    output.result(values)
    return 0


@app.command("check", cls=Command)
def check_command(
    planned: Annotated[Path, typer.Argument(metavar="PLANNED", help="Cabling list (CSV).")],
    observed: Annotated[
        Path,
        typer.Argument(
            metavar="OBSERVED",
            help="What was seen: CSV, the text of lldpctl -f keyvalue, or of ibnetdiscover.",
        ),
    ],
    host: Annotated[
        str | None, typer.Option(help="Whose lldpctl it is; default the file's name.", metavar="NODE")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Find missing, swapped and wrong cables, and the fewest plugs to move."""
    output = Output(json, quiet)
    report = planning.check_cabling(planned, observed, host=host)
    output.line(
        f"cables      {report.n_planned} planned, {report.n_seen} seen ({report.kind}), "
        f"{report.n_right} right"
    )
    for doubt in report.doubts:
        output.line(f"doubt       {doubt}")
    if report.steps:
        output.line()
        rows = [
            (
                str(place),
                str(step.fault),
                str(step.action),
                planning.plug_text(step.at),
                planning.plug_text(step.to) + (" (pull its plug first)" if step.is_held else ""),
                "" if step.stays is None else planning.plug_text(step.stays),
            )
            for place, step in enumerate(report.steps, start=1)
        ]
        output.table(("", "fault", "do", "plug at", "to", "other end stays"), rows, left=6)
        output.line()
    output.line(
        f"to do       {counted(report.n_moves, 'plug')} to move, "
        f"{counted(report.n_missing, 'cable')} to lay, {report.n_surplus} to take out; no fewer do"
    )
    output.result(planning.check_summary(report))
    return FAILED if report.steps else 0
