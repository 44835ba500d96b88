"""MSCCL++ plans as messages: each put, and each read of another rank's memory, is one.

Blocks are played until all are through, as signals let them. A put is received where it lands, without the
other rank's doing; whoever has waited for the signal after it may use it. A read is a send of the rank that
is read, after what its signal told of. Packets go as puts do, and who reads them waits. Signals themselves
take no time here. Memory is another than a program's, so buffers are not told apart, and what the plan does
with data is its judge's affair.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from treadle.errors import ScheduleError
from treadle.formats.judgement import Terms, decoded
from treadle.formats.mscclpp.judge_slices import Scale, even_units, unrolled
from treadle.formats.mscclpp.reader import (
    MOVES,
    PACKETS,
    BufferChunks,
    ExecutionPlan,
    MscclppOperation,
    parse_mscclpp_json,
)
from treadle.program.foreign.traffic import Traffic
from treadle.program.program import Operation, OperationKind, program_from_operations
from treadle.schedules.collective import CollectiveKind

_MOST_OPERATIONS = 2 * 10**6
_News = dict[int, set[int]]
"""Of each rank: operations of the program that are known to be over."""


def traffic(data: bytes, terms: Terms) -> Traffic:
    """What the ranks send each other; ScheduleError for plans that ask switches, or that stand still."""
    source = terms.source or "MSCCL++ plan"
    plan = parse_mscclpp_json(decoded(data, source), source)
    kind = CollectiveKind("reduce-scatter" if plan.collective == "reducescatter" else plan.collective)
    scale = Scale(even_units(plan), turns=1)
    n, p = len(plan.sizes), scale.units * max(max(sizes["i"], sizes["o"]) for sizes in plan.sizes)
    play = _Play(plan, p, scale, source)
    play.run()
    if kind is CollectiveKind.ALLTOALL:
        shards = [place * (p // n) for place in range(n * n + 1)]
    elif kind.is_rooted:
        shards = [0 if place <= terms.root else p for place in range(n + 1)]
    else:
        shards = [p * place // n for place in range(n + 1)]
    program = program_from_operations(
        kind,
        play.operations,
        n_chunks=p,
        shard_offset=shards,
        root=terms.root if kind.is_rooted else -1,
    )
    return Traffic(program, is_runnable=False)


@dataclass
class _Worker:
    """A thread block, and what it knows to be over."""

    rank: int
    left: Iterator[MscclppOperation]
    now: MscclppOperation | None = None
    known: _News = field(default_factory=lambda: defaultdict(set))

    def learn(self, news: _News) -> None:
        for rank, places in news.items():
            self.known[rank] |= places

    def told(self) -> _News:
        return {rank: set(places) for rank, places in self.known.items()}


class _Play:
    """All thread blocks at work."""

    def __init__(self, plan: ExecutionPlan, n_chunks: int, scale: Scale, source: str) -> None:
        self.plan, self.n_chunks, self.source = plan, n_chunks, source
        self.operations: list[list[Operation]] = [[] for _ in plan.sizes]
        self.depth: list[list[int]] = [[] for _ in plan.sizes]
        self.workers = [
            _Worker(rank, unrolled(block, scale))
            for rank, blocks in enumerate(plan.blocks)
            for block in blocks
        ]
        for worker in self.workers:
            worker.now = next(worker.left, None)
        self.signals: dict[tuple[int, str, int], deque[_News]] = defaultdict(deque)
        self.semaphores: dict[tuple[int, int], deque[_News]] = defaultdict(deque)
        for rank, values in enumerate(plan.semaphores):
            for number, value in enumerate(values):
                self.semaphores[rank, number].extend({} for _ in range(min(value, 4096)))
        self.meetings: dict[tuple[int, int], list[_Worker]] = defaultdict(list)
        self.ends = self._ends()
        self.packets: dict[tuple[int, int], int] = {}
        """Of packets in a rank's scratch: the operation that received them."""
        self.total = 0

    def _ends(self) -> dict[tuple[int, str, int], tuple[int, str, int]]:
        """The other end of every channel: the i-th to a peer meets the peer's i-th back."""
        places: dict[tuple[int, int, str], list[int]] = defaultdict(list)
        for rank, kinds in enumerate(self.plan.peers):
            for kind, peers in kinds.items():
                for number, peer in enumerate(peers):
                    places[rank, peer, kind].append(number)
        return {
            (rank, kind, mine): (peer, kind, theirs)
            for (rank, peer, kind), numbers in places.items()
            for mine, theirs in zip(numbers, places.get((peer, rank, kind), ()), strict=False)
        }

    def run(self) -> None:
        """Play until nobody moves."""
        moving = True
        while moving:
            moving = False
            for worker in self.workers:
                while worker.now is not None and self._step(worker, worker.now):
                    worker.now = next(worker.left, None)
                    moving = True
        for worker in self.workers:
            if worker.now is not None:
                raise ScheduleError(f"{self.source}: {worker.now.where}: {worker.now.name} waits for ever")

    def _step(self, worker: _Worker, operation: MscclppOperation) -> bool:
        name = operation.name
        if name in MOVES | PACKETS:
            self._check_switches(operation)
        if name in MOVES:
            self._move(worker, operation)
        elif name in PACKETS:
            return self._packets(worker, operation)
        elif name in ("signal", "rlxsignal"):
            self._signal(worker, operation)
        elif name in ("wait", "rlxwait"):
            queues = [self.signals[worker.rank, *channel] for channel in operation.channels]
            return self._hear(worker, queues)
        elif name == "sem_release":
            for number in operation.numbers:
                self.semaphores[worker.rank, number].append(worker.told())
        elif name == "sem_acquire":
            return self._hear(worker, [self.semaphores[worker.rank, number] for number in operation.numbers])
        elif name == "barrier":
            return self._meet(worker, operation)
        return True

    def _hear(self, worker: _Worker, queues: list[deque[_News]]) -> bool:
        wanted = Counter(map(id, queues))  # a plan may name a queue twice
        if any(len(queue) < wanted[id(queue)] for queue in queues):
            return False
        for queue in queues:
            worker.learn(queue.popleft())
        return True

    def _signal(self, worker: _Worker, operation: MscclppOperation) -> None:
        for channel in operation.channels:
            end = self.ends.get((worker.rank, *channel))
            if end is None:
                raise ScheduleError(f"{self.source}: {operation.where}: a channel has no other end")
            self.signals[end].append(worker.told())

    def _meet(self, worker: _Worker, operation: MscclppOperation) -> bool:
        present = self.meetings[worker.rank, operation.numbers[0]]
        if worker not in present:
            present.append(worker)
        if len(present) < operation.numbers[1]:
            return False
        news: _News = defaultdict(set)
        for other in present:
            for rank, places in other.known.items():
                news[rank] |= places
        for other in present:
            other.learn(news)
            if other is not worker:
                other.now = next(other.left, None)
        present.clear()
        return True

    def _check_switches(self, operation: MscclppOperation) -> None:
        if any(place.how == "switch" for place in (*operation.sources, *operation.targets)):
            raise ScheduleError(
                f"{self.source}: {operation.where}: {operation.name} asks a switch, and the plan does "
                "not say which of the fabric's"
            )

    def _move(self, worker: _Worker, operation: MscclppOperation) -> None:
        places = [place for place in (*operation.sources, *operation.targets) if place.size]
        rank, adds = worker.rank, operation.name in ("re", "res", "rre", "rres")
        for one in operation.sources:
            if one.how == "remote" and one.size:
                self._message(worker, one.ranks[0], rank, one, adds=adds)
        if places and all(place.how == "local" for place in places):
            count = min(places[0].size, self.n_chunks)  # scratch may be larger than the buffers
            worker.known[rank] = {self._add(rank, OperationKind.COPY, 0, count, self._over(worker))}
        for one in operation.targets:
            if one.how == "remote" and one.size:
                self._message(worker, rank, one.ranks[0], one, adds=False)
        if operation.name in ("pws", "pwsf"):
            self._signal(worker, operation)

    def _packets(self, worker: _Worker, operation: MscclppOperation) -> bool:
        """Packets are puts that whoever reads them waits for; False if some have not come."""
        rank, name = worker.rank, operation.name
        by_port = any(kind == "port" for kind, _ in operation.channels)
        own = {"cpkt": 1, "repkt": 1, "respkt": 1, "recpkt": 1, "recspkt": 1}.get(name, 0)
        if name == "ppkt" and not by_port:
            own = len(operation.sources)
        read = [(rank, place.index + i) for place in operation.sources[own:] for i in range(place.size)]
        if not all(packet in self.packets for packet in read):
            return False
        worker.known[rank] |= {self.packets[packet] for packet in read}
        if name not in ("ppkt", "rppkt") and operation.targets[0].size:
            count = min(operation.targets[0].size, self.n_chunks)
            worker.known[rank] = {self._add(rank, OperationKind.COPY, 0, count, self._over(worker))}
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
        here = self._over(worker) if receiver == worker.rank else ()
        kind = OperationKind.RECEIVE_REDUCE if adds else OperationKind.RECEIVE
        came = self._add(receiver, kind, first, count, here, sender, self.depth[sender][left])
        if receiver == worker.rank:
            worker.known[receiver] = {came}
            worker.known[sender].add(left)
        else:
            worker.known[sender] = {left}
            worker.known[receiver].add(came)
        return came

    def _over(self, worker: _Worker) -> tuple[int, ...]:
        return tuple(sorted(worker.known[worker.rank]))

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
