"""``treadle lower``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.judging.text_sets import lowered_sets, put_sets, set_folder
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, warn
from treadle.cli.plan_file import MaxMemoryOption, PlanArgument, read_plan
from treadle.cli.quantities import counted
from treadle.cli.solving.report import describe_shortfall
from treadle.cli.status import FAILED, put
from treadle.cli.text_places import TextPlace, check_folder, place_of, place_of_group
from treadle.context import Context
from treadle.errors import ScheduleError
from treadle.planning import Format, Loading, Lowered, LoweredGroup, Profile, find_format, own_formats
from treadle.planning.group_plans import group_name
from treadle.planning.summary import (
    describe_blocks,
    needs_card_routes,
    shortfall_summary,
    text_summary,
    throughput,
)
from treadle.planning.writing.lower import TextKeywords
from treadle.schedules.plan import Plan
from treadle.units import parse_size

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
        typer.Option(
            help="MSCCL XML: dialect and limits of the runtime; default azure; rccl: before RCCL removed it."
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="For calls whose input and output are one memory.")
    ] = False,
    channels: Annotated[int, typer.Option(min=1, max=32, help="Streams between two ranks.")] = 1,
    instances: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, help="Copies of the schedule side by side; default: as thread blocks need."
        ),
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="MSCCL++: slices that flow through the plan, such as 1MB.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the algorithm in the text.")] = None,
    size: Annotated[
        str | None, typer.Option(help="Size of the buffer, such as 64MB: of a trace, or whose text alone.")
    ] = None,
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
    group: Annotated[
        int | None,
        typer.Option(min=0, help="Of several groups at once: this one's text alone.", metavar="G"),
    ] = None,
    accept_any_root: Annotated[
        bool,
        typer.Option(
            "--accept-any-root",
            help="Broadcast, reduce: all calls have the plan's root, which is not compared.",
        ),
    ] = False,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="MSCCL XML, MSCCL++, tuner: how messages carry flags; default as the plan, else Simple.",
            metavar="Simple|LL|LL128",
        ),
    ] = None,
    min_size: Annotated[
        str | None, typer.Option(help="First size to write texts for, such as 1MB.", metavar="SIZE")
    ] = None,
    max_size: Annotated[
        str | None, typer.Option(help="Last size to write texts for.", metavar="SIZE")
    ] = None,
    max_memory: MaxMemoryOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a plan as text for a runtime, once that text has been read back and checked."""
    output = Output(json, quiet or output_path is None)
    target = find_format(to)
    if output_path is None and target.is_per_rank:
        raise ScheduleError(f"{target.title} are a file for each rank; name them by -o PREFIX")
    options: TextKeywords = {
        "in_place": in_place,
        "channels": channels,
        "instances": instances,
        "name": name,
        "pipeline_bytes": _slice(pipeline),
        "size_bytes": 0 if size is None else parse_size(size),
        "consolidate": consolidate,
        "rank": rank,
        "chunks": int(chunks) if chunks.isascii() and chunks.isdigit() else chunks,
        "accept_any_root": accept_any_root,
        "protocol": protocol,
        "min_size_bytes": 0 if min_size is None else parse_size(min_size),
        "max_size_bytes": 0 if max_size is None else parse_size(max_size),
    }
    try:
        with ProgressLine(quiet=quiet or json) as progress:
            Context(progress).announce("reading")
            loaded = read_plan(plan, max_memory)
            folder = set_folder(loaded, target, output_path, options)
            Context(progress).announce("lowering")
            if folder is not None:
                sets = lowered_sets(loaded, plan, folder, to=to, profile=profile, group=group, **options)
        if folder is not None:
            return put_sets(output, loaded, sets, options)
        with ProgressLine(quiet=quiet or json) as progress:
            Context(progress).announce("lowering")
            place = None if output_path is None else place_of(output_path, plan, target)
            if place is not None:
                check_folder(place, profile)
            places = _places(loaded, plan, place, profile, group)
            results = _lowered(loaded, group, places, to=to, profile=profile, options=options)
    except planning.UnverifiedPlanError as error:
        warn(f"{plan}: {error}")
        return FAILED
    faults = [fault for result in results for fault in result.faults]
    if faults:
        for fault in faults[:20]:
            warn(str(fault))
        return FAILED
    for result, where in zip(results, places, strict=True):
        if where is not None:
            with where.folder():
                for path, data in where.targets(result.files):
                    write_bytes(path, data)
        elif not (json or quiet):
            _put(loaded, result)
        if result is results[0]:
            _report(output, loaded, result, target, where)
        else:
            _report_alike(output, result, where)
    values = [_values(result, where, rank) for result, where in zip(results, places, strict=True)]
    head = {**throughput(loaded), "format": to, "in_place": in_place, "instances": results[0].instances}
    if len(results) == 1:
        output.result({**head, **values[0]})
    else:
        sizes = {"groups": len(results), "group_size": loaded.collective.group_size}
        output.result({**head, **shortfall_summary(None), **sizes, "texts": values})
    return 0


def _places(
    loaded: Plan, plan: Path, place: TextPlace | None, profile: Profile | None, group: int | None
) -> list[TextPlace | None]:
    """Where the text of each group goes, or of the one asked for; of a plan of one group, as named."""
    n_groups = loaded.collective.n_groups
    if n_groups is None or (group is not None and not (place is not None and place.is_own_folder)):
        return [place]
    if place is None or not place.is_own_folder:
        raise ScheduleError(
            f"{plan}: {n_groups} groups at once, a text for each; name a folder for them (-o texts/), or "
            f"choose one (--group 0 to {n_groups - 1})"
        )
    numbers = range(n_groups) if group is None else [group] if group < n_groups else []
    found = [place_of_group(place, plan, group_name(loaded, number)) for number in numbers]
    for one in found:
        check_folder(one, profile)
    return [*found] or [place]


def _lowered(
    loaded: Plan,
    group: int | None,
    places: list[TextPlace | None],
    *,
    to: str,
    profile: Profile | None,
    options: TextKeywords,
) -> tuple[Lowered, ...]:
    """The texts of all groups, or of one."""
    paths = ["" if one is None else str(one.path) for one in places]
    in_own_folder = all(one is not None and one.is_own_folder for one in places)
    if group is None:
        return planning.lower_groups(
            loaded, to=to, profile=profile, paths=paths, in_own_folder=in_own_folder, **options
        )
    return (
        planning.lower(
            loaded,
            to=to,
            profile=profile,
            path=paths[0],
            in_own_folder=in_own_folder,
            group=group,
            **options,
        ),
    )


def _put(loaded: Plan, result: Lowered) -> None:
    """The text itself, and what there is to say against it."""
    put(result.text)
    for caution in result.cautions:
        warn(caution)
    if result.shortfall is not None:
        warn(describe_shortfall(loaded, result.shortfall, "the text"))


def _values(result: Lowered, place: TextPlace | None, rank: int | None) -> dict[str, object]:
    """What JSON says of one text."""
    group = result.group
    return {
        **({} if group is None else {"group": group.number, "group_ranks": list(group.ranks)}),
        **shortfall_summary(result.shortfall),
        **({"profile": result.dialect} if result.dialect else {}),
        **{f"{noun.replace(' ', '_')}s": count for noun, count in result.counts},
        **text_summary(result),
        **({} if rank is None else {"rank": rank}),
        "loaded_by_runtime": False,
        **({} if place is None else {"path": str(place.path)}),
    }


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
    if result.group is not None:
        output.line(
            f"group       {result.group.number} of {plan.collective.n_groups}: for a communicator of "
            f"{counted(len(result.group.ranks), 'rank')}, the plan's {_ranks(result.group)} in this order; "
            "no other loads it"
        )
    _tell_sizes(output, result)
    _tell_loading(output, result.loading)
    for caution in result.cautions:
        output.line(f"beware      {caution}")
    for line in describe_blocks(result):
        output.line(line)
    if result.shortfall is not None:
        output.line(f"note        {describe_shortfall(plan, result.shortfall, 'the text')}")
    if needs_card_routes(plan) and not target.holds_routes:
        output.line("note        the text names no routes: cards need them too (treadle routes PLAN -o FILE)")


def _report_alike(output: Output, result: Lowered, place: TextPlace | None) -> None:
    """Another group's text, of which the same holds; what does not is said."""
    assert result.group is not None
    where = "" if place is None else place.path
    output.line(f"written     {where}: group {result.group.number}, the plan's {_ranks(result.group)}")
    for caution in result.cautions:
        output.line(f"beware      {caution}")


def _ranks(group: LoweredGroup) -> str:
    more = f" and {len(group.ranks) - _MOST_RANKS} more" if len(group.ranks) > _MOST_RANKS else ""
    return ", ".join(map(str, group.ranks[:_MOST_RANKS])) + more


_MOST_RANKS = 16
"""Of a group, in a line."""


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
