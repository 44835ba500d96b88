"""A function for each format, from what was asked for to files and what is known of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from treadle.errors import FormatError, ScheduleError
from treadle.formats.chakra.judge import interpret_chakra, parse_chakra
from treadle.formats.chakra.writer import emit_chakra
from treadle.formats.cpu.judge import interpret_cpu_xml
from treadle.formats.cpu.judge_parts import interpret_cpu_part
from treadle.formats.cpu.writer import emit_cpu_xml
from treadle.formats.loading import (
    chakra_loading,
    cpu_loading,
    cpu_part_loading,
    msccl_loading,
    mscclpp_loading,
    nccl_graph_loading,
)
from treadle.formats.msccl.judge import interpret_msccl_xml
from treadle.formats.msccl.writer import Profile, emit_msccl_xml
from treadle.formats.mscclpp.judge import interpret_mscclpp_json
from treadle.formats.mscclpp.writer import emit_mscclpp_json
from treadle.formats.nccl.reader import joined_rings, parse_nccl_graph
from treadle.formats.nccl.writer import emit_nccl_graph, find_rings
from treadle.formats.selection.grids import facts_of
from treadle.formats.selection.served import Selector, served
from treadle.planning.judging.point_to_point import Shortfall, shortfall
from treadle.planning.writing.friendlier import friendlier_trees
from treadle.planning.writing.lowered import Lowered, TargetFormat
from treadle.planning.writing.request import TextRequest
from treadle.planning.writing.switch_channels import asked_in
from treadle.program.program import Program
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.baselines.boxes import find_boxes

_EXECUTED = "parsed back and executed by Treadle's own interpreter"
_SELECTORS: Mapping[Profile, tuple[Selector, ...]] = MappingProxyType(
    {
        Profile.AZURE: (Selector.AZURE, Selector.SCHEDULER),
        Profile.LEGACY: (Selector.LEGACY,),
        Profile.RCCL: (Selector.RCCL,),
    }
)
"""Who selects in each runtime of MSCCL XML; the first unless told otherwise."""


def _single(text: str) -> tuple[tuple[str, bytes], ...]:
    return (("", text.encode()),)


def _msccl_xml(request: TextRequest) -> Lowered:
    selectors = _SELECTORS[request.profile]

    def emit(program: Program) -> str:
        return emit_msccl_xml(
            program,
            profile=request.profile,
            name=request.name,
            min_bytes=request.entry.min_bytes,
            max_bytes=request.max_bytes,
            consolidate=request.options.consolidate,
        )

    grid, text = request.write(request.program(merge=True), selectors[0], emit)
    program = grid.program
    seen = interpret_msccl_xml(text, profile=str(request.profile), root=max(0, program.root))
    facts = facts_of(program, request.entry.min_bytes, request.max_bytes)
    loading = msccl_loading(
        request.path,
        request.profile,
        facts,
        in_place=program.in_place,
        in_own_folder=request.in_own_folder,
    )
    return Lowered(
        _single(text),
        seen.violations,
        _EXECUTED,
        is_executed=True,
        counts=(("message", seen.n_messages), ("step", seen.n_steps), ("thread block", text.count("<tb "))),
        loading=loading,
        n_operations=program.n_operations,
        n_chunks=program.n_chunks,
        plan_chunks=grid.plan_chunks,
        rounding_loss=grid.loss,
        served=tuple(
            served(facts, selector)
            for selector in selectors
            if selector is not Selector.SCHEDULER or facts.is_by_shard
        ),
        friendlier=friendlier_trees(request.plan, request.entry.schedule, facts, selectors[0]),
        cautions=_root_cautions(program),
        shortfall=shortfall(request.plan.topology, request.plan.collective, program),
    )


def _root_cautions(program: Program) -> tuple[str, ...]:
    if program.root < 0:
        return ()
    return (
        f"the runtime compares no root: a {program.kind} from another root than {program.root} would give "
        "wrong data",
    )


def _mscclpp_json(request: TextRequest) -> Lowered:
    plan, entry = request.plan, request.entry
    domains = [0] * plan.collective.n_ranks
    for number, box in enumerate(find_boxes(plan.topology, plan.collective)):
        for rank in box:
            domains[rank] = number

    def written(program: Program, *, switch_channels: bool) -> tuple[str, Shortfall | None]:
        text = emit_mscclpp_json(
            program,
            plan.topology,
            domains=domains,
            name=request.name,
            min_bytes=entry.min_bytes,
            max_bytes=request.max_bytes,
            pipeline_bytes=request.options.pipeline_bytes,
            switch_channels=switch_channels,
        )
        return text, shortfall(plan.topology, plan.collective, program, asked_in(text))

    def emit(program: Program) -> str:
        text, lacking = written(program, switch_channels=True)
        if lacking is None or lacking.algbw is None or not asked_in(text).stores:
            return text
        # stores without the sums that belong to them may cost the askers' links more than they save
        plain, other = written(program, switch_channels=False)
        is_better = other is not None and other.algbw is not None and other.algbw > lacking.algbw
        return plain if is_better else text

    # messages of several trees in one would tie the trees' thread blocks together
    grid, text = request.write(request.program(merge=False), Selector.MSCCLPP, emit)
    program = grid.program
    seen = interpret_mscclpp_json(text, root=max(0, program.root))
    text, name = (text, request.name) if request.options.name else _own_name(text, program)
    facts = facts_of(program, entry.min_bytes, request.max_bytes)
    loading = mscclpp_loading(request.path, name, facts, root=program.root, in_place=program.in_place)
    cautions = _root_cautions(program)
    if program.kind.reduces:
        cautions += ("the executor sums, whatever a call asks for: max, min and product would give sums",)
    return Lowered(
        _single(text),
        seen.violations,
        _EXECUTED,
        is_executed=True,
        counts=(("plan operation", seen.n_operations), ("thread block", seen.n_thread_blocks)),
        loading=loading,
        n_operations=program.n_operations,
        n_chunks=program.n_chunks,
        plan_chunks=grid.plan_chunks,
        rounding_loss=grid.loss,
        served=(served(facts, Selector.MSCCLPP),),
        friendlier=friendlier_trees(plan, entry.schedule, facts, Selector.MSCCLPP),
        cautions=cautions,
        shortfall=shortfall(plan.topology, plan.collective, program, asked_in(text)),
    )


def _own_name(text: str, program: Program) -> tuple[str, str]:
    """The plan with a name that no other plan has, and the name: MSCCL++ keeps contexts by name."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    name = f"{program.kind}-{program.n_ranks}-{digest}"
    return text.replace('"name": "treadle"', f'"name": "{name}"', 1), name


def _cpu_xml(request: TextRequest) -> Lowered:
    program = request.program(merge=True)
    text = emit_cpu_xml(
        program, name=request.name, min_bytes=request.entry.min_bytes, max_bytes=request.max_bytes
    )
    seen = interpret_cpu_xml(text)
    return Lowered(
        _single(text),
        seen.violations,
        _EXECUTED,
        is_executed=True,
        counts=(("instruction", seen.n_instructions), ("rank", seen.n_ranks)),
        loading=cpu_loading(request.path, program.n_ranks),
        n_operations=program.n_operations,
        n_chunks=program.n_chunks,
        shortfall=shortfall(request.plan.topology, request.plan.collective, program),
    )


def _nccl_graph(request: TextRequest) -> Lowered:
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
    return Lowered(
        tuple((suffix, text.encode()) for suffix, text in zip(suffixes, texts, strict=True)),
        faults,
        "parsed back, and its rings, joined as NCCL joins boxes, compared with the plan's; nothing executed",
        is_executed=False,
        counts=(("channel", len(graphs[0].channels)), ("file", len(texts))),
        loading=nccl_graph_loading(request.path, len(graphs[0].channels), len(texts)),
    )


def _chakra(request: TextRequest) -> Lowered:
    program = request.program(merge=True)
    _require_size(request)
    traces = emit_chakra(program, request.options.size_bytes, name=request.name)
    seen = interpret_chakra(traces)
    return Lowered(
        tuple((f".{rank}.et", data) for rank, data in enumerate(traces)),
        seen.violations,
        "parsed back and played by Treadle's own interpreter: dependences, messages and bytes, no data",
        is_executed=True,
        counts=(("node", seen.n_nodes), ("message", seen.n_messages), ("file", seen.n_ranks)),
        loading=chakra_loading(request.path),
        n_operations=program.n_operations,
        n_chunks=program.n_chunks,
        shortfall=shortfall(request.plan.topology, request.plan.collective, program),
    )


def _require_size(request: TextRequest) -> None:
    if request.options.size_bytes < 1:
        raise FormatError("Chakra: traces hold sizes in bytes; give one (--size 64MB)")


def _cpu_part(request: TextRequest) -> Lowered:
    program = request.program(merge=True)
    text = emit_cpu_xml(
        program,
        name=request.name,
        min_bytes=request.entry.min_bytes,
        max_bytes=request.max_bytes,
        only=request.options.rank,
    )
    seen = interpret_cpu_part(text)
    return Lowered(
        _single(text),
        seen.violations,
        f"parsed back and played by Treadle's own interpreter, rank {request.options.rank} alone",
        is_executed=True,
        counts=(("instruction", len(seen.part.text.ranks[0].instructions)),),
        loading=cpu_part_loading(request.path),
        n_operations=program.n_operations,
        n_chunks=program.n_chunks,
    )


def _chakra_part(request: TextRequest) -> Lowered:
    program = request.program(merge=True)
    _require_size(request)
    rank = request.options.rank
    (trace,) = emit_chakra(program, request.options.size_bytes, name=request.name, only=rank)
    return Lowered(
        ((f".{rank}.et", trace),),
        (),
        f"parsed back, rank {rank} alone; nothing played",
        is_executed=False,
        counts=(("node", len(parse_chakra(trace))),),
        loading=chakra_loading(request.path),
        n_operations=program.n_operations,
        n_chunks=program.n_chunks,
    )


WRITERS: Mapping[TargetFormat, Callable[[TextRequest], Lowered]] = MappingProxyType(
    {
        TargetFormat.MSCCL_XML: _msccl_xml,
        TargetFormat.MSCCLPP_JSON: _mscclpp_json,
        TargetFormat.CPU_XML: _cpu_xml,
        TargetFormat.NCCL_GRAPH: _nccl_graph,
        TargetFormat.CHAKRA: _chakra,
    }
)

PART_WRITERS: Mapping[TargetFormat, Callable[[TextRequest], Lowered]] = MappingProxyType(
    {TargetFormat.CPU_XML: _cpu_part, TargetFormat.CHAKRA: _chakra_part}
)
"""Formats in which a rank's part can be written without the others."""
