"""MSCCL XML from a program, within the limits of the runtimes that load it."""

from __future__ import annotations

from treadle.errors import FormatError, ScheduleError
from treadle.lowering.addresses import Addresses
from treadle.lowering.msccl_xml_blocks import (
    LIMITS,
    REMEDY,
    Block,
    Limits,
    Pieces,
    Profile,
    assign_channels,
    cut_pieces,
    form_blocks,
    form_steps,
)
from treadle.lowering.msccl_xml_consolidation import consolidate_messages
from treadle.lowering.program import Buffer, OperationKind, Program
from treadle.lowering.text_arguments import check_equal_shards, check_heading
from treadle.schedules.collective import CollectiveKind

__all__ = ["LIMITS", "Limits", "Profile", "emit_msccl_xml"]

_NAMES = {
    CollectiveKind.ALLGATHER: "allgather",
    CollectiveKind.REDUCE_SCATTER: "reducescatter",
    CollectiveKind.ALLREDUCE: "allreduce",
    CollectiveKind.BROADCAST: "broadcast",
    CollectiveKind.REDUCE: "reduce",
    CollectiveKind.ALLTOALL: "alltoall",
}
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
        Sizes for which the runtime may choose it; max_bytes 0 means no limit.
    consolidate : bool
        Gather scattered messages of one step in scratch and send them as one
        (`treadle.lowering.msccl_xml_consolidation`).

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
    _check_arguments(program, name, protocol, min_bytes, max_bytes)
    pieces = cut_pieces(program, limits)
    if consolidate:
        pieces = consolidate_messages(pieces, limits)
    assign_channels(pieces, limits)
    ranks = [form_blocks(pieces, rank, program.n_ranks, limits) for rank in range(program.n_ranks)]
    channels = 1 + max(block.channel for blocks in ranks for block in blocks)
    collective = _NAMES[program.kind]
    if profile is Profile.LEGACY and program.kind is CollectiveKind.REDUCE_SCATTER:
        collective = "reduce_scatter"
    lines = [
        f'<algo name="{name}" proto="{protocol}" nchannels="{channels}" nchunksperloop="{program.n_chunks}" '
        f'ngpus="{program.n_ranks}" coll="{collective}" inplace="{int(program.in_place)}" '
        f'outofplace="{int(not program.in_place)}" minBytes="{min_bytes}" maxBytes="{max_bytes}">'
    ]
    for rank, blocks in enumerate(ranks):
        lines.extend(_gpu_lines(program, pieces, rank, blocks, limits))
    return "\n".join([*lines, "</algo>", ""])


def _check_arguments(program: Program, name: str, protocol: str, min_bytes: int, max_bytes: int) -> None:
    check_heading("MSCCL XML", name, min_bytes, max_bytes)
    if protocol not in ("Simple", "LL", "LL128"):
        raise FormatError(f"MSCCL XML: protocol {protocol!r}: expected Simple, LL or LL128")
    check_equal_shards("MSCCL XML", program)


def _gpu_lines(program: Program, pieces: Pieces, rank: int, blocks: list[Block], limits: Limits) -> list[str]:
    steps, awaited = form_steps(pieces, blocks)
    nodes = 1 + program.n_ranks + len(blocks) + sum(len(made) for made in steps)
    longest = max(len(made) for made in steps)
    for value, limit, what in ((nodes, limits.nodes, "XML nodes"), (longest, limits.steps, "steps")):
        if value > limit:
            raise ScheduleError(
                f"MSCCL XML: rank {rank} needs {value} {what}, the limit is {limit}; {REMEDY}"
            )
    addresses = Addresses(program, rank)
    lines = [
        f'  <gpu id="{rank}" i_chunks="{addresses.input_chunks}" o_chunks="{addresses.output_chunks}" '
        f's_chunks="{len(addresses.scratch) + pieces.stage_chunks[rank]}">'
    ]
    for number, (block, made) in enumerate(zip(blocks, steps, strict=True)):
        lines.append(
            f'    <tb id="{number}" send="{block.send}" recv="{block.receive}" chan="{block.channel}">'
        )
        for s, step in enumerate(made):
            action = 'type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"'
            if step.piece >= 0:
                action = _action(pieces, step.piece, addresses)
            lines.append(
                f'      <step s="{s}" {action} depid="{step.block}" deps="{step.step}" '
                f'hasdep="{int((number, s) in awaited)}"/>'
            )
        lines.append("    </tb>")
    return [*lines, "  </gpu>"]


def _action(pieces: Pieces, piece: int, addresses: Addresses) -> str:
    """What a step does; the end that its type does not use repeats the other."""
    program, number, first = pieces.program, pieces.operation[piece], pieces.first[piece]
    kind = pieces.kind(piece)
    source, target = Buffer(program.source[number]), Buffer(program.target[number])
    ends = [
        _place(side, addresses, buffer, first, staged[piece])
        for side, buffer, staged in (
            ("src", source, pieces.staged_source),
            ("dst", target, pieces.staged_target),
        )
    ]
    if kind is OperationKind.SEND:
        ends[1] = ends[0].replace("src", "dst")
    elif kind is OperationKind.RECEIVE:
        ends[0] = ends[1].replace("dst", "src")
    return f'type="{_STEP_TYPES[kind]}" {ends[0]} {ends[1]} cnt="{pieces.count[piece]}"'


def _place(side: str, addresses: Addresses, buffer: Buffer, chunk: int, staged: int) -> str:
    """Attributes of one end of a step."""
    if staged >= 0:
        return f'{side}buf="s" {side}off="{len(addresses.scratch) + staged}"'
    return f'{side}buf="{"ios"[buffer]}" {side}off="{addresses.offset(buffer, chunk)}"'
