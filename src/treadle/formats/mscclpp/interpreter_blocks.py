"""Thread blocks of an MSCCL++ plan at work, and what each knows of the others (vector clocks)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from treadle.errors import FormatError
from treadle.formats.mscclpp.reader import MOVES, ExecutionPlan, MscclppOperation

Clock = dict[int, int]
"""For each block and proxy, how many of its moves are known to be over."""


_MOST_RELEASED = 2**22
"""Most releases of a semaphore at first that are held."""
_MAX_VISITS = 10**7
"""Most nodes that are looked at in vain: some ten seconds."""


class News(NamedTuple):
    """Content of a signal: moves that are over, ranks that have begun, and nodes of `ReadOrder`."""

    clock: Clock
    there: set[int]
    nodes: tuple[int, ...] = ()


class ReadOrder:
    """Reads that are over before an access, where packets carry the order.

    A packet is written after the reads that its data come from, and read after it was written, thread by
    thread: each element of a chunk by itself. So nodes are moves of single units by packets, and the points
    where all threads of a block meet; an access comes after the reads of all nodes that lead to it. Stores to
    plain memory are not ordered so: a packet has no fence.
    """

    def __init__(self) -> None:
        self._before: list[tuple[int, ...]] = []
        self._known: list[Clock] = []
        self._visits = 0

    def add(self, before: Iterable[int], known: Clock) -> int:
        """Append a node after others; `known` is what its threads know to be over by signals."""
        self._before.append(tuple(before))
        self._known.append(known)
        return len(self._before) - 1

    def is_over(self, start: int, who: int, count: int, read: int | None) -> bool:
        """Whether a read, by its mover and count and, if packets did it, its node, comes before a node."""
        seen, left = {start}, deque([start])
        while left:
            node = left.popleft()
            if node == read or self._known[node].get(who, 0) >= count:
                return True
            fresh = set(self._before[node]) - seen
            seen |= fresh
            left.extend(fresh)
        self._visits += len(seen)
        if self._visits > _MAX_VISITS:
            raise FormatError(f"MSCCL++ plan: more than {_MAX_VISITS} orders of packets: too large to verify")
        return False


_N = TypeVar("_N")
"""Content of signals."""


class Worker(ABC, Generic[_N]):
    """A thread block with the operations that it has left."""

    def __init__(self, rank: int, operations: Iterator[MscclppOperation]) -> None:
        self.rank, self.operations = rank, operations
        self.now = next(operations, None)

    @abstractmethod
    def content(self) -> _N:
        """Return the content of a signal of this block now."""

    @abstractmethod
    def hear(self, news: _N) -> None:
        """Take in the content of a signal."""

    def line_up(self) -> None:
        """Let all threads know what any of them has heard or done."""

    def hear_all(self, queues: Sequence[deque[_N]]) -> bool:
        """Take a signal out of each queue; False, and nothing is taken, if one has too few."""
        wanted = Counter(map(id, queues))  # a plan may name a queue twice
        if any(len(queue) < wanted[id(queue)] for queue in queues):
            return False
        for queue in queues:
            self.hear(queue.popleft())
        return True


class BlockAtWork(Worker[News]):
    """A thread block at work."""

    def __init__(
        self,
        number: int,
        rank: int,
        operations: Iterator[MscclppOperation],
        order: ReadOrder | None = None,
    ) -> None:
        super().__init__(rank, operations)
        self.number, self.order = number, order
        self.moves = 0
        self.known: Clock = {}
        self.there: set[int] = {rank}
        self.heard: Clock = {}
        self.heard_there: set[int] = {rank}
        self.node = -1 if order is None else order.add((), self.known)
        self.since: list[int] = []
        """Nodes that single threads know of; all do after the next ``nop``."""

    def line_up(self) -> None:
        """All threads know what any of them has heard or done."""
        self.known = dict(self.known)  # nodes keep the older one
        merge(self.known, self.heard)
        self.known[self.number] = self.moves
        self.there |= self.heard_there
        if self.order is not None:
            self.node = self.order.add((self.node, *self.since), self.known)
            self.since = []

    def content(self) -> News:
        """Return the content of a signal of this block now."""
        return News(self.known, set(self.there), () if self.order is None else (self.node,))

    def hear(self, news: News) -> None:
        """A signal's clock, and who is there, come in; other threads know nothing of it yet."""
        merge(self.heard, news.clock)
        self.heard_there |= news.there
        self.since += news.nodes


def merge(into: Clock, other: Clock) -> None:
    """Let one clock know what another does."""
    for key, time in other.items():
        if time > into.get(key, 0):
            into[key] = time


_W = TypeVar("_W", bound=Worker[Any])


class PlanAtWork(ABC, Generic[_W, _N]):
    """All blocks of a plan at work, with their channels, semaphores and barriers."""

    def __init__(self, plan: ExecutionPlan, blocks: list[_W], nothing: _N) -> None:
        self.plan, self.blocks = plan, blocks
        self.signals: dict[tuple[int, str, int], deque[_N]] = defaultdict(deque)
        self.semaphores = {
            (rank, number): deque([nothing] * min(value, _MOST_RELEASED))
            for rank, values in enumerate(plan.semaphores)
            for number, value in enumerate(values)
        }
        self.meetings: dict[tuple[int, int], list[_W]] = defaultdict(list)
        places: dict[tuple[int, int, str], list[int]] = defaultdict(list)
        for rank, kinds in enumerate(plan.peers):
            for kind, peers in kinds.items():
                for number, peer in enumerate(peers):
                    places[rank, peer, kind].append(number)
        self.ends = {
            (rank, kind, mine): (peer, kind, theirs)
            for (rank, peer, kind), numbers in places.items()
            for mine, theirs in zip(numbers, places.get((peer, rank, kind), ()), strict=False)
        }
        """The other end of every channel: the i-th of a rank to a peer meets the peer's i-th to the rank."""

    def _work(self) -> bool:
        """Let each block work until it waits or ends; whether one could."""
        moving = False
        for block in self.blocks:
            while block.now is not None and self._step(block, block.now):
                block.now = next(block.operations, None)
                moving = True
        return moving

    def _step(self, block: _W, operation: MscclppOperation) -> bool:
        """Execute an operation; False if it has to wait."""
        name, rank = operation.name, block.rank
        if name == "nop":
            block.line_up()
        elif name in MOVES:
            self._move(block, operation)
        elif name in ("signal", "rlxsignal"):
            for channel in operation.channels:
                self._signal(block, (rank, *channel), relaxed=name != "signal")
        elif name in ("wait", "rlxwait"):
            return block.hear_all([self.signals[rank, *channel] for channel in operation.channels])
        elif name == "barrier":
            return self._meet(block, operation)
        elif name == "sem_release":
            for number in operation.numbers:
                self.semaphores[rank, number].append(block.content())
        elif name == "sem_acquire":
            return block.hear_all([self.semaphores[rank, number] for number in operation.numbers])
        return True  # a flush in the executor waits for as many channels as it has outputs: none

    @abstractmethod
    def _move(self, block: _W, operation: MscclppOperation) -> None:
        """Move data."""

    @abstractmethod
    def _signal(self, block: _W, channel: tuple[int, str, int], *, relaxed: bool) -> None:
        """Send a signal to the other end of a channel."""

    @abstractmethod
    def _merged(self, blocks: list[_W]) -> _N:
        """Return what any of some blocks knows."""

    def _meet(self, block: _W, operation: MscclppOperation) -> bool:
        """Blocks go on when as many as the barrier names have come; they then know what all know."""
        present = self.meetings[block.rank, operation.numbers[0]]
        if block not in present:
            block.line_up()
            present.append(block)
        if len(present) < operation.numbers[1]:
            return False
        news = self._merged(present)
        for other in present:
            other.hear(news)
            other.line_up()
            if other is not block:
                other.now = next(other.operations, None)
        present.clear()
        return True
