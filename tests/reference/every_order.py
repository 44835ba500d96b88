"""References for what orders operations: transitive closure, and all interleavings of small programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from treadle.program.program import Buffer, OperationKind, Program

Memory = tuple[tuple[tuple[int, int, int], int], ...]


def later_than(event: int, edges: Iterable[tuple[int, int]]) -> set[int]:
    """All events that surely come after one, by plain search; the event itself if it is on a cycle."""
    after: dict[int, list[int]] = defaultdict(list)
    for one, other in edges:
        after[one].append(other)
    seen: set[int] = set()
    stack = list(after[event])
    while stack:
        other = stack.pop()
        if other not in seen:
            seen.add(other)
            stack.extend(after[other])
    return seen


class Interleavings:
    """All executions: any operation whose waits are done, and whose message is there, may be next.

    Rank v contributes BASE**v, so that a chunk's value is a number whose digits count contributions. Memory
    that holds nothing is absent.
    """

    BASE = 10
    LIMIT = 200_000

    def __init__(self, program: Program, *, streams_in_order: bool) -> None:
        self.program = program
        self.rank = program.operation_rank.tolist()
        self.before = [set(program.waits_of(i).tolist()) for i in range(program.n_operations)]
        streams: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for i, kind in enumerate(program.operation_kind.tolist()):
            peer, channel = int(program.peer[i]), int(program.channel[i])
            if kind == OperationKind.SEND:
                streams[self.rank[i], peer, channel][0].append(i)
            elif kind != OperationKind.COPY:
                streams[peer, self.rank[i], channel][1].append(i)
        self.sender: dict[int, int] = {}
        for sends, receives in streams.values():
            for send, receive in zip(sends, receives, strict=True):
                self.sender[receive] = send
                self.before[receive].add(send)
            for line in (sends, receives) if streams_in_order else ():
                for one, other in pairwise(line):
                    self.before[other].add(one)

    def place(self, rank: int, buffer: int, chunk: int) -> tuple[int, int, int]:
        merged = self.program.in_place and buffer == Buffer.INPUT
        return rank, int(Buffer.OUTPUT) if merged else int(buffer), chunk

    def wrong(self) -> bool:
        """Whether some execution gets stuck, reads nothing, or ends with wrong data."""
        program = self.program
        memory = {
            self.place(rank, Buffer.INPUT, chunk): self.BASE**rank
            for rank in range(program.n_ranks)
            for span in program.ranges(rank, Buffer.INPUT)
            for chunk in range(*span)
        }
        first = (frozenset[int](), tuple(sorted(memory.items())))
        seen, stack = {first}, [first]
        while stack:
            done, state = stack.pop()
            ready = [i for i in range(program.n_operations) if i not in done and self.before[i] <= done]
            if not ready and (len(done) < program.n_operations or not self.right(dict(state))):
                return True
            for operation in ready:
                after = self.execute(operation, state)
                if after is None:
                    return True
                following = (done | {operation}, after)
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
            assert len(seen) < self.LIMIT, "too large a program for this reference"
        return False

    def execute(self, i: int, state: Memory) -> Memory | None:
        """Memory after an operation, messages kept in it as (-1, send, chunk); None if it reads nothing."""
        program, rank, memory = self.program, self.rank[i], dict(state)
        kind = program.operation_kind[i]
        for at in range(int(program.count[i])):
            chunk = int(program.first[i]) + at
            local = memory.get(self.place(rank, int(program.source[i]), chunk))
            message = memory.pop((-1, self.sender[i], chunk), None) if i in self.sender else None
            target = self.place(rank, int(program.target[i]), chunk)
            if (kind != OperationKind.RECEIVE and local is None) or (i in self.sender and message is None):
                return None
            if kind == OperationKind.SEND:
                memory[-1, i, chunk] = local
            elif kind == OperationKind.COPY:
                memory[target] = local
            else:
                memory[target] = message + (local if kind == OperationKind.RECEIVE_REDUCE else 0)
        return tuple(sorted(memory.items()))

    def right(self, memory: dict[tuple[int, int, int], int]) -> bool:
        program = self.program
        everyone = sum(self.BASE**rank for rank in range(program.n_ranks))
        for rank in range(program.n_ranks):
            for chunk in (c for span in program.ranges(rank, Buffer.OUTPUT) for c in range(*span)):
                owner = next(
                    v for v in range(program.n_ranks) if program.shard(v)[0] <= chunk < program.shard(v)[1]
                )
                wanted = everyone if program.kind.reduces else self.BASE**owner
                if memory.get(self.place(rank, Buffer.OUTPUT, chunk)) != wanted:
                    return False
        return True


def any_order_fails(program: Program) -> bool:
    """Whether some order of execution goes wrong, streams kept in order or not."""
    return any(Interleavings(program, streams_in_order=way).wrong() for way in (True, False))
