"""MSCCL XML executed the plain way: dictionaries of counts, a vector clock for each step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from treadle.formats.msccl.interpreter_order import Edges, find_edges, find_order
from treadle.formats.msccl.reader import READING, SENDING, STORING, Algorithm, MscclStep, parse_msccl_xml

_Value = dict[tuple[int, int], int]
"""How often each (rank, chunk) is contained."""


def violations_of(text: str, profile: str = "azure", root: int = 0) -> list[str]:
    """What `interpret_msccl_xml` must find, sorted."""
    algorithm = parse_msccl_xml(text, profile, "text")
    edges = find_edges(algorithm)
    order = find_order(algorithm, edges)
    for in_place in algorithm.in_place if order is not None else ():
        _Run(algorithm, in_place, root).execute(order, edges)
    return sorted(set(algorithm.violations))


class _Run:
    """One execution, in place or not: memory, accesses and clocks."""

    def __init__(self, algorithm: Algorithm, in_place: bool, root: int) -> None:
        self.algorithm, self.in_place, self.root = algorithm, in_place, root
        self.shard = algorithm.n_chunks // algorithm.n_ranks
        self.memory: dict[tuple[int, str, int], _Value] = {}
        self.writer: dict[tuple[int, str, int], int] = {}
        self.readers: dict[tuple[int, str, int], list[int]] = defaultdict(list)
        self.clocks: dict[int, dict[int, int]] = {}
        self.problems = algorithm.violations

    def slot(self, rank: int, buffer: str, offset: int) -> tuple[int, str, int]:
        """The memory behind a buffer's chunk; in place, the smaller buffer lies within the larger one."""
        if self.in_place and buffer in "io":
            name = self.algorithm.collective
            if (name, buffer) in (("allgather", "i"), ("reducescatter", "o"), ("reduce_scatter", "o")):
                offset += rank * self.shard
            buffer = "i"
        return rank, buffer, offset

    def execute(self, order: list[int], edges: Edges) -> None:
        name, n = self.algorithm.collective, self.algorithm.n_ranks
        if name not in ("allreduce", "broadcast", "reduce") and self.shard * n != self.algorithm.n_chunks:
            self.problems.append(f"nchunksperloop {self.algorithm.n_chunks} does not divide by {n} ranks")
            return
        for rank in range(n):
            for offset, value in self.initial(rank):
                self.memory[self.slot(rank, "i", offset)] = value
        sender_of = {receive: send for stream in edges.messages for send, receive in stream}
        sent: dict[int, list[_Value]] = {}
        for number in order:
            step = self.algorithm.steps[number]
            clock = self.clocks.pop(number, {})
            incoming = sent.pop(sender_of[number], []) if number in sender_of else []
            outgoing = self.step(step, number, incoming, clock)
            if step.type in SENDING:
                sent[number] = outgoing
            clock[step.block] = step.place
            for successor in edges.after[number]:
                later = self.clocks.setdefault(successor, {})
                for block, place in clock.items():
                    if later.get(block, -1) < place:
                        later[block] = place
        for rank in range(n):
            for offset, wanted in self.final(rank):
                found = self.memory.get(self.slot(rank, "o", offset))
                if found != wanted:
                    self.problems.append(f"rank {rank} output chunk {offset}: {_difference(found, wanted)}")

    def step(
        self, step: MscclStep, number: int, incoming: list[_Value], clock: dict[int, int]
    ) -> list[_Value]:
        """Execute; what it sends."""
        values = incoming + [{}] * (step.count - len(incoming))
        for used, (buffer, offset) in (
            (step.type in READING, step.source),
            (step.type in STORING, step.target),
        ):
            size = self.algorithm.sizes[step.rank][buffer]
            if used and not 0 <= offset <= offset + step.count <= size:
                self.problems.append(f"{step}: {buffer}[{offset}, {offset + step.count}) of {size} chunks")
                return values
        for at in range(step.count if step.type in READING else 0):
            local = self.read(step, number, step.source, at, clock)
            values[at] = _sum(local, values[at]) if step.type.startswith("rr") else local
            if step.type == "re":
                values[at] = _sum(local, self.read(step, number, step.target, at, clock))
        if step.type in STORING and step.target[0] == "i" and not self.in_place:
            self.problems.append(f"{step} writes the input, which a call out of place must leave as it is")
        for at in range(step.count if step.type in STORING else 0):
            slot = self.slot(step.rank, step.target[0], step.target[1] + at)
            for other in (*self.readers.pop(slot, ()), self.writer.get(slot, number)):
                self.ordered(other, step, number, clock)
            self.writer[slot] = number
            self.memory[slot] = values[at]
        return values

    def read(
        self, step: MscclStep, number: int, place: tuple[str, int], at: int, clock: dict[int, int]
    ) -> _Value:
        slot = self.slot(step.rank, place[0], place[1] + at)
        self.ordered(self.writer.get(slot, number), step, number, clock)
        self.readers[slot].append(number)
        if slot not in self.memory:
            self.problems.append(f"{step} reads {place[0]}[{place[1] + at}], which holds nothing yet")
        return self.memory.get(slot, {})

    def ordered(self, other: int, step: MscclStep, number: int, clock: dict[int, int]) -> None:
        """Note a race unless step `other` surely came before."""
        earlier = self.algorithm.steps[other]
        if other != number and earlier.block != step.block and clock.get(earlier.block, -1) < earlier.place:
            self.problems.append(f"race: {earlier} and {step} touch the same chunk, and nothing orders them")

    def initial(self, rank: int) -> Iterator[tuple[int, _Value]]:
        """What the input of a rank holds at first: (offset, value)."""
        name, n_chunks = self.algorithm.collective, self.algorithm.n_chunks
        if name == "broadcast" and rank != self.root:
            return
        base = rank * self.shard if name == "allgather" else 0
        for offset in range(self.shard if name == "allgather" else n_chunks):
            yield offset, {(rank, base + offset): 1}

    def final(self, rank: int) -> Iterator[tuple[int, _Value]]:
        """What the output of a rank must hold at the end: (offset, value)."""
        name, n_chunks, n = self.algorithm.collective, self.algorithm.n_chunks, self.algorithm.n_ranks
        if name == "reduce" and rank != self.root:
            return
        scatters = name in ("reducescatter", "reduce_scatter")
        for offset in range(self.shard if scatters else n_chunks):
            if name == "allgather":
                yield offset, {(offset // self.shard, offset): 1}
            elif name == "broadcast":
                yield offset, {(self.root, offset): 1}
            elif name == "alltoall":
                yield offset, {(offset // self.shard, rank * self.shard + offset % self.shard): 1}
            else:
                chunk = offset + (rank * self.shard if scatters else 0)
                yield offset, {(other, chunk): 1 for other in range(n)}


def _sum(one: _Value, other: _Value) -> _Value:
    total = dict(one)
    for key, count in other.items():
        total[key] = total.get(key, 0) + count
    return total


def _difference(found: _Value | None, wanted: _Value) -> str:
    if found is None:
        return "nothing was stored"
    missing = sorted((key for key in wanted if key not in found), key=lambda key: key[::-1])
    extra = sorted(
        (key for key, count in found.items() if count > wanted.get(key, 0)), key=lambda key: key[::-1]
    )
    return (
        f"{len(missing)} contributions missing {missing[:2]}, {len(extra)} too many {extra[:2]} (rank, chunk)"
    )
