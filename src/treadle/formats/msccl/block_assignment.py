"""A program's operations assigned to channels, thread blocks and steps of the MSCCL runtimes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from treadle.errors import ScheduleError
from treadle.formats.msccl.profile import Profile
from treadle.program.program import OperationKind, Program


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


def check_limits(rank: int, *rows: tuple[int, int, str]) -> None:
    """Refuse a rank that needs more of something than there is, by (value, limit, what)."""
    for value, limit, what in rows:
        if value > limit:
            raise ScheduleError(
                f"MSCCL XML: rank {rank} needs {value} {what}, the limit is {limit}; {REMEDY}"
            )


@dataclass
class Subchunks:
    """Operations cut to what a step may move, in the program's order; columns are parallel lists."""

    program: Program
    operation: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)
    channel: list[int] = field(default_factory=list)
    rank_pieces: list[range] = field(default_factory=list)
    kinds: list[OperationKind] = field(default_factory=list)
    staged_source: list[int] = field(default_factory=list)
    """Place in the rank's stage, scratch behind the program's own; -1: where the program reads."""
    staged_target: list[int] = field(default_factory=list)
    stage_chunks: list[int] = field(default_factory=list)
    """Size of the stage of each rank."""

    def peer(self, piece: int) -> int:
        """The other rank of a piece, or -1."""
        if self.kinds[piece] is OperationKind.COPY:
            return -1
        return int(self.program.peer[self.operation[piece]])

    def weight(self, piece: int) -> int:
        """Most steps that a piece takes: itself, after a nop for every wait but one."""
        return max(1, len(self.waits[piece]))

    def append(
        self,
        operation: int,
        kind: OperationKind,
        first: int,
        count: int,
        waits: list[int],
        staged: tuple[int, int] = (-1, -1),
    ) -> int:
        """Add a piece; its number."""
        self.operation.append(operation)
        self.kinds.append(kind)
        self.first.append(first)
        self.count.append(count)
        self.waits.append(waits)
        self.channel.append(0)
        self.staged_source.append(staged[0])
        self.staged_target.append(staged[1])
        return len(self.operation) - 1

    def streams(self) -> dict[tuple[int, int, int], tuple[list[int], list[int]]]:
        """Sends and receives of each (from, to, the program's channel), in order, streams by rising key."""
        found: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for rank, span in enumerate(self.rank_pieces):
            for piece in span:
                kind, peer = self.kinds[piece], self.peer(piece)
                channel = int(self.program.channel[self.operation[piece]])
                if kind is OperationKind.SEND:
                    found[rank, peer, channel][0].append(piece)
                elif kind is not OperationKind.COPY:
                    found[peer, rank, channel][1].append(piece)
        for (sender, receiver, _), (sends, receives) in found.items():
            if len(sends) != len(receives):
                raise ScheduleError(f"MSCCL XML: sends and receives {sender}->{receiver} do not match")
        return dict(sorted(found.items()))


def split_chunks(program: Program, limits: Limits) -> Subchunks:
    """Operations cut to the chunks that a step may move; a piece waits for those that overlap it."""
    pieces = Subchunks(program, stage_chunks=[0] * program.n_ranks)
    own: list[range] = []
    for rank in range(program.n_ranks):
        begin = len(pieces.operation)
        for number in program.operations(rank):
            start, first = len(pieces.operation), int(program.first[number])
            kind = OperationKind(program.operation_kind[number])
            last = first + int(program.count[number])
            # the number of parts is a function of the count alone, so both ends of a message cut alike
            parts = -(-(last - first) // limits.chunks)
            bounds = [first + (last - first) * part // parts for part in range(parts + 1)]
            for low, high in pairwise(bounds):
                waits: list[int] = []
                for wait in program.waits_of(number).tolist():
                    span = own[wait]  # chunks of its pieces rise
                    past = bisect_left(pieces.first, high, span.start, span.stop)
                    least = max(span.start, bisect_right(pieces.first, low, span.start, span.stop) - 1)
                    touching = [i for i in range(least, past) if low < pieces.first[i] + pieces.count[i]]
                    waits.extend(touching or span)
                pieces.append(number, kind, low, high - low, waits)
            own.append(range(start, len(pieces.operation)))
        pieces.rank_pieces.append(range(begin, len(pieces.operation)))
    return pieces


def assign_channels(pieces: Subchunks, limits: Limits) -> None:
    """Give every stream a channel; one that is too long for a thread block is split over several channels."""
    taken: set[tuple[int, int, int]] = set()
    load: dict[tuple[str, int, int], int] = defaultdict(int)
    for (sender, receiver, channel), (sends, receives) in pieces.streams().items():
        messages = list(zip(sends, receives, strict=True))
        weights = [max(map(pieces.weight, message)) for message in messages]
        start = 0
        for length in split_evenly(weights, limits.steps):
            current = _free_channel(sender, receiver, channel, taken, load, limits)
            for send, receive in messages[start : start + length]:
                pieces.channel[send] = pieces.channel[receive] = current
            start += length


def split_evenly(weights: Sequence[int], limit: int) -> list[int]:
    """Cut a sequence into the fewest runs within a limit, the heaviest of them as light as can be.

    Parameters
    ----------
    weights : sequence of int
        Positive.
    limit : int
        Of the sum of a run; a single weight above it is a run of its own.

    Returns
    -------
    list of int
        Lengths of the runs.

    Examples
    --------
    >>> split_evenly([1] * 65, 64)
    [33, 32]
    >>> split_evenly([5, 1, 1, 5], 7)
    [2, 2]
    """
    fewest = len(_runs(weights, limit))
    low, high = max(weights, default=0), max(limit, max(weights, default=0))
    lightest = low + bisect_left(range(low, high), -fewest, key=lambda most: -len(_runs(weights, most)))
    return _runs(weights, lightest)


def _runs(weights: Sequence[int], limit: int) -> list[int]:
    """Lengths of runs that are each as long as the limit lets them be."""
    lengths: list[int] = []
    total = limit + 1
    for weight in weights:
        total += weight
        if total > limit or not lengths:
            lengths.append(0)
            total = weight
        lengths[-1] += 1
    return lengths


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
class MscclBlock:
    """A thread block: the pieces of a send stream, a receive stream, both, or copies."""

    channel: int
    send: int
    receive: int
    pieces: list[int]


def form_blocks(pieces: Subchunks, rank: int, n_ranks: int, limits: Limits) -> list[MscclBlock]:
    """Thread blocks of a rank in the order of their ids; ScheduleError if a limit cannot hold."""
    streams: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    copies: dict[int, list[int]] = defaultdict(list)  # by the program's channel: instances copy side by side
    for piece in pieces.rank_pieces[rank]:
        kind, peer, channel = pieces.kinds[piece], pieces.peer(piece), pieces.channel[piece]
        if kind is OperationKind.COPY:
            copies[int(pieces.program.channel[pieces.operation[piece]])].append(piece)
        elif kind is OperationKind.SEND:
            streams[channel, peer, -1].append(piece)
        else:
            streams[channel, -1, peer].append(piece)
    blocks = [MscclBlock(*key, pieces=list(found)) for key, found in sorted(streams.items())]
    for _, copied in sorted(copies.items()):
        start = 0
        for length in split_evenly(list(map(pieces.weight, copied)), limits.steps):
            blocks.append(MscclBlock(0, -1, -1, copied[start : start + length]))
            start += length
    if not blocks:
        blocks.append(MscclBlock(0, -1, -1, []))
    if len(blocks) > limits.thread_blocks:
        blocks = pair_blocks(pieces, blocks, limits)
    check_limits(
        rank,
        (len(blocks), limits.thread_blocks, "thread blocks"),
        (len(blocks), limits.children, "children of the gpu node"),
        (n_ranks, limits.children, "children of the algo node"),
    )
    return _awaited_first(pieces, blocks, rank, limits)


def pair_blocks(pieces: Subchunks, blocks: list[MscclBlock], limits: Limits) -> list[MscclBlock]:
    """Let send streams and receive streams of a channel share thread blocks, no more than the limit asks for.

    The lightest go together, the lighter the one the heavier the other, so that the fullest thread block
    stays as light as it can. Blocks that find no partner stay as they are.
    """
    sides: dict[tuple[int, bool], list[MscclBlock]] = defaultdict(list)
    for block in sorted(blocks, key=lambda block: block_weight(pieces, block)):
        if max(block.send, block.receive) >= 0:
            sides[block.channel, block.send >= 0].append(block)
    costs = [
        (block_weight(pieces, one) + block_weight(pieces, other), channel)
        for channel in sorted({channel for channel, _ in sides})
        for one, other in zip(sides[channel, True], sides[channel, False], strict=False)
    ]
    wanted = Counter(
        channel
        for cost, channel in sorted(costs)[: max(0, len(blocks) - limits.thread_blocks)]
        if cost <= limits.steps
    )
    gone: set[int] = set()
    for channel, count in wanted.items():
        lightest = sides[channel, True][:count], sides[channel, False][:count]
        for one, other in zip(lightest[0], reversed(lightest[1]), strict=True):
            if block_weight(pieces, one) + block_weight(pieces, other) <= limits.steps:
                one.receive = other.receive
                one.pieces = sorted(one.pieces + other.pieces)
                gone.add(id(other))
    return [block for block in blocks if id(block) not in gone]


def block_weight(pieces: Subchunks, block: MscclBlock) -> int:
    """Most steps that a thread block takes."""
    return sum(map(pieces.weight, block.pieces))


def _awaited_first(
    pieces: Subchunks, blocks: list[MscclBlock], rank: int, limits: Limits
) -> list[MscclBlock]:
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


AssignedStep = tuple[int, int, int]
"""A step: its piece, -1 for a nop, and the block and step that it waits for, -1 for none."""


def form_steps(
    pieces: Subchunks, blocks: list[MscclBlock]
) -> tuple[list[list[AssignedStep]], set[tuple[int, int]]]:
    """Steps of every thread block, and the (block, step) that some other waits for."""
    home = {piece: number for number, block in enumerate(blocks) for piece in block.pieces}
    needs: list[list[tuple[int, dict[int, int]]]] = []
    """Of each block its pieces, and for each the last piece of every other block that it waits for."""
    place: dict[int, int] = {}
    for number, block in enumerate(blocks):
        needs.append([])
        end = 0
        for piece in block.pieces:
            last: dict[int, int] = {}
            for wait in pieces.waits[piece]:
                if home[wait] != number:
                    last[home[wait]] = max(last.get(home[wait], -1), wait)
            needs[-1].append((piece, last))
            end += max(1, len(last))
            place[piece] = end - 1
    steps: list[list[AssignedStep]] = []
    awaited: set[tuple[int, int]] = set()
    for rows in needs:
        made: list[AssignedStep] = []
        for piece, last in rows:
            waits = sorted((other, place[wait]) for other, wait in last.items()) or [(-1, -1)]
            awaited.update(waits)
            made += [*((-1, *wait) for wait in waits[:-1]), (piece, *waits[-1])]
        steps.append(made)
    return steps, awaited
