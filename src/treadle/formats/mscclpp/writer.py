"""MSCCL++ execution plans (JSON) from a program, within the limits of the runtime's executor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from treadle.errors import FormatError, ScheduleError
from treadle.formats.file_arguments import (
    check_chunk_count,
    check_equal_shards,
    check_heading,
    runtime_name,
)
from treadle.formats.mscclpp.block_programs import REMEDY, Block, chunk_groups, list_operations, make_blocks
from treadle.formats.mscclpp.block_writer import form_block
from treadle.formats.mscclpp.blocks import Fabric, MscclppGpu
from treadle.formats.mscclpp.packet_writer import form_packet_block, most_packet_bytes
from treadle.formats.mscclpp.recipe import MOST_BYTES
from treadle.formats.mscclpp.switch_channels import check_allocation, requested_in
from treadle.formats.request import FileRequest, Written, root_cautions
from treadle.formats.selection.block_rate import spread_over_blocks
from treadle.formats.selection.supported_sizes import ALIGNMENT, Selector
from treadle.program.addresses import Addresses
from treadle.program.passes import split_copies
from treadle.program.program import Program
from treadle.topologies.topology import Topology
from treadle.units import format_size

SIMPLE, LL = PROTOCOLS = ("Simple", "LL")
"""Of the executor's plans: how messages carry their flags."""
SWITCH_BLOCKS = 4
"""Thread blocks of a rank that ask switches for its share, where instances are not said: one moves little."""


@dataclass(frozen=True)
class MscclppLimits:
    """What the executor's fixed-size tables hold (execution_common.hpp)."""

    operations: int = 64
    """Operations of a thread block."""
    channels: int = 16
    """Channels, and remote buffers, of a thread block for each type."""
    thread_blocks: int = 128
    """Thread blocks of a rank: all must be on the GPU at once, or they wait for each other for ever."""


def emit_mscclpp_json(
    program: Program,
    topology: Topology,
    *,
    domains: Sequence[int] | None = None,
    name: str = "treadle",
    min_bytes: int = 0,
    max_bytes: int = 0,
    pipeline_bytes: int = 0,
    switch_channels: bool = True,
    protocol: str = SIMPLE,
    limits: MscclppLimits | None = None,
) -> str:
    """Write a program as an MSCCL++ execution plan.

    Parameters
    ----------
    program : Program
        Checked by the caller. Shards must be of one size; `in_place` decides which calls the plan serves.
    topology : Topology
        The fabric of the program's paths: tells which switches multicast and aggregate.
    domains : sequence of int, optional
        For each rank the box (NVLink domain) that it is in. Ranks of one domain reach each other's memory
        (channels of type memory), others need a proxy (type port). Default: one domain.
    name : str
        Letters, digits and ``_.-``.
    min_bytes, max_bytes : int
        Sizes for which the runtime may choose it; max_bytes 0 means no limit. The text names at least the
        size at which chunks are 16 bytes, so that smaller calls are left to NCCL instead of failing, and at
        most 4 GiB - 1.
    pipeline_bytes : int
        Wrap each lane whose operations move equal amounts in a pipeline of slices of so many bytes, a
        multiple of 16; there must be one. 0: no pipelines.
    switch_channels : bool
        Use switch channels for operations of switches that work for ranks that ask: copies, and copies of
        sums where an allreduce's tree is a star. Without, and at other switches, ranks send to each other.
    protocol : str
        ``Simple``, or ``LL``: every message as packets of data and flag, so that none needs a signal. Within
        a box alone, without pipelines or switch channels, and to the last size that `max_bytes` names.
    limits : MscclppLimits, optional

    Raises
    ------
    FormatError
        For a name or sizes that cannot be.
    ScheduleError
        If the program cannot be expressed or a limit cannot hold; the message says which.

    Notes
    -----
    A lane is a part of the program that shares no chunk with the rest: one thread block at each rank, its
    operations in the program's order. A send inside a domain is a put and a signal; one between domains a
    put-with-signal through the proxy. Sums are read from the peer's memory (``rre``) where that memory
    cannot change meanwhile, else brought to a scratch slot of their own first. A put goes straight to its
    target if whatever used the target before is complete when the put begins, by the order that signals
    alone impose; else through scratch. ``nop`` is the barrier among a block's threads. Every block begins by
    a signal and a wait on each of its channels, since peers write into memory that must be there, and ends so
    where a peer read its memory.

    The runtime serves sizes whose chunks are multiples of 16 bytes; others are errors.
    """
    limits = limits or MscclppLimits()
    check_heading("MSCCL++", name, min_bytes, max_bytes)
    if pipeline_bytes < 0 or pipeline_bytes % 16:
        raise FormatError(f"MSCCL++: slices of {pipeline_bytes} bytes: expected a multiple of 16")
    if domains is not None and len(domains) != program.n_ranks:
        raise ScheduleError(
            f"MSCCL++: {len(domains)} domains, expected one for each of {program.n_ranks} ranks"
        )
    check_equal_shards("MSCCL++", program)
    if protocol not in PROTOCOLS:
        raise FormatError(f"MSCCL++: protocol {protocol[:40]!r}: expected {' or '.join(PROTOCOLS)}")
    if protocol == LL and not max_bytes:
        raise ScheduleError(
            "MSCCL++: LL sends twice the data and stages all of it, so it is for small calls: say "
            "--max-size, such as 256K"
        )
    if protocol == LL and pipeline_bytes:
        raise ScheduleError("MSCCL++: LL packets flow as they are: leave --pipeline out")
    needed = ALIGNMENT * program.n_chunks
    least, most = max(min_bytes, needed), min(max_bytes or MOST_BYTES, MOST_BYTES)
    if least > most:
        raise ScheduleError(
            f"MSCCL++: no size is served: {program.n_chunks} chunks of {ALIGNMENT} bytes need {needed}, "
            f"the plan is for {min_bytes} to {most}; {REMEDY}"
        )
    program = split_copies(program)
    groups, operations = chunk_groups(program), list_operations(program)
    addresses = [Addresses(program, rank) for rank in range(program.n_ranks)]
    fabric = Fabric(program, topology, tuple(domains or [0] * program.n_ranks), switch_channels)
    way = form_packet_block if protocol == LL else partial(form_block, pipeline_bytes=pipeline_bytes)
    room = limits.operations // 2
    while True:
        gpus = [MscclppGpu(rank, places) for rank, places in enumerate(addresses)]
        lanes = make_blocks(program, operations, room, limits.thread_blocks, groups, alike=pipeline_bytes > 0)
        longest = _fill(gpus, fabric, lanes, way, limits)
        if longest <= limits.operations:
            break
        if room == 1:
            raise ScheduleError(
                f"MSCCL++: a thread block needs {longest} operations, the limit is {limits.operations}; "
                f"{REMEDY}"
            )
        room = max(1, room * limits.operations // (longest + 1))
    check_chunk_count("MSCCL++", sum(gpu.n_chunks for gpu in gpus), REMEDY)
    if pipeline_bytes and not any(block.has_pipeline for gpu in gpus for block in gpu.blocks):
        raise ScheduleError(
            "MSCCL++: --pipeline would change nothing: every thread block's operations move unequal amounts"
        )
    reached = most_packet_bytes(gpus, program.n_chunks)
    if protocol == LL and reached < most:
        raise ScheduleError(
            f"MSCCL++: LL packets of this plan are within 32 bits to {reached} bytes: --max-size "
            f"{format_size(reached)} or less"
        )
    plan = {
        "name": name,
        "collective": runtime_name(program.kind),
        "protocol": protocol,
        "inplace": program.in_place,
        "reuse_resources": False,
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": ALIGNMENT,
        "min_message_size": least,
        "max_message_size": most,
        "gpus": [gpu.to_json() for gpu in gpus],
    }
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: dict[str, Any]) -> Iterator[str]:
    """A plan with a line for each operation: the fast encoder knows no indentation."""
    yield "{"
    for key, value in plan.items():
        if key != "gpus":
            yield f" {json.dumps(key)}: {json.dumps(value)},"
    yield ' "gpus": ['
    for gpu, end in _with_commas(plan["gpus"]):
        members = {key: value for key, value in gpu.items() if key != "threadblocks"}
        yield f'  {json.dumps(members)[:-1]}, "threadblocks": ['
        for block, end_of_block in _with_commas(gpu["threadblocks"]):
            rest = {key: value for key, value in block.items() if key != "ops"}
            yield f'   {json.dumps(rest)[:-1]}, "ops": ['
            for operation, comma in _with_commas(block["ops"]):
                yield f"    {json.dumps(operation)}{comma}"
            yield f"   ]}}{end_of_block}"
        yield f"  ]}}{end}"
    yield " ]"
    yield "}"


def _with_commas(items: Sequence[Any]) -> Iterator[tuple[Any, str]]:
    """Items with the comma that follows all but the last."""
    for number, item in enumerate(items, start=1):
        yield item, "," if number < len(items) else ""


def _fill(
    gpus: Sequence[MscclppGpu],
    fabric: Fabric,
    lanes: Iterable[Block],
    way: Callable[[Fabric, Block, int, Sequence[MscclppGpu]], None],
    limits: MscclppLimits,
) -> int:
    """Add a thread block for each lane to all ranks; the longest block's length."""
    for number, lane in enumerate(lanes):
        way(fabric, lane, number, gpus)
    for gpu in gpus:
        for block in gpu.blocks:
            for kind, count in block.resources():
                if count > limits.channels:
                    raise ScheduleError(
                        f"MSCCL++: rank {gpu.rank} needs {count} {kind} in a thread block, "
                        f"the limit is {limits.channels}; {REMEDY}"
                    )
    return max((block.length for gpu in gpus for block in gpu.blocks), default=0)


def write(request: FileRequest) -> Written:
    """What was asked for as one plan for the executor."""
    plan, entry = request.plan, request.entry
    domains = [0] * plan.collective.n_ranks
    for number, box in enumerate(request.boxes):
        for rank in box:
            domains[rank] = number

    def written(program: Program, *, switch_channels: bool) -> str:
        return emit_mscclpp_json(
            program,
            plan.topology,
            domains=domains,
            name=request.name,
            min_bytes=entry.min_bytes,
            max_bytes=request.max_bytes,
            pipeline_bytes=request.options.pipeline_bytes,
            switch_channels=switch_channels and request.protocol != LL,
            protocol=request.protocol,
        )

    def emit(program: Program) -> str:
        text = written(program, switch_channels=True)
        asked = requested_in(text)
        rate = request.rate_without_switches(program, asked)
        if rate is None or not asked.stores:
            return text
        # stores without the sums that belong to them may cost the askers' links more than they save
        plain = written(program, switch_channels=False)
        other = request.rate_without_switches(program, requested_in(plain))
        return plain if other is not None and other > rate else text

    # messages of several trees in one would tie the trees' thread blocks together
    first = request.write(request.program(merge=False), Selector.MSCCLPP, emit)
    least = SWITCH_BLOCKS if requested_in(first[1]).stores else 1
    made = spread_over_blocks(request, first, Selector.MSCCLPP, emit, busiest_load, requested_in, least=least)
    grid, text, program = made.grid, made.text, made.grid.program
    asked, name = requested_in(text), request.name
    check_allocation(program, asked)
    if not request.options.name:  # MSCCL++ keeps contexts by name, so each plan has its own
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{program.kind}-{program.n_ranks}-{digest}"
        text = text.replace('"name": "treadle"', f'"name": "{name}"', 1)
    cautions = root_cautions(program)
    if program.kind.reduces:
        cautions += ("the executor sums, whatever a call asks for: max, min and product would give sums",)
    if request.protocol == LL:
        cautions += (
            "packets are told by the number of a process's launches: processes that executed plans "
            "unequally often, as in groups of their own, would wait for ever",
        )
    return Written(
        files=(("", text.encode()),),
        program=program,
        grid=grid,
        selectors=(Selector.MSCCLPP,),
        name=name,
        asked=asked,
        cautions=cautions,
        instances=made.instances,
        carried_algbw=made.carried_algbw,
    )


def busiest_load(text: str) -> Fraction:
    """Return the part of the collective's larger per-rank buffer that the busiest thread block moves.

    An operation moves what it reads, or stores if that is more; proxies move what goes through ports.
    """
    gpus = json.loads(text)["gpus"]
    n_chunks = max(max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in gpus)
    moved = [_moved(block["ops"]) for gpu in gpus for block in gpu["threadblocks"]]
    return Fraction(max(moved, default=0), n_chunks)


def _moved(operations: list[dict[str, Any]]) -> int:
    """Return the chunks that a list of operations moves."""
    total = 0
    for operation in operations:
        if operation.get("channel_type") != "port":
            ends = (operation.get("src_buff", ()), operation.get("dst_buff", ()))
            total += max(sum(part["size"] for part in buffers) for buffers in ends)
        total += _moved(operation.get("ops", []))
    return total
