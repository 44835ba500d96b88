"""Plans as text for other runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from treadle.errors import InfeasibleError, ScheduleError
from treadle.lowering.interpret import interpret_msccl_xml
from treadle.lowering.msccl_xml import Profile, emit_msccl_xml
from treadle.planning.execution import program_of
from treadle.planning.point_to_point import Shortfall, shortfall
from treadle.planning.verification import require_verified
from treadle.schedules.forest import ForestSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule

__all__ = ["Lowered", "Profile", "TargetFormat", "lower"]


class TargetFormat(StrEnum):
    """Formats that plans are written in, spelt as on the command line."""

    MSCCL_XML = "msccl-xml"


@dataclass(frozen=True)
class Lowered:
    """Text for a runtime.

    Parameters
    ----------
    text : str
    n_operations : int
        Of the program that it expresses.
    n_chunks : int
        Equal parts that the collective's buffer is cut into.
    faults : tuple of str
        What our own interpreter, which shares no code with the writer, found wrong when it parsed and
        executed the text; empty unless Treadle has a defect.
    shortfall : Shortfall, optional
        Where the plan leaves copies or sums to the network, which the text does not.
    """

    text: str
    n_operations: int
    n_chunks: int
    faults: tuple[str, ...]
    shortfall: Shortfall | None = None


def lower(
    plan: Plan,
    *,
    to: TargetFormat | str = TargetFormat.MSCCL_XML,
    profile: Profile | str = Profile.AZURE,
    in_place: bool = False,
    channels: int = 1,
    name: str = "treadle",
) -> Lowered:
    """Write the plan's schedule for the largest sizes as text for a runtime.

    Parameters
    ----------
    plan : Plan
    to : TargetFormat or str
    profile : Profile or str
        Dialect and limits of the runtime.
    in_place : bool
        Whether the text serves calls whose input and output are one memory, or the others.
    channels : int
        Streams between two ranks that the trees are dealt out to.
    name : str
        The algorithm's name in the text.

    Raises
    ------
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    ScheduleError
        For an unknown format or profile.
    InfeasibleError
        If the format cannot express the schedule within the profile's limits.
    """
    _check_choice(to, TargetFormat, "format")
    require_verified(plan)
    entry = plan.entries[-1]
    _refuse_forwarders(plan, entry.schedule)
    program = program_of(plan, entry.min_bytes, in_place=in_place, channels=channels)
    try:
        text = emit_msccl_xml(
            program,
            profile=Profile(_check_choice(profile, Profile, "profile")),
            name=name,
            min_bytes=entry.min_bytes,
            max_bytes=entry.max_bytes or 0,
        )
    except ScheduleError as error:
        raise InfeasibleError(str(error)) from None
    seen = interpret_msccl_xml(text, profile=str(profile), root=max(0, program.root))
    lacking = shortfall(plan.topology, plan.collective, program)
    return Lowered(text, len(program.operation_kind), program.n_chunks, seen.violations, lacking)


def _refuse_forwarders(plan: Plan, schedule: Schedule) -> None:
    """A forwarder is a process of its own, and the format's collectives know only ranks."""
    if not isinstance(schedule, ForestSchedule):
        return  # lowering refuses those that pass forwarders
    forwarders = np.array(plan.collective.forwarders, dtype=np.int32)
    for forest in schedule.forests:
        ends = plan.topology.heads[forest.path_links]
        for node in ends[np.isin(ends, forwarders)][:1]:
            raise InfeasibleError(
                f"the plan's paths pass compute node {plan.topology.node_names[node]!r}, which is no rank; "
                f"MSCCL XML has no program for it; solve without --forward"
            )


def _check_choice(value: str, choices: type[StrEnum], what: str) -> str:
    if value not in list(choices):
        raise ScheduleError(f"unknown {what} {value[:40]!r}; expected one of {', '.join(choices)}")
    return value
