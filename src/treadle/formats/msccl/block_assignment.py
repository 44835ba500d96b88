"""Assigns a program's operations to channels, thread blocks and steps of the MSCCL runtimes.

Operations are split into parts that one step may move. Both ends of a message split it equally and use the
same channel. Every thread block keeps the order of the program's lists, a linear order that all ranks share,
so no deadlock is added.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from operator import attrgetter
from typing import TypeVar

from treadle.errors import ScheduleError
from treadle.formats.msccl.profile import Profile
from treadle.program.program import OperationKind, Program

_T = TypeVar("_T")


@dataclass(frozen=True)
class Limits:
    """Sizes of a runtime's fixed tables."""

    steps: int
    """Steps of a thread block."""
    thread_blocks: int
    channels: int
    peers: int = 32
    """Sends of a rank on a channel, and receives."""
    chunks: int = 71
    """Chunks that a step moves."""
    nodes: int = 4096
    """XML nodes that are read for a rank: 1 + ranks + its thread blocks + its steps."""
    children: int = 1024
    awaited: int = 128
    """Thread blocks of a rank for which others may wait."""


LIMITS = {
    Profile.AZURE: Limits(steps=64, thread_blocks=1024, channels=32),
    Profile.LEGACY: Limits(steps=256, thread_blocks=216, channels=32),
    Profile.RCCL: Limits(steps=64, thread_blocks=64, channels=128),
}

REMEDY = "solve with fewer trees (--trees 1) or chunks, lower with fewer channels, or take another profile"


def check_limits(rank: int, *rows: tuple[int, int, str]) -> None:
    """Raise ScheduleError if a rank exceeds a limit; `rows` are (value, limit, noun)."""
    for value, limit, what in rows:
        if value > limit:
            raise ScheduleError(
                f"MSCCL XML: rank {rank} needs {value} {what}, the limit is {limit}; {REMEDY}"
            )


@dataclass(slots=True)
class OperationPart:
    """A part of an operation."""

    operation: int
    kind: OperationKind
    first: int
    count: int
    waits: list[int]
    """Numbers of the parts of the same rank for which it waits."""
    staged_source: int = -1
    """Source in the rank's stage, which is scratch after the program's own; -1: the program's source."""
    staged_target: int = -1
    channel: int = 0

    @property
    def weight(self) -> int:
        """Most steps that it needs: its own, after a nop for every wait but one."""
        return max(1, len(self.waits))


@dataclass
class Subchunks:
    """Parts of operations that a step may move, in the program's order; numbers refer to `rows`."""

    program: Program
    stage_chunks: list[int]
    """Size of the stage of each rank."""
    rows: list[OperationPart] = field(default_factory=list)
    rank_pieces: list[range] = field(default_factory=list)

    def peer(self, piece: OperationPart) -> int:
        """Return the other rank of a part, or -1."""
        return -1 if piece.kind is OperationKind.COPY else int(self.program.peer[piece.operation])

    def weight(self, numbers: Iterable[int]) -> int:
        """Return the most steps that parts need together."""
        return sum(self.rows[number].weight for number in numbers)

    def streams(self) -> dict[tuple[int, int, int], tuple[list[int], list[int]]]:
        """Return sends and receives of each (sender, receiver, program channel), in order, by rising key."""
        found: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for rank, span in enumerate(self.rank_pieces):
            for number in span:
                piece = self.rows[number]
                if piece.kind is OperationKind.COPY:
                    continue
                peer, channel = self.peer(piece), int(self.program.channel[piece.operation])
                if piece.kind is OperationKind.SEND:
                    found[rank, peer, channel][0].append(number)
                else:
                    found[peer, rank, channel][1].append(number)
        return dict(sorted(found.items()))


def split_chunks(program: Program, limits: Limits) -> Subchunks:
    """Split operations into the chunks that a step may move; a part waits only for parts that overlap it."""
    pieces = Subchunks(program, [0] * program.n_ranks)
    rows = pieces.rows
    own: list[range] = []
    for rank in range(program.n_ranks):
        begin = len(rows)
        for number in program.operations(rank):
            start, first = len(rows), int(program.first[number])
            kind = OperationKind(program.operation_kind[number])
            last = first + int(program.count[number])
            # The bounds depend only on the operation's chunks, so both ends of a message split it equally.
            parts = -(-(last - first) // limits.chunks)
            bounds = [first + (last - first) * part // parts for part in range(parts + 1)]
            for low, high in pairwise(bounds):
                waits: list[int] = []
                for wait in program.waits_of(number).tolist():
                    span = own[wait]  # The chunks of these parts rise, so bisection finds the overlap.
                    past = bisect_left(rows, high, span.start, span.stop, key=attrgetter("first"))
                    least = bisect_right(rows, low, span.start, span.stop, key=attrgetter("first")) - 1
                    overlap = range(max(span.start, least), past)
                    waits.extend([i for i in overlap if low < rows[i].first + rows[i].count] or span)
                rows.append(OperationPart(number, kind, low, high - low, waits))
            own.append(range(start, len(rows)))
        pieces.rank_pieces.append(range(begin, len(rows)))
    return pieces


def assign_channels(pieces: Subchunks, limits: Limits) -> None:
    """Give every stream a channel, or several channels if it is too long for a thread block."""
    rows, used = pieces.rows, set[tuple[int, int, int]]()
    load: Counter[tuple[str, int, int]] = Counter()

    def free_channel(sender: int, receiver: int, wanted: int) -> int:
        for turn in range(limits.channels):
            channel = (wanted + turn) % limits.channels
            sides = (("send", sender, channel), ("receive", receiver, channel))
            if (sender, receiver, channel) not in used and all(load[side] < limits.peers for side in sides):
                used.add((sender, receiver, channel))
                load.update(sides)
                return channel
        raise ScheduleError(
            f"MSCCL XML: ranks {sender}->{receiver} need more than {limits.channels} channels of "
            f"{limits.steps} steps and {limits.peers} peers; {REMEDY}"
        )

    for stream, (sends, receives) in pieces.streams().items():
        messages = list(zip(sends, receives, strict=True))
        weights = [max(rows[number].weight for number in message) for message in messages]
        for run in _split(messages, weights, limits.steps):
            channel = free_channel(*stream)
            for send, receive in run:
                rows[send].channel = rows[receive].channel = channel


def _split(items: Sequence[_T], weights: Sequence[int], limit: int) -> list[list[_T]]:
    remaining = iter(items)
    return [list(islice(remaining, length)) for length in split_evenly(weights, limit)]


def split_evenly(weights: Sequence[int], limit: int) -> list[int]:
    """Split positive weights into the fewest runs within a limit, the heaviest as light as possible.

    Return the lengths of the runs. The limit is for the sum of a run; a larger weight is a run of its own.

    Examples
    --------
    >>> split_evenly([1] * 65, 64)
    [33, 32]
    >>> split_evenly([5, 1, 1, 5], 7)
    [2, 2]
    """
    # Fewer steps per run need more runs, so bisection finds the smallest limit with the fewest runs.
    fewest = len(_runs(weights, limit))
    low, high = max(weights, default=0), max(limit, max(weights, default=0))
    lightest = low + bisect_left(range(low, high), -fewest, key=lambda most: -len(_runs(weights, most)))
    return _runs(weights, lightest)


def _runs(weights: Sequence[int], limit: int) -> list[int]:
    """Return the lengths of runs that are each as long as the limit allows."""
    lengths: list[int] = []
    total = limit + 1
    for weight in weights:
        total += weight
        if total > limit or not lengths:
            lengths.append(0)
            total = weight
        lengths[-1] += 1
    return lengths


@dataclass
class MscclBlock:
    """A thread block: the parts of a send stream, a receive stream, both, or copies."""

    channel: int
    send: int
    """Peer that it sends to, or -1."""
    receive: int
    """Peer that it receives from, or -1."""
    pieces: list[int]


def form_blocks(pieces: Subchunks, rank: int, n_ranks: int, limits: Limits) -> list[MscclBlock]:
    """Return the thread blocks of a rank in the order of their ids; ScheduleError beyond a limit."""
    streams: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    copies: dict[int, list[int]] = defaultdict(list)
    """Copies by the program's channel, so that instances copy concurrently."""
    for number in pieces.rank_pieces[rank]:
        piece = pieces.rows[number]
        peer = pieces.peer(piece)
        if piece.kind is OperationKind.COPY:
            copies[int(pieces.program.channel[piece.operation])].append(number)
        else:
            ends = (peer, -1) if piece.kind is OperationKind.SEND else (-1, peer)
            streams[piece.channel, *ends].append(number)
    blocks = [MscclBlock(*key, pieces=list(found)) for key, found in sorted(streams.items())]
    for _, copied in sorted(copies.items()):
        runs = _split(copied, [pieces.rows[number].weight for number in copied], limits.steps)
        blocks += [MscclBlock(0, -1, -1, run) for run in runs]
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
    # Only thread blocks with low ids may be waited for, so these come first.
    block_of = _block_of(blocks)
    awaited = {
        block_of[wait]
        for piece, number in block_of.items()
        for wait in pieces.rows[piece].waits
        if block_of[wait] != number
    }
    check_limits(rank, (len(awaited), limits.awaited, "thread blocks that others wait for"))
    order = sorted(range(len(blocks)), key=lambda number: (number not in awaited, number))
    return [blocks[number] for number in order]


def _block_of(blocks: list[MscclBlock]) -> dict[int, int]:
    return {piece: number for number, block in enumerate(blocks) for piece in block.pieces}


def pair_blocks(pieces: Subchunks, blocks: list[MscclBlock], limits: Limits) -> list[MscclBlock]:
    """Merge send streams with receive streams of the same channel, but no more than the limit requires.

    The lightest streams are merged, and the lighter one is, the heavier its partner, so that the heaviest
    thread block stays as light as possible. Streams without a partner stay separate.
    """
    sides: dict[tuple[int, bool], list[MscclBlock]] = defaultdict(list)
    for block in sorted(blocks, key=lambda block: pieces.weight(block.pieces)):
        if max(block.send, block.receive) >= 0:
            sides[block.channel, block.send >= 0].append(block)
    costs = [
        (pieces.weight((*one.pieces, *other.pieces)), channel)
        for channel in sorted({channel for channel, _ in sides})
        for one, other in zip(sides[channel, True], sides[channel, False], strict=False)
    ]
    # Merge the lightest pairs over all channels, only as many as there are thread blocks too many.
    wanted = Counter(
        channel
        for cost, channel in sorted(costs)[: max(0, len(blocks) - limits.thread_blocks)]
        if cost <= limits.steps
    )
    gone: set[int] = set()
    for channel, count in wanted.items():
        lightest = sides[channel, True][:count], sides[channel, False][:count]
        for one, other in zip(lightest[0], reversed(lightest[1]), strict=True):
            if pieces.weight((*one.pieces, *other.pieces)) <= limits.steps:
                one.receive = other.receive
                one.pieces = sorted(one.pieces + other.pieces)
                gone.add(id(other))
    return [block for block in blocks if id(block) not in gone]


AssignedStep = tuple[int, int, int]
"""A step: its part, -1 for a nop, and the block and step that it waits for, -1 for none."""


def form_steps(
    pieces: Subchunks, blocks: list[MscclBlock]
) -> tuple[list[list[AssignedStep]], set[tuple[int, int]]]:
    """Return the steps of every thread block, and the (block, step) for which others wait."""
    block_of = _block_of(blocks)
    needs = [
        # A block runs in order, so of each other block only the last part matters.
        [
            {block_of[wait]: wait for wait in sorted(pieces.rows[piece].waits) if block_of[wait] != number}
            for piece in block.pieces
        ]
        for number, block in enumerate(blocks)
    ]
    step_of: dict[int, int] = {}
    for block, rows in zip(blocks, needs, strict=True):
        ends = accumulate(max(1, len(last)) for last in rows)
        step_of.update((piece, end - 1) for piece, end in zip(block.pieces, ends, strict=True))
    steps: list[list[AssignedStep]] = []
    awaited: set[tuple[int, int]] = set()
    for block, rows in zip(blocks, needs, strict=True):
        steps.append([])
        for piece, last in zip(block.pieces, rows, strict=True):
            # A step can wait for one other step, so each further wait needs a nop before it.
            waits = sorted((other, step_of[wait]) for other, wait in last.items()) or [(-1, -1)]
            awaited.update(waits)
            steps[-1] += [*((-1, *wait) for wait in waits[:-1]), (piece, *waits[-1])]
    return steps, awaited
