"""MSCCL XML from a program, within the limits of the runtimes that load it."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
        Checked by the caller. Shards must be of one size; `in_place` decides which calls the text serves.
    profile : Profile
    name : str
        Letters, digits and ``_.-``.
    protocol : str
        Simple, LL or LL128.
    min_bytes, max_bytes : int
        Sizes for which the runtime may choose it; max_bytes 0 means no limit. (The legacy runtime takes sizes
        below ``maxBytes`` and knows no other way to say "no limit" than a large one.)
    consolidate : bool
        Gather scattered messages of one step in scratch and send them as one
        (`treadle.formats.msccl.consolidation`).

    Raises
    ------
    FormatError
        For a name, protocol or sizes that the format does not know.
    ScheduleError
        If the program cannot be expressed or a limit of the profile cannot hold; the message says which.

    Notes
    -----
    Every (peer, direction, channel) stream is a thread block; one that is too long becomes several on
    channels of their own, cut at the same messages at both ends. If thread blocks are too many, sends and
    receives of a channel share one. Thread blocks keep the order of the program's lists, a common linear
    order of all ranks, so their FIFO order adds no cycle. A step waits for the last step it needs of each
    other thread block. The format names no root: a broadcast or reduce serves the program's root only. It
    cannot express element counts that do not divide by n_chunks; the runtime falls back to its own
    algorithms there. Nor can it express in-network multicast and aggregation: every step is point to point.

    Both ends of a message are at the same place of that common order, so no text deadlocks however few slots
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
    writer = _GpuWriter(pieces, limits)
    channels = 1 + max(block.channel for blocks in ranks for block in blocks)
    collective = runtime_name(program.kind)
    if profile is Profile.LEGACY:
        if program.kind is CollectiveKind.REDUCE_SCATTER:
            collective = "reduce_scatter"
        # ``maxBytes`` is the first size that is too large, never 0 for no limit; scratch for that size is
        # allocated when the runtime starts, so texts with scratch end behind 1 GB
        unlimited = max(2**30, 4 * min_bytes) + 1 if writer.uses_scratch else max(2**40, 4 * min_bytes)
        max_bytes = max_bytes + 1 if max_bytes else unlimited
    lines = [
        f'<algo name="{name}" proto="{protocol}" nchannels="{channels}" nchunksperloop="{program.n_chunks}" '
        f'ngpus="{program.n_ranks}" coll="{collective}" inplace="{int(program.in_place)}" '
        f'outofplace="{int(not program.in_place)}" minBytes="{min_bytes}" maxBytes="{max_bytes}">'
    ]
    for rank, blocks in enumerate(ranks):
        lines.extend(writer.lines(rank, blocks))
    return "\n".join([*lines, "</algo>", ""])


class _GpuWriter:
    """Writes one rank after the other; a message's step at either end names both places."""

    def __init__(self, pieces: Subchunks, limits: Limits) -> None:
        program = pieces.program
        self._pieces, self._limits = pieces, limits
        self._addresses = [Addresses(program, rank) for rank in range(program.n_ranks)]
        self._owner = program.operation_rank.tolist()
        self._other: dict[int, int] = {}
        """The piece at the other end of each message."""
        for sends, receives in pieces.streams().values():
            self._other.update(zip(sends, receives, strict=True))
            self._other.update(zip(receives, sends, strict=True))

    @property
    def uses_scratch(self) -> bool:
        """Whether some rank needs memory besides input and output."""
        return any(self._pieces.stage_chunks) or any(len(place.scratch) for place in self._addresses)

    def lines(self, rank: int, blocks: list[MscclBlock]) -> Iterator[str]:
        """The rank's element."""
        pieces, limits, addresses = self._pieces, self._limits, self._addresses[rank]
        steps, awaited = form_steps(pieces, blocks)
        nodes = 1 + pieces.program.n_ranks + len(blocks) + sum(map(len, steps))
        check_limits(rank, (nodes, limits.nodes, "XML nodes"), (max(map(len, steps)), limits.steps, "steps"))
        yield (
            f'  <gpu id="{rank}" i_chunks="{addresses.input_chunks}" o_chunks="{addresses.output_chunks}" '
            f's_chunks="{len(addresses.scratch) + pieces.stage_chunks[rank]}">'
        )
        for number, (block, made) in enumerate(zip(blocks, steps, strict=True)):
            yield f'    <tb id="{number}" send="{block.send}" recv="{block.receive}" chan="{block.channel}">'
            for s, (piece, other, step) in enumerate(made):
                action = 'type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"'
                if piece >= 0:
                    action = self._action(piece)
                waits = f'depid="{other}" deps="{step}" hasdep="{int((number, s) in awaited)}"'
                yield f'      <step s="{s}" {action} {waits}/>'
            yield "    </tb>"
        yield "  </gpu>"

    def _action(self, piece: int) -> str:
        """What a step does, whence and whereto; a sum's source is the term that lies here."""
        pieces = self._pieces
        kind, program = pieces.kinds[piece], pieces.program
        source = self._other[piece] if kind is OperationKind.RECEIVE else piece
        target = self._other[piece] if kind is OperationKind.SEND else piece
        ends = []
        for side, end, buffers, staged in (
            ("src", source, program.source, pieces.staged_source),
            ("dst", target, program.target, pieces.staged_target),
        ):
            number = pieces.operation[end]
            addresses, letter = self._addresses[self._owner[number]], "s"
            if staged[end] >= 0:
                place = len(addresses.scratch) + staged[end]
            else:
                letter = "ios"[buffers[number]]
                place = addresses.offset(int(buffers[number]), pieces.first[end])
            ends.append(f'{side}buf="{letter}" {side}off="{place}"')
        return f'type="{_STEP_TYPES[kind]}" {" ".join(ends)} cnt="{pieces.count[piece]}"'


_SELECTORS = {
    Profile.AZURE: (Selector.AZURE, Selector.SCHEDULER),
    Profile.LEGACY: (Selector.LEGACY,),
    Profile.RCCL: (Selector.RCCL,),
}
"""Who selects in each runtime; the first unless told otherwise."""


def write(request: FileRequest) -> Written:
    """What was asked for as one XML."""
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

    made = spread_over_blocks(
        request,
        request.write(request.program(merge=True), selectors[0], emit),
        selectors[0],
        emit,
        busiest_load,
        lambda _: NOTHING_ASKED,
    )
    cautions = root_cautions(made.grid.program)
    if request.protocol == "LL128":
        cautions += (
            "LL128 is right only where 128 bytes are stored at once, as over NVLink: elsewhere data may "
            "arrive wrong",
        )
    return Written(
        files=(("", made.text.encode()),),
        program=made.grid.program,
        grid=made.grid,
        selectors=selectors,
        dialect=request.profile.value,
        cautions=cautions,
        instances=made.instances,
        carried_algbw=made.carried_algbw,
    )


def busiest_load(text: str) -> Fraction:
    """Return the part of the collective's larger per-rank buffer that the busiest thread block moves."""
    found = re.search(r'nchunksperloop="(\d+)"', text)
    blocks = text.split("<tb ")[1:]
    most = max((sum(map(int, re.findall(r'cnt="(\d+)"', block))) for block in blocks), default=0)
    return Fraction(most, int(found[1]) if found else 1)
