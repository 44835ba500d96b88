"""Write a plan as files for a runtime."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Unpack

from treadle.checking import checked
from treadle.errors import ScheduleError
from treadle.formats.msccl.profile import Profile
from treadle.inputs.fabrics_and_plans import PlanLike, as_plan, as_size
from treadle.inputs.group_plans import plan_of_group
from treadle.lowering.lower import checked_file, lowered_part
from treadle.lowering.lower_set import LoweredSet, write_set
from treadle.lowering.lowered import Lowered, TargetFormat
from treadle.lowering.ranges import narrowed_plan
from treadle.options.keywords import TextKeywords
from treadle.schedules.plan import Plan


@checked(size_bytes=as_size, pipeline_bytes=as_size, min_size_bytes=as_size, max_size_bytes=as_size)
def lower(
    plan: PlanLike,
    *,
    to: TargetFormat | str = TargetFormat.MSCCL_XML,
    profile: Profile | str | None = None,
    path: str = "",
    in_own_folder: bool = False,
    group: int | None = None,
    **options: Unpack[TextKeywords],
) -> Lowered:
    """Write a plan as one text for a runtime.

    Parameters
    ----------
    plan : Plan
        Of one range of sizes, if the format cannot name several in one file: `lower_set` writes a text for
        each. Of several, ``size_bytes``, ``min_size_bytes`` or ``max_size_bytes`` choose.
    to : TargetFormat or str
        A name of the table of formats (`treadle.formats.format`).
    profile : Profile or str, optional
        MSCCL XML only: dialect and limits of the runtime. Default: azure.
    path : str
        Where the text will lie, for `Lowered.loading`.
    in_own_folder : bool
        Whether nothing but such texts lies beside it: MSCCL parses every file of a folder.
    group : int, optional
        Of a plan of several groups at once, whose text it is; needed there. `lower_groups` writes all.
    **options
        The other fields of `treadle.formats.file_options.FileOptions`. Which of them a format heeds, and
        what they mean there, is in docs/reference/formats.md.

    Raises
    ------
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    ScheduleError
        For an unknown format or profile, an option that the format does not heed, a root that the
        runtime would not compare, and several ranges of sizes.
    InfeasibleError
        If the format cannot express the schedule within the runtime's limits.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> treadle.lower(plan, to="msccl-xml").text.split()[0]
    '<algo'
    """
    plan = as_plan(plan, "lower: plan")
    numbers = _group_numbers(plan)
    if group is None and len(numbers) > 1:
        raise ScheduleError(
            f"the plan is of {len(numbers)} groups at once, and a text is for one; expected group 0 to "
            f"{len(numbers) - 1}, or lower_groups"
        )
    record, asked = checked_file(plan, to, profile, options)
    chosen = numbers[0] if group is None else group
    return lowered_part(plan, record, asked, (path, in_own_folder), chosen)


@checked(size_bytes=as_size, pipeline_bytes=as_size, min_size_bytes=as_size, max_size_bytes=as_size)
def lower_groups(
    plan: PlanLike,
    *,
    to: TargetFormat | str = TargetFormat.MSCCL_XML,
    profile: Profile | str | None = None,
    paths: Sequence[str] = (),
    in_own_folder: bool = False,
    **options: Unpack[TextKeywords],
) -> tuple[Lowered, ...]:
    """Write the texts of all groups of a plan; of a plan of one group its only one.

    Parameters
    ----------
    plan, to, profile
        See `lower`.
    paths : sequence of str
        Where the text of each group will lie; default nowhere in particular.
    in_own_folder, **options
        See `lower`.

    Returns
    -------
    tuple of Lowered
        By group. Errors are those of `lower`.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("dgx_h100:1", "allgather", mesh="2,4", axes="1")
    >>> [one.group.name for one in treadle.planning.lower_groups(plan, to="msccl-xml")]
    ['group0-ranks0-1-2-3', 'group1-ranks4-5-6-7']
    """
    plan = as_plan(plan, "lower_groups: plan")
    record, asked = checked_file(plan, to, profile, options)
    numbers = _group_numbers(plan)
    if paths and len(paths) != len(numbers):
        raise ScheduleError(
            f"lower_groups: {len(paths)} paths, expected one for each of {len(numbers)} groups"
        )
    places = paths or [""] * len(numbers)
    return tuple(
        lowered_part(plan, record, asked, (path, in_own_folder), number)
        for number, path in zip(numbers, places, strict=True)
    )


def _group_numbers(plan: Plan) -> list[int | None]:
    """All groups; None stands for the only one."""
    return [None] if plan.collective.groups is None else [*range(len(plan.collective.groups))]


@checked(size_bytes=as_size, pipeline_bytes=as_size, min_size_bytes=as_size, max_size_bytes=as_size)
def lower_set(
    plan: PlanLike,
    *,
    to: TargetFormat | str = TargetFormat.MSCCL_XML,
    profile: Profile | str | None = None,
    folder: str = "",
    label: str = "plan",
    group: int | None = None,
    **options: Unpack[TextKeywords],
) -> LoweredSet:
    """Write each range of sizes of a plan as a text, for a runtime that chooses from them.

    Parameters
    ----------
    plan : Plan
        Of one range of sizes or of several.
    to, profile
        See `lower`.
    folder : str
        Where the texts will lie, for what is said of loading.
    label : str
        What names of files begin with.
    group : int, optional
        Of a plan of several groups at once, whose texts they are.
    **options
        See `lower`. Of ``min_size_bytes`` to ``max_size_bytes`` alone; one ``protocol`` for all, or where the
        plan's cost model knows protocols, that of each size.

    Returns
    -------
    LoweredSet
        Ranges do not overlap. Where a text's chunks do not divide all sizes, texts of fewer chunks fill in,
        if the runtime looks at them last: the same schedule in the plan's own chunks, and those of the
        ranges beside, whose times are the same where the ranges meet.

    Raises
    ------
    ScheduleError
        As `lower`; if the format's runtimes do not choose by size.
    InfeasibleError
        If no range can be written, or the runtime reads fewer texts.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> plan = treadle.solve_sizes("ring:3", "allgather", "1K")
    >>> found = planning.lower_set(plan, to="mscclpp-json", label="ours")
    >>> [one.text.file for one in found.ranges], found.left_out
    (['texts/ours.01.0B-.json'], ())
    """
    plan = as_plan(plan, "lower_set: plan")
    record, asked = checked_file(plan, to, profile, options)
    if not record.deliver:
        raise ScheduleError(
            f"{record.name}: no runtime chooses from several such texts by size; lower one (--size)"
        )
    if plan.collective.groups is not None:
        if group is None:
            raise ScheduleError(
                f"the plan is of {len(plan.collective.groups)} groups at once, and a set is for one"
            )
        plan = plan_of_group(plan, group)
    plan, asked = narrowed_plan(plan, record, asked)
    return write_set(plan, record, asked, _word(label), folder)


def _word(label: str) -> str:
    """A label as names of files may hold it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", label).strip("-.")[:80] or "plan"
