"""``treadle execute``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from treadle import planning
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, SeedOption
from treadle.cli.parallelising.execution_report import execution_values, print_execution
from treadle.cli.quantities import counted, parse_seconds
from treadle.cli.status import FAILED, fail
from treadle.context import Context


def command(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="A plan that treadle parallelize wrote (-o plan.json).")
    ],
    module: Annotated[
        str,
        typer.Argument(
            metavar="MODULE.py:FUNCTION",
            help="What the plan's graph was captured from: returns a torch module and its arguments, with "
            "numbers in them (extra: torch; the file is run).",
        ),
    ],
    backend: Annotated[
        Literal["gloo", "treadle"], typer.Option(help="Of torch.distributed.", metavar="NAME")
    ] = "gloo",
    fabric: Annotated[
        str | None,
        typer.Option(
            help="By whose prices collectives are chosen between two states; default: none is dearer.",
            metavar="FABRIC",
        ),
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="As treadle capture had it.", metavar="N")] = None,
    timeout: Annotated[str, typer.Option(help="Give up after this time.", metavar="TIME")] = "5min",
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Run a step of a module by a plan on processes of this machine, and compare with one process."""
    output = Output(json, quiet)
    timeout_s = parse_seconds(timeout)
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("executing")
        found = planning.execute_plan(
            plan, module, repeats=repeats, fabric=fabric, backend=backend, seed=seed, timeout_s=timeout_s
        )
    print_execution(output, str(plan), found)
    output.result(execution_values(found))
    if found.faults:
        return fail(f"{plan}: {counted(len(found.faults), 'fault')}; the first: {found.faults[0]}", FAILED)
    return 0
