"""Thread blocks of an MSCCL++ plan at work, and what each knows of the others (vector clocks)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from treadle.errors import FormatError
from treadle.formats.mscclpp.reader import MscclppOperation

Clock = dict[int, int]
"""For each block and proxy, how many of its moves are known to be over."""


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


class BlockAtWork:
    """A thread block at work."""

    def __init__(
        self,
        number: int,
        rank: int,
        operations: Iterator[MscclppOperation],
        order: ReadOrder | None = None,
    ) -> None:
        self.number, self.rank, self.operations, self.order = number, rank, operations, order
        self.now = next(operations, None)
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

    def hear_all(self, queues: Sequence[deque[News]]) -> bool:
        """Take a signal out of each queue; False, and nothing is taken, if one has too few."""
        wanted = Counter(map(id, queues))  # a plan may name a queue twice
        if any(len(queue) < wanted[id(queue)] for queue in queues):
            return False
        for queue in queues:
            self.hear(queue.popleft())
        return True


def merge(into: Clock, other: Clock) -> None:
    """Let one clock know what another does."""
    for key, time in other.items():
        if time > into.get(key, 0):
            into[key] = time
