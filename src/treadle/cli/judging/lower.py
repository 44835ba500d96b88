"""``treadle lower``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.judging.text_sets import lowered_sets, put_sets, set_folder
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.plan_file import read_plan
from treadle.cli.quantities import counted
from treadle.cli.solving.report import describe_shortfall
from treadle.cli.status import FAILED, put
from treadle.cli.text_places import TextPlace, check_folder, place_of, place_of_group
from treadle.context import Context
from treadle.errors import ScheduleError
from treadle.options.judging import Lower, Text
from treadle.options.keywords import TextKeywords
from treadle.options.rows import keywords
from treadle.planning import Format, Loading, Lowered, LoweredGroup, Profile, find_format
from treadle.planning.group_plans import group_name
from treadle.planning.summary import (
    describe_blocks,
    needs_card_routes,
    shortfall_summary,
    text_summary,
    throughput,
)
from treadle.schedules.plan import Plan


def command(o: Lower) -> int:
    """Write a plan as text for a runtime, once that text has been read back and checked."""
    output = Output(o.json, o.quiet or o.output is None)
    target = find_format(o.to)
    if o.output is None and target.is_per_rank:
        raise ScheduleError(f"{target.title} are a file for each rank; name them by -o PREFIX")
    options: TextKeywords = keywords(o, Text)
    try:
        with ProgressLine(quiet=o.quiet or o.json) as progress:
            Context(progress).announce("reading")
            loaded = read_plan(o.plan, o.max_memory)
            folder = set_folder(loaded, target, o.output, options)
            Context(progress).announce("lowering")
            if folder is not None:
                sets = lowered_sets(
                    loaded, o.plan, folder, to=o.to, profile=o.profile, group=o.group, **options
                )
        if folder is not None:
            return put_sets(output, loaded, sets, options)
        with ProgressLine(quiet=o.quiet or o.json) as progress:
            Context(progress).announce("lowering")
            place = None if o.output is None else place_of(o.output, o.plan, target)
            if place is not None:
                check_folder(place, o.profile)
            places = _places(loaded, o.plan, place, o.profile, o.group)
            results = _lowered(loaded, o.group, places, to=o.to, profile=o.profile, options=options)
    except planning.UnverifiedPlanError as error:
        warn(f"{o.plan}: {error}")
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
        elif not (o.json or o.quiet):
            _put(loaded, result)
        if result is results[0]:
            _report(output, loaded, result, target, where)
        else:
            _report_alike(output, result, where)
    values = [_values(result, where, o.rank) for result, where in zip(results, places, strict=True)]
    head = {**throughput(loaded), "format": o.to, "in_place": o.in_place, "instances": results[0].instances}
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
