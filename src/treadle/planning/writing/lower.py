"""Plans as text for other runtimes."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import numpy as np

from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.loading import Loading
from treadle.formats.msccl.writer import Profile
from treadle.planning.judging.verification import require_verified
from treadle.planning.writing.lowered import FriendlierTrees, Lowered, TargetFormat
from treadle.planning.writing.options import AUTO_CHUNKS, PLAN_CHUNKS, TextOptions, check_options
from treadle.planning.writing.request import TextRequest
from treadle.planning.writing.writers import PART_WRITERS, WRITERS
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule, written_out
from treadle.schedules.trees.forest import ForestSchedule

__all__ = [
    "AUTO_CHUNKS",
    "PLAN_CHUNKS",
    "FriendlierTrees",
    "Loading",
    "Lowered",
    "Profile",
    "TargetFormat",
    "lower",
]

_ROOTLESS = (TargetFormat.MSCCL_XML, TargetFormat.MSCCLPP_JSON)
"""Formats whose runtimes choose a text by everything but the root."""


def lower(
    plan: Plan,
    *,
    to: TargetFormat | str = TargetFormat.MSCCL_XML,
    profile: Profile | str | None = None,
    in_place: bool = False,
    channels: int = 1,
    instances: int = 1,
    name: str | None = None,
    pipeline_bytes: int = 0,
    size_bytes: int = 0,
    path: str = "",
    in_own_folder: bool = False,
    consolidate: bool = False,
    rank: int | None = None,
    chunks: int | str = AUTO_CHUNKS,
    accept_any_root: bool = False,
) -> Lowered:
    """Write the plan's schedule for the largest sizes as text for a runtime.

    Parameters
    ----------
    plan : Plan
    to : TargetFormat or str
    profile : Profile or str, optional
        MSCCL XML only: dialect and limits of the runtime. Default: azure.
    in_place : bool
        Whether the text serves calls whose input and output are one memory, or the others.
    channels : int
        Streams between two ranks that the trees are dealt out to. Not for MSCCL++, whose thread blocks work
        side by side anyhow.
    instances : int
        Copies of the schedule side by side, each on its part of every shard.
    name : str, optional
        The algorithm's name in the text. Default: ``treadle``; for MSCCL++, which keeps contexts by name, one
        that no other text has.
    pipeline_bytes : int
        MSCCL++ only: slices of so many bytes flow through the plan; 0: none.
    size_bytes : int
        Chakra only: size of the larger per-rank buffer, which a trace holds.
    path : str
        Where the text will lie, for `Lowered.loading`.
    in_own_folder : bool
        Whether nothing but such texts lies beside it: MSCCL parses every file of a folder.
    consolidate : bool
        MSCCL XML only: scattered messages of one step between two ranks are gathered in scratch and sent as
        one.
    rank : int, optional
        CPU XML and Chakra, of factored plans: this rank's part alone; parts made apart fit together.
    chunks : int or str
        MSCCL XML and MSCCL++: parts of a shard, or of the buffer of allreduce, broadcast and reduce.
        ``"auto"``: the plan's, or the fewest that serve more sizes at less than 1% of the throughput;
        ``"plan"``: the plan's.
    accept_any_root : bool
        Write broadcast and reduce for runtimes that do not compare the root.

    Raises
    ------
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    ScheduleError
        For an unknown format or profile, an option that the format does not heed, and a root that the
        runtime would not compare.
    InfeasibleError
        If the format cannot express the schedule within the runtime's limits.
    """
    target = TargetFormat(_check_choice(to, TargetFormat, "format"))
    options = TextOptions(
        profile=None if profile is None else Profile(_check_choice(profile, Profile, "profile")),
        in_place=in_place,
        channels=channels,
        instances=instances,
        name=name,
        pipeline_bytes=pipeline_bytes,
        size_bytes=size_bytes,
        consolidate=consolidate,
        rank=rank,
        chunks=chunks,
        accept_any_root=accept_any_root,
    )
    check_options(target, options)
    _check_root(target, plan.collective, accept_any_root=accept_any_root)
    require_verified(plan)
    entry = plan.entries[-1]
    if rank is None:
        entry = replace(entry, schedule=written_out(entry.schedule))
    elif not 0 <= rank < plan.collective.n_ranks:
        raise ScheduleError(f"rank {rank}: expected 0 to {plan.collective.n_ranks - 1}")
    _refuse_forwarders(plan, entry.schedule, target)
    where = path or f"treadle.{'json' if target is TargetFormat.MSCCLPP_JSON else 'xml'}"
    request = TextRequest(plan, entry, options, where, in_own_folder)
    try:
        return (WRITERS if rank is None else PART_WRITERS)[target](request)
    except ScheduleError as error:
        raise InfeasibleError(str(error)) from None


def _check_root(target: TargetFormat, collective: Collective, *, accept_any_root: bool) -> None:
    """Refuse texts that runtimes would give calls of any root, unless that is accepted; ScheduleError."""
    if target not in _ROOTLESS:
        return
    if collective.root is None and accept_any_root:
        raise ScheduleError(f"--accept-any-root is for broadcast and reduce; {collective.kind} has no root")
    if collective.root is not None and not accept_any_root:
        raise ScheduleError(
            f"{target}: the runtime compares everything but the root, so the text of root {collective.root} "
            f"would be chosen for a {collective.kind} of any root and give wrong data; where all calls have "
            "that root, --accept-any-root"
        )


def _refuse_forwarders(plan: Plan, schedule: Schedule, target: TargetFormat) -> None:
    """A forwarder is a process of its own, and the formats' collectives know only ranks."""
    if isinstance(schedule, ForestSchedule):
        links = np.concatenate([forest.path_links for forest in schedule.forests])
    elif isinstance(schedule, ExchangeSchedule):
        links = schedule.sends.link
    else:
        return  # cards route by themselves, and the other steps know no forwarders
    ends = plan.topology.heads[links]
    for node in ends[np.isin(ends, plan.collective.forwarders)][:1]:
        raise InfeasibleError(
            f"the plan's paths pass compute node {plan.topology.node_names[node]!r}, which is no rank; "
            f"{target} has no program for it; solve without --forward"
        )


def _check_choice(value: str, choices: type[StrEnum], what: str) -> str:
    if value not in list(choices):
        raise ScheduleError(f"unknown {what} {value[:40]!r}; expected one of {', '.join(choices)}")
    return value
