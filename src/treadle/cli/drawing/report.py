"""``treadle report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, warn
from treadle.cli.plan_file import MaxMemoryOption, PlanArgument, read_plan
from treadle.cli.quantities import Rates
from treadle.cli.status import FAILED
from treadle.errors import FormatError


def command(
    plan: PlanArgument,
    others: Annotated[
        list[Path] | None, typer.Argument(metavar="OTHER", help="Plans whose times by size stand beside.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page: .html.", metavar="FILE")
    ] = None,
    size: Annotated[
        str, typer.Option(help="Of the pictures over time.", metavar="SIZE")
    ] = planning.SHOWN_SIZE,
    max_memory: MaxMemoryOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a page about a plan, to look at in a browser: what it does and why it cannot be faster."""
    told = Output(json, quiet, Rates(""))
    if output is None or output.suffix.lower() not in (".html", ".htm"):
        found = "is missing" if output is None else f"{str(output)[:200]!r}"
        raise FormatError(f"-o FILE {found}: expected where to write the page, a name that ends in .html")
    plans = [read_plan(path, max_memory) for path in (plan, *(others or []))]
    try:
        with ProgressLine(quiet=quiet or json) as progress:
            page = planning.report(plans[0], plans[1:], size=size, progress=progress).encode()
    except planning.UnverifiedPlanError as error:
        warn(f"report: {error}")
        return FAILED
    write_bytes(output, page)
    told.line(f"page        {output}, {len(page):,} bytes")
    told.result({"page": str(output), "bytes": len(page)})
    return 0
