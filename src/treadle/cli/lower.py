"""``treadle lower``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, QuietOption, warn
from treadle.cli.quantities import counted
from treadle.cli.report import describe_shortfall
from treadle.cli.verify import FAILED, PlanArgument
from treadle.planning import Profile, TargetFormat
from treadle.planning.summary import shortfall_summary, throughput
from treadle.schedules.files import load_plan
from treadle.schedules.routes import RouteSchedule
from treadle.schedules.timed_routes import TimedRoutes


def lower_command(
    plan: PlanArgument,
    to: Annotated[TargetFormat, typer.Option(help="Format to write.")] = TargetFormat.MSCCL_XML,
    path: Annotated[Path | None, typer.Option("-o", "--output", help="File; default stdout.")] = None,
    profile: Annotated[
        Profile, typer.Option(help="Dialect and limits of the runtime that will load it.")
    ] = Profile.AZURE,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="For calls whose input and output are one memory.")
    ] = False,
    channels: Annotated[int, typer.Option(min=1, max=32, help="Streams between two ranks.")] = 1,
    name: Annotated[str, typer.Option(help="Name of the algorithm in the text.")] = "treadle",
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a plan as text for a runtime, after our own interpreter has executed that text."""
    output = Output(json, quiet or path is None)
    loaded = load_plan(plan)
    try:
        result = planning.lower(
            loaded, to=to, profile=profile, in_place=in_place, channels=channels, name=name
        )
    except planning.UnverifiedPlanError as error:
        warn(f"{plan}: {error}")
        return FAILED
    if result.faults:
        for fault in result.faults[:20]:
            sys.stderr.write(f"treadle: {fault}\n")
        return FAILED
    if path is not None:
        write_bytes(path, result.text.encode())
    elif not (json or quiet):
        sys.stdout.write(result.text)
        if result.shortfall is not None:
            warn(describe_shortfall(loaded, result.shortfall, "the text"))
    steps, blocks = result.text.count("<step "), result.text.count("<tb ")
    output.line(
        f"written     {path}: {to} for {profile}, {counted(steps, 'step')} "
        f"in {counted(blocks, 'thread block')}"
    )
    output.line(
        "checked     parsed back and executed by Treadle's own interpreter; "
        f"never loaded by the {profile} runtime itself"
    )
    if result.shortfall is not None:
        output.line(f"note        {describe_shortfall(loaded, result.shortfall, 'the text')}")
    if isinstance(loaded.entries[-1].schedule, RouteSchedule | TimedRoutes):
        output.line("note        the text names no routes: cards need them too (treadle routes PLAN -o FILE)")
    output.result(
        {
            **throughput(loaded),
            **shortfall_summary(result.shortfall),
            "format": to.value,
            "profile": profile.value,
            "in_place": in_place,
            "operations": result.n_operations,
            "steps": steps,
            "thread_blocks": blocks,
            "chunks": result.n_chunks,
            "interpreted": True,
            "loaded_by_runtime": False,
            **({} if path is None else {"path": str(path)}),
        }
    )
    return 0
