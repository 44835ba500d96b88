"""Executes MSCCL XML on integer contributions. Shares no code with the writer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from treadle.errors import FormatError
from treadle.formats.msccl.interpreter_hazards import find_unordered
from treadle.formats.msccl.interpreter_order import Edges, check_slots, find_edges, find_order
from treadle.formats.msccl.reader import (
    LIMITS,
    READING,
    SENDING,
    STORING,
    Algorithm,
    MscclStep,
    parse_msccl_xml,
)
from treadle.formats.verdict import Check, Terms, Verdict, decoded

Value = tuple[tuple[int, int, int], ...]
"""Sum of contributions, by chunk: (chunk, ranks that contributed, ranks that did so more than once).

Ranks are bit sets. A correct result has each contribution exactly once, so the counts 0, 1 and "more"
suffice; a sum keeps "more". Nearly every value is about one chunk.
"""

EMPTY: Value = ()


def contribution(rank: int, chunk: int) -> Value:
    """Return the contribution of one rank to a chunk."""
    return ((chunk, 1 << rank, 0),)


def added(one: Value, other: Value) -> Value:
    """Add two values.

    Examples
    --------
    >>> added(contribution(0, 5), contribution(1, 5))
    ((5, 3, 0),)
    >>> added(contribution(0, 5), contribution(0, 5))
    ((5, 1, 1),)
    """
    if len(one) == len(other) == 1 and one[0][0] == other[0][0]:
        (chunk, here, many), (_, there, more) = one[0], other[0]
        return ((chunk, here | there, many | more | here & there),)
    total = {chunk: (ranks, many) for chunk, ranks, many in one}
    for chunk, ranks, many in other:
        here, more = total.get(chunk, (0, 0))
        total[chunk] = here | ranks, many | more | here & ranks
    return tuple((chunk, *total[chunk]) for chunk in sorted(total))


def difference(found: Value | None, wanted: Value) -> str:
    """Describe how a value differs from the wanted one, which has no contribution twice."""
    if found is None:
        return "nothing was stored"
    has = {chunk: (ranks, many) for chunk, ranks, many in found}
    needs = {chunk: ranks for chunk, ranks, _ in wanted}
    missing = [
        (rank, chunk)
        for chunk, ranks in sorted(needs.items())
        for rank in _members(ranks & ~has.get(chunk, (0, 0))[0])
    ]
    extra = [
        (rank, chunk)
        for chunk, (ranks, many) in sorted(has.items())
        for rank in _members(ranks & ~needs.get(chunk, 0) | many)
    ]
    return (
        f"{len(missing)} contributions missing {missing[:2]}, {len(extra)} too many {extra[:2]} (rank, chunk)"
    )


def _members(ranks: int) -> list[int]:
    return [rank for rank, bit in enumerate(reversed(f"{ranks:b}")) if bit == "1"]


_Slot = tuple[int, str, int]
"""Rank, memory and offset."""

MAX_VIOLATIONS = 1000
"""Most violations that are listed."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Execute a file like the first runtime without violations, else like the first that reads it.

    FormatError if no runtime reads it.
    """
    text, source = decoded(files[0], terms, "MSCCL XML")
    verdicts: list[tuple[str, Verdict]] = []
    errors = []
    # Dialects differ in spellings and limits, and a file does not name its own.
    for name in LIMITS if terms.profile is None else (terms.profile,):
        try:
            found = interpret_msccl_xml(text, profile=name, root=terms.root, source=source)
        except FormatError as error:
            errors.append(error)
            continue
        verdicts.append((name, found))
        if not found.violations:
            break
    if not verdicts:
        raise errors[0]
    profile, found = verdicts[0] if verdicts[-1][1].violations else verdicts[-1]
    notes = (*found.notes, *_unsupported(text, profile, source))
    return replace(found, variant=f" ({profile})", notes=notes)


def _unsupported(text: str, profile: str, source: str) -> Iterator[str]:
    """Yield the reasons why other runtimes would not load the file."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for other in (name for name in LIMITS if name != profile):
        try:
            violations = parse_msccl_xml(text, other, source).violations
        except FormatError as error:
            reasons[str(error).replace(f"{source}:", "line ", 1)].append(other)
        else:
            if violations:
                reasons[violations[0]].append(other)
    for reason, others in reasons.items():
        yield f"not supported by {', '.join(others)}: {reason}"


def interpret_msccl_xml(
    text: str,
    *,
    profile: str = "azure",
    root: int = 0,
    source: str = "MSCCL XML",
    fifo_depth: int | None = None,
) -> Verdict:
    """Parse and execute a file.

    Violations are: limits exceeded, offsets out of range, sends without receives, cycles, two steps of a rank
    on the same chunk in no defined order (one of them writing), undefined data read, input written out of
    place, and wrong results: each output chunk must have every contribution exactly once. At most
    `MAX_VIOLATIONS` are listed.

    Parameters
    ----------
    text : str
        Content of the file.
    profile : str
        Runtime whose limits and spellings apply: azure, legacy or rccl.
    root : int
        Root of broadcast and reduce, which the format does not have.
    source : str
        Name for messages.
    fifo_depth : int, optional
        Also find deadlocks of streams that buffer at most this number of messages: NCCL's connections have 8
        slots, and in a step larger than those both ends take part at the same time: 0. Default: unlimited.

    Raises
    ------
    FormatError
        If the runtime's parser would reject the file, or it is hostile; for an unknown profile, an invalid
        root or depth.

    Notes
    -----
    Steps of a thread block run in order, after the step they wait for; the i-th send from a to b on a channel
    matches the i-th receive there, and sends are buffered. The order of two steps is decided by waits, and
    otherwise by vector clocks over thread blocks.
    One pass over the steps finds everything: the runtimes' loop over slices of the buffers only adds orders
    from an earlier turn to a later one, whatever `fifo_depth` is, so it adds no cycle.
    """
    if profile not in LIMITS:
        raise FormatError(f"profile {profile!r}: expected azure, legacy or rccl")
    algorithm = parse_msccl_xml(text, profile, source)
    if not 0 <= root < algorithm.n_ranks:
        raise FormatError(f"root {root}: expected a rank from 0 to {algorithm.n_ranks - 1}", source=source)
    if fifo_depth is not None and fifo_depth < 0:
        raise FormatError(f"fifo_depth {fifo_depth}: expected at least 0", source=source)
    edges = find_edges(algorithm)
    order = find_order(algorithm, edges)
    if order is not None:
        for in_place in algorithm.in_place:
            _Run(algorithm, in_place, root).execute(order, edges)
        if fifo_depth is not None:
            check_slots(algorithm, edges, fifo_depth)
    violations = tuple(dict.fromkeys(algorithm.violations))
    if len(violations) > MAX_VIOLATIONS:
        violations = (*violations[:MAX_VIOLATIONS], "further violations are not listed")
    counts = {
        "message": sum(map(len, edges.messages)),
        "step": len(algorithm.steps),
        "thread block": len(algorithm.blocks),
    }
    defaults = ", ".join(algorithm.defaults)
    return Verdict(
        Check.EXECUTED,
        violations,
        tuple(counts.items()),
        algorithm.n_ranks,
        algorithm.collective,
        n_chunks=algorithm.n_chunks,
        notes=(f"{defaults}: defaults of {profile}, absent in the file",) if defaults else (),
    )


class _Run:
    """One execution, in place or not: memory, and pairs of steps whose order must be defined."""

    def __init__(self, algorithm: Algorithm, in_place: bool, root: int) -> None:
        self.algorithm, self.in_place, self.root = algorithm, in_place, root
        self.collective, self.n_ranks = algorithm.collective, algorithm.n_ranks
        self.scatters = self.collective in ("reducescatter", "reduce_scatter")
        self.shard = algorithm.n_chunks // algorithm.n_ranks
        self.memory: dict[_Slot, Value] = {}
        """Stored values; inputs that were not overwritten are not in it."""
        self.writer: dict[_Slot, int] = {}
        self.readers: dict[_Slot, list[int]] = defaultdict(list)
        self.awaited: list[dict[int, int]] = [{} for _ in algorithm.blocks]
        """The last step of other thread blocks for which each thread block itself has waited."""
        self.conflicts: list[tuple[int, int]] = []
        self.problems = algorithm.violations

    def report(self, problem: str) -> None:
        """Append a violation; both runs may find the same one, so more are kept than will be listed."""
        if len(self.problems) <= 2 * MAX_VIOLATIONS:
            self.problems.append(problem)

    def slot(self, rank: int, buffer: str, offset: int) -> _Slot:
        """Return the memory of a buffer's chunk; in place, the smaller buffer lies within the larger one."""
        if self.in_place and buffer in "io":
            smaller = {"allgather": "i"}.get(self.collective, "o" if self.scatters else "")
            return rank, "i", offset + (rank * self.shard if buffer == smaller else 0)
        return rank, buffer, offset

    def stored(self, slot: _Slot) -> Value | None:
        """Return the content of memory, which is the input at first; None if undefined."""
        found, (rank, buffer, offset) = self.memory.get(slot), slot
        if found is not None or buffer != "i" or (self.collective == "broadcast" and rank != self.root):
            return found
        first, past, base = 0, self.algorithm.n_chunks, 0
        if self.collective == "allgather":
            first, base = (rank * self.shard, 0) if self.in_place else (0, rank * self.shard)
            past = first + self.shard
        return contribution(rank, base + offset) if first <= offset < past else None

    def execute(self, order: list[int], edges: Edges) -> None:
        n, n_chunks = self.n_ranks, self.algorithm.n_chunks
        if self.collective not in ("allreduce", "broadcast", "reduce") and self.shard * n != n_chunks:
            self.report(f"nchunksperloop {n_chunks} does not divide by {n} ranks")
            return
        sender_of = {receive: send for stream in edges.messages for send, receive in stream}
        sent: dict[int, list[Value]] = {}
        steps = self.algorithm.steps
        for number in order:
            step = steps[number]
            if edges.awaited[number] >= 0:
                awaited, known = steps[edges.awaited[number]], self.awaited[step.block]
                known[awaited.block] = max(awaited.place, known.get(awaited.block, -1))
            incoming = sent.pop(sender_of[number], []) if number in sender_of else []
            outgoing = self.step(step, number, incoming)
            if step.type in SENDING:
                sent[number] = outgoing
        for one, other in find_unordered(self.algorithm, edges, order, self.conflicts):
            self.report(
                f"race: {steps[one]} and {steps[other]} touch the same chunk, and nothing orders them"
            )
        for rank in range(n):
            for offset, wanted in self.final(rank):
                result = self.stored(self.slot(rank, "o", offset))
                if result != wanted and len(self.problems) <= 2 * MAX_VIOLATIONS:
                    self.report(f"rank {rank} output chunk {offset}: {difference(result, wanted)}")

    def step(self, step: MscclStep, number: int, incoming: list[Value]) -> list[Value]:
        """Execute a step; return the values that it sends."""
        values = incoming + [EMPTY] * (step.count - len(incoming))
        for used, (buffer, offset) in (
            (step.type in READING, step.source),
            (step.type in STORING, step.target),
        ):
            size = self.algorithm.sizes[step.rank][buffer]
            if used and not 0 <= offset <= offset + step.count <= size:
                self.report(f"{step}: {buffer}[{offset}, {offset + step.count}) of {size} chunks")
                return values
        before: set[int] = set()
        for at in range(step.count if step.type in READING else 0):
            local = self.read(step, number, step.source, at, before)
            values[at] = added(local, values[at]) if step.type.startswith("rr") else local
            if step.type == "re":
                values[at] = added(local, self.read(step, number, step.target, at, before))
        if step.type in STORING and step.target[0] == "i" and not self.in_place:
            self.report(f"{step} writes the input, which a call out of place must leave as it is")
        for at in range(step.count if step.type in STORING else 0):
            slot = self.slot(step.rank, step.target[0], step.target[1] + at)
            before.update(self.readers.pop(slot, ()))
            before.add(self.writer.get(slot, number))
            self.writer[slot] = number
            self.memory[slot] = values[at]
        # Of the steps that must precede this one, those that its thread block waited for surely do.
        known = self.awaited[step.block]
        for other in sorted(before - {number}):
            earlier = self.algorithm.steps[other]
            if earlier.block != step.block and known.get(earlier.block, -1) < earlier.place:
                self.conflicts.append((other, number))
        return values

    def read(self, step: MscclStep, number: int, place: tuple[str, int], at: int, before: set[int]) -> Value:
        slot = self.slot(step.rank, place[0], place[1] + at)
        before.add(self.writer.get(slot, number))
        self.readers[slot].append(number)
        found = self.stored(slot)
        if found is None:
            self.report(f"{step} reads {place[0]}[{place[1] + at}], which holds nothing yet")
            return EMPTY
        return found

    def final(self, rank: int) -> Iterator[tuple[int, Value]]:
        """Yield offset and value of each chunk that the output of a rank must have at the end."""
        if self.collective == "reduce" and rank != self.root:
            return
        base = rank * self.shard if self.scatters else 0
        for offset in range(self.shard if self.scatters else self.algorithm.n_chunks):
            if self.collective == "allgather":
                yield offset, contribution(offset // self.shard, offset)
            elif self.collective == "broadcast":
                yield offset, contribution(self.root, offset)
            elif self.collective == "alltoall":
                yield offset, contribution(offset // self.shard, rank * self.shard + offset % self.shard)
            else:
                yield offset, ((offset + base, (1 << self.n_ranks) - 1, 0),)
