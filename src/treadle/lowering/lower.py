"""Writes plans as runtime files, and verifies them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.file_options import AUTO_CHUNKS as AUTO_CHUNKS
from treadle.formats.file_options import PLAN_CHUNKS as PLAN_CHUNKS
from treadle.formats.file_options import FileOptions, check_chunks, check_protocol
from treadle.formats.format import Format, find_format
from treadle.formats.loading import Loading as Loading
from treadle.formats.msccl.profile import Profile
from treadle.formats.request import FileRequest, Given
from treadle.formats.selection.chunk_counts import facts_of
from treadle.formats.selection.supported_sizes import Selector, supported_sizes
from treadle.formats.verdict import Planned, Terms
from treadle.inputs.group_plans import group_name, plan_of_group
from treadle.inputs.verification import require_verified
from treadle.lowering.friendlier import friendlier_trees
from treadle.lowering.lowered import FriendlierTrees as FriendlierTrees
from treadle.lowering.lowered import Lowered as Lowered
from treadle.lowering.lowered import LoweredGroup as LoweredGroup
from treadle.lowering.lowered import TargetFormat as TargetFormat
from treadle.lowering.ranges import file_ranges, narrowed_plan
from treadle.options.keywords import TextKeywords as TextKeywords
from treadle.program.program import Program
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.schedule import Schedule, written_out
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.simulation.point_to_point import point_to_point_gap
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.topologies.topology import Topology


def _lowered_group(plan: Plan, group: int | None) -> LoweredGroup | None:
    if group is None or plan.collective.groups is None:
        return None
    return LoweredGroup(group, plan.collective.groups[group], group_name(plan, group))


def checked_file(
    plan: Plan, to: TargetFormat | str, profile: Profile | str | None, options: TextKeywords
) -> tuple[Format, FileOptions]:
    """Check the options and verify the plan; return the format and the options."""
    record = find_format(str(to))
    given = FileOptions(profile=None if profile is None else _profile(profile), **options)
    check_chunks(given.chunks)
    check_protocol(given.protocol)
    # Among several ranges of a plan, a size chooses one for every format.
    record.check_options(replace(given, size_bytes=0) if len(plan.entries) > 1 else given)
    _check_root(record, plan.collective, accept_any_root=given.accept_any_root)
    require_verified(plan)
    n_ranks = plan.collective.n_ranks // (plan.collective.n_groups or 1)  # of one runtime file
    if given.rank is not None and not 0 <= given.rank < n_ranks:
        raise ScheduleError(f"rank {given.rank}: expected 0 to {n_ranks - 1}")
    return record, given


def lowered_part(
    plan: Plan, record: Format, options: FileOptions, where: tuple[str, bool], group: int | None
) -> Lowered:
    """Write one part of a plan, that of one group or of all ranks, as runtime files."""
    path, in_own_folder = where
    part, options = narrowed_plan(plan if group is None else plan_of_group(plan, group), record, options)
    ranges = file_ranges(part, record, options)
    if len(ranges) > 1 and not record.holds_ranges:
        alternative = (
            "lower_set writes a folder with a file for each"
            if record.deliver
            else "its runtimes cannot choose by size"
        )
        raise ScheduleError(
            f"the plan has {len(ranges)} ranges of sizes, and a file of {record.name} is for one; "
            f"{alternative}, size_bytes (--size) selects the one of a size"
        )
    if record.holds_ranges:
        named = [replace(part.entry, algorithm=part.entry.algorithm or plan.algorithm) for part in ranges]
        part = replace(part, entries=tuple(named))
    else:
        options = replace(options, protocol=ranges[-1].protocol or options.protocol)
    try:
        made = lower_verified(
            part,
            record,
            options,
            entry=ranges[-1].entry,
            path=path,
            in_own_folder=in_own_folder,
            is_group=group is not None,
        )
    except ScheduleError as error:
        raise InfeasibleError(str(error) if group is None else f"group {group}: {error}") from None
    return replace(made, group=_lowered_group(plan, group))


def lower_verified(
    plan: Plan,
    record: Format,
    options: FileOptions,
    *,
    entry: PlanEntry | None = None,
    path: str = "",
    in_own_folder: bool = False,
    is_group: bool = False,
) -> Lowered:
    """Lower a range of a verified plan (default: the last) with checked options; raise the writer's errors.

    With `is_group` the plan is the part of one of several groups.
    """
    entry, rank = entry or plan.entries[-1], options.rank
    if rank is None:
        entry = replace(entry, schedule=written_out(entry.schedule))
    _check_forwarders(plan, entry.schedule, record.name, "rank of the group" if is_group else "rank")
    where = path or f"treadle{record.extension}"
    request = FileRequest(plan, entry, options, where, in_own_folder, find_boxes, _rate)
    written = record.written(request)
    problem = plan.topology, plan.collective
    planned = Planned(*problem, entry.schedule, lambda: request.boxes, ranges=plan.entries)
    root = plan.collective.root or 0
    terms = Terms(profile=written.dialect or None, root=root, rank=rank, planned=planned)
    verdict = record.interpreted([data for _, data in written.files], terms)
    made = Lowered(
        written.files,
        verdict,
        record.loading(request, written, verdict),
        dialect=written.dialect,
        name=written.name,
        cautions=written.cautions,
        instances=max(written.instances, options.instances or 1),
        carried_algbw=written.carried_algbw,
    )
    program, grid = written.program, written.grid
    if program is None:
        return made
    facts = facts_of(program, entry.min_bytes, request.max_bytes)
    selectors = [one for one in written.selectors if one is not Selector.SCHEDULER or facts.is_by_shard]
    # The trees of a group are chosen with those of the other groups, those of a range among schedulers.
    has_choice = bool(selectors) and not is_group and len(plan.entries) == 1
    return replace(
        made,
        n_operations=program.n_operations,
        n_chunks=program.n_chunks,
        plan_chunks=grid.plan_chunks if grid else None,
        rounding_loss=grid.loss if grid else Fraction(0),
        shortfall=point_to_point_gap(*problem, program, written.asked) if rank is None else None,
        supported=tuple(supported_sizes(facts, selector) for selector in selectors),
        friendlier=friendlier_trees(plan, entry.schedule, facts, selectors[0]) if has_choice else None,
    )


def _rate(topology: Topology, collective: Collective, program: Program, asked: Given) -> Fraction | None:
    lacking = point_to_point_gap(topology, collective, program, asked)
    return None if lacking is None else lacking.algbw


def _check_root(record: Format, collective: Collective, *, accept_any_root: bool) -> None:
    """Raise ScheduleError if the runtime does not compare the root, unless that is accepted."""
    if "accept_any_root" not in record.options:
        return
    if collective.root is None and accept_any_root:
        raise ScheduleError(f"--accept-any-root is for broadcast and reduce; {collective.kind} has no root")
    if collective.root is not None and not accept_any_root:
        raise ScheduleError(
            f"{record.name}: the runtime compares everything but the root, so the file of root "
            f"{collective.root} would be chosen for a {collective.kind} of any root and give wrong data; "
            "if all calls have that root, use --accept-any-root"
        )


def _check_forwarders(plan: Plan, schedule: Schedule, target: str, noun: str) -> None:
    """Raise InfeasibleError for forwarding nodes: they are processes, and runtime files have only ranks."""
    if isinstance(schedule, ForestSchedule):
        links = np.concatenate([forest.all_paths()[1] for forest in schedule.forests])
    elif isinstance(schedule, ExchangeSchedule):
        links = schedule.sends.crossed
    elif isinstance(schedule, StepSchedule):
        links = np.concatenate([steps.crossed for steps in schedule.phases])
    else:
        return  # Network cards forward routes without a process.
    ends = plan.topology.heads[links]
    for node in ends[np.isin(ends, plan.collective.forwarders)][:1]:
        raise InfeasibleError(
            f"the plan's paths pass compute node {plan.topology.node_names[node]!r}, which is not a {noun}; "
            f"{target} has no program for it; solve without --forward"
        )


def _profile(value: str) -> Profile:
    if value not in list(Profile):
        raise ScheduleError(f"unknown profile {value[:40]!r}; expected one of {', '.join(Profile)}")
    return Profile(value)
