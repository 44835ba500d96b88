"""MSCCL++ execution plans as the executor reads them; what a plan means is told from the text alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded
from treadle.input_files import parse_json

MAX_TEXT = 64 * 2**20
"""Largest text read, characters."""
MAX_CHUNKS = 4 * 10**6
"""Largest number of chunks in all buffers together."""
COLLECTIVES = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall")
EVENTS = {"signal", "wait", "rlxsignal", "rlxwait"}
MOVES = {"put", "pws", "pwsf", "get", "copy", "re", "res", "rre", "rres", "gstore", "glres"}
SYNCHRONISING = {"nop", "barrier", "flush", "sem_acquire", "sem_release"}
PACKETS = {"ppkt", "rppkt", "upkt", "cpkt", "repkt", "respkt", "recpkt", "recspkt", "gstorepkt"}
"""Moves that write or read packets: data with flags, in scratch."""
_INTERPRETED = EVENTS | MOVES | SYNCHRONISING | PACKETS
UNLIMITED = 2**64 - 1
"""`max_message_size` of a plan without a limit."""
SHARED_SCRATCH = 2**26
"""Bytes of scratch that plans with `reuse_resources` share (``PREDFINED_SCRATCH_SIZE`` of the executor)."""
_TYPES = ("memory", "port", "switch")
_LETTERS = ("i", "o", "s")
_MOST_IN_GROUP = 1024
_MOST = {"operations": 64, "channels": 16, "ids": 8, "places": 10, "semaphores": 16}


@dataclass(frozen=True)
class BufferChunks:
    """Chunks of a buffer: of this rank, of another one, or of all ranks of a switch's group."""

    ranks: tuple[int, ...]
    letter: str
    index: int
    size: int
    how: str
    """local, remote or switch"""


@dataclass(frozen=True)
class MscclppOperation:
    """One operation; `channels` are (type, number) of the rank."""

    name: str
    where: str
    channels: tuple[tuple[str, int], ...] = ()
    sources: tuple[BufferChunks, ...] = ()
    targets: tuple[BufferChunks, ...] = ()
    numbers: tuple[int, ...] = ()
    """Semaphores; of a barrier its number and how many blocks meet there; of a pipeline its chunks and the
    bytes of a slice."""
    inner: tuple[MscclppOperation, ...] = ()
    part: tuple[int, int] = (0, 1)
    """Number of this block in its group, and blocks of the group: each moves its part of the range."""


@dataclass
class ExecutionPlan:
    """A plan as written, and what is wrong with it so far."""

    collective: str
    in_place: bool
    is_low_latency: bool = False
    """Protocol LL: scratch has twice the bytes of its chunks, for packets."""
    has_double_scratch: bool = False
    """Launches take its halves in turn."""
    reuses_scratch: bool = False
    """`reuse_resources`: scratch is of a fixed size, and pipelines use it again for larger chunks."""
    min_bytes: int = 0
    max_bytes: int = UNLIMITED
    served_bytes: int = UNLIMITED
    """Largest size at which packets have offsets of 32 bits, and chunks have their room in shared scratch."""
    sizes: list[dict[str, int]] = field(default_factory=list)
    peers: list[dict[str, list[int]]] = field(default_factory=list)
    """For each rank and type, the peer of every channel."""
    blocks: list[list[list[MscclppOperation]]] = field(default_factory=list)
    semaphores: list[list[int]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Limits of the verdict."""

    @property
    def operations(self) -> Iterator[MscclppOperation]:
        """All operations, those of pipelines after their pipeline."""
        for blocks in self.blocks:
            for block in blocks:
                for operation in block:
                    yield operation
                    yield from operation.inner

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared scratch that each of its chunks has; 0 without scratch."""
        scratch = max(sizes["s"] for sizes in self.sizes)
        half = SHARED_SCRATCH // (1 + self.has_double_scratch)
        return -(-half // (16 * scratch)) * 16 if scratch else 0

    @property
    def has_packets(self) -> bool:
        """Whether any operation moves packets, whatever the protocol."""
        return any(operation.name in PACKETS for operation in self.operations)

    def limit(self, where: str, what: str, found: int, most: str) -> None:
        """Note that a table of the executor is too small."""
        if found > _MOST[most]:
            self.violations.append(f"{where}: {found} {what}, the limit is {_MOST[most]}")


class _Reader:
    """Members of objects, each with a place for messages."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, where: str, message: str) -> FormatError:
        return FormatError(f"{where}: {message}", source=self.source)

    def item(self, value: Any, key: str, where: str, kind: type, default: Any = None) -> Any:
        if not isinstance(value, dict):
            raise self.fail(where, "expected an object")
        found = value.get(key, default)
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise self.fail(where, f"{key}: expected {_WORDS[kind]}")
        return found

    def number(self, value: Any, key: str, where: str, low: int, high: int, default: Any = None) -> int:
        found = self.item(value, key, where, int, default)
        if not low <= found <= high:
            raise self.fail(where, f"{key}={found}: expected an integer from {low} to {high}")
        return int(found)

    def choice(self, value: Any, key: str, where: str, allowed: tuple[str, ...]) -> str:
        found = self.item(value, key, where, str)
        if found not in allowed:
            raise self.fail(where, f"{key}={found[:40]!r}: expected one of {', '.join(allowed)}")
        return str(found)

    def numbers(self, value: Any, key: str, where: str, high: int) -> list[int]:
        found = self.item(value, key, where, list, [])
        if not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i <= high for i in found):
            raise self.fail(where, f"{key}: expected integers from 0 to {high}")
        return list(found)


_WORDS = {dict: "an object", list: "a list", int: "an integer", str: "a string", bool: "true or false"}


def read(data: bytes, terms: Terms) -> ExecutionPlan:
    """Read a plan."""
    return parse_mscclpp_json(*decoded(data, terms, "MSCCL++ plan"))


def parse_mscclpp_json(text: str, source: str) -> ExecutionPlan:
    """Read a plan.

    Returns
    -------
    ExecutionPlan
        Its `violations` name the executor's limits that do not hold.

    Raises
    ------
    FormatError
        If the executor would refuse the text or read past its tables, or it is hostile.
    """
    if len(text) > MAX_TEXT:
        raise FormatError(f"{len(text)} characters, expected at most {MAX_TEXT}", source=source)
    top, read = parse_json(text, source=source), _Reader(source)
    read.item(top, "name", "plan", str)
    plan = ExecutionPlan(
        collective=read.choice(top, "collective", "plan", COLLECTIVES),
        in_place=read.item(top, "inplace", "plan", bool),
        is_low_latency=read.choice(top, "protocol", "plan", ("Simple", "LL")) == "LL",
        has_double_scratch=read.item(top, "use_double_scratch_buffer", "plan", bool, False),
        reuses_scratch=read.item(top, "reuse_resources", "plan", bool, False),
        min_bytes=read.number(top, "min_message_size", "plan", 0, UNLIMITED, 0),
    )
    plan.max_bytes = read.number(top, "max_message_size", "plan", plan.min_bytes, UNLIMITED, UNLIMITED)
    read.number(top, "buffer_alignment", "plan", 16, 16, 16)
    gpus = read.item(top, "gpus", "plan", list)
    if not 1 <= len(gpus) <= 4096:
        raise read.fail("plan", f"{len(gpus)} gpus: expected 1 to 4096")
    for rank, gpu in enumerate(gpus):
        where = f"gpu {rank}"
        read.number(gpu, "id", where, rank, rank)
        names = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
        sizes = {key: read.number(gpu, name, where, 0, MAX_CHUNKS) for key, name in names.items()}
        plan.sizes.append(sizes)
    if sum(sum(sizes.values()) for sizes in plan.sizes) > MAX_CHUNKS:
        raise read.fail("plan", f"expected at most {MAX_CHUNKS} chunks in all buffers together")
    for rank, gpu in enumerate(gpus):
        _GpuReader(source, plan, rank).parse(gpu)
    _check_sizes(plan)
    return plan


def _check_sizes(plan: ExecutionPlan) -> None:
    """Find the largest size at which packets have offsets of 32 bits; a larger stated one is a violation."""
    if plan.reuses_scratch:
        chunks = max(max(1, sizes["i"], sizes["o"]) for sizes in plan.sizes)
        if room := plan.shared_bytes:
            plan.served_bytes = room * chunks
        return
    if not (plan.is_low_latency or plan.has_packets):
        return
    limits = []
    for rank, sizes in enumerate(plan.sizes):
        chunks = max(1, sizes["i"], sizes["o"])
        # packets take twice the bytes of their data, in one half of scratch or two
        packed = (1 + plan.is_low_latency) * sizes["s"] * (1 + plan.has_double_scratch)
        if packed and packed * plan.max_bytes > 2**32 * chunks:
            limits.append((2**32 * chunks // packed, rank))
    if not limits:
        return
    least, first = min(limits)
    plan.served_bytes = least
    if plan.max_bytes == UNLIMITED and plan.min_bytes <= least:
        plan.notes.append(
            f"verified up to {least} bytes: the plan states no limit, and beyond, packets of gpu {first} lie "
            "beyond offsets of 32 bits"
        )
        return
    for _, rank in limits:
        plan.violations.append(f"gpu {rank}: at {plan.max_bytes} bytes packets lie beyond offsets of 32 bits")


class _GpuReader(_Reader):
    """One rank's entry, block by block."""

    def __init__(self, source: str, plan: ExecutionPlan, rank: int) -> None:
        super().__init__(source)
        self.plan, self.rank, self.last = plan, rank, len(plan.sizes) - 1
        self.peers: dict[str, list[int]] = defaultdict(list)
        self.switches: list[tuple[str, tuple[int, ...]]] = []
        self.remote: list[tuple[int, str, tuple[str, ...]]] = []
        self.channels: dict[str, list[int]] = {}
        """What the numbers of the current block's operations refer to, by type; buffers too."""
        self.buffers: dict[str, list[int]] = {}

    def parse(self, gpu: Any) -> None:
        where, plan = f"gpu {self.rank}", self.plan
        for channel in self.item(gpu, "channels", where, list):
            kind = self.choice(channel, "channel_type", where, _TYPES)
            if kind == "switch":
                letter = self.choice(channel, "buffer_type", where, _LETTERS)
                for group in self.item(channel, "rank_groups", where, list):
                    ranks = self.numbers(group, "ranks", where, self.last)
                    self.number(group, "size", where, len(ranks), len(ranks))
                    if self.rank not in ranks or len(set(ranks)) < len(ranks):
                        raise self.fail(where, f"a switch's group {ranks[:8]} must name this rank once")
                    self.switches.append((letter, tuple(ranks)))
            else:
                peers = self.numbers(channel, "connected_to", where, self.last)
                if self.rank in peers:
                    raise self.fail(where, "connected_to names the gpu itself")
                self.peers[kind] += peers
        for buffer in self.item(gpu, "remote_buffers", where, list):
            peer = self.number(buffer, "rank", where, 0, self.last)
            letter = self.choice(buffer, "type", where, _LETTERS)
            access = self.item(buffer, "access_channel_types", where, list)
            self.remote.append((peer, letter, tuple(map(str, access))))
        semaphores = self.item(gpu, "semaphores", where, list, [])
        plan.limit(where, "semaphores", len(semaphores), "semaphores")
        plan.semaphores.append([self.number(entry, "init_value", where, 0, 2**31) for entry in semaphores])
        plan.peers.append(dict(self.peers))
        blocks = self.item(gpu, "threadblocks", where, list)
        plan.blocks.append(
            [
                self._block(block, number, f"{where} threadblock {number}")
                for number, block in enumerate(blocks)
            ]
        )

    def _block(self, block: Any, number: int, where: str) -> list[MscclppOperation]:
        self.number(block, "id", where, number, number)
        self.channels, self.buffers = defaultdict(list), defaultdict(list)
        for entry in self.item(block, "channels", where, list):
            kind = self.choice(entry, "channel_type", where, _TYPES)
            there = len(self.switches) if kind == "switch" else len(self.peers[kind])
            self.channels[kind] += self.numbers(entry, "channel_ids", where, there - 1)
        for entry in self.item(block, "remote_buffer_refs", where, list, []):
            kind = self.choice(entry, "access_channel_type", where, ("memory", "port"))
            for buffer in self.numbers(entry, "remote_buffer_ids", where, len(self.remote) - 1):
                if kind not in self.remote[buffer][2]:
                    raise self.fail(where, f"remote buffer {buffer} has no access by {kind} channels")
                self.buffers[kind].append(buffer)
        for kind in _TYPES:
            self.plan.limit(where, f"{kind} channels", len(self.channels[kind]), "channels")
            self.plan.limit(where, f"{kind} buffers", len(self.buffers[kind]), "channels")
        found = [
            self._operation(entry, f"{where} op {place}")
            for place, entry in enumerate(self.item(block, "ops", where, list))
        ]
        length = sum(1 + len(operation.inner) for operation in found)
        self.plan.limit(where, "operations", length, "operations")
        return found

    def _operation(self, entry: Any, where: str, *, nested: bool = False) -> MscclppOperation:
        plan = self.plan
        name = self.item(entry, "name", where, str)
        if name == "pipeline" and not nested:
            context = self.item(entry, "iter_context", where, dict)
            unit = self.number(context, "unit_size", where, 16, 2**31)
            if unit % 16:
                raise self.fail(where, f"unit_size={unit}: expected a multiple of 16")
            inner = tuple(
                self._operation(one, f"{where}.{place}", nested=True)
                for place, one in enumerate(self.item(entry, "ops", where, list))
            )
            chunks = self.number(context, "num_chunks", where, 1, MAX_CHUNKS)
            return MscclppOperation(name, where, numbers=(chunks, unit), inner=inner)
        if name not in _INTERPRETED:
            raise self.fail(where, f"{name[:40]!r} is no operation here")
        kind = self.choice(entry, "channel_type", where, _TYPES) if "channel_type" in entry else ""
        own = self.channels[kind] if kind else []
        ids = self.numbers(entry, "channel_ids", where, len(own) - 1) if kind != "switch" else []
        plan.limit(where, "channels", len(ids), "ids")
        if len(set(ids)) < len(ids):
            plan.violations.append(f"{where}: a channel twice in one operation")
        sources, targets = (
            tuple(self._place(one, kind, where) for one in self.item(entry, key, where, list, []))
            for key in ("src_buff", "dst_buff")
        )
        plan.limit(where, "sources or targets", max(len(sources), len(targets)), "places")
        numbers: list[int] = []
        if name == "barrier":
            numbers = [self.number(entry, key, where, 0, 1024) for key in ("barrier_id", "num_threadblocks")]
        elif name in ("sem_acquire", "sem_release"):
            numbers = self.numbers(entry, "semaphore_ids", where, len(plan.semaphores[self.rank]) - 1)
        # the executor counts a peer's scratch from its beginning, its own from the half in use
        theirs = any(place.how != "local" and place.letter == "s" for place in (*sources, *targets))
        if theirs and plan.has_double_scratch and name not in PACKETS:
            raise self.fail(where, f"{name}: a peer's scratch, of which there are two halves")
        if (name in EVENTS or name == "flush") and (not ids or kind not in ("memory", "port")):
            raise self.fail(where, f"{name} needs memory or port channels")
        channels = tuple((kind, own[i]) for i in ids)
        group = self.item(entry, "tbg_info", where, dict, {"tb_id": 0, "tbg_size": 1})
        size = self.number(group, "tbg_size", where, 1, _MOST_IN_GROUP)
        part = (self.number(group, "tb_id", where, 0, size - 1), size)
        return MscclppOperation(name, where, channels, sources, targets, tuple(numbers), part=part)

    def _place(self, entry: Any, kind: str, where: str) -> BufferChunks:
        index = self.number(entry, "index", where, 0, MAX_CHUNKS)
        size = self.number(entry, "size", where, 1, MAX_CHUNKS)
        ranks: tuple[int, ...]
        if "type" in entry:
            letter, ranks, how = self.choice(entry, "type", where, _LETTERS), (self.rank,), "local"
        elif "buffer_id" in entry:
            ids = self.buffers[kind]
            rank, letter, _ = self.remote[ids[self.number(entry, "buffer_id", where, 0, len(ids) - 1)]]
            ranks, how = (rank,), "remote"
        else:
            ids = self.channels["switch"]
            number = ids[self.number(entry, "switch_channel_id", where, 0, len(ids) - 1)]
            letter, ranks, how = *self.switches[number], "switch"
        for rank in ranks:
            there = self.plan.sizes[rank][letter]
            if index + size > there:
                raise self.fail(
                    where, f"chunks {index} to {index + size - 1} of buffer {letter}, which has {there}"
                )
        return BufferChunks(ranks, letter, index, size, how)
