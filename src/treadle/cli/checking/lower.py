"""``treadle lower``."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.file_paths import RuntimeFilePath, check_folder, group_output_path, output_path
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.plan_file import read_plan
from treadle.cli.status import FAILED, put
from treadle.context import Context
from treadle.errors import ScheduleError
from treadle.inputs.group_plans import group_name
from treadle.options.checking import Lower, RuntimeFileOptions
from treadle.options.keywords import TextKeywords
from treadle.options.rows import keywords
from treadle.planning import Format, Lowered, LoweredSet, Profile, find_format
from treadle.render.files import describe_gap, gap_values, lower_rows, lower_set_rows, lowered_values
from treadle.render.problems import throughput
from treadle.render.rows import facts
from treadle.schedules.plan import Plan


def command(o: Lower) -> int:
    """Export a plan as a runtime file, which is read back and checked before it is written."""
    output = Output(o.json, o.quiet or o.output is None)
    target = find_format(o.to)
    if o.output is None and target.is_per_rank:
        raise ScheduleError(f"{target.title} are a file for each rank; name them by -o PREFIX")
    options: TextKeywords = keywords(o, RuntimeFileOptions)
    with ProgressLine(quiet=o.quiet or o.json) as progress:
        Context(progress).announce("reading")
        loaded = read_plan(o.plan, o.max_memory)
        folder = _set_folder(loaded, target, o.output, options)
        Context(progress).announce("lowering")
        if folder is not None:
            sets = _lowered_sets(loaded, o.plan, folder, to=o.to, profile=o.profile, group=o.group, **options)
        else:
            place = None if o.output is None else output_path(o.output, o.plan, target)
            if place is not None:
                check_folder(place, o.profile)
            places = _places(loaded, o.plan, place, o.profile, o.group)
            results = _lowered(loaded, o, places, options)
    if folder is not None:
        return _put_sets(output, loaded, sets, options)
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
    paths = [None if where is None else where.path for where in places]
    values = [lowered_values(result, path, o.rank) for result, path in zip(results, paths, strict=True)]
    head = {**throughput(loaded), "format": o.to, "in_place": o.in_place, "instances": results[0].instances}
    if len(results) == 1:
        head |= values[0]
    else:
        sizes = {"groups": len(results), "group_size": loaded.collective.group_size}
        head |= {**gap_values(None), **sizes, "texts": values}
    output.show([*lower_rows(loaded, results, paths, target), facts(head)])
    return 0


def _places(
    loaded: Plan, plan: Path, place: RuntimeFilePath | None, profile: Profile | None, group: int | None
) -> list[RuntimeFilePath | None]:
    """Return the path of each group's file, or of the given group's; for one group the given path."""
    n_groups = loaded.collective.n_groups
    if n_groups is None or (group is not None and not (place is not None and place.is_own_folder)):
        return [place]
    if place is None or not place.is_own_folder:
        raise ScheduleError(
            f"{plan}: {n_groups} concurrent groups, each with its own file; name a folder for them (-o "
            f"files/), or choose one (--group 0 to {n_groups - 1})"
        )
    numbers = range(n_groups) if group is None else [group] if group < n_groups else []
    found = [group_output_path(place, plan, group_name(loaded, number)) for number in numbers]
    for one in found:
        check_folder(one, profile)
    return [*found] or [place]


def _lowered(
    loaded: Plan, o: Lower, places: list[RuntimeFilePath | None], options: TextKeywords
) -> tuple[Lowered, ...]:
    """Lower all groups, or the given one."""
    paths = ["" if one is None else str(one.path) for one in places]
    in_own_folder = all(one is not None and one.is_own_folder for one in places)
    if o.group is None:
        return planning.lower_groups(
            loaded, to=o.to, profile=o.profile, paths=paths, in_own_folder=in_own_folder, **options
        )
    lowered = planning.lower(
        loaded,
        to=o.to,
        profile=o.profile,
        path=paths[0],
        in_own_folder=in_own_folder,
        group=o.group,
        **options,
    )
    return (lowered,)


def _put(loaded: Plan, result: Lowered) -> None:
    """Print the runtime file itself, and warnings."""
    put(result.text)
    for caution in result.cautions:
        warn(caution)
    if result.shortfall is not None:
        warn(describe_gap(loaded, result.shortfall, "the file"))


def _set_folder(plan: Plan, target: Format, output: str | None, options: TextKeywords) -> str | None:
    """Return the folder of a set of files; None if a single file is requested.

    A folder that holds a set is joined by plans of one range, too.

    Raises
    ------
    ScheduleError
        If the plan needs several files and no folder is given.
    """
    if not target.deliver or options.get("size_bytes"):
        return None
    several = planning.range_count(plan, to=target.name, **options)
    if output is None or (several > 1 and Path(output).suffix == target.extension):
        if several > 1:
            raise ScheduleError(
                f"the plan has {several} size ranges, each with its own file; name a folder for them (-o "
                "files/), or choose one (--size 1MB)"
            )
        return None
    return output if several > 1 or planning.is_set_folder(output) else None


def _lowered_sets(
    loaded: Plan,
    plan: Path,
    folder: str,
    *,
    to: str,
    profile: Profile | None,
    group: int | None,
    **options: Unpack[TextKeywords],
) -> dict[str, LoweredSet]:
    """Lower all size ranges: for each group a folder of files."""
    n_groups = loaded.collective.n_groups
    groups: list[int | None] = (
        [None] if n_groups is None else [*range(n_groups)] if group is None else [group]
    )
    found = {}
    for number in groups:
        label = plan.stem if number is None else f"{plan.stem}-{group_name(loaded, number)}"
        place = folder if number is None else str(Path(folder) / label)
        found[place] = planning.lower_set(
            loaded, to=to, profile=profile, folder=place, label=label, group=number, **options
        )
    return found


def _put_sets(output: Output, plan: Plan, sets: dict[str, LoweredSet], options: TextKeywords) -> int:
    """Write sets to their folders and say so; the exit status."""
    faults = [fault for made in sets.values() for fault in made.faults]
    for fault in faults[:20]:
        warn(fault)
    if faults:
        return FAILED
    saved = [(made, planning.save_set(place, made)) for place, made in sets.items()]
    instances = max(one.made.instances for made in sets.values() for one in made.ranges)
    rows = lower_set_rows(plan, saved)
    output.show(rows, in_place=options.get("in_place", False), instances=instances)
    return 0
