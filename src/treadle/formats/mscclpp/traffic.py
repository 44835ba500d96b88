"""MSCCL++ plans as messages: each put, and each read of another rank's memory, is one.

Blocks are played until all are through, as signals let them. A put is received where it lands, without the
other rank's doing; whoever has waited for the signal after it may use it. A read is a send of the rank that
is read, after what its signal told of. Packets go as puts do, and who reads them waits. Signals themselves
take no time here. Memory is another than a program's, so buffers are not told apart, and what the plan does
with data is its judge's affair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from treadle.errors import ScheduleError
from treadle.formats.mscclpp.interpreter_blocks import PlanAtWork, Worker
from treadle.formats.mscclpp.interpreter_slices import Scale, even_units, unrolled
from treadle.formats.mscclpp.reader import PACKETS, BufferChunks, ExecutionPlan, MscclppOperation, read
from treadle.formats.verdict import Terms
from treadle.program.foreign.traffic import Traffic, even_shards
from treadle.program.program import Operation, OperationKind, program_from_operations
from treadle.schedules.collective import CollectiveKind

_MOST_OPERATIONS = 2 * 10**6
_News = dict[int, set[int]]
"""Of each rank: operations of the program that are known to be over."""


def traffic(data: bytes, terms: Terms) -> Traffic:
    """What the ranks send each other; ScheduleError for plans that ask switches, or that stand still."""
    plan = read(data, terms)
    kind = CollectiveKind("reduce-scatter" if plan.collective == "reducescatter" else plan.collective)
    scale = Scale(even_units(plan), turns=1)
    n, p = len(plan.sizes), scale.units * max(max(sizes["i"], sizes["o"]) for sizes in plan.sizes)
    play = _Play(plan, p, scale, terms.source or "MSCCL++ plan")
    play.run()
    program = program_from_operations(
        kind,
        play.operations,
        n_chunks=p,
        shard_offset=even_shards(kind, n, p, terms.root),
        root=terms.root if kind.is_rooted else -1,
    )
    return Traffic(program, is_runnable=False)


class _Worker(Worker[_News]):
    """A thread block, and what it knows to be over."""

    def __init__(self, rank: int, operations: Iterator[MscclppOperation]) -> None:
        super().__init__(rank, operations)
        self.known: _News = defaultdict(set)

    def hear(self, news: _News) -> None:
        for rank, places in news.items():
            self.known[rank] |= places

    def content(self) -> _News:
        return {rank: set(places) for rank, places in self.known.items()}

    def over(self) -> tuple[int, ...]:
        """Return the operations of the worker's rank that it knows to be over."""
        return tuple(sorted(self.known[self.rank]))


class _Play(PlanAtWork[_Worker, _News]):
    """All thread blocks at work."""

    def __init__(self, plan: ExecutionPlan, n_chunks: int, scale: Scale, source: str) -> None:
        work = [(rank, block) for rank, blocks in enumerate(plan.blocks) for block in blocks]
        super().__init__(plan, [_Worker(rank, unrolled(block, scale)) for rank, block in work], {})
        self.n_chunks, self.source = n_chunks, source
        self.operations: list[list[Operation]] = [[] for _ in plan.sizes]
        self.depth: list[list[int]] = [[] for _ in plan.sizes]
        self.packets: dict[tuple[int, int], int] = {}
        """Of packets in a rank's scratch: the operation that received them."""
        self.total = 0

    def run(self) -> None:
        """Play until nobody moves."""
        while self._work():
            pass
        for worker in self.blocks:
            if worker.now is not None:
                raise ScheduleError(f"{self.source}: {worker.now.where}: {worker.now.name} waits for ever")

    def _step(self, worker: _Worker, operation: MscclppOperation) -> bool:
        if any(place.how == "switch" for place in (*operation.sources, *operation.targets)):
            raise ScheduleError(
                f"{self.source}: {operation.where}: {operation.name} asks a switch, and the plan does "
                "not say which of the fabric's"
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

    def _merged(self, workers: list[_Worker]) -> _News:
        ranks = {rank for worker in workers for rank in worker.known}
        return {rank: set[int]().union(*(worker.known[rank] for worker in workers)) for rank in ranks}

    def _move(self, worker: _Worker, operation: MscclppOperation) -> None:
        places = [place for place in (*operation.sources, *operation.targets) if place.size]
        rank, adds = worker.rank, operation.name in ("re", "res", "rre", "rres")
        for one in operation.sources:
            if one.how == "remote" and one.size:
                self._message(worker, one.ranks[0], rank, one, adds=adds)
        if places and all(place.how == "local" for place in places):
            count = min(places[0].size, self.n_chunks)  # scratch may be larger than the buffers
            worker.known[rank] = {self._add(rank, OperationKind.COPY, 0, count, worker.over())}
        for one in operation.targets:
            if one.how == "remote" and one.size:
                self._message(worker, rank, one.ranks[0], one, adds=False)
        for channel in operation.channels if operation.name in ("pws", "pwsf") else ():
            self._signal(worker, (rank, *channel), relaxed=False)

    def _packets(self, worker: _Worker, operation: MscclppOperation) -> bool:
        """Packets are puts that whoever reads them waits for; False if some have not come."""
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
        """A send and its receive: both ends wait for what the worker knows to be over there.

        Returns the receive's place in its rank's list.
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
        """Append an operation; its place in the rank's list."""
        self.total += 1
        if self.total > _MOST_OPERATIONS:
            raise ScheduleError(f"{self.source}: more than {_MOST_OPERATIONS} operations")
        depth = 1 + max((self.depth[rank][place] for place in waits), default=depth)
        self.operations[rank].append(Operation(kind, first, count, peer=peer, step=depth, waits=waits))
        self.depth[rank].append(depth)
        return len(self.operations[rank]) - 1
