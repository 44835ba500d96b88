"""MSCCL XML from a program, within the limits of the runtimes that load it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.lowering.program import Buffer, OperationKind, Program
from treadle.schedules.collective import CollectiveKind


class Profile(StrEnum):
    """The runtimes' dialects: msccl-executor-nccl, the older msccl runtime, and RCCL."""

    AZURE = "azure"
    LEGACY = "legacy"
    RCCL = "rccl"


@dataclass(frozen=True)
class Limits:
    """What a runtime's fixed-size tables hold."""

    steps: int
    """Steps of a thread block."""
    thread_blocks: int
    channels: int
    peers: int = 32
    """Sends, and receives, of a rank on a channel."""
    chunks: int = 71
    """Chunks a step moves."""
    nodes: int = 4096
    """XML nodes read for a rank: 1 + ranks + its thread blocks + its steps."""
    children: int = 1024
    awaited: int = 128
    """Thread blocks that others may wait for."""


LIMITS = {
    Profile.AZURE: Limits(steps=64, thread_blocks=1024, channels=32),
    Profile.LEGACY: Limits(steps=256, thread_blocks=216, channels=32),
    Profile.RCCL: Limits(steps=64, thread_blocks=64, channels=128),
}

_NAMES = {
    CollectiveKind.ALLGATHER: "allgather",
    CollectiveKind.REDUCE_SCATTER: "reducescatter",
    CollectiveKind.ALLREDUCE: "allreduce",
    CollectiveKind.BROADCAST: "broadcast",
    CollectiveKind.REDUCE: "reduce",
}
_STEP_TYPES = {
    OperationKind.SEND: "s",
    OperationKind.RECEIVE: "r",
    OperationKind.RECEIVE_REDUCE: "rrc",
    OperationKind.COPY: "cpy",
}
_REMEDY = "solve with fewer trees (--trees 1), lower with fewer channels, or take another profile"


def emit_msccl_xml(
    program: Program,
    *,
    profile: Profile = Profile.AZURE,
    name: str = "treadle",
    protocol: str = "Simple",
    min_bytes: int = 0,
    max_bytes: int = 0,
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

    Raises
    ------
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
    algorithms there.
    """
    limits = LIMITS[profile]
    _check_arguments(program, name, protocol, min_bytes, max_bytes)
    pieces = _pieces(program, limits)
    _assign_channels(pieces, limits)
    ranks = [_thread_blocks(pieces, rank, program.n_ranks, limits) for rank in range(program.n_ranks)]
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
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise ScheduleError(f"MSCCL XML: name {name!r}: expected letters, digits and _.- only")
    if protocol not in ("Simple", "LL", "LL128"):
        raise ScheduleError(f"MSCCL XML: protocol {protocol!r}: expected Simple, LL or LL128")
    if min_bytes < 0 or max_bytes < 0 or 0 < max_bytes < min_bytes:
        raise ScheduleError(f"MSCCL XML: sizes {min_bytes} to {max_bytes} bytes are no range")
    if program.kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER) and (
        len(set(np.diff(program.shard_offset).tolist())) > 1
    ):
        raise ScheduleError(f"MSCCL XML: {program.kind} with unequal shards cannot be expressed")


@dataclass
class _Pieces:
    """Operations cut to what a step may move, in the program's order; columns are parallel lists."""

    program: Program
    operation: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)
    channel: list[int] = field(default_factory=list)
    rank_pieces: list[range] = field(default_factory=list)

    def kind(self, piece: int) -> OperationKind:
        return OperationKind(self.program.operation_kind[self.operation[piece]])

    def peer(self, piece: int) -> int:
        return int(self.program.peer[self.operation[piece]])


def _pieces(program: Program, limits: Limits) -> _Pieces:
    pieces = _Pieces(program)
    own: list[range] = []
    for rank in range(program.n_ranks):
        begin = len(pieces.operation)
        for number in program.operations(rank):
            start, first = len(pieces.operation), int(program.first[number])
            last = first + int(program.count[number])
            # the number of parts is a function of the count alone, so both ends of a message cut alike
            parts = -(-(last - first) // limits.chunks)
            bounds = [first + (last - first) * part // parts for part in range(parts + 1)]
            for low, high in pairwise(bounds):
                waits: list[int] = []
                for wait in program.waits_of(number).tolist():
                    touching = [piece for piece in own[wait] if _overlap(pieces, piece, low, high)]
                    waits.extend(touching or own[wait])
                pieces.operation.append(number)
                pieces.first.append(low)
                pieces.count.append(high - low)
                pieces.waits.append(waits)
                pieces.channel.append(0)
            own.append(range(start, len(pieces.operation)))
        pieces.rank_pieces.append(range(begin, len(pieces.operation)))
    return pieces


def _overlap(pieces: _Pieces, piece: int, low: int, high: int) -> bool:
    """Whether a piece shares chunks with [low, high)."""
    return pieces.first[piece] < high and low < pieces.first[piece] + pieces.count[piece]


def _assign_channels(pieces: _Pieces, limits: Limits) -> None:
    """Give every stream a channel, and a new one whenever a thread block of it would be full."""
    program = pieces.program
    streams: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for rank, span in enumerate(pieces.rank_pieces):
        for piece in span:
            kind, peer = pieces.kind(piece), pieces.peer(piece)
            channel = int(program.channel[pieces.operation[piece]])
            if kind is OperationKind.SEND:
                streams[rank, peer, channel][0].append(piece)
            elif kind is not OperationKind.COPY:
                streams[peer, rank, channel][1].append(piece)
    taken: set[tuple[int, int, int]] = set()
    load: dict[tuple[str, int, int], int] = defaultdict(int)
    for (sender, receiver, channel), (sends, receives) in sorted(streams.items()):
        if len(sends) != len(receives):
            raise ScheduleError(f"MSCCL XML: sends and receives {sender}->{receiver} do not match")
        steps, current = limits.steps + 1, -1
        for send, receive in zip(sends, receives, strict=True):
            weight = max(1, len(pieces.waits[send]), len(pieces.waits[receive]))
            steps += weight
            if steps > limits.steps:
                steps = weight
                current = _free_channel(sender, receiver, channel, taken, load, limits)
            pieces.channel[send] = pieces.channel[receive] = current


def _free_channel(
    sender: int,
    receiver: int,
    wanted: int,
    taken: set[tuple[int, int, int]],
    load: dict[tuple[str, int, int], int],
    limits: Limits,
) -> int:
    for turn in range(limits.channels):
        channel = (wanted + turn) % limits.channels
        sides = (("send", sender, channel), ("receive", receiver, channel))
        if (sender, receiver, channel) not in taken and all(load[side] < limits.peers for side in sides):
            taken.add((sender, receiver, channel))
            for side in sides:
                load[side] += 1
            return channel
    raise ScheduleError(
        f"MSCCL XML: ranks {sender}->{receiver} need more than {limits.channels} channels of "
        f"{limits.steps} steps and {limits.peers} peers; {_REMEDY}"
    )


@dataclass
class _Block:
    """A thread block: the pieces of a send stream, a receive stream, both, or copies."""

    channel: int
    send: int
    receive: int
    pieces: list[int]


def _thread_blocks(pieces: _Pieces, rank: int, n_ranks: int, limits: Limits) -> list[_Block]:
    streams: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    copies: list[int] = []
    for piece in pieces.rank_pieces[rank]:
        kind, peer, channel = pieces.kind(piece), pieces.peer(piece), pieces.channel[piece]
        if kind is OperationKind.COPY:
            copies.append(piece)
        elif kind is OperationKind.SEND:
            streams[channel, peer, -1].append(piece)
        else:
            streams[channel, -1, peer].append(piece)
    blocks = [_Block(*key, pieces=list(found)) for key, found in sorted(streams.items())]
    parts = range(0, len(copies), limits.steps)
    blocks.extend(_Block(0, -1, -1, copies[start : start + limits.steps]) for start in parts)
    if not blocks:
        blocks.append(_Block(0, -1, -1, []))
    if len(blocks) > limits.thread_blocks:
        blocks = _paired(pieces, blocks, limits)
    for value, limit, what in (
        (len(blocks), limits.thread_blocks, "thread blocks"),
        (len(blocks), limits.children, "children of the gpu node"),
        (n_ranks, limits.children, "children of the algo node"),
    ):
        if value > limit:
            raise ScheduleError(
                f"MSCCL XML: rank {rank} needs {value} {what}, the limit is {limit}; {_REMEDY}"
            )
    return _awaited_first(pieces, blocks, rank, limits)


def _paired(pieces: _Pieces, blocks: list[_Block], limits: Limits) -> list[_Block]:
    """Let a send stream and a receive stream of one channel share a thread block, as far as steps allow."""
    result: list[_Block] = []
    open_blocks: dict[int, list[_Block]] = defaultdict(list)
    for block in blocks:
        steps = _weight(pieces, block)
        partner = next(
            (
                other
                for other in open_blocks[block.channel]
                if (other.send < 0) != (block.send < 0) and _weight(pieces, other) + steps <= limits.steps
            ),
            None,
        )
        if partner is None or max(block.send, block.receive) < 0:
            result.append(block)
            if max(block.send, block.receive) >= 0:
                open_blocks[block.channel].append(block)
        else:
            open_blocks[block.channel].remove(partner)
            partner.send = max(partner.send, block.send)
            partner.receive = max(partner.receive, block.receive)
            partner.pieces = sorted(partner.pieces + block.pieces)
    return result


def _weight(pieces: _Pieces, block: _Block) -> int:
    return sum(max(1, len(pieces.waits[piece])) for piece in block.pieces)


def _awaited_first(pieces: _Pieces, blocks: list[_Block], rank: int, limits: Limits) -> list[_Block]:
    """Thread blocks in the order of their ids: those that others wait for need the low ids."""
    home = {piece: number for number, block in enumerate(blocks) for piece in block.pieces}
    awaited = {
        home[wait] for piece, number in home.items() for wait in pieces.waits[piece] if home[wait] != number
    }
    if len(awaited) > limits.awaited:
        raise ScheduleError(
            f"MSCCL XML: rank {rank} has {len(awaited)} thread blocks that others wait for, "
            f"the limit is {limits.awaited}; {_REMEDY}"
        )
    order = sorted(range(len(blocks)), key=lambda number: (number not in awaited, number))
    return [blocks[number] for number in order]


@dataclass(frozen=True)
class _Step:
    """A step; piece -1 is a nop, block -1 no wait."""

    piece: int
    block: int
    step: int


def _steps(pieces: _Pieces, blocks: list[_Block]) -> tuple[list[list[_Step]], set[tuple[int, int]]]:
    """Steps of every thread block, and the (block, step) that some other waits for."""
    home: dict[int, int] = {piece: number for number, block in enumerate(blocks) for piece in block.pieces}
    needs: list[list[tuple[int, dict[int, int]]]] = []
    for number, block in enumerate(blocks):
        rows: list[tuple[int, dict[int, int]]] = []
        for piece in block.pieces:
            last: dict[int, int] = {}
            for wait in pieces.waits[piece]:
                if home[wait] != number:
                    last[home[wait]] = max(last.get(home[wait], -1), wait)
            rows.append((piece, last))
        needs.append(rows)
    place: dict[int, int] = {}
    for rows in needs:
        end = 0
        for piece, last in rows:
            end += max(1, len(last))
            place[piece] = end - 1
    steps: list[list[_Step]] = []
    awaited: set[tuple[int, int]] = set()
    for rows in needs:
        made: list[_Step] = []
        for piece, last in rows:
            waits = sorted((block, place[wait]) for block, wait in last.items()) or [(-1, -1)]
            awaited.update(waits)
            made.extend(_Step(-1, *wait) for wait in waits[:-1])
            made.append(_Step(piece, *waits[-1]))
        steps.append(made)
    return steps, awaited


def _gpu_lines(
    program: Program, pieces: _Pieces, rank: int, blocks: list[_Block], limits: Limits
) -> list[str]:
    steps, awaited = _steps(pieces, blocks)
    nodes = 1 + program.n_ranks + len(blocks) + sum(len(made) for made in steps)
    longest = max(len(made) for made in steps)
    for value, limit, what in ((nodes, limits.nodes, "XML nodes"), (longest, limits.steps, "steps")):
        if value > limit:
            raise ScheduleError(
                f"MSCCL XML: rank {rank} needs {value} {what}, the limit is {limit}; {_REMEDY}"
            )
    addresses = _Addresses(program, rank)
    lines = [
        f'  <gpu id="{rank}" i_chunks="{addresses.input_chunks}" o_chunks="{addresses.output_chunks}" '
        f's_chunks="{len(addresses.scratch)}">'
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


class _Addresses:
    """Places in one rank's buffers, in chunks; scratch holds only the chunks that are used."""

    def __init__(self, program: Program, rank: int) -> None:
        shard = program.shard(rank)
        whole = (0, program.n_chunks)
        input_ = shard if program.kind is CollectiveKind.ALLGATHER else whole
        output = shard if program.kind is CollectiveKind.REDUCE_SCATTER else whole
        self.base = {Buffer.INPUT: input_[0], Buffer.OUTPUT: output[0]}
        self.input_chunks, self.output_chunks = input_[1] - input_[0], output[1] - output[0]
        used: set[int] = set()
        for number in program.operations(rank):
            if Buffer.SCRATCH in (program.source[number], program.target[number]):
                first = int(program.first[number])
                used.update(range(first, first + int(program.count[number])))
        self.scratch: Int64Array = np.array(sorted(used), dtype=np.int64)

    def text(self, side: str, buffer: Buffer, chunk: int) -> str:
        """Attributes of one end of a step."""
        if buffer is Buffer.SCRATCH:
            offset = int(np.searchsorted(self.scratch, chunk))
        else:
            offset = chunk - self.base[buffer]
        return f'{side}buf="{"ios"[buffer]}" {side}off="{offset}"'


def _action(pieces: _Pieces, piece: int, addresses: _Addresses) -> str:
    """What a step does; the end that its type does not use repeats the other."""
    program, number, first = pieces.program, pieces.operation[piece], pieces.first[piece]
    kind = pieces.kind(piece)
    source, target = Buffer(program.source[number]), Buffer(program.target[number])
    if kind is OperationKind.SEND:
        target = source
    elif kind is OperationKind.RECEIVE:
        source = target
    return (
        f'type="{_STEP_TYPES[kind]}" {addresses.text("src", source, first)} '
        f'{addresses.text("dst", target, first)} cnt="{pieces.count[piece]}"'
    )
