"""Reads MSCCL XML as strictly as the runtimes do and executes it on integer contributions.

Shares no code with the writer: what a text means is told from the text alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree

from treadle.errors import FormatError

MAX_TEXT = 64 * 2**20
"""Largest text read, characters."""
MAX_CHUNKS = 4 * 10**6
"""Largest number of ranks times chunks."""

_COLLECTIVES = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall")
_LIMITS = {"azure": (64, 1024, 32), "legacy": (256, 216, 32), "rccl": (64, 64, 128)}
"""Steps of a thread block, thread blocks of a rank, channels, for each profile."""
_RECEIVING = {"r", "rcs", "rrs", "rrc", "rrcs"}
_SENDING = {"s", "rcs", "rrs", "rrcs"}
_STORING = {"r", "rcs", "rrc", "rrcs", "cpy", "re"}
_READING = {"s", "rrs", "rrc", "rrcs", "cpy", "re"}
_STEP_TYPES = _RECEIVING | _SENDING | _STORING | {"nop"}

_Value = dict[tuple[int, int], int]
"""How often each (rank, chunk) is contained."""


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
    """

    collective: str
    n_ranks: int
    n_chunks: int
    n_steps: int
    n_messages: int
    violations: tuple[str, ...]


@dataclass(frozen=True)
class _Step:
    rank: int
    block: int
    """Number of the thread block among those of all ranks."""
    place: int
    type: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    wait: tuple[int, int]
    has_dependent: bool
    line: int

    def __str__(self) -> str:
        return f"line {self.line} (rank {self.rank}, {self.type})"


@dataclass
class _Algorithm:
    collective: str
    n_ranks: int
    n_chunks: int
    in_place: tuple[bool, ...]
    sizes: list[dict[str, int]] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    blocks: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Rank, send peer, receive peer and channel of each thread block."""
    first_block: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def interpret_msccl_xml(
    text: str, *, profile: str = "azure", root: int = 0, source: str = "MSCCL XML"
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

    Returns
    -------
    Interpretation
        Violations are: limits exceeded, offsets out of range, sends without receives, cycles, races (two
        steps of a rank on the same chunk, one writing, that nothing orders), undefined data read, and wrong
        results: each output chunk must hold every contribution just once.

    Raises
    ------
    FormatError
        If the runtime's parser would refuse the text, or it is hostile.

    Notes
    -----
    Steps of a thread block run in order, after the step they wait for; the i-th send from a to b on a channel
    meets the i-th receive there, and sends are buffered. Order is judged by vector clocks over thread blocks.
    """
    if profile not in _LIMITS:
        raise FormatError(f"profile {profile!r}: expected azure, legacy or rccl")
    algorithm = _parse(text, profile, source)
    if not 0 <= root < algorithm.n_ranks:
        raise FormatError(f"root {root}: expected a rank from 0 to {algorithm.n_ranks - 1}", source=source)
    after, sender_of, n_messages = _edges(algorithm)
    order = _order(algorithm, after)
    if order is not None:
        for in_place in algorithm.in_place:
            _Run(algorithm, in_place, root).execute(order, after, sender_of)
    return Interpretation(
        collective=algorithm.collective,
        n_ranks=algorithm.n_ranks,
        n_chunks=algorithm.n_chunks,
        n_steps=len(algorithm.steps),
        n_messages=n_messages,
        violations=tuple(dict.fromkeys(algorithm.violations)),
    )


def _tree(text: str, source: str) -> etree._Element:
    """The document, refused where the runtimes' own small parser would stumble."""
    if len(text) > MAX_TEXT:
        raise FormatError(f"{len(text)} characters, expected at most {MAX_TEXT}", source=source)
    for pattern, what in (
        (r"<\?", "an XML declaration or processing instruction"),
        (r"<!(?!--)", "a DTD, entity or CDATA section"),
        (r"\t", "a tab"),
        (r"\0", "a null character"),
        (r"<[A-Za-z/][^<>]*'", "a single quote"),
        (r"<[A-Za-z/][^<>\n]*\n", "a line break within a tag"),
    ):
        match = re.search(pattern, text)
        if match:
            line = text.count("\n", 0, match.start()) + 1
            raise FormatError(f"{what} is not accepted", source=source, line=line)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True
    )
    try:
        return etree.fromstring(text.encode("utf-8"), parser)
    except UnicodeEncodeError:
        raise FormatError("not valid text (lone surrogate)", source=source) from None
    except etree.XMLSyntaxError as error:
        raise FormatError(f"not well-formed ({error.msg})", source=source, line=error.lineno or 1) from None


def _line(element: etree._Element) -> int:
    line = element.sourceline
    return line if isinstance(line, int) else 1


class _Reader:
    """Attributes of elements, each required."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, element: etree._Element, message: str) -> FormatError:
        return FormatError(f"<{element.tag}> {message}", source=self.source, line=_line(element))

    def word(self, element: etree._Element, key: str, allowed: tuple[str, ...] = ()) -> str:
        value = element.get(key)
        if value is None:
            raise self.fail(element, f"lacks the attribute {key}")
        if allowed and value not in allowed:
            raise self.fail(element, f"{key}={value[:40]!r}: expected one of {', '.join(allowed)}")
        return str(value)

    def number(self, element: etree._Element, key: str, low: int, high: int) -> int:
        value = self.word(element, key)
        if not re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII) or not low <= int(value) <= high:
            raise self.fail(element, f"{key}={value[:40]!r}: expected an integer from {low} to {high}")
        return int(value)

    def children(self, element: etree._Element, tag: str) -> Iterator[etree._Element]:
        """Children of one tag; others are skipped, as the runtimes do."""
        return (child for child in element if child.tag == tag)


def _parse(text: str, profile: str, source: str) -> _Algorithm:
    read = _Reader(source)
    top = _tree(text, source)
    if top.tag != "algo":
        raise read.fail(top, "found, expected <algo>")
    spelling = "reduce_scatter" if profile == "legacy" else "reducescatter"
    names = tuple(spelling if name == "reducescatter" else name for name in _COLLECTIVES)
    read.word(top, "proto", ("Simple", "LL", "LL128"))
    steps, thread_blocks, channels = _LIMITS[profile]
    n_channels = read.number(top, "nchannels", 1, 2**15)
    for key in ("minBytes", "maxBytes"):
        read.number(top, key, 0, 2**62)
    modes = [(read.number(top, "inplace", 0, 1), True), (read.number(top, "outofplace", 0, 1), False)]
    algorithm = _Algorithm(
        collective=read.word(top, "coll", names),
        n_ranks=read.number(top, "ngpus", 1, 4096),
        n_chunks=read.number(top, "nchunksperloop", 1, MAX_CHUNKS),
        in_place=tuple(mode for flag, mode in modes if flag),
    )
    if algorithm.n_ranks * algorithm.n_chunks > MAX_CHUNKS:
        raise read.fail(top, f"ngpus x nchunksperloop: expected at most {MAX_CHUNKS}")
    if not algorithm.in_place:
        raise read.fail(top, "serves neither in-place nor out-of-place calls")
    if n_channels > channels:
        algorithm.violations.append(f"{n_channels} channels, the limit is {channels}")
    gpus = list(read.children(top, "gpu"))
    if len(gpus) != algorithm.n_ranks:
        raise read.fail(top, f"holds {len(gpus)} gpus, expected ngpus={algorithm.n_ranks}")
    for rank, gpu in enumerate(gpus):
        read.number(gpu, "id", rank, rank)
        algorithm.sizes.append({key: read.number(gpu, f"{key}_chunks", 0, MAX_CHUNKS) for key in "ios"})
        algorithm.first_block.append(len(algorithm.blocks))
        _parse_blocks(read, algorithm, rank, gpu, n_channels, steps, thread_blocks)
    algorithm.first_block.append(len(algorithm.blocks))
    return algorithm


def _parse_blocks(
    read: _Reader,
    algorithm: _Algorithm,
    rank: int,
    gpu: etree._Element,
    n_channels: int,
    max_steps: int,
    max_blocks: int,
) -> None:
    nodes = 1 + algorithm.n_ranks + len(gpu)
    peers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for number, block in enumerate(read.children(gpu, "tb")):
        read.number(block, "id", number, number)
        send, receive = (read.number(block, key, -1, algorithm.n_ranks - 1) for key in ("send", "recv"))
        if rank in (send, receive):
            raise read.fail(block, f"of gpu {rank} names its own rank as a peer")
        channel = read.number(block, "chan", 0, n_channels - 1)
        for side, peer in (("send", send), ("receive", receive)):
            if peer >= 0 and peer in peers[side, channel]:
                raise read.fail(block, f"is the second to {side} with peer {peer} on channel {channel}")
            peers[side, channel].update({peer} - {-1})
        algorithm.blocks.append((rank, send, receive, channel))
        children = list(read.children(block, "step"))
        nodes += len(children)
        if len(children) > max_steps:
            algorithm.violations.append(
                f"rank {rank} tb {number}: {len(children)} steps, the limit is {max_steps}"
            )
        for place, element in enumerate(children):
            read.number(element, "s", place, place)
            algorithm.steps.append(_parse_step(read, element, rank, len(algorithm.blocks) - 1, place))
    if number_of := max((len(found) for found in peers.values()), default=0):
        _limit(algorithm, rank, "peers on a channel", number_of, 32)
    _limit(algorithm, rank, "thread blocks", len(gpu), max_blocks)
    _limit(algorithm, rank, "children of a node", max(len(gpu), algorithm.n_ranks), 1024)
    _limit(algorithm, rank, "XML nodes", nodes, 4096)


def _limit(algorithm: _Algorithm, rank: int, what: str, value: int, limit: int) -> None:
    if value > limit:
        algorithm.violations.append(f"rank {rank}: {value} {what}, the limit is {limit}")


def _parse_step(read: _Reader, element: etree._Element, rank: int, block: int, place: int) -> _Step:
    ends: list[tuple[str, int]] = [
        (
            read.word(element, f"{side}buf", ("i", "o", "s")),
            read.number(element, f"{side}off", -1, MAX_CHUNKS),
        )
        for side in ("src", "dst")
    ]
    waits = (read.number(element, "depid", -1, 1023), read.number(element, "deps", -1, 4095))
    if (waits[0] < 0) != (waits[1] < 0):
        raise read.fail(element, f"depid={waits[0]} with deps={waits[1]}: expected both or neither")
    type_ = read.word(element, "type", tuple(sorted(_STEP_TYPES)))
    return _Step(
        rank=rank,
        block=block,
        place=place,
        type=type_,
        source=ends[0],
        target=ends[1],
        count=read.number(element, "cnt", int(type_ != "nop"), 71),
        wait=waits,
        has_dependent=bool(read.number(element, "hasdep", 0, 1)),
        line=_line(element),
    )


def _edges(algorithm: _Algorithm) -> tuple[list[list[int]], dict[int, int], int]:
    """Successors of every step, and the sending step of every receiving step."""
    violations = algorithm.violations
    after: list[list[int]] = [[] for _ in algorithm.steps]
    where = {(step.block, step.place): number for number, step in enumerate(algorithm.steps)}
    sends: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    receives: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number, step in enumerate(algorithm.steps):
        rank, send, receive, channel = algorithm.blocks[step.block]
        if step.place:
            after[number - 1].append(number)
        if step.wait[0] >= 0:
            block = algorithm.first_block[rank] + step.wait[0]
            awaited = where.get((block, step.wait[1]))
            if awaited is None or block >= algorithm.first_block[rank + 1]:
                violations.append(f"{step} waits for tb {step.wait[0]} step {step.wait[1]}: there is none")
                continue
            if not algorithm.steps[awaited].has_dependent:
                violations.append(f"{algorithm.steps[awaited]} is awaited and has hasdep=0")
            if step.wait[0] > 127:
                violations.append(
                    f"{step} waits for tb {step.wait[0]}: the highest that may be awaited is 127"
                )
            after[awaited].append(number)
        for kinds, peer, table, key in (
            (_SENDING, send, sends, (rank, send, channel)),
            (_RECEIVING, receive, receives, (receive, rank, channel)),
        ):
            if step.type in kinds:
                table[key].append(number)
                if peer < 0:
                    violations.append(f"{step}: its thread block has no such peer")
    sender_of: dict[int, int] = {}
    for key in sorted({*sends, *receives}):
        name = f"{key[0]}->{key[1]} channel {key[2]}"
        if len(sends[key]) != len(receives[key]):
            violations.append(f"{name}: {len(sends[key])} sends, {len(receives[key])} receives")
        for one, other in zip(sends[key], receives[key], strict=False):
            sender_of[other] = one
            after[one].append(other)
            counts = algorithm.steps[one].count, algorithm.steps[other].count
            if counts[0] != counts[1]:
                violations.append(
                    f"{name}: {algorithm.steps[one]} sends {counts[0]} chunks, "
                    f"{algorithm.steps[other]} receives {counts[1]}"
                )
    return after, sender_of, len(sender_of)


def _order(algorithm: _Algorithm, after: list[list[int]]) -> list[int] | None:
    """An order of execution; None, and a violation with the cycle, if there is a deadlock."""
    blocked = [0] * len(after)
    for successors in after:
        for number in successors:
            blocked[number] += 1
    order = [number for number, count in enumerate(blocked) if not count]
    for number in order:
        for successor in after[number]:
            blocked[successor] -= 1
            if not blocked[successor]:
                order.append(successor)
    if len(order) == len(after):
        return order
    before = {
        successor: number
        for number, successors in enumerate(after)
        if blocked[number]
        for successor in successors
    }
    number = next(number for number, count in enumerate(blocked) if count)
    trail: dict[int, None] = {}
    while number not in trail:
        trail[number] = None
        number = before[number]
    cycle = list(trail)[list(trail).index(number) :][::-1]
    shown = " -> ".join(str(algorithm.steps[step]) for step in cycle[:8])
    algorithm.violations.append(f"deadlock: cycle of {len(cycle)} steps: {shown}")
    return None


class _Run:
    """One execution, in place or not: memory, accesses and clocks."""

    def __init__(self, algorithm: _Algorithm, in_place: bool, root: int) -> None:
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

    def execute(self, order: list[int], after: list[list[int]], sender_of: dict[int, int]) -> None:
        name, n = self.algorithm.collective, self.algorithm.n_ranks
        if name not in ("allreduce", "broadcast", "reduce") and self.shard * n != self.algorithm.n_chunks:
            self.problems.append(f"nchunksperloop {self.algorithm.n_chunks} does not divide by {n} ranks")
            return
        for rank in range(n):
            for offset, value in self.initial(rank):
                self.memory[self.slot(rank, "i", offset)] = value
        sent: dict[int, list[_Value]] = {}
        for number in order:
            step = self.algorithm.steps[number]
            clock = self.clocks.pop(number, {})
            incoming = sent.pop(sender_of[number], []) if number in sender_of else []
            outgoing = self.step(step, number, incoming, clock)
            if step.type in _SENDING:
                sent[number] = outgoing
            clock[step.block] = step.place
            for successor in after[number]:
                later = self.clocks.setdefault(successor, {})
                for block, place in clock.items():
                    if later.get(block, -1) < place:
                        later[block] = place
        for rank in range(n):
            for offset, wanted in self.final(rank):
                found = self.memory.get(self.slot(rank, "o", offset))
                if found != wanted:
                    self.problems.append(f"rank {rank} output chunk {offset}: {_difference(found, wanted)}")

    def step(self, step: _Step, number: int, incoming: list[_Value], clock: dict[int, int]) -> list[_Value]:
        """Execute; what it sends."""
        values = incoming + [{}] * (step.count - len(incoming))
        for used, (buffer, offset) in (
            (step.type in _READING, step.source),
            (step.type in _STORING, step.target),
        ):
            size = self.algorithm.sizes[step.rank][buffer]
            if used and not 0 <= offset <= offset + step.count <= size:
                self.problems.append(f"{step}: {buffer}[{offset}, {offset + step.count}) of {size} chunks")
                return values
        for at in range(step.count if step.type in _READING else 0):
            local = self.read(step, number, step.source, at, clock)
            values[at] = _sum(local, values[at]) if step.type.startswith("rr") else local
            if step.type == "re":
                values[at] = _sum(local, self.read(step, number, step.target, at, clock))
        for at in range(step.count if step.type in _STORING else 0):
            slot = self.slot(step.rank, step.target[0], step.target[1] + at)
            for other in (*self.readers.pop(slot, ()), self.writer.get(slot, number)):
                self.ordered(other, step, number, clock)
            self.writer[slot] = number
            self.memory[slot] = values[at]
        return values

    def read(
        self, step: _Step, number: int, place: tuple[str, int], at: int, clock: dict[int, int]
    ) -> _Value:
        slot = self.slot(step.rank, place[0], place[1] + at)
        self.ordered(self.writer.get(slot, number), step, number, clock)
        self.readers[slot].append(number)
        if slot not in self.memory:
            self.problems.append(f"{step} reads {place[0]}[{place[1] + at}], which holds nothing yet")
        return self.memory.get(slot, {})

    def ordered(self, other: int, step: _Step, number: int, clock: dict[int, int]) -> None:
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
    missing = [key for key in wanted if key not in found]
    extra = [key for key, count in found.items() if count > wanted.get(key, 0)]
    return (
        f"{len(missing)} contributions missing {missing[:2]}, {len(extra)} too many {extra[:2]} (rank, chunk)"
    )
