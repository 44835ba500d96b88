"""Writes a program as MSCCL XML, within the limits of the runtimes that load it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from treadle.errors import FormatError
from treadle.formats.file_arguments import (
    check_chunk_count,
    check_equal_shards,
    check_heading,
    runtime_name,
)
from treadle.formats.file_options import PROTOCOLS
from treadle.formats.msccl.block_assignment import LIMITS as LIMITS
from treadle.formats.msccl.block_assignment import (
    REMEDY,
    MscclBlock,
    Subchunks,
    assign_channels,
    check_limits,
    form_blocks,
    form_steps,
    split_chunks,
)
from treadle.formats.msccl.block_assignment import Limits as Limits
from treadle.formats.msccl.consolidation import consolidate_messages
from treadle.formats.msccl.profile import Profile as Profile
from treadle.formats.request import NOTHING_ASKED, FileRequest, Written, root_cautions
from treadle.formats.selection.block_rate import spread_over_blocks
from treadle.formats.selection.supported_sizes import Selector
from treadle.program.addresses import Addresses
from treadle.program.program import OperationKind, Program
from treadle.schedules.collective import CollectiveKind

_NOP = 'type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"'
_STEP_TYPES = {
    OperationKind.SEND: "s",
    OperationKind.RECEIVE: "r",
    OperationKind.RECEIVE_REDUCE: "rrc",
    OperationKind.COPY: "cpy",
}


def emit_msccl_xml(
    program: Program,
    *,
    profile: Profile = Profile.AZURE,
    name: str = "treadle",
    protocol: str = "Simple",
    min_bytes: int = 0,
    max_bytes: int = 0,
    consolidate: bool = False,
) -> str:
    """Write a program as MSCCL XML.

    Parameters
    ----------
    program : Program
        A verified program with equal shards; `in_place` decides for which calls the file is.
    profile : Profile
    name : str
        Only A-Z, a-z, 0-9 and ``_.-``.
    protocol : str
        Simple, LL or LL128.
    min_bytes, max_bytes : int
        Sizes for which the runtime may choose the file; max_bytes 0 means no limit. (The legacy runtime needs
        a limit and excludes ``maxBytes`` itself, so a large number is written for it.)
    consolidate : bool
        Gather scattered messages of one step in scratch and send them as one
        (`treadle.formats.msccl.consolidation`).

    Raises
    ------
    FormatError
        For an invalid name, protocol or size range.
    ScheduleError
        If the program cannot be expressed or exceeds a limit of the profile.

    Notes
    -----
    Every (peer, direction, channel) stream is a thread block; one that is too long becomes several on
    separate channels, split at the same messages at both ends. If thread blocks are too many, sends and
    receives of a channel share one. Thread blocks keep the order of the program's lists, a common linear
    order of all ranks, so their FIFO order adds no cycle. A step waits for the last step it needs of each
    other thread block. The format has no root: a broadcast or reduce is only for the program's root. It
    cannot express element counts that n_chunks does not divide; the runtime falls back to its own algorithms
    for them. It has no in-network multicast and aggregation either: every step is point to point.

    Both ends of a message have the same position in that common order, so no file deadlocks however few slots
    a connection has, even if each send waits for its receive.
    """
    limits = LIMITS[profile]
    check_heading("MSCCL XML", name, min_bytes, max_bytes)
    if protocol not in PROTOCOLS:
        raise FormatError(f"MSCCL XML: protocol {protocol!r}: expected Simple, LL or LL128")
    check_equal_shards("MSCCL XML", program)
    check_chunk_count("MSCCL XML", program.n_ranks * program.n_chunks, REMEDY)
    pieces = split_chunks(program, limits)
    if consolidate:
        pieces = consolidate_messages(pieces, limits)
    assign_channels(pieces, limits)
    ranks = [form_blocks(pieces, rank, program.n_ranks, limits) for rank in range(program.n_ranks)]
    addresses = [Addresses(program, rank) for rank in range(program.n_ranks)]
    channels = 1 + max(block.channel for blocks in ranks for block in blocks)
    collective = runtime_name(program.kind)
    if profile is Profile.LEGACY:
        if program.kind is CollectiveKind.REDUCE_SCATTER:
            collective = "reduce_scatter"
        # The runtime allocates scratch for the largest size when it starts, so files with scratch get 1 GB.
        uses_scratch = any(pieces.stage_chunks) or any(len(one.scratch) for one in addresses)
        unlimited = max(2**30, 4 * min_bytes) + 1 if uses_scratch else max(2**40, 4 * min_bytes)
        max_bytes = max_bytes + 1 if max_bytes else unlimited
    lines = [
        f'<algo name="{name}" proto="{protocol}" nchannels="{channels}" nchunksperloop="{program.n_chunks}" '
        f'ngpus="{program.n_ranks}" coll="{collective}" inplace="{int(program.in_place)}" '
        f'outofplace="{int(not program.in_place)}" minBytes="{min_bytes}" maxBytes="{max_bytes}">'
    ]
    other_end: dict[int, int] = {}
    """The part at the other end of each message."""
    for sends, receives in pieces.streams().values():
        other_end.update(zip((*sends, *receives), (*receives, *sends), strict=True))
    for rank, blocks in enumerate(ranks):
        lines.extend(_gpu_lines(pieces, limits, addresses, other_end, rank, blocks))
    return "\n".join([*lines, "</algo>", ""])


def _gpu_lines(
    pieces: Subchunks,
    limits: Limits,
    addresses: Sequence[Addresses],
    other_end: Mapping[int, int],
    rank: int,
    blocks: list[MscclBlock],
) -> Iterator[str]:
    """Yield the lines of a rank's element."""
    program, own = pieces.program, addresses[rank]

    def action(number: int) -> str:
        """Return type, source and target of a step; the source of a sum is the rank's own term."""
        piece = pieces.rows[number]
        ends = []
        for side, end, buffers, staged in (
            ("src", OperationKind.RECEIVE, program.source, "staged_source"),
            ("dst", OperationKind.SEND, program.target, "staged_target"),
        ):
            part, place = piece, own
            if piece.kind is end:
                part, place = pieces.rows[other_end[number]], addresses[pieces.peer(piece)]
            letter, offset = "s", len(place.scratch) + getattr(part, staged)
            if getattr(part, staged) < 0:
                buffer = int(buffers[part.operation])
                letter, offset = "ios"[buffer], place.offset(buffer, part.first)
            ends.append(f'{side}buf="{letter}" {side}off="{offset}"')
        return f'type="{_STEP_TYPES[piece.kind]}" {" ".join(ends)} cnt="{piece.count}"'

    steps, awaited = form_steps(pieces, blocks)
    nodes = 1 + program.n_ranks + len(blocks) + sum(map(len, steps))
    check_limits(rank, (nodes, limits.nodes, "XML nodes"), (max(map(len, steps)), limits.steps, "steps"))
    yield (
        f'  <gpu id="{rank}" i_chunks="{own.input_chunks}" o_chunks="{own.output_chunks}" '
        f's_chunks="{len(own.scratch) + pieces.stage_chunks[rank]}">'
    )
    for number, (block, rows) in enumerate(zip(blocks, steps, strict=True)):
        yield f'    <tb id="{number}" send="{block.send}" recv="{block.receive}" chan="{block.channel}">'
        for s, (piece, other, step) in enumerate(rows):
            what = action(piece) if piece >= 0 else _NOP
            waits = f'depid="{other}" deps="{step}" hasdep="{int((number, s) in awaited)}"'
            yield f'      <step s="{s}" {what} {waits}/>'
        yield "    </tb>"
    yield "  </gpu>"


_SELECTORS = {
    Profile.AZURE: (Selector.AZURE, Selector.SCHEDULER),
    Profile.LEGACY: (Selector.LEGACY,),
    Profile.RCCL: (Selector.RCCL,),
}
"""Selectors of each runtime, the default one first."""


def write(request: FileRequest) -> Written:
    """Write one XML."""
    selectors = _SELECTORS[request.profile]

    def emit(program: Program) -> str:
        return emit_msccl_xml(
            program,
            profile=request.profile,
            name=request.name,
            protocol=request.protocol,
            min_bytes=request.entry.min_bytes,
            max_bytes=request.max_bytes,
            consolidate=request.options.consolidate,
        )

    file = spread_over_blocks(
        request,
        request.write(request.program(merge=True), selectors[0], emit),
        selectors[0],
        emit,
        busiest_load,
        lambda _: NOTHING_ASKED,
    )
    cautions = root_cautions(file.grid.program)
    if request.protocol == "LL128":
        cautions += (
            "LL128 is correct only where 128 bytes are stored atomically, as over NVLink: elsewhere data may "
            "arrive wrong",
        )
    return Written(
        files=(("", file.text.encode()),),
        program=file.grid.program,
        grid=file.grid,
        selectors=selectors,
        dialect=request.profile.value,
        cautions=cautions,
        instances=file.instances,
        carried_algbw=file.carried_algbw,
    )


def busiest_load(text: str) -> Fraction:
    """Return the part of the collective's larger per-rank buffer that the busiest thread block moves."""
    found = re.search(r'nchunksperloop="(\d+)"', text)
    blocks = text.split("<tb ")[1:]
    most = max((sum(map(int, re.findall(r'cnt="(\d+)"', block))) for block in blocks), default=0)
    return Fraction(most, int(found[1]) if found else 1)
