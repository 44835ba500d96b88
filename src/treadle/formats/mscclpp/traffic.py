"""Converts MSCCL++ plans to messages: one for each put, and for each read of another rank's memory.

All blocks are executed, as signals let them. A put is received at its target without an action of the other
rank; its data may be used after a wait for the signal that follows it. A read is a send of the other rank,
after the operations that its signal shows to be complete. Packets are sent like puts, and their readers wait.
Signals themselves take no time here. Memory differs from a program's, so buffers are not distinguished; the
verifier checks what the plan does with the data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from treadle.errors import ScheduleError
from treadle.formats.mscclpp.interpreter_blocks import PlanAtWork, Worker
from treadle.formats.mscclpp.interpreter_slices import Scale, even_units, unrolled
from treadle.formats.mscclpp.reader import PACKETS, BufferChunks, ExecutionPlan, MscclppOperation, read
from treadle.formats.schedule_source import simulated_traffic
from treadle.formats.verdict import Terms
from treadle.program.foreign.traffic import Traffic
from treadle.program.program import Operation, OperationKind

_MOST_OPERATIONS = 2 * 10**6
_News = dict[int, set[int]]
"""Operations of the program that are known to be complete, by rank."""


def traffic(data: bytes, terms: Terms) -> Traffic:
    """Return the messages between the ranks; ScheduleError for in-network operations or a deadlock."""
    plan = read(data, terms)
    scale = Scale(even_units(plan), turns=1)
    n_chunks = scale.units * max(max(sizes["i"], sizes["o"]) for sizes in plan.sizes)
    play = _Play(plan, n_chunks, scale, terms.source or "MSCCL++ plan")
    play.run()
    return simulated_traffic(plan.collective, play.operations, n_chunks, terms.root)


class _Worker(Worker[_News]):
    """A thread block, and the operations that it knows to be complete."""

    def __init__(self, rank: int, operations: Iterator[MscclppOperation]) -> None:
        super().__init__(rank, operations)
        self.known: _News = defaultdict(set)

    def hear(self, news: _News) -> None:
        for rank, places in news.items():
            self.known[rank] |= places

    def content(self) -> _News:
        return {rank: set(places) for rank, places in self.known.items()}

    def over(self) -> tuple[int, ...]:
        """Return the complete operations of the worker's rank, as far as it knows."""
        return tuple(sorted(self.known[self.rank]))


class _Play(PlanAtWork[_Worker, _News]):
    """All thread blocks, and the operations that they have made."""

    def __init__(self, plan: ExecutionPlan, n_chunks: int, scale: Scale, source: str) -> None:
        work = [(rank, block) for rank, blocks in enumerate(plan.blocks) for block in blocks]
        super().__init__(plan, [_Worker(rank, unrolled(block, scale)) for rank, block in work], {})
        self.n_chunks, self.source = n_chunks, source
        self.operations: list[list[Operation]] = [[] for _ in plan.sizes]
        self.depth: list[list[int]] = [[] for _ in plan.sizes]
        self.packets: dict[tuple[int, int], int] = {}
        """The operation that received each packet, by rank and position in scratch."""
        self.total = 0

    def run(self) -> None:
        """Let all blocks work until none can; ScheduleError if some are left."""
        while self._work():
            pass
        for worker in self.blocks:
            if worker.now is not None:
                raise ScheduleError(f"{self.source}: {worker.now.where}: {worker.now.name} waits for ever")

    def _step(self, worker: _Worker, operation: MscclppOperation) -> bool:
        if any(place.how == "switch" for place in (*operation.sources, *operation.targets)):
            raise ScheduleError(
                f"{self.source}: {operation.where}: {operation.name} is an in-network operation, and "
                "the plan does not name its switch"
            )
        if operation.name in PACKETS:
            return self._packets(worker, operation)
        return super()._step(worker, operation)

    def _signal(self, worker: _Worker, channel: tuple[int, str, int], *, relaxed: bool) -> None:
        del relaxed
        if channel not in self.ends:
            assert worker.now is not None
            raise ScheduleError(f"{self.source}: {worker.now.where}: a channel has no other end")
        self.signals[self.ends[channel]].append(worker.content())

    def _move(self, worker: _Worker, operation: MscclppOperation) -> None:
        places = [place for place in (*operation.sources, *operation.targets) if place.size]
        rank, adds = worker.rank, operation.name in ("re", "res", "rre", "rres")
        for one in operation.sources:
            if one.how == "remote" and one.size:
                self._message(worker, one.ranks[0], rank, one, adds=adds)
        if places and all(place.how == "local" for place in places):
            count = min(places[0].size, self.n_chunks)  # Scratch may be larger than the buffers.
            worker.known[rank] = {self._add(rank, OperationKind.COPY, 0, count, worker.over())}
        for one in operation.targets:
            if one.how == "remote" and one.size:
                self._message(worker, rank, one.ranks[0], one, adds=False)
        for channel in operation.channels if operation.name in ("pws", "pwsf") else ():
            self._signal(worker, (rank, *channel), relaxed=False)

    def _packets(self, worker: _Worker, operation: MscclppOperation) -> bool:
        """Send packets like puts, and wait for those that are read; return False if some have not arrived."""
        rank, name = worker.rank, operation.name
        by_port = any(kind == "port" for kind, _ in operation.channels)
        own = int(name in ("cpkt", "repkt", "respkt", "recpkt", "recspkt"))
        if name == "ppkt" and not by_port:
            own = len(operation.sources)
        read = [(rank, place.index + i) for place in operation.sources[own:] for i in range(place.size)]
        if not all(packet in self.packets for packet in read):
            return False
        worker.known[rank] |= {self.packets[packet] for packet in read}
        if name not in ("ppkt", "rppkt") and operation.targets[0].size:
            count = min(operation.targets[0].size, self.n_chunks)
            worker.known[rank] = {self._add(rank, OperationKind.COPY, 0, count, worker.over())}
        for number, place in enumerate(operation.targets):
            if place.how == "remote" and place.size:
                came = self._message(worker, rank, place.ranks[0], place, adds=False)
                self.packets |= {(place.ranks[0], place.index + i): came for i in range(place.size)}
            elif name == "cpkt" or (number == 1 and name in ("recpkt", "recspkt")):
                packets = {(rank, place.index + i) for i in range(place.size)}
                self.packets |= dict.fromkeys(packets, max(worker.known[rank], default=-1))
        return True

    def _message(
        self, worker: _Worker, sender: int, receiver: int, place: BufferChunks, *, adds: bool
    ) -> int:
        """Append a send and its receive, after the operations there that the worker knows to be complete.

        Return the position of the receive in its rank's list.
        """
        count = min(place.size, self.n_chunks)
        first = min(place.index, self.n_chunks - count)
        waits = tuple(sorted(worker.known[sender]))
        left = self._add(sender, OperationKind.SEND, first, count, waits, receiver)
        here = worker.over() if receiver == worker.rank else ()
        kind = OperationKind.RECEIVE_REDUCE if adds else OperationKind.RECEIVE
        came = self._add(receiver, kind, first, count, here, sender, self.depth[sender][left])
        if receiver == worker.rank:
            worker.known[receiver] = {came}
            worker.known[sender].add(left)
        else:
            worker.known[sender] = {left}
            worker.known[receiver].add(came)
        return came

    def _add(
        self,
        rank: int,
        kind: OperationKind,
        first: int,
        count: int,
        waits: tuple[int, ...],
        peer: int = -1,
        depth: int = -1,
    ) -> int:
        """Append an operation and return its position in the rank's list."""
        self.total += 1
        if self.total > _MOST_OPERATIONS:
            raise ScheduleError(f"{self.source}: more than {_MOST_OPERATIONS} operations")
        depth = 1 + max((self.depth[rank][place] for place in waits), default=depth)
        self.operations[rank].append(Operation(kind, first, count, peer=peer, step=depth, waits=waits))
        self.depth[rank].append(depth)
        return len(self.operations[rank]) - 1
