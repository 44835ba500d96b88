"""``treadle lower`` of plans with several ranges of sizes: folders of texts that a runtime chooses from."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from treadle import planning
from treadle.cli.output import Output, warn
from treadle.cli.quantities import counted
from treadle.cli.solving.report import describe_shortfall
from treadle.cli.status import FAILED
from treadle.errors import ScheduleError
from treadle.options.keywords import TextKeywords
from treadle.planning import Format, LoweredRange, LoweredSet, Profile, SavedSet, range_words
from treadle.planning.group_plans import group_name
from treadle.planning.summary import shortfall_summary, throughput
from treadle.schedules.plan import Plan


def set_folder(plan: Plan, target: Format, output: str | None, options: TextKeywords) -> str | None:
    """The folder that a set goes to; None where a single text is asked for.

    A folder that holds a set is joined by plans of one range, too.

    Raises
    ------
    ScheduleError
        If the plan asks for several texts and no folder is named.
    """
    if not target.deliver or options.get("size_bytes"):
        return None
    several = planning.range_count(plan, to=target.name, **options)
    if output is None or (several > 1 and Path(output).suffix == target.extension):
        if several > 1:
            raise ScheduleError(
                f"the plan has {several} ranges of sizes, a text for each; name a folder for them (-o "
                "texts/), or "
                "choose one (--size 1MB)"
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
    """The texts of all ranges, for each group in a folder of its own, by that folder."""
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
    values = []
    for place, made in sets.items():
        saved = planning.save_set(place, made)
        _report(output, plan, made, saved)
        values.append(_values(made, saved))
    head = {**throughput(plan), **shortfall_summary(None), "format": next(iter(sets.values())).format}
    instances = max(one.made.instances for made in sets.values() for one in made.ranges)
    shape = {"in_place": options.get("in_place", False), "instances": instances}
    output.result({**head, **shape, "sets": values})
    return 0


def _report(output: Output, plan: Plan, made: LoweredSet, saved: SavedSet) -> None:
    """What was written for which sizes, what it serves, and how it is loaded."""
    loading = saved.delivery.loading
    kept = len(saved.texts) - len(made.texts)
    beside = f", beside {counted(kept, 'text')} of other plans" if kept else ""
    output.line(
        f"written     {saved.folder}: {counted(len(made.texts), 'text')} of {made.format} for "
        f"{made.dialect or loading.runtime}{beside}"
    )
    output.line(
        f"checked     {made.ranges[0].made.checked}; the choice followed at both ends of each range; "
        "never loaded "
        f"by {loading.runtime}"
    )
    for one in sorted(made.ranges, key=lambda one: (one.text.min_bytes, one.text.fills_in)):
        _tell_range(output, one)
    for first, last, why in made.left_out:
        output.line(f"left out    {range_words(first, last)}: {why}")
    output.line(f"load        {loading.runtime}: sh {saved.folder}/load.sh COMMAND...")
    for line in loading.code:
        output.line(f"            {line}")
    output.line(f"seen        {loading.check}")
    output.line(f"left aside  {loading.fallback}")
    told = [*dict.fromkeys(caution for one in made.ranges for caution in one.made.cautions)]
    for caution in told:
        output.line(f"beware      {caution}")
    lacking = next((one.made.shortfall for one in made.ranges if one.made.shortfall is not None), None)
    if lacking is not None:
        output.line(f"note        {describe_shortfall(plan, lacking, 'some text')}")


def _tell_range(output: Output, one: LoweredRange) -> None:
    text, served = one.text, one.made.served[0]
    named = ", ".join(word for word in (one.algorithm, one.protocol, counted(text.n_chunks, "chunk")) if word)
    if text.fills_in:
        output.line(f"            else {named}: {served.rule}")
        output.line(f"            {text.file}")
        return
    output.line(f"range       {one.sizes}: {named}")
    output.line(f"            {text.file}")
    output.line(f"            {served.summary} ({served.rule})")


def _values(made: LoweredSet, saved: SavedSet) -> dict[str, object]:
    """What JSON says of one set."""
    loading = saved.delivery.loading
    return {
        "folder": str(saved.folder),
        **({"profile": made.dialect} if made.dialect else {}),
        "ranges": [
            {
                "file": one.text.file,
                "min_bytes": one.text.min_bytes,
                "max_bytes": one.text.max_bytes,
                "fills_in": one.text.fills_in,
                "algorithm": one.algorithm,
                **({"protocol": one.protocol} if one.protocol else {}),
                "chunks": one.text.n_chunks,
                "served_sizes_bytes": list(one.made.served[0].sizes),
                **shortfall_summary(one.made.shortfall),
            }
            for one in made.ranges
        ],
        "left_out": [
            {"min_bytes": first, "max_bytes": last, "reason": why} for first, last, why in made.left_out
        ],
        "files": [name for name, _ in saved.delivery.files],
        "environment": dict(loading.environment),
        "code": list(loading.code),
        "check": loading.check,
        "loaded_by_runtime": False,
    }
