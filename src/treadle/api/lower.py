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
        Of one range of sizes, if the format cannot name several in one file: `lower_set` writes a file for
        each. Of several, ``size_bytes``, ``min_size_bytes`` or ``max_size_bytes`` choose.
    to : TargetFormat or str
        A name of the table of formats (`treadle.formats.format`).
    profile : Profile or str, optional
        MSCCL XML only: dialect and limits of the runtime. Default: azure.
    path : str
        Path of the runtime file, for `Lowered.loading`.
    in_own_folder : bool
        Whether its folder has only such files: MSCCL parses every file of a folder.
    group : int, optional
        Group of a plan of several concurrent groups; required there. `lower_groups` writes all.
    **options
        The other fields of `treadle.formats.file_options.FileOptions`. Which of them a format supports, and
        what they mean there, is in docs/reference/formats.md.

    Raises
    ------
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    ScheduleError
        For an unknown format or profile, an unsupported option, a root that the
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
            f"the plan has {len(numbers)} concurrent groups, and a runtime file has one; expected group 0 to "
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
    """Write the runtime files of all groups of a plan.

    Parameters
    ----------
    plan, to, profile
        See `lower`.
    paths : sequence of str
        Path of each group's file; default none.
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
    """Write a runtime file for each size range of a plan, for a runtime that selects among them.

    Parameters
    ----------
    plan : Plan
        Of one range of sizes or of several.
    to, profile
        See `lower`.
    folder : str
        Folder of the files, for the instructions on loading.
    label : str
        What names of files begin with.
    group : int, optional
        Group of a plan of several concurrent groups.
    **options
        See `lower`. Of ``min_size_bytes`` to ``max_size_bytes`` alone; one ``protocol`` for all, or where the
        plan's cost model knows protocols, that of each size.

    Returns
    -------
    LoweredSet
        Ranges do not overlap. Where a file's chunks do not divide all sizes, files of fewer chunks fill in,
        if the runtime looks at them last: the same schedule in the plan's own chunks, and those of the
        adjacent ranges, whose times are the same where the ranges meet.

    Raises
    ------
    ScheduleError
        As `lower`; if the format's runtimes do not choose by size.
    InfeasibleError
        If no range can be written, or the runtime reads fewer files.

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
            f"{record.name}: no runtime selects among several of these files by size; lower one (--size)"
        )
    if plan.collective.groups is not None:
        if group is None:
            raise ScheduleError(
                f"the plan has {len(plan.collective.groups)} concurrent groups, and a set has one"
            )
        plan = plan_of_group(plan, group)
    plan, asked = narrowed_plan(plan, record, asked)
    return write_set(plan, record, asked, _word(label), folder)


def _word(label: str) -> str:
    """A label as names of files may hold it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", label).strip("-.")[:80] or "plan"
