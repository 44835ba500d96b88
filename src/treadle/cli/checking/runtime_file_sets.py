"""``treadle lower`` of plans with several ranges of sizes: folders of files that a runtime selects from."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from treadle import planning
from treadle.cli.output import Output, warn
from treadle.cli.status import FAILED
from treadle.errors import ScheduleError
from treadle.inputs.group_plans import group_name
from treadle.options.keywords import TextKeywords
from treadle.planning import Format, LoweredSet, Profile
from treadle.render.files import lower_set_rows
from treadle.schedules.plan import Plan


def set_folder(plan: Plan, target: Format, output: str | None, options: TextKeywords) -> str | None:
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


def lowered_sets(
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


def put_sets(output: Output, plan: Plan, sets: dict[str, LoweredSet], options: TextKeywords) -> int:
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
