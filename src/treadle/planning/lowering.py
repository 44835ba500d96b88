"""Plans as text for other runtimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.lowering.chakra import emit_chakra
from treadle.lowering.chakra_interpret import interpret_chakra, parse_chakra
from treadle.lowering.cpu_interpret import interpret_cpu_xml
from treadle.lowering.cpu_part_interpret import interpret_cpu_part
from treadle.lowering.cpu_xml import emit_cpu_xml
from treadle.lowering.interpret import interpret_msccl_xml
from treadle.lowering.loading import (
    Loading,
    chakra_loading,
    cpu_loading,
    cpu_part_loading,
    msccl_loading,
    mscclpp_loading,
    nccl_graph_loading,
)
from treadle.lowering.lower import lower as lower_schedule
from treadle.lowering.msccl_xml import Profile, emit_msccl_xml
from treadle.lowering.mscclpp_interpret import interpret_mscclpp_json
from treadle.lowering.mscclpp_json import emit_mscclpp_json
from treadle.lowering.nccl_graph import emit_nccl_graph, find_rings, joined_rings, parse_nccl_graph
from treadle.lowering.passes import replicate
from treadle.lowering.program import Program
from treadle.lowering.rank_program import lower_factored_rank
from treadle.planning.point_to_point import Shortfall, shortfall
from treadle.planning.verification import require_verified
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.forest import ForestSchedule
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.schedule import Schedule, written_out
from treadle.synthesis.baselines.boxes import find_boxes

__all__ = ["Loading", "Lowered", "Profile", "TargetFormat", "lower"]


class TargetFormat(StrEnum):
    """Formats that plans are written in, spelt as on the command line."""

    MSCCL_XML = "msccl-xml"
    MSCCLPP_JSON = "mscclpp-json"
    CPU_XML = "cpu-xml"
    NCCL_GRAPH = "nccl-graph"
    CHAKRA = "chakra"


@dataclass(frozen=True)
class Lowered:
    """Files for a runtime.

    Parameters
    ----------
    files : tuple of (str, bytes)
        What to add to the name's stem, and the content; one file of the very name has the suffix "".
    n_operations : int
        Of the program that it expresses.
    n_chunks : int
        Equal parts that the collective's buffer is cut into.
    faults : tuple of str
        What our own interpreter, which shares no code with the writer, found wrong when it parsed and
        executed the text; empty unless Treadle has a defect.
    counts : tuple of (str, int)
        What the text consists of: nouns and how many.
    loading : Loading
        How its runtime loads it, and how to see that it did.
    shortfall : Shortfall, optional
        Where the plan leaves copies or sums to the network, which the text does not.
    """

    files: tuple[tuple[str, bytes], ...]
    n_operations: int
    n_chunks: int
    faults: tuple[str, ...]
    counts: tuple[tuple[str, int], ...]
    loading: Loading
    shortfall: Shortfall | None = None

    @property
    def text(self) -> str:
        """The content of the only file.

        Raises
        ------
        ScheduleError
            If there are several, or it is binary.
        """
        if len(self.files) > 1:
            raise ScheduleError(f"{len(self.files)} files are no single text; use `files`")
        try:
            return self.files[0][1].decode()
        except UnicodeDecodeError:
            raise ScheduleError("the file is binary; use `files`") from None


@dataclass(frozen=True)
class _Request:
    """A plan's entry with everything that was asked for."""

    plan: Plan
    entry: PlanEntry
    profile: Profile
    in_place: bool
    channels: int
    instances: int
    name: str
    pipeline_bytes: int
    size_bytes: int
    path: str
    consolidate: bool
    rank: int | None

    def program(self, *, merge: bool) -> Program:
        """The entry's schedule, or one rank's part in it, lowered."""
        if self.rank is not None:
            return replicate(self._part(self.rank), self.instances)
        program = lower_schedule(
            self.plan.topology,
            self.plan.collective,
            self.entry.schedule,
            in_place=self.in_place,
            channels=self.channels,
            merge=merge,
        )
        return replicate(program, self.instances)

    def _part(self, rank: int) -> Program:
        schedule = self.entry.schedule
        if not isinstance(schedule, FactoredSchedule):
            raise ScheduleError(
                "--rank is for factored plans (solve --form factored); this one is lowered as a whole"
            )
        return lower_factored_rank(
            self.plan.topology,
            self.plan.collective,
            schedule,
            rank,
            in_place=self.in_place,
            channels=self.channels,
        )


def lower(
    plan: Plan,
    *,
    to: TargetFormat | str = TargetFormat.MSCCL_XML,
    profile: Profile | str = Profile.AZURE,
    in_place: bool = False,
    channels: int = 1,
    instances: int = 1,
    name: str = "treadle",
    pipeline_bytes: int = 0,
    size_bytes: int = 0,
    path: str = "",
    consolidate: bool = False,
    rank: int | None = None,
) -> Lowered:
    """Write the plan's schedule for the largest sizes as text for a runtime.

    Parameters
    ----------
    plan : Plan
    to : TargetFormat or str
    profile : Profile or str
        MSCCL XML only: dialect and limits of the runtime.
    in_place : bool
        Whether the text serves calls whose input and output are one memory, or the others.
    channels : int
        Streams between two ranks that the trees are dealt out to.
    instances : int
        Copies of the schedule side by side, each on its part of every shard.
    name : str
        The algorithm's name in the text.
    pipeline_bytes : int
        MSCCL++ only: slices of so many bytes flow through the plan; 0: none.
    size_bytes : int
        Chakra only: size of the larger per-rank buffer, which a trace holds.
    path : str
        Where the text will lie, for `Lowered.loading`.
    consolidate : bool
        MSCCL XML only: scattered messages of one step between two ranks are gathered in scratch and sent as
        one.
    rank : int, optional
        CPU XML and Chakra, of factored plans: this rank's part alone; parts made apart fit together.

    Raises
    ------
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    ScheduleError
        For an unknown format or profile.
    InfeasibleError
        If the format cannot express the schedule within the runtime's limits.
    """
    target = TargetFormat(_check_choice(to, TargetFormat, "format"))
    dialect = Profile(_check_choice(profile, Profile, "profile"))
    require_verified(plan)
    entry = plan.entries[-1]
    if rank is None:
        entry = replace(entry, schedule=written_out(entry.schedule))
    elif target not in PART_WRITERS:
        raise ScheduleError(
            f"{target}: what a rank's part looks like depends on all others; --rank is for "
            f"{' and '.join(PART_WRITERS)}"
        )
    elif not 0 <= rank < plan.collective.n_ranks:
        raise ScheduleError(f"rank {rank}: expected 0 to {plan.collective.n_ranks - 1}")
    _refuse_forwarders(plan, entry.schedule, target)
    where = path or f"{name}.{'json' if target is TargetFormat.MSCCLPP_JSON else 'xml'}"
    request = _Request(
        plan,
        entry,
        dialect,
        in_place,
        channels,
        instances,
        name,
        pipeline_bytes,
        size_bytes,
        where,
        consolidate,
        rank,
    )
    try:
        return (_WRITERS if rank is None else PART_WRITERS)[target](request)
    except ScheduleError as error:
        raise InfeasibleError(str(error)) from None


def _single(text: str) -> tuple[tuple[str, bytes], ...]:
    return (("", text.encode()),)


def _msccl_xml(request: _Request) -> Lowered:
    program = request.program(merge=True)
    entry = request.entry
    text = emit_msccl_xml(
        program,
        profile=request.profile,
        name=request.name,
        min_bytes=entry.min_bytes,
        max_bytes=entry.max_bytes or 0,
        consolidate=request.consolidate,
    )
    seen = interpret_msccl_xml(text, profile=str(request.profile), root=max(0, program.root))
    return Lowered(
        _single(text),
        program.n_operations,
        program.n_chunks,
        seen.violations,
        (("message", seen.n_messages), ("step", seen.n_steps), ("thread block", text.count("<tb "))),
        msccl_loading(request.path, request.profile, program.n_chunks),
        shortfall(request.plan.topology, request.plan.collective, program),
    )


def _mscclpp_json(request: _Request) -> Lowered:
    # messages of several trees in one would tie the trees' thread blocks together
    program = request.program(merge=False)
    plan, entry = request.plan, request.entry
    domains = [0] * program.n_ranks
    for number, box in enumerate(find_boxes(plan.topology, plan.collective)):
        for rank in box:
            domains[rank] = number
    text = emit_mscclpp_json(
        program,
        plan.topology,
        domains=domains,
        name=request.name,
        min_bytes=entry.min_bytes,
        max_bytes=entry.max_bytes or 0,
        pipeline_bytes=request.pipeline_bytes,
    )
    seen = interpret_mscclpp_json(text, root=max(0, program.root))
    return Lowered(
        _single(text),
        program.n_operations,
        program.n_chunks,
        seen.violations,
        (("plan operation", seen.n_operations), ("thread block", seen.n_thread_blocks)),
        mscclpp_loading(request.path, request.name),
        None if "gstore" in text or "glres" in text else shortfall(plan.topology, plan.collective, program),
    )


def _cpu_xml(request: _Request) -> Lowered:
    program = request.program(merge=True)
    entry = request.entry
    text = emit_cpu_xml(program, name=request.name, min_bytes=entry.min_bytes, max_bytes=entry.max_bytes or 0)
    seen = interpret_cpu_xml(text)
    return Lowered(
        _single(text),
        program.n_operations,
        program.n_chunks,
        seen.violations,
        (("instruction", seen.n_instructions), ("rank", seen.n_ranks)),
        cpu_loading(request.path, program.n_ranks),
        shortfall(request.plan.topology, request.plan.collective, program),
    )


def _nccl_graph(request: _Request) -> Lowered:
    plan, schedule = request.plan, request.entry.schedule
    if not isinstance(schedule, ForestSchedule) or plan.collective.kind.is_rooted:
        raise ScheduleError(
            "NCCL graph: NCCL takes rings of allgather, reduce-scatter or allreduce; solve with "
            "--algorithm ring"
        )
    boxes = find_boxes(plan.topology, plan.collective)
    texts = emit_nccl_graph(schedule, boxes, plan.algbw)
    graphs = [parse_nccl_graph(text) for text in texts]
    joined = joined_rings(graphs if len(graphs) > 1 else graphs * len(boxes))
    order = [rank for box in boxes for rank in box]
    rings = {tuple(order[place] for place in ring) for ring in joined}
    faults = () if rings == set(find_rings(schedule)) else ("NCCL would join other rings than the plan's",)
    suffixes = [""] if len(texts) == 1 else [f".box{box}" for box in range(len(texts))]
    program = request.program(merge=True)
    return Lowered(
        tuple((suffix, text.encode()) for suffix, text in zip(suffixes, texts, strict=True)),
        program.n_operations,
        program.n_chunks,
        faults,
        (("channel", len(graphs[0].channels)), ("file", len(texts))),
        nccl_graph_loading(request.path, len(graphs[0].channels), len(texts)),
    )


def _chakra(request: _Request) -> Lowered:
    program = request.program(merge=True)
    if request.size_bytes < 1:
        raise FormatError("Chakra: traces hold sizes in bytes; give one (--size 64MB)")
    traces = emit_chakra(program, request.size_bytes, name=request.name)
    seen = interpret_chakra(traces)
    return Lowered(
        tuple((f".{rank}.et", data) for rank, data in enumerate(traces)),
        program.n_operations,
        program.n_chunks,
        seen.violations,
        (("node", seen.n_nodes), ("message", seen.n_messages), ("file", seen.n_ranks)),
        chakra_loading(request.path),
        shortfall(request.plan.topology, request.plan.collective, program),
    )


def _cpu_part(request: _Request) -> Lowered:
    program, entry = request.program(merge=True), request.entry
    text = emit_cpu_xml(
        program,
        name=request.name,
        min_bytes=entry.min_bytes,
        max_bytes=entry.max_bytes or 0,
        only=request.rank,
    )
    seen = interpret_cpu_part(text)
    return Lowered(
        _single(text),
        program.n_operations,
        program.n_chunks,
        seen.violations,
        (("instruction", len(seen.part.text.ranks[0].instructions)),),
        cpu_part_loading(request.path),
    )


def _chakra_part(request: _Request) -> Lowered:
    program = request.program(merge=True)
    if request.size_bytes < 1:
        raise FormatError("Chakra: traces hold sizes in bytes; give one (--size 64MB)")
    (trace,) = emit_chakra(program, request.size_bytes, name=request.name, only=request.rank)
    return Lowered(
        ((f".{request.rank}.et", trace),),
        program.n_operations,
        program.n_chunks,
        (),
        (("node", len(parse_chakra(trace))),),
        chakra_loading(request.path),
    )


PART_WRITERS: Mapping[TargetFormat, Callable[[_Request], Lowered]] = MappingProxyType(
    {TargetFormat.CPU_XML: _cpu_part, TargetFormat.CHAKRA: _chakra_part}
)
"""Formats in which a rank's part can be written without the others."""

_WRITERS: Mapping[TargetFormat, Callable[[_Request], Lowered]] = MappingProxyType(
    {
        TargetFormat.MSCCL_XML: _msccl_xml,
        TargetFormat.MSCCLPP_JSON: _mscclpp_json,
        TargetFormat.CPU_XML: _cpu_xml,
        TargetFormat.NCCL_GRAPH: _nccl_graph,
        TargetFormat.CHAKRA: _chakra,
    }
)


def _refuse_forwarders(plan: Plan, schedule: Schedule, target: TargetFormat) -> None:
    """A forwarder is a process of its own, and the formats' collectives know only ranks."""
    if not isinstance(schedule, ForestSchedule):
        return  # lowering refuses those that pass forwarders
    forwarders = np.array(plan.collective.forwarders, dtype=np.int32)
    for forest in schedule.forests:
        ends = plan.topology.heads[forest.path_links]
        for node in ends[np.isin(ends, forwarders)][:1]:
            raise InfeasibleError(
                f"the plan's paths pass compute node {plan.topology.node_names[node]!r}, which is no rank; "
                f"{target} has no program for it; solve without --forward"
            )


def _check_choice(value: str, choices: type[StrEnum], what: str) -> str:
    if value not in list(choices):
        raise ScheduleError(f"unknown {what} {value[:40]!r}; expected one of {', '.join(choices)}")
    return value
