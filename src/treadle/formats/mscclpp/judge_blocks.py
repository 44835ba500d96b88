"""Thread blocks of an MSCCL++ plan at work, and what each knows of the others (vector clocks)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence

from treadle.formats.mscclpp.reader import MscclppOperation

Clock = dict[int, int]
"""For each block and proxy, how many of its moves are known to be over."""


class BlockAtWork:
    """A thread block at work."""

    def __init__(self, number: int, rank: int, operations: Iterator[MscclppOperation]) -> None:
        self.number, self.rank, self.operations = number, rank, operations
        self.now = next(operations, None)
        self.moves = 0
        self.known: Clock = {}
        self.there: set[int] = {rank}
        self.heard: Clock = {}
        self.heard_there: set[int] = {rank}

    def line_up(self) -> None:
        """All threads know what any of them has heard or done."""
        merge(self.known, self.heard)
        self.known[self.number] = self.moves
        self.there |= self.heard_there

    def hear(self, news: tuple[Clock, set[int]]) -> None:
        """A signal's clock, and who is there, come in; other threads know nothing of it yet."""
        merge(self.heard, news[0])
        self.heard_there |= news[1]

    def hear_all(self, queues: Sequence[deque[tuple[Clock, set[int]]]]) -> bool:
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
