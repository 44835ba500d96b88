"""Writes one thread block of an MSCCL++ plan, operation by operation.

The threads of a block do not wait for each other: a ``nop`` synchronizes them. One is written between a wait
and the operations after it, between moves and a signal, and between two operations on the same data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

import numpy as np

from treadle.formats.mscclpp.block_programs import COPY, OUTPUT, RECEIVE, SEND, Block
from treadle.formats.mscclpp.blocks import (
    PEERS,
    Fabric,
    Messages,
    MscclppBlock,
    MscclppGpu,
    find_stars,
    route_messages,
)
from treadle.program.program import Buffer, OperationKind

_T = TypeVar("_T")
_LETTERS = "ios"
Json = dict[str, Any]
Access = tuple[Hashable, int, int, bool]
"""Memory, first chunk, one past the last, and whether it is written."""


@dataclass
class BlockWriter:
    """Writer of one rank's block of a thread-block program."""

    fabric: Fabric
    lane: Block
    number: int
    messages: Messages
    stars: dict[int, tuple[int, ...]]
    gpus: Sequence[MscclppGpu]
    rank: int
    block: MscclppBlock = field(default_factory=MscclppBlock)
    channels: dict[int, int] = field(default_factory=dict)
    """The block's number of each message's channel."""
    moved: list[Access] = field(default_factory=list)
    """Accesses since the last barrier."""
    lent: list[Access] = field(default_factory=list)
    """Accesses of the proxy that may be incomplete."""
    puts: list[Json] = field(default_factory=list)
    """Operations of the proxy, in order."""
    has_waited: bool = False
    sent: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """Number of sends for each source and chunks."""

    def __post_init__(self) -> None:
        self._all = self.lane.all

    def write(self, numbers: Sequence[int], pipeline_bytes: int, count: int) -> MscclppBlock:
        """Return the block of these operations, in a pipeline of slices unless `pipeline_bytes` is 0."""
        body = self._run_all(numbers)
        self._line_up()
        if pipeline_bytes:
            inner = self.block.operations[body:]
            context = {"unit_size": pipeline_bytes, "num_chunks": count}
            self.block.operations[body:] = [{"name": "pipeline", "iter_context": context, "ops": inner}]
        self._part(numbers)
        return self.block

    def _run_all(self, numbers: Sequence[int]) -> int:
        """Write a greeting of the peers, then these operations; return the position of the latter."""
        for number in numbers:
            if self._all.kind[number] != COPY:
                self._channel(number)
            if self._all.kind[number] == SEND:
                self.sent[self._chunks(number)] += 1
        self._greet()
        body = len(self.block.operations)
        for kind, run in groupby(numbers, key=self._all.kind.__getitem__):
            self._run(OperationKind(kind), list(run))
        return body

    # --- the operations

    def _run(self, kind: OperationKind, run: list[int]) -> None:
        if kind is OperationKind.SEND:
            self._send(run)
        elif kind is OperationKind.RECEIVE:
            self._wait(run)
            for receive in run:
                send = self._all.send_of[receive]
                if send in self.messages.staged:
                    accesses = [*self._touched(receive), self._slot_access(send)]
                    self._move(accesses, "copy", [self._slot(send)], [self._end(receive, "target")])
        elif kind is OperationKind.RECEIVE_REDUCE:
            for chain in self._chains(run):
                self._wait(chain)
                self._sum(chain)
        else:
            for number in run:
                source, target = self._end(number, "source"), self._end(number, "target")
                self._move(self._touched(number), "copy", [source], [target])

    def _send(self, run: list[int]) -> None:
        """Write moves of data to each peer, then signals."""
        every, messages = self._all, self.messages
        pushed = [send for send in run if send not in messages.pulled and send not in messages.stored]
        same: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)
        for send in pushed:
            same[every.source[send], every.first[send], every.past[send], self._type(send)].append(send)
        for (*_, kind), sends in same.items():
            if kind == "memory" and self._multicast(sends):
                continue
            for part in self._apart(sends):
                self._put(part, kind)
        # The signal of a put through a proxy is part of the put.
        far = {send for send in pushed if self._type(send) == "port"}
        self._signal([send for send in run if send not in far])

    def _put(self, sends: list[int], kind: str) -> None:
        """Write moves of the same chunks to several peers; the proxy signals by itself."""
        sources = [self._end(send, "source") for send in sends]
        targets = [self._remote_target(send, kind) for send in sends]
        touched = self._touched(sends[0])
        if kind == "memory":
            self._move(touched, "put", sources, targets, kind)
            return
        ids = [self._channel(send) for send in sends]
        self.puts.append(self._move(touched, "pws", sources, targets, kind, channel_ids=ids))
        self.lent.extend(touched)

    def _multicast(self, sends: list[int]) -> bool:
        """Write one store to all ranks of a group through a switch, if these sends are such a store."""
        every = self._all
        peers = [every.peer[send] for send in sends]
        receives = [every.receive_of[send] for send in sends]
        # A multicast must replace all sends of these chunks, write outputs at the same position, and be one
        # of the plan: other in-network operations would cross links that the plan does not count.
        if (
            len(sends) < max(2, self.sent[self._chunks(sends[0])])
            or len(set(peers)) < len(peers)
            or any(send in self.messages.staged for send in sends)
            or any(every.target[receive] != OUTPUT for receive in receives)
            or not self.fabric.is_operation(sends, sums=False)
        ):
            return False
        group = tuple(sorted((self.rank, *peers)))
        first, past = every.first[sends[0]], every.past[sends[0]]
        own = self.lane.program.ranges(self.rank, Buffer.OUTPUT)
        places = {self.gpus[rank].addresses.offset(Buffer.OUTPUT, first) for rank in group}
        if len(places) > 1 or not any(low <= first and past <= end for low, end in own):
            return False
        source, target = self._end(sends[0], "source"), self._switch("o", group, places.pop(), past - first)
        # Storing data onto themselves, in place, does not conflict with reading them.
        accesses = [*self._touched(sends[0]), (every.memory(OUTPUT), first, past, True)]
        self._move(accesses, "gstore", [source], [target], "switch")
        return True

    def _sum(self, chain: list[int]) -> None:
        """Write consecutive receive-reduces of the same chunks as few operations."""
        if chain[0] in self.stars:
            self._sum_in_switch(chain)
            return
        source = self._end(chain[0], "source")
        sends = [self._all.send_of[number] for number in chain]
        for is_pulled, same in groupby(sends, key=lambda send: send in self.messages.pulled):
            for part in batches(list(same)):
                target = self._end(chain[0], "target")
                accesses = self._touched(chain[0])
                if is_pulled:
                    owners, sources = self._all.owner, self._all.source
                    terms = [self._remote(send, owners[send], sources[send], "memory") for send in part]
                    self._move(accesses, "rre", [source, *terms], [target], "memory", reduce_op="sum")
                else:
                    terms = [self._slot(send) for send in part]
                    accesses += [self._slot_access(send) for send in part]
                    self._move(accesses, "re", [source, *terms], [target], reduce_op="sum")
                source = target

    def _sum_in_switch(self, chain: list[int]) -> None:
        group = self.stars[chain[0]]
        first, count = self._all.first[chain[0]], self._all.count(chain[0])
        sides = (("i", Buffer.INPUT), ("o", Buffer.OUTPUT))
        source, target = (
            self._switch(letter, group, self.gpus[self.rank].addresses.offset(buffer, first), count)
            for letter, buffer in sides
        )
        self._move(self._touched(chain[0]), "glres", [source], [target], "switch", reduce_op="sum")

    def _chains(self, run: list[int]) -> list[list[int]]:
        """Group receive-reduces that add to the same chunks, each to the result of the previous one."""
        every = self._all
        chains: list[list[int]] = []
        for number in run:
            last = chains[-1][-1] if chains else -1
            if (
                last >= 0
                and (every.first[number], every.past[number]) == (every.first[last], every.past[last])
                and every.source[number] == every.target[number] == every.target[last]
            ):
                chains[-1].append(number)
            else:
                chains.append([number])
        return chains

    # --- lines of the plan

    def _move(
        self,
        accesses: list[Access],
        name: str,
        sources: list[Json],
        targets: list[Json],
        kind: str = "",
        **more: Any,
    ) -> Json:
        """Append an operation that moves data, after a barrier if earlier moves use the same data."""
        if clash(accesses, self.lent):
            self._flush()
            self._line_up()
        # Other threads see the received data, or those of earlier moves, only after a barrier.
        if self.has_waited or clash(accesses, self.moved):
            self._line_up()
        operation: Json = {"name": name, "src_buff": sources, "dst_buff": targets}
        operation |= ({"channel_type": kind} if kind else {}) | more
        self.block.operations.append(operation)
        self.moved.extend(accesses)
        return operation

    def _line_up(self) -> None:
        if self.block.operations and self.block.operations[-1]["name"] != "nop":
            self.block.operations.append({"name": "nop"})
        self.moved, self.has_waited = [], False

    def _signal(self, messages: list[int]) -> None:
        if messages and (self.moved or self.has_waited):
            self._line_up()
        self._events("signal", messages)

    def _wait(self, messages: list[int]) -> None:
        self._events("wait", messages)
        self.has_waited = self.has_waited or bool(messages)

    def _events(self, name: str, messages: list[int]) -> None:
        """Append signals or waits on the channels of messages, as many per operation as possible."""
        for kind in ("memory", "port"):
            for part in self._apart([i for i in messages if self._type(i) == kind]):
                ids = [self._channel(number) for number in part]
                self.block.operations.append({"name": name, "channel_ids": ids, "channel_type": kind})

    def _greet(self) -> None:
        """Wait until all peers of the block are there."""
        for kind, keys in self.block.channels.items():
            names = ("rlxsignal", "rlxwait") if kind == "memory" else ("signal", "wait")
            self.block.operations += [
                {"name": name, "channel_ids": ids, "channel_type": kind}
                for name in names
                for ids in batches(list(range(len(keys))))
            ]
        if self.block.operations:
            self._line_up()

    def _part(self, numbers: Sequence[int]) -> None:
        """Wait until no peer reads this rank's memory any more, and all sent data have arrived."""
        kinds, pulled = self._all.kind, self.messages.pulled
        read = [i for i in numbers if self._all.send_of.get(i) in pulled]
        lent = [i for i in numbers if kinds[i] == SEND and i in pulled]
        self._signal(self._once(read))
        self._events("wait", self._once(lent))
        if lent:
            self._line_up()
        if self.lent:
            self._flush()

    def _flush(self) -> None:
        """Wait until the proxy has sent all data out of this rank's memory.

        The last put of each channel waits for that. ``flush`` alone does nothing in the executor, which loops
        over its outputs (handleFlush of src/core/include/execution_kernel.hpp), and a flush has none.
        """
        seen: set[int] = set()
        for operation in reversed(self.puts):
            ids = set(operation["channel_ids"])
            if ids - seen:
                operation["name"] = "pwsf"
            seen |= ids
        self.lent = []

    def _once(self, messages: list[int]) -> list[int]:
        """Return one message of each channel."""
        return list({self._channel(number): number for number in messages}.values())

    def _apart(self, messages: list[int]) -> list[list[int]]:
        """Split messages, in order, into parts of at most `PEERS` on different channels."""
        parts: list[list[int]] = []
        used: set[int] = set()
        for number in messages:
            channel = self._channel(number)
            if not parts or len(parts[-1]) == PEERS or channel in used:
                parts.append([])
                used = set()
            parts[-1].append(number)
            used.add(channel)
        return parts

    # --- places

    def _type(self, number: int) -> str:
        return self.fabric.channel_type(self.rank, self._all.peer[number])

    def _channel(self, number: int) -> int:
        """Return the block's number of a message's channel."""
        if number not in self.channels:
            key = (self._all.peer[number], self.number, self._all.channel[number])
            self.channels[number] = _index(self.block.channels[self._type(number)], key)
        return self.channels[number]

    def _chunks(self, send: int) -> tuple[int, int, int]:
        every = self._all
        return every.source[send], every.first[send], every.past[send]

    def _end(self, number: int, side: str) -> Json:
        """Return the source or target of an operation in its own rank's memory."""
        buffer = (self._all.source if side == "source" else self._all.target)[number]
        return {"type": _LETTERS[buffer], **self._span(number, self.rank, buffer)}

    def _span(self, number: int, rank: int, buffer: int) -> Json:
        index = self.gpus[rank].addresses.offset(buffer, self._all.first[number])
        return {"index": index, "size": self._all.count(number)}

    def _slot(self, send: int) -> Json:
        return {"type": "s", "index": self.messages.staged[send], "size": self._all.count(send)}

    def _slot_access(self, send: int) -> Access:
        return ("slot", self.messages.staged[send]), 0, 1, False

    def _remote_target(self, send: int, kind: str) -> Json:
        """Return the target of a send in the peer's memory."""
        peer, receive = self._all.peer[send], self._all.receive_of[send]
        if send in self.messages.staged:
            slot = self._slot(send)
            return {**self._buffer(peer, slot.pop("type"), kind), **slot}
        return self._remote(send, peer, self._all.target[receive], kind)

    def _remote(self, send: int, rank: int, buffer: int, kind: str) -> Json:
        """Return the chunks of a send in another rank's buffer."""
        return {**self._buffer(rank, _LETTERS[buffer], kind), **self._span(send, rank, buffer)}

    def _buffer(self, peer: int, letter: str, kind: str) -> Json:
        return {"buffer_id": _index(self.block.buffers[kind], (peer, letter))}

    def _switch(self, letter: str, group: tuple[int, ...], index: int, count: int) -> Json:
        number = _index(self.block.switches, (letter, group))
        for rank in group:
            self.gpus[rank].groups.add((letter, group))
        return {"switch_channel_id": number, "index": index, "size": count}

    def _touched(self, number: int) -> list[Access]:
        """Return the accesses of an operation to its own rank's memory."""
        every, found = self._all, list[Access]()
        first, past, kind = every.first[number], every.past[number], every.kind[number]
        if kind != RECEIVE:
            found.append((every.memory(every.source[number]), first, past, False))
        if kind != SEND:
            found.append((every.memory(every.target[number]), first, past, True))
        return found


def clash(some: list[Access], others: list[Access]) -> bool:
    """Whether two operations use the same data, one of them writing."""
    return any(
        one[0] == other[0] and one[1] < other[2] and other[1] < one[2] and (one[3] or other[3])
        for one in some
        for other in others
    )


def batches(items: list[_T]) -> Iterator[list[_T]]:
    """Split items into parts of at most the peers of one operation."""
    for start in range(0, len(items), PEERS):
        yield items[start : start + PEERS]


def form_block(
    fabric: Fabric, lane: Block, number: int, gpus: Sequence[MscclppGpu], pipeline_bytes: int
) -> None:
    """Add a thread-block program's block to every rank that takes part."""
    messages = route_messages(fabric, lane, gpus)
    stars = find_stars(fabric, lane, messages)
    counts = np.unique(lane.program.count[lane.numbers])
    slices = pipeline_bytes if len(counts) == 1 else 0
    for rank, numbers in sorted(lane.by_rank.items()):
        writer = BlockWriter(fabric, lane, number, messages, stars, gpus, rank)
        gpus[rank].blocks.append(writer.write(numbers, slices, int(counts[0])))


def _index(values: list[_T], value: _T) -> int:
    """Return the index of a value, which is appended if it is new."""
    if value not in values:
        values.append(value)
    return values.index(value)
