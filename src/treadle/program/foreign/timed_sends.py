"""Programs of sends that have times: what is sent at a time is what had come before it.

Times order a rank's operations and nothing else: an operation waits for the messages that brought its chunks
and for those that must have left the memory that it overwrites, as where steps are lowered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from treadle.errors import ScheduleError
from treadle.program.foreign.traffic import Traffic, Way
from treadle.program.program import Buffer, Operation, OperationKind, program_from_operations
from treadle.schedules.collective import CollectiveKind


@dataclass(frozen=True)
class TimedSend:
    """A message.

    Parameters
    ----------
    time : int
        Its place among all times.
    sender, receiver : int
        Ranks.
    first, count : int
        Chunks, all of one shard.
    reduces : bool
        The receiver adds what comes to what it has.
    way : Way
        Names of the nodes between, if the file has them.
    """

    time: int
    sender: int
    receiver: int
    first: int
    count: int
    reduces: bool = False
    way: Way = ()


@dataclass(frozen=True)
class SendsFrame:
    """Of what a program is one; see `Program`."""

    kind: CollectiveKind
    n_ranks: int
    n_chunks: int
    shard_offset: Sequence[int]
    root: int = -1

    def stationary(self) -> list[tuple[int, int, int]]:
        """(rank, first chunk, past the last) of all that ranks have in both INPUT and OUTPUT and keep."""
        if self.kind is CollectiveKind.ALLGATHER:
            ranks: Iterable[tuple[int, int]] = ((rank, rank) for rank in range(self.n_ranks))
        elif self.kind is CollectiveKind.ALLTOALL:
            ranks = ((rank, rank * self.n_ranks + rank) for rank in range(self.n_ranks))
        elif self.kind is CollectiveKind.BROADCAST:
            return [(self.root, 0, self.n_chunks)]
        else:
            return []
        return [(rank, self.shard_offset[place], self.shard_offset[place + 1]) for rank, place in ranks]


def program_of_sends(
    frame: SendsFrame, sends: Iterable[TimedSend], *, notes: tuple[str, ...] = ()
) -> Traffic:
    """The sends as a program without paths.

    Parameters
    ----------
    frame : SendsFrame
    sends : iterable of TimedSend
        In any order; those of one time read what was there before it.
    notes : tuple of str

    Raises
    ------
    ScheduleError
        If a chunk is sent that has not come, or that is no chunk.
    """
    builder = _Builder(frame)
    ordered = sorted(sends, key=lambda send: send.time)
    for step, (_, group) in enumerate(groupby(ordered, key=lambda send: send.time)):
        builder.add(step, list(group))
    builder.hold_own()
    program = program_from_operations(
        frame.kind,
        builder.operations,
        n_chunks=frame.n_chunks,
        shard_offset=frame.shard_offset,
        root=frame.root,
    )
    ways = {int(program.operation_offset[rank]) + place: way for (rank, place), way in builder.ways.items()}
    return Traffic(program, ways, notes=notes)


class _Builder:
    """Operations of all ranks, and what every rank holds so far."""

    def __init__(self, frame: SendsFrame) -> None:
        self.frame = frame
        self.operations: list[list[Operation]] = [[] for _ in range(frame.n_ranks)]
        self.ways: dict[tuple[int, int], Way] = {}
        self.writer: list[dict[int, int]] = [{} for _ in range(frame.n_ranks)]
        """Of each rank and chunk that came: the operation that stored it last."""
        self.readers: list[dict[int, list[int]]] = [{} for _ in range(frame.n_ranks)]

    def add(self, step: int, sends: list[TimedSend]) -> None:
        """All sends of one time: they leave before any of them arrives."""
        pieces = [piece for send in sends for piece in self._pieces(send)]
        for send in pieces:
            self._send(step, send)
        for send in pieces:
            self._receive(step, send)

    def hold_own(self) -> None:
        """Copy what a rank has and keeps."""
        for rank, first, past in self.frame.stationary():
            if past > first:
                self.operations[rank].append(Operation(OperationKind.COPY, first, past - first))

    def _pieces(self, send: TimedSend) -> list[TimedSend]:
        """The send, cut where its sender's chunks, or its receiver's, have come in different ways."""
        if send.count < 1 or not 0 <= send.first <= self.frame.shard_offset[-1] - send.count:
            raise ScheduleError(f"{_told(send)}: no such chunks")
        states = [
            (chunk, self.writer[send.sender].get(chunk), self.writer[send.receiver].get(chunk))
            for chunk in range(send.first, send.first + send.count)
        ]
        runs = [list(run) for _, run in groupby(states, key=lambda state: (state[1], state[2] is None))]
        return [
            TimedSend(send.time, send.sender, send.receiver, run[0][0], len(run), send.reduces, send.way)
            for run in runs
        ]

    def _send(self, step: int, send: TimedSend) -> None:
        rank, chunk = send.sender, send.first
        writer = self.writer[rank].get(chunk)
        if writer is None and not self._has(rank, chunk, send.count, Buffer.INPUT):
            raise ScheduleError(f"{_told(send)}: it has not come there by then")
        place = len(self.operations[rank])
        self.operations[rank].append(
            Operation(
                OperationKind.SEND,
                chunk,
                send.count,
                peer=send.receiver,
                source=Buffer.INPUT if writer is None else self._store(rank, chunk),
                target=Buffer.INPUT if writer is None else self._store(rank, chunk),
                step=step,
                waits=() if writer is None else (writer,),
            )
        )
        if writer is not None:
            for one in range(chunk, chunk + send.count):
                self.readers[rank].setdefault(one, []).append(place)
        if send.way:
            self.ways[rank, place] = send.way

    def _receive(self, step: int, send: TimedSend) -> None:
        rank, chunks = send.receiver, range(send.first, send.first + send.count)
        place, store = len(self.operations[rank]), self._store(rank, send.first)
        before = {self.writer[rank][chunk] for chunk in chunks if chunk in self.writer[rank]}
        adds_to = store if before else Buffer.INPUT
        for chunk in chunks:
            before.update(self.readers[rank].pop(chunk, ()))
            self.writer[rank][chunk] = place
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
        """Where what comes is kept."""
        return Buffer.OUTPUT if self._has(rank, chunk, 1, Buffer.OUTPUT) else Buffer.SCRATCH

    def _has(self, rank: int, first: int, count: int, buffer: Buffer) -> bool:
        """Whether a buffer of a rank has such chunks."""
        frame, is_input = self.frame, buffer is Buffer.INPUT
        kind, offset = frame.kind, frame.shard_offset
        if kind is CollectiveKind.ALLTOALL:
            place = bisect_right(offset, first) - 1
            end = place // frame.n_ranks if is_input else place % frame.n_ranks
            return end == rank and first + count <= offset[place + 1]
        if kind is (CollectiveKind.ALLGATHER if is_input else CollectiveKind.REDUCE_SCATTER):
            return offset[rank] <= first and first + count <= offset[rank + 1]
        if kind is (CollectiveKind.BROADCAST if is_input else CollectiveKind.REDUCE):
            return rank == frame.root
        return True


def _told(send: TimedSend) -> str:
    return f"rank {send.sender} sends chunk {send.first} to rank {send.receiver}"
