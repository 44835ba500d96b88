"""``treadle retune``: the ranges of a set by size under other costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.cli.cost_model_option import CostModelOption
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, UnitOption
from treadle.cli.quantities import Rates
from treadle.cli.solving.size_set_report import report_size_set
from treadle.context import Context
from treadle.errors import FormatError
from treadle.planning import parse_sizes
from treadle.schedules.plan_files.archive import save_plan


def command(
    plan: Annotated[Path, typer.Argument(help="Plan file of a set by size.", metavar="PLAN")],
    cost_model: CostModelOption = None,
    size: Annotated[
        str, typer.Option(help="Sizes at which its schedules are simulated.", metavar="SIZES")
    ] = "1K..1G",
    max_schedules: Annotated[int | None, typer.Option(help="Most ranges of sizes.", metavar="K")] = None,
    output_file: Annotated[
        Path | None, typer.Option("-o", "--output", help="Plan file to write.", metavar="FILE", writable=True)
    ] = None,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Fit the size ranges of a set to other costs; its schedules stay as they are."""
    output = Output(json, quiet, Rates(unit or ""))
    if cost_model is None:
        raise FormatError("--cost-model is missing: what messages cost now, a file or a name")
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.retune(
            plan, cost_model, parse_sizes(size), max_schedules=max_schedules, progress=progress
        )
        if output_file is not None:
            Context(progress).announce("writing")
            save_plan(output_file, result.plan)
    return report_size_set(output, result, output_file)
