"""A program's operations dealt out to channels, thread blocks and steps of the MSCCL runtimes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from treadle.errors import ScheduleError
from treadle.lowering.program import OperationKind, Program


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

REMEDY = "solve with fewer trees (--trees 1) or chunks, lower with fewer channels, or take another profile"


@dataclass
class Pieces:
    """Operations cut to what a step may move, in the program's order; columns are parallel lists."""

    program: Program
    operation: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)
    channel: list[int] = field(default_factory=list)
    rank_pieces: list[range] = field(default_factory=list)

    def kind(self, piece: int) -> OperationKind:
        """What a piece does."""
        return OperationKind(self.program.operation_kind[self.operation[piece]])

    def peer(self, piece: int) -> int:
        """The other rank of a piece, or -1."""
        return int(self.program.peer[self.operation[piece]])


def cut_pieces(program: Program, limits: Limits) -> Pieces:
    """Operations cut to the chunks that a step may move; a piece waits for those that overlap it."""
    pieces = Pieces(program)
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


def _overlap(pieces: Pieces, piece: int, low: int, high: int) -> bool:
    """Whether a piece shares chunks with [low, high)."""
    return pieces.first[piece] < high and low < pieces.first[piece] + pieces.count[piece]


def assign_channels(pieces: Pieces, limits: Limits) -> None:
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
        f"{limits.steps} steps and {limits.peers} peers; {REMEDY}"
    )


@dataclass
class Block:
    """A thread block: the pieces of a send stream, a receive stream, both, or copies."""

    channel: int
    send: int
    receive: int
    pieces: list[int]


def form_blocks(pieces: Pieces, rank: int, n_ranks: int, limits: Limits) -> list[Block]:
    """Thread blocks of a rank in the order of their ids; ScheduleError if a limit cannot hold."""
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
    blocks = [Block(*key, pieces=list(found)) for key, found in sorted(streams.items())]
    parts = range(0, len(copies), limits.steps)
    blocks.extend(Block(0, -1, -1, copies[start : start + limits.steps]) for start in parts)
    if not blocks:
        blocks.append(Block(0, -1, -1, []))
    if len(blocks) > limits.thread_blocks:
        blocks = _paired(pieces, blocks, limits)
    for value, limit, what in (
        (len(blocks), limits.thread_blocks, "thread blocks"),
        (len(blocks), limits.children, "children of the gpu node"),
        (n_ranks, limits.children, "children of the algo node"),
    ):
        if value > limit:
            raise ScheduleError(
                f"MSCCL XML: rank {rank} needs {value} {what}, the limit is {limit}; {REMEDY}"
            )
    return _awaited_first(pieces, blocks, rank, limits)


def _paired(pieces: Pieces, blocks: list[Block], limits: Limits) -> list[Block]:
    """Let a send stream and a receive stream of one channel share a thread block, as far as steps allow."""
    result: list[Block] = []
    open_blocks: dict[int, list[Block]] = defaultdict(list)
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


def _weight(pieces: Pieces, block: Block) -> int:
    return sum(max(1, len(pieces.waits[piece])) for piece in block.pieces)


def _awaited_first(pieces: Pieces, blocks: list[Block], rank: int, limits: Limits) -> list[Block]:
    """Thread blocks in the order of their ids: those that others wait for need the low ids."""
    home = {piece: number for number, block in enumerate(blocks) for piece in block.pieces}
    awaited = {
        home[wait] for piece, number in home.items() for wait in pieces.waits[piece] if home[wait] != number
    }
    if len(awaited) > limits.awaited:
        raise ScheduleError(
            f"MSCCL XML: rank {rank} has {len(awaited)} thread blocks that others wait for, "
            f"the limit is {limits.awaited}; {REMEDY}"
        )
    order = sorted(range(len(blocks)), key=lambda number: (number not in awaited, number))
    return [blocks[number] for number in order]


@dataclass(frozen=True)
class Step:
    """A step; piece -1 is a nop, block -1 no wait."""

    piece: int
    block: int
    step: int


def form_steps(pieces: Pieces, blocks: list[Block]) -> tuple[list[list[Step]], set[tuple[int, int]]]:
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
    steps: list[list[Step]] = []
    awaited: set[tuple[int, int]] = set()
    for rows in needs:
        made: list[Step] = []
        for piece, last in rows:
            waits = sorted((block, place[wait]) for block, wait in last.items()) or [(-1, -1)]
            awaited.update(waits)
            made.extend(Step(-1, *wait) for wait in waits[:-1])
            made.append(Step(piece, *waits[-1]))
        steps.append(made)
    return steps, awaited
