"""Programs of sends that have times: a send carries data that arrived before its time.

Times only order the operations of a rank: an operation waits for the receives of its chunks and for the sends
out of memory that it overwrites, as in the lowering of steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from treadle.errors import ScheduleError
from treadle.program.foreign.traffic import Traffic, Way
from treadle.program.program import (
    Buffer,
    Operation,
    OperationKind,
    buffer_shards,
    program_from_operations,
)
from treadle.schedules.collective import CollectiveKind


@dataclass(frozen=True)
class TimedSend:
    """A message of chunks [first, first + count) of one shard."""

    time: int
    sender: int
    receiver: int
    first: int
    count: int
    reduces: bool = False
    """Whether the receiver adds the chunks to its own."""
    way: Way = ()
    """Names of the nodes between, if the file has them."""


@dataclass(frozen=True)
class SendsFrame:
    """Kind, ranks, chunks and shards of a program; see `Program`."""

    kind: CollectiveKind
    n_ranks: int
    n_chunks: int
    shard_offset: Sequence[int]
    root: int = -1


def program_of_sends(
    frame: SendsFrame, sends: Iterable[TimedSend], *, notes: tuple[str, ...] = ()
) -> Traffic:
    """Return the sends as a program without paths.

    Parameters
    ----------
    frame : SendsFrame
    sends : iterable of TimedSend
        In any order; those of one time read the data before it.
    notes : tuple of str

    Raises
    ------
    ScheduleError
        If a chunk is sent before it has arrived, or does not exist.
    """
    builder = _Builder(frame)
    ordered = sorted(sends, key=lambda send: send.time)
    for step, (_, group) in enumerate(groupby(ordered, key=lambda send: send.time)):
        parts = [part for send in group for part in builder.parts(send)]
        for part in parts:
            builder.send(step, part)
        for part in parts:
            builder.receive(step, part)
    for rank, first, past in _own_copies(frame):
        if past > first:
            builder.operations[rank].append(Operation(OperationKind.COPY, first, past - first))
    program = program_from_operations(
        frame.kind,
        builder.operations,
        n_chunks=frame.n_chunks,
        shard_offset=frame.shard_offset,
        root=frame.root,
    )
    ways = {int(program.operation_offset[rank]) + place: way for (rank, place), way in builder.ways.items()}
    return Traffic(program, ways, notes=notes)


def _own_copies(frame: SendsFrame) -> list[tuple[int, int, int]]:
    """Return (rank, first chunk, past the last) of the data that ranks have in both INPUT and OUTPUT."""
    if frame.kind is CollectiveKind.BROADCAST:
        return [(frame.root, 0, frame.n_chunks)]
    if frame.kind not in (CollectiveKind.ALLGATHER, CollectiveKind.ALLTOALL):
        return []
    step = frame.n_ranks + 1 if frame.kind is CollectiveKind.ALLTOALL else 1
    bounds = list(pairwise(frame.shard_offset))[::step]
    return [(rank, first, past) for rank, (first, past) in enumerate(bounds)]


class _Builder:
    """Operations of all ranks, and the data that every rank holds so far."""

    def __init__(self, frame: SendsFrame) -> None:
        self.frame = frame
        self.operations: list[list[Operation]] = [[] for _ in range(frame.n_ranks)]
        self.ways: dict[tuple[int, int], Way] = {}
        self.writer: list[dict[int, int]] = [{} for _ in range(frame.n_ranks)]
        """The operation that stored each received chunk of each rank last."""
        self.readers: list[dict[int, list[int]]] = [{} for _ in range(frame.n_ranks)]

    def parts(self, send: TimedSend) -> list[TimedSend]:
        """Cut the send where chunks of its sender, or of its receiver, have different writers."""
        if send.count < 1 or not 0 <= send.first <= self.frame.shard_offset[-1] - send.count:
            raise ScheduleError(f"{_format_send(send)}: no such chunks")
        sent, received = self.writer[send.sender], self.writer[send.receiver]
        chunks = range(send.first, send.first + send.count)
        runs = groupby(chunks, key=lambda chunk: (sent.get(chunk), chunk in received))
        ranges = [(next(run), 1 + sum(1 for _ in run)) for _, run in runs]
        return [replace(send, first=first, count=count) for first, count in ranges]

    def send(self, step: int, send: TimedSend) -> None:
        """Add the operation of the sender."""
        rank, chunk = send.sender, send.first
        writer = self.writer[rank].get(chunk)
        if writer is None and not self._has(rank, chunk, send.count, Buffer.INPUT):
            raise ScheduleError(f"{_format_send(send)}: it has not arrived there by then")
        number = len(self.operations[rank])
        buffer = Buffer.INPUT if writer is None else self._store(rank, chunk)
        self.operations[rank].append(
            Operation(
                OperationKind.SEND,
                chunk,
                send.count,
                peer=send.receiver,
                source=buffer,
                target=buffer,
                step=step,
                waits=() if writer is None else (writer,),
            )
        )
        if writer is not None:
            for read in range(chunk, chunk + send.count):
                self.readers[rank].setdefault(read, []).append(number)
        if send.way:
            self.ways[rank, number] = send.way

    def receive(self, step: int, send: TimedSend) -> None:
        """Add the operation of the receiver."""
        rank, chunks = send.receiver, range(send.first, send.first + send.count)
        number, store = len(self.operations[rank]), self._store(rank, send.first)
        before = {self.writer[rank][chunk] for chunk in chunks if chunk in self.writer[rank]}
        adds_to = store if before else Buffer.INPUT
        for chunk in chunks:
            before.update(self.readers[rank].pop(chunk, ()))
            self.writer[rank][chunk] = number
        self.operations[rank].append(
            Operation(
                OperationKind.RECEIVE_REDUCE if send.reduces else OperationKind.RECEIVE,
                send.first,
                send.count,
                peer=send.sender,
                source=adds_to if send.reduces else store,
                target=store,
                step=step,
                waits=tuple(sorted(before)),
            )
        )

    def _store(self, rank: int, chunk: int) -> Buffer:
        """Return the buffer that stores a received chunk."""
        return Buffer.OUTPUT if self._has(rank, chunk, 1, Buffer.OUTPUT) else Buffer.SCRATCH

    def _has(self, rank: int, first: int, count: int, buffer: Buffer) -> bool:
        """Whether a buffer of a rank has these chunks."""
        frame = self.frame
        shards = buffer_shards(frame.kind, frame.n_ranks, frame.root, rank, buffer)
        shard = bisect_right(frame.shard_offset, first) - 1
        return shards is None or (shard in shards and first + count <= frame.shard_offset[shard + 1])


def _format_send(send: TimedSend) -> str:
    return f"rank {send.sender} sends chunk {send.first} to rank {send.receiver}"
