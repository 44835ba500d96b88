"""``treadle lower``."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, warn
from treadle.cli.plan_file import MaxMemoryOption, PlanArgument, read_plan
from treadle.cli.quantities import counted
from treadle.cli.solving.report import describe_shortfall
from treadle.cli.status import FAILED, put
from treadle.cli.text_places import TextPlace, check_folder, place_of
from treadle.errors import ScheduleError
from treadle.planning import Format, Loading, Lowered, Profile, find_format, own_formats
from treadle.planning.summary import shortfall_summary, text_summary, throughput
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.plan import Plan
from treadle.units import parse_size
from treadle.watch import Watch

_NAMES = ", ".join(record.name for record in own_formats())


def command(
    plan: PlanArgument,
    to: Annotated[
        str, typer.Option(help=f"Format to write: {_NAMES}, or a plug-in's.", metavar="FORMAT")
    ] = "msccl-xml",
    output_path: Annotated[
        str | None,
        typer.Option("-o", "--output", help="File, or folder (one to be made ends in /); default stdout."),
    ] = None,
    profile: Annotated[
        Profile | None,
        typer.Option(help="MSCCL XML: dialect and limits of the runtime; default azure."),
    ] = None,
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
    name: Annotated[str | None, typer.Option(help="Name of the algorithm in the text.")] = None,
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
    chunks: Annotated[
        str,
        typer.Option(
            help="MSCCL XML, MSCCL++: parts of a shard or buffer; auto: those that serve most sizes.",
            metavar="auto|plan|N",
        ),
    ] = "auto",
    accept_any_root: Annotated[
        bool,
        typer.Option(
            "--accept-any-root",
            help="Broadcast, reduce: all calls have the plan's root, which is not compared.",
        ),
    ] = False,
    max_memory: MaxMemoryOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a plan as text for a runtime, once that text has been read back and checked."""
    output = Output(json, quiet or output_path is None)
    target = find_format(to)
    if output_path is None and target.is_per_rank:
        raise ScheduleError(f"{target.title} are a file for each rank; name them by -o PREFIX")
    place = None if output_path is None else place_of(output_path, plan, target)
    if place is not None:
        check_folder(place, profile)
    try:
        with ProgressLine(quiet=quiet or json) as progress:
            Watch(progress).announce("reading")
            loaded = read_plan(plan, max_memory)
            Watch(progress).announce("lowering")
            result = planning.lower(
                loaded,
                to=to,
                profile=profile,
                in_place=in_place,
                channels=channels,
                instances=instances,
                name=name,
                pipeline_bytes=_slice(pipeline),
                size_bytes=0 if size is None else parse_size(size),
                path="" if place is None else str(place.path),
                in_own_folder=place is not None and place.is_own_folder,
                consolidate=consolidate,
                rank=rank,
                chunks=int(chunks) if chunks.isascii() and chunks.isdigit() else chunks,
                accept_any_root=accept_any_root,
            )
    except planning.UnverifiedPlanError as error:
        warn(f"{plan}: {error}")
        return FAILED
    if result.faults:
        for fault in result.faults[:20]:
            warn(str(fault))
        return FAILED
    if place is not None:
        place.make_folder()
        for path, data in place.targets(result.files):
            write_bytes(path, data)
    elif not (json or quiet):
        put(result.text)
        for caution in result.cautions:
            warn(caution)
        if result.shortfall is not None:
            warn(describe_shortfall(loaded, result.shortfall, "the text"))
    _report(output, loaded, result, target, place)
    output.result(
        {
            **throughput(loaded),
            **shortfall_summary(result.shortfall),
            "format": to,
            **({"profile": result.dialect} if result.dialect else {}),
            "in_place": in_place,
            **{f"{noun.replace(' ', '_')}s": count for noun, count in result.counts},
            "instances": instances,
            **text_summary(result),
            **({} if rank is None else {"rank": rank}),
            "loaded_by_runtime": False,
            **({} if place is None else {"path": str(place.path)}),
        }
    )
    return 0


def _slice(pipeline: str | None) -> int:
    """Bytes of a slice, 0 for none."""
    if pipeline is None:
        return 0
    slices = parse_size(pipeline)
    if slices < 1:
        raise ScheduleError(f"--pipeline {pipeline}: expected slices of at least 1 byte, such as 1MB")
    return slices


def _report(output: Output, plan: Plan, result: Lowered, target: Format, place: TextPlace | None) -> None:
    """What was written, how it was checked, what it serves, how it is loaded, and what it leaves out."""
    contents = " in ".join(counted(count, noun) for noun, count in result.counts)
    runtime = f"the {result.dialect} runtime" if result.dialect else result.loading.runtime.split(" (")[0]
    where = "" if place is None else place.path
    output.line(f"written     {where}: {target.name} for {result.dialect or runtime}, {contents}")
    output.line(f"checked     {result.checked}; never loaded by {runtime}")
    _tell_sizes(output, result)
    _tell_loading(output, result.loading)
    for caution in result.cautions:
        output.line(f"beware      {caution}")
    if result.shortfall is not None:
        output.line(f"note        {describe_shortfall(plan, result.shortfall, 'the text')}")
    has_routes = isinstance(plan.entries[-1].schedule, RouteSchedule | TimedRoutes)
    if has_routes and not target.holds_routes:
        output.line("note        the text names no routes: cards need them too (treadle routes PLAN -o FILE)")


def _tell_sizes(output: Output, result: Lowered) -> None:
    """The sizes that runtimes give to the text, and what others would cost."""
    if result.plan_chunks is not None and result.n_chunks != result.plan_chunks:
        output.line(
            f"chunks      {result.n_chunks} instead of {result.plan_chunks}, which serve more sizes: "
            f"{float(result.rounding_loss):.2%} slower (--chunks plan keeps them)"
        )
    for place, one in enumerate(result.served):
        who = "serves      " if place == 0 else f"            with {one.selector} found: "
        output.line(f"{who}{one.summary} ({one.rule})")
    better = result.friendlier
    if better is not None:
        cost = f"{float(better.loss):.2%} slower or more" if better.loss else "no slower by their bound"
        output.line(
            f"            {counted(better.trees, 'tree')} per root (solve --trees {better.trees}) would "
            f"serve {better.n_served}: {cost}"
        )


def _tell_loading(output: Output, loading: Loading) -> None:
    """What to run and set, how to see that it worked, and when the file is left aside."""
    lines = (*loading.prepare, *(f"{name}={value}" for name, value in loading.environment), *loading.code)
    output.line(f"load        {loading.runtime}{':' if lines else ''}")
    for line in lines:
        output.line(f"            {line}")
    output.line(f"seen        {loading.check}")
    output.line(f"left aside  {loading.fallback}")
