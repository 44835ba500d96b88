"""Writes a program as an MSCCL++ execution plan (JSON), within the limits of the runtime's executor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
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
from treadle.formats.mscclpp.block_programs import REMEDY, chunk_groups, list_operations, make_blocks
from treadle.formats.mscclpp.block_writer import form_block
from treadle.formats.mscclpp.blocks import Fabric, MscclppGpu
from treadle.formats.mscclpp.packet_writer import form_packet_block, most_packet_bytes
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
"""Protocols of the executor: how messages carry their flags."""
MOST_BYTES = 2**32 - 1
"""Largest buffer: the executor's offsets have 32 bits."""
SWITCH_BLOCKS = 4
"""Thread blocks of a rank for in-network operations if instances are not given: one block is too slow."""


@dataclass(frozen=True)
class MscclppLimits:
    """Sizes of the executor's fixed tables (execution_common.hpp)."""

    operations: int = 64
    """Operations of a thread block."""
    channels: int = 16
    """Channels of a thread block for each type, and remote buffers."""
    thread_blocks: int = 128
    """Thread blocks of a rank: all must run at the same time, or they wait for each other for ever."""


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
        A verified program with equal shards; `in_place` decides for which calls the plan is.
    topology : Topology
        Fabric of the program's paths; defines which switches multicast and aggregate.
    domains : sequence of int, optional
        Box (NVLink domain) of each rank. Ranks of one domain access each other's memory (channels of type
        memory), others need a proxy (type port). Default: one domain.
    name : str
        Only A-Z, a-z, 0-9 and ``_.-``.
    min_bytes, max_bytes : int
        Sizes for which the runtime may choose the plan; max_bytes 0 means no limit. The plan states at least
        the size at which chunks have 16 bytes, so that smaller calls are left to NCCL instead of failing, and
        at most 4 GiB - 1.
    pipeline_bytes : int
        Wrap each thread block whose operations move equal amounts in a pipeline of slices of this size, a
        multiple of 16; at least one block must qualify. 0: no pipelines.
    switch_channels : bool
        Use switch channels for GPU-initiated in-network operations: multicast, and multicast of sums if an
        allreduce's tree is a star. Without, and at other switches, ranks send to each other.
    protocol : str
        ``Simple``, or ``LL``: every message as packets of data and flag, so that no signals are needed. Only
        within a box, without pipelines or switch channels, and with a `max_bytes`.
    limits : MscclppLimits, optional

    Raises
    ------
    FormatError
        For an invalid name or size range.
    ScheduleError
        If the program cannot be expressed or exceeds a limit.

    Notes
    -----
    A thread-block program is a part of the program that shares no chunk with the rest: one thread block at
    each rank, its operations in the program's order. A send within a domain is a put and a signal; one
    between domains is a put-with-signal through the proxy. Sums are read from the peer's memory (``rre``) if
    that memory cannot change meanwhile, else brought to a scratch slot first. A put goes directly to its
    target if whatever used the target before is complete when the put begins, by the order that signals alone
    impose; else through scratch. ``nop`` is the barrier among a block's threads. Every block begins with a
    signal and a wait on each of its channels, since peers write into memory that must exist, and also ends
    with them if a peer read its memory.

    The runtime supports sizes whose chunks are multiples of 16 bytes; others are errors.
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
            "MSCCL++: LL sends twice the data and stages all of it, so it is for small calls; use "
            "--max-size, e.g. 256K"
        )
    if protocol == LL and pipeline_bytes:
        raise ScheduleError("MSCCL++: LL packets need no pipeline; omit --pipeline")
    needed = ALIGNMENT * program.n_chunks
    least, most = max(min_bytes, needed), min(max_bytes or MOST_BYTES, MOST_BYTES)
    if least > most:
        raise ScheduleError(
            f"MSCCL++: no size is supported: {program.n_chunks} chunks of {ALIGNMENT} bytes need {needed}, "
            f"the plan is for {min_bytes} to {most}; {REMEDY}"
        )
    program = split_copies(program)
    fabric = Fabric(program, topology, tuple(domains or [0] * program.n_ranks), switch_channels)
    gpus = _form_blocks(program, fabric, limits, protocol, pipeline_bytes)
    check_chunk_count("MSCCL++", sum(gpu.n_chunks for gpu in gpus), REMEDY)
    blocks = [block for gpu in gpus for block in gpu.blocks]
    if pipeline_bytes and not any("iter_context" in one for block in blocks for one in block.operations):
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
    }
    # One line per operation: the fast encoder supports no indentation.
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in plan.items())
    entries = [
        _with_list(
            gpu,
            "threadblocks",
            "  ",
            [
                _with_list(block, "ops", "   ", [f"\n    {json.dumps(one)}" for one in block["ops"]])
                for block in gpu["threadblocks"]
            ],
        )
        for gpu in map(MscclppGpu.to_json, gpus)
    ]
    return f'{{\n{head} "gpus": [{",".join(entries)}\n ]\n}}\n'


def _with_list(members: Mapping[str, Any], key: str, indent: str, items: Sequence[str]) -> str:
    """Return an object whose member `key` comes last and has these items."""
    rest = json.dumps({name: value for name, value in members.items() if name != key})
    return f'\n{indent}{rest[:-1]}, "{key}": [{",".join(items)}\n{indent}]}}'


def _form_blocks(
    program: Program, fabric: Fabric, limits: MscclppLimits, protocol: str, pipeline_bytes: int
) -> list[MscclppGpu]:
    """Return the ranks' thread blocks, with as many operations in each as the executor's tables allow."""
    groups, operations = chunk_groups(program), list_operations(program)
    addresses = [Addresses(program, rank) for rank in range(program.n_ranks)]
    form = form_packet_block if protocol == LL else partial(form_block, pipeline_bytes=pipeline_bytes)
    room = limits.operations // 2
    while True:
        gpus = [MscclppGpu(rank, places) for rank, places in enumerate(addresses)]
        lanes = make_blocks(program, operations, room, limits.thread_blocks, groups, alike=pipeline_bytes > 0)
        for number, lane in enumerate(lanes):
            form(fabric, lane, number, gpus)
        longest = 0
        for rank, block in ((gpu.rank, block) for gpu in gpus for block in gpu.blocks):
            needs = {f"{kind} channels": len(keys) for kind, keys in block.channels.items()}
            needs |= {f"{kind} buffers": len(ends) for kind, ends in block.buffers.items()}
            for what, count in (*needs.items(), ("switch channels", len(block.switches))):
                if count > limits.channels:
                    raise ScheduleError(
                        f"MSCCL++: rank {rank} needs {count} {what} in a thread block, "
                        f"the limit is {limits.channels}; {REMEDY}"
                    )
            longest = max(longest, sum(1 + len(one.get("ops", ())) for one in block.operations))
        if longest <= limits.operations:
            return gpus
        if room == 1:
            raise ScheduleError(
                f"MSCCL++: a thread block needs {longest} operations, the limit is {limits.operations}; "
                f"{REMEDY}"
            )
        # Signals and barriers add to the program's operations, so try with proportionally fewer of these.
        room = max(1, room * limits.operations // (longest + 1))


def write(request: FileRequest) -> Written:
    """Write one plan for the executor."""
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
        # Stores without the corresponding sums may load the links of their ranks more than they save.
        plain = written(program, switch_channels=False)
        other = request.rate_without_switches(program, requested_in(plain))
        return plain if other is not None and other > rate else text

    # Merged messages of several trees would join the thread blocks of these trees.
    first = request.write(request.program(merge=False), Selector.MSCCLPP, emit)
    least = SWITCH_BLOCKS if requested_in(first[1]).stores else 1
    made = spread_over_blocks(request, first, Selector.MSCCLPP, emit, busiest_load, requested_in, least=least)
    grid, text, program = made.grid, made.text, made.grid.program
    asked, name = requested_in(text), request.name
    check_allocation(program, asked)
    if not request.options.name:  # MSCCL++ identifies contexts by name, so each plan needs its own.
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{program.kind}-{program.n_ranks}-{digest}"
        text = text.replace('"name": "treadle"', f'"name": "{name}"', 1)
    cautions = root_cautions(program)
    if program.kind.reduces:
        cautions += ("the executor always sums: calls with max, min or product would get sums",)
    if request.protocol == LL:
        cautions += (
            "packets are recognized by the number of a process's launches: processes that executed different "
            "numbers of plans, e.g. in separate groups, would wait for ever",
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
