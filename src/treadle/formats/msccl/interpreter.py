"""Executes MSCCL XML on integer contributions.

Shares no code with the writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
"""Rising by chunk: (chunk, ranks that contributed, ranks that contributed twice or more), ranks as bit sets.

A result needs each contribution just once, so 0, 1 and "more" are all the counts that can matter; a sum keeps
"more" for ever. Nearly every value is about one chunk.
"""

EMPTY: Value = ()


def contribution(rank: int, chunk: int) -> Value:
    """A chunk as one rank brought it."""
    return ((chunk, 1 << rank, 0),)


def added(one: Value, other: Value) -> Value:
    """The sum of two values.

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
    """How a value differs from the wanted one, which has no contribution twice."""
    if found is None:
        return "nothing was stored"
    has = {chunk: (ranks, many) for chunk, ranks, many in found}
    asked = {chunk: ranks for chunk, ranks, _ in wanted}
    missing = [
        (rank, chunk)
        for chunk, ranks in sorted(asked.items())
        for rank in _members(ranks & ~has.get(chunk, (0, 0))[0])
    ]
    extra = [
        (rank, chunk)
        for chunk, (ranks, many) in sorted(has.items())
        for rank in _members(ranks & ~asked.get(chunk, 0) | many)
    ]
    return (
        f"{len(missing)} contributions missing {missing[:2]}, {len(extra)} too many {extra[:2]} (rank, chunk)"
    )


def _members(ranks: int) -> list[int]:
    found = []
    while ranks:
        lowest = ranks & -ranks
        found.append(lowest.bit_length() - 1)
        ranks ^= lowest
    return found


_Slot = tuple[int, str, int]
"""Rank, memory and place in it."""

MAX_VIOLATIONS = 1000
"""Most violations that are listed."""


@dataclass(frozen=True)
class Interpretation:
    """What executing a text showed.

    Parameters
    ----------
    collective : str
        As the text spells it.
    n_ranks, n_chunks, n_steps, n_messages : int
    violations : tuple of str
        Empty if the text does what its collective asks, within the limits of the profile.
    defaults : tuple of str
        Absent attributes and the values that the runtime takes for them.
    """

    collective: str
    n_ranks: int
    n_chunks: int
    n_steps: int
    n_messages: int
    violations: tuple[str, ...]
    defaults: tuple[str, ...] = ()


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Execute a text as the first runtime that has nothing to object; else as the first that reads it at all.

    Raises
    ------
    FormatError
        If no runtime reads it.
    """
    text, source = decoded(files[0], terms, "MSCCL XML")
    seen: list[tuple[str, Interpretation]] = []
    refusals = []
    for name in LIMITS if terms.profile is None else (terms.profile,):
        try:
            seen.append((name, interpret_msccl_xml(text, profile=name, root=terms.root, source=source)))
        except FormatError as error:
            refusals.append(error)
        else:
            if not seen[-1][1].violations:
                break
    if not seen:
        raise refusals[0]
    profile, found = seen[0] if seen[-1][1].violations else seen[-1]
    return Verdict(
        Check.EXECUTED,
        found.violations,
        (("message", found.n_messages), ("step", found.n_steps), ("thread block", text.count("<tb "))),
        found.n_ranks,
        found.collective,
        variant=f" ({profile})",
        n_chunks=found.n_chunks,
        notes=tuple(_notes(text, profile, found, source)),
    )


def _notes(text: str, profile: str, seen: Interpretation, source: str) -> Iterator[str]:
    """Yield what this runtime assumes, and why others would not load the file."""
    if seen.defaults:
        yield f"{', '.join(seen.defaults)}: defaults of {profile}, absent in the file"
    reasons: dict[str, list[str]] = defaultdict(list)
    for other in LIMITS:
        if other == profile:
            continue
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
) -> Interpretation:
    """Parse and execute a text.

    Parameters
    ----------
    text : str
    profile : str
        azure, legacy or rccl: whose limits and spellings hold.
    root : int
        Rank of the root of broadcast and reduce, which the format does not name.
    source : str
        Name for messages.
    fifo_depth : int, optional
        Look for deadlocks of streams that hold no more than so many messages, too: NCCL's connections have 8
        slots, and a step larger than those is one that both ends take part in at the same time: 0.
        Default: unlimited.

    Returns
    -------
    Interpretation
        Violations are: limits exceeded, offsets out of range, sends without receives, cycles, races (two
        steps of a rank on the same chunk, one writing, that nothing orders), undefined data read, input
        written out of place, and wrong results: each output chunk must hold every contribution just once.
        At most `MAX_VIOLATIONS` are listed.

    Raises
    ------
    FormatError
        If the runtime's parser would refuse the text, or it is hostile; for an unknown profile, a root or a
        depth that cannot be.

    Notes
    -----
    Steps of a thread block run in order, after the step they wait for; the i-th send from a to b on a channel
    meets the i-th receive there, and sends are buffered. Order is judged by waits, and where these do not
    tell, by vector clocks over thread blocks.
    One pass over the steps tells of all: the runtimes' loop over slices of the buffers adds only orders from
    an earlier turn to a later one, whatever `fifo_depth` is, so it adds no cycle.
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
    return Interpretation(
        collective=algorithm.collective,
        n_ranks=algorithm.n_ranks,
        n_chunks=algorithm.n_chunks,
        n_steps=len(algorithm.steps),
        n_messages=sum(map(len, edges.messages)),
        violations=violations,
        defaults=algorithm.defaults,
    )


class _Run:
    """One execution, in place or not: memory, and accesses that something must put in order."""

    def __init__(self, algorithm: Algorithm, in_place: bool, root: int) -> None:
        self.algorithm, self.in_place, self.root = algorithm, in_place, root
        self.shard = algorithm.n_chunks // algorithm.n_ranks
        self.memory: dict[_Slot, Value] = {}
        """What was stored; inputs that nobody overwrote are not in it."""
        self.writer: dict[_Slot, int] = {}
        self.readers: dict[_Slot, list[int]] = defaultdict(list)
        self.awaited: list[dict[int, int]] = [{} for _ in algorithm.blocks]
        """For each thread block, up to which step of others it has waited itself."""
        self.conflicts: list[tuple[int, int]] = []
        self.problems = algorithm.violations
        self.shift = {
            ("allgather", "i"): self.shard,
            ("reducescatter", "o"): self.shard,
            ("reduce_scatter", "o"): self.shard,
        }

    def report(self, problem: str) -> None:
        """Note a violation; both runs may note the same one, and none is kept that would not be listed."""
        if len(self.problems) <= 2 * MAX_VIOLATIONS:
            self.problems.append(problem)

    def slot(self, rank: int, buffer: str, offset: int) -> _Slot:
        """The memory behind a buffer's chunk; in place, the smaller buffer lies within the larger one."""
        if self.in_place and buffer in "io":
            return rank, "i", offset + rank * self.shift.get((self.algorithm.collective, buffer), 0)
        return rank, buffer, offset

    def stored(self, slot: _Slot) -> Value | None:
        """What memory holds; None if nothing."""
        found = self.memory.get(slot)
        return self.initial(slot[0], slot[2]) if found is None and slot[1] == "i" else found

    def initial(self, rank: int, offset: int) -> Value | None:
        """What the memory of the input holds at first, by its place in `slot`."""
        name, first, past = self.algorithm.collective, 0, self.algorithm.n_chunks
        base = 0
        if name == "broadcast" and rank != self.root:
            return None
        if name == "allgather":
            base, past = rank * self.shard, self.shard
            if self.in_place:
                first, past, base = base, base + self.shard, 0
        return contribution(rank, base + offset) if first <= offset < past else None

    def execute(self, order: list[int], edges: Edges) -> None:
        name, n = self.algorithm.collective, self.algorithm.n_ranks
        if name not in ("allreduce", "broadcast", "reduce") and self.shard * n != self.algorithm.n_chunks:
            self.report(f"nchunksperloop {self.algorithm.n_chunks} does not divide by {n} ranks")
            return
        sender_of = {receive: send for stream in edges.messages for send, receive in stream}
        sent: dict[int, list[Value]] = {}
        for number in order:
            step = self.algorithm.steps[number]
            if edges.awaited[number] >= 0:
                awaited, known = self.algorithm.steps[edges.awaited[number]], self.awaited[step.block]
                known[awaited.block] = max(awaited.place, known.get(awaited.block, -1))
            incoming = sent.pop(sender_of[number], []) if number in sender_of else []
            outgoing = self.step(step, number, incoming)
            if step.type in SENDING:
                sent[number] = outgoing
        for one, other in find_unordered(self.algorithm, edges, order, self.conflicts):
            steps = self.algorithm.steps
            self.report(
                f"race: {steps[one]} and {steps[other]} touch the same chunk, and nothing orders them"
            )
        for rank in range(n):
            self.compare(rank)

    def step(self, step: MscclStep, number: int, incoming: list[Value]) -> list[Value]:
        """Execute; what it sends."""
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
        self.note(before, step, number)
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

    def note(self, before: set[int], step: MscclStep, number: int) -> None:
        """Keep the steps that must be over before this one, without those that surely are."""
        known = self.awaited[step.block]
        for other in sorted(before - {number}):
            earlier = self.algorithm.steps[other]
            if earlier.block != step.block and known.get(earlier.block, -1) < earlier.place:
                self.conflicts.append((other, number))

    def compare(self, rank: int) -> None:
        """Note the output chunks of a rank that do not hold what they must."""
        for offset, wanted in self.final(rank):
            found = self.stored(self.slot(rank, "o", offset))
            if found != wanted:
                self.report(f"rank {rank} output chunk {offset}: {difference(found, wanted)}")
                if len(self.problems) > 2 * MAX_VIOLATIONS:
                    return

    def final(self, rank: int) -> Iterator[tuple[int, Value]]:
        """What the output of a rank must hold at the end: (offset, value)."""
        name, n_chunks, n = self.algorithm.collective, self.algorithm.n_chunks, self.algorithm.n_ranks
        if name == "reduce" and rank != self.root:
            return
        scatters, everyone = name in ("reducescatter", "reduce_scatter"), (1 << n) - 1
        for offset in range(self.shard if scatters else n_chunks):
            if name == "allgather":
                yield offset, contribution(offset // self.shard, offset)
            elif name == "broadcast":
                yield offset, contribution(self.root, offset)
            elif name == "alltoall":
                yield offset, contribution(offset // self.shard, rank * self.shard + offset % self.shard)
            else:
                yield offset, ((offset + (rank * self.shard if scatters else 0), everyone, 0),)
