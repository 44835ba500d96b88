"""``treadle lower``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, warn
from treadle.cli.quantities import counted
from treadle.cli.report import describe_shortfall
from treadle.cli.status import FAILED, put
from treadle.cli.verify import PlanArgument
from treadle.engine import announce
from treadle.errors import ScheduleError
from treadle.planning import Loading, Lowered, Profile, TargetFormat
from treadle.planning.summary import shortfall_summary, throughput
from treadle.schedules.files import load_plan
from treadle.schedules.plan import Plan
from treadle.schedules.routes import RouteSchedule
from treadle.schedules.timed_routes import TimedRoutes
from treadle.units import parse_size


def command(
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
    instances: Annotated[
        int, typer.Option(min=1, max=256, help="Copies of the schedule side by side, each on its part.")
    ] = 1,
    pipeline: Annotated[
        str | None, typer.Option(help="MSCCL++: slices that flow through the plan, such as 1MB.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the algorithm in the text.")] = "treadle",
    size: Annotated[str | None, typer.Option(help="Chakra: size of the buffer, such as 64MB.")] = None,
    consolidate: Annotated[
        bool,
        typer.Option(
            "--consolidate", help="MSCCL XML: gather scattered messages in scratch, send them as one."
        ),
    ] = False,
    rank: Annotated[
        int | None,
        typer.Option(min=0, help="Factored plans, cpu-xml and chakra: this rank's part.", metavar="R"),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a plan as text for a runtime, after our own interpreter has executed that text."""
    output = Output(json, quiet or path is None)
    slices = _check_options(to, path, pipeline=pipeline, size=size, consolidate=consolidate)
    try:
        with ProgressLine(quiet=quiet or json) as progress:
            announce(progress, "reading")
            loaded = load_plan(plan)
            announce(progress, "lowering")
            result = planning.lower(
                loaded,
                to=to,
                profile=profile,
                in_place=in_place,
                channels=channels,
                instances=instances,
                name=name,
                pipeline_bytes=slices,
                size_bytes=0 if size is None else parse_size(size),
                path="" if path is None else str(path),
                consolidate=consolidate,
                rank=rank,
            )
    except planning.UnverifiedPlanError as error:
        warn(f"{plan}: {error}")
        return FAILED
    if result.faults:
        for fault in result.faults[:20]:
            warn(str(fault))
        return FAILED
    if path is not None:
        for target, data in _targets(path, result.files):
            write_bytes(target, data)
    elif not (json or quiet):
        put(result.text)
        if result.shortfall is not None:
            warn(describe_shortfall(loaded, result.shortfall, "the text"))
    _report(output, loaded, result, to, profile, path, rank)
    output.result(
        {
            **throughput(loaded),
            **shortfall_summary(result.shortfall),
            "format": to.value,
            **({"profile": profile.value} if to is TargetFormat.MSCCL_XML else {}),
            "in_place": in_place,
            "operations": result.n_operations,
            **{f"{noun.replace(' ', '_')}s": count for noun, count in result.counts},
            "instances": instances,
            "chunks": result.n_chunks,
            "interpreted": True,
            **({} if rank is None else {"rank": rank}),
            "loaded_by_runtime": False,
            "environment": dict(result.loading.environment),
            "check": result.loading.check,
            **({} if path is None else {"path": str(path)}),
        }
    )
    return 0


def _check_options(
    to: TargetFormat, path: Path | None, *, pipeline: str | None, size: str | None, consolidate: bool
) -> int:
    """Refuse options that the format does not heed; bytes of a slice, 0 for none."""
    if pipeline is not None and to is not TargetFormat.MSCCLPP_JSON:
        raise ScheduleError(f"--pipeline is for {TargetFormat.MSCCLPP_JSON}; {to} slices by itself")
    if size is not None and to is not TargetFormat.CHAKRA:
        raise ScheduleError(f"--size is for {TargetFormat.CHAKRA}; {to} serves every size")
    if consolidate and to is not TargetFormat.MSCCL_XML:
        raise ScheduleError(f"--consolidate is for {TargetFormat.MSCCL_XML}; {to} keeps messages as they are")
    if path is None and to is TargetFormat.CHAKRA:
        raise ScheduleError("Chakra traces are a file for each rank; name them by -o PREFIX")
    if pipeline is None:
        return 0
    slices = parse_size(pipeline)
    if slices < 1:
        raise ScheduleError(f"--pipeline {pipeline}: expected slices of at least 1 byte, such as 1MB")
    return slices


def _report(
    output: Output,
    plan: Plan,
    result: Lowered,
    to: TargetFormat,
    profile: Profile,
    path: Path | None,
    rank: int | None,
) -> None:
    """What was written, how it was checked, how it is loaded, and what it leaves out."""
    contents = " in ".join(counted(count, noun) for noun, count in result.counts)
    is_msccl = to is TargetFormat.MSCCL_XML
    runtime = f"the {profile} runtime" if is_msccl else result.loading.runtime.split(" (")[0]
    output.line(f"written     {path}: {to} for {profile if is_msccl else runtime}, {contents}")
    how = "executed" if rank is None else "played" if to is TargetFormat.CPU_XML else "read"
    alone = "" if rank is None else f", rank {rank} alone"
    output.line(
        f"checked     parsed back and {how} by Treadle's own interpreter{alone}; never loaded by {runtime}"
    )
    _tell_loading(output, result.loading)
    if result.shortfall is not None:
        output.line(f"note        {describe_shortfall(plan, result.shortfall, 'the text')}")
    if isinstance(plan.entries[-1].schedule, RouteSchedule | TimedRoutes):
        output.line("note        the text names no routes: cards need them too (treadle routes PLAN -o FILE)")


def _targets(path: Path, files: tuple[tuple[str, bytes], ...]) -> list[tuple[Path, bytes]]:
    """Where each file goes: beside `path`, its suffix before the ending or instead of it."""
    stem = path.with_suffix("") if path.suffix else path
    found = []
    for suffix, data in files:
        ending = "" if suffix.endswith(".et") else path.suffix
        found.append((path if not suffix else stem.with_name(f"{stem.name}{suffix}{ending}"), data))
    return found


def _tell_loading(output: Output, loading: Loading) -> None:
    """The variables to set, how to see that they worked, and when the file is left aside."""
    output.line(f"load        {loading.runtime}{':' if loading.environment else ''}")
    for name, value in loading.environment:
        output.line(f"            {name}={value}")
    output.line(f"seen        {loading.check}")
    output.line(f"left aside  {loading.fallback}")
