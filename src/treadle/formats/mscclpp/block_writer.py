"""One thread block of an MSCCL++ plan, operation by operation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
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
"""Memory, first chunk, one past the last, whether it is written."""


class BlockWriter:
    """Writes what one rank does in one lane.

    The threads of a block run on without each other: a ``nop`` lines them up. One is written between a wait
    and what follows, between data moved and a signal, and between two operations on the same data.
    """

    def __init__(
        self,
        fabric: Fabric,
        lane: Block,
        number: int,
        messages: Messages,
        stars: dict[int, tuple[int, ...]],
        gpus: Sequence[MscclppGpu],
        rank: int,
    ) -> None:
        self._fabric, self._number = fabric, number
        self._messages, self._stars, self._gpus, self._rank = messages, stars, gpus, rank
        self._program, self._all = lane.program, lane.all
        self._channels: dict[int, int] = {}
        self._block = MscclppBlock()
        self._moved: list[Access] = []
        self._lent: list[Access] = []
        self._puts: list[Json] = []
        """What the proxy was given, in order."""
        self._has_waited = False
        self._sent: Counter[tuple[int, int, int]] = Counter()
        """Sends of each source and chunks."""

    def write(self, numbers: Sequence[int], pipeline_bytes: int, count: int) -> MscclppBlock:
        """The block of these operations, in a pipeline of slices unless `pipeline_bytes` is 0."""
        body = self._run_all(numbers)
        self._line_up()
        if pipeline_bytes:
            inner = self._block.operations[body:]
            context = {"unit_size": pipeline_bytes, "num_chunks": count}
            self._block.operations[body:] = [{"name": "pipeline", "iter_context": context, "ops": inner}]
        self._part(numbers)
        return self._block

    def _run_all(self, numbers: Sequence[int]) -> int:
        """Greet the peers, then do these operations; where in the block the latter begin."""
        for number in numbers:
            if self._all.kind[number] != COPY:
                self._channel(number)
            if self._all.kind[number] == SEND:
                self._sent[self._chunks(number)] += 1
        self._greet()
        body = len(self._block.operations)
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
                if send in self._messages.staged:
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
        """Data to each peer, then signals."""
        every, messages = self._all, self._messages
        pushed = [send for send in run if send not in messages.pulled and send not in messages.stored]
        same: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)
        for send in pushed:
            same[every.source[send], every.first[send], every.past[send], self._type(send)].append(send)
        for (*_, kind), sends in same.items():
            if kind == "memory" and self._multicast(sends):
                continue
            for part in self._apart(sends):
                self._put(part, kind)
        far = {send for send in pushed if self._type(send) == "port"}
        self._signal("signal", [send for send in run if send not in far])

    def _put(self, sends: list[int], kind: str) -> None:
        """The same chunks to several peers; the proxy signals by itself."""
        sources = [self._end(send, "source") for send in sends]
        targets = [self._remote_target(send, kind) for send in sends]
        touched = self._touched(sends[0])
        if kind == "memory":
            self._move(touched, "put", sources, targets, kind)
            return
        ids = [self._channel(send) for send in sends]
        self._puts.append(self._move(touched, "pws", sources, targets, kind, channel_ids=ids))
        self._lent.extend(touched)

    def _multicast(self, sends: list[int]) -> bool:
        """One store to all ranks of a group through a switch, where that is what these sends are."""
        every = self._all
        peers = [every.peer[send] for send in sends]
        receives = [every.receive_of[send] for send in sends]
        if (
            len(sends) < max(2, self._sent[self._chunks(sends[0])])
            or len(set(peers)) < len(peers)
            or any(send in self._messages.staged for send in sends)
            or any(every.target[receive] != OUTPUT for receive in receives)
            or not self._fabric.is_operation(sends, sums=False)
        ):
            return False
        group = tuple(sorted((self._rank, *peers)))
        first, past = every.first[sends[0]], every.past[sends[0]]
        own = self._program.ranges(self._rank, Buffer.OUTPUT)
        places = {self._gpus[rank].addresses.offset(Buffer.OUTPUT, first) for rank in group}
        if len(places) > 1 or not any(low <= first and past <= end for low, end in own):
            return False
        source, target = self._end(sends[0], "source"), self._switch("o", group, places.pop(), past - first)
        # storing what is read onto itself, in place, is no conflict with itself
        accesses = [*self._touched(sends[0]), (every.memory(OUTPUT), first, past, True)]
        self._move(accesses, "gstore", [source], [target], "switch")
        return True

    def _sum(self, chain: list[int]) -> None:
        """Receive-reduces of the same chunks, one after the other in the program, as few operations."""
        if chain[0] in self._stars:
            self._sum_in_switch(chain)
            return
        source = self._end(chain[0], "source")
        sends = [self._all.send_of[number] for number in chain]
        for is_pulled, same in groupby(sends, key=lambda send: send in self._messages.pulled):
            for part in batches(list(same)):
                target = self._end(chain[0], "target")
                accesses = self._touched(chain[0])
                if is_pulled:
                    owners, sources = self._all.owner, self._all.source  # where the senders keep it
                    terms = [self._remote(send, owners[send], sources[send], "memory") for send in part]
                    self._move(accesses, "rre", [source, *terms], [target], "memory", reduce_op="sum")
                else:
                    terms = [self._slot(send) for send in part]
                    accesses += [self._slot_access(send) for send in part]
                    self._move(accesses, "re", [source, *terms], [target], reduce_op="sum")
                source = target

    def _sum_in_switch(self, chain: list[int]) -> None:
        group = self._stars[chain[0]]
        first, count = self._all.first[chain[0]], self._all.count(chain[0])
        sides = (("i", Buffer.INPUT), ("o", Buffer.OUTPUT))
        source, target = (
            self._switch(letter, group, self._gpus[self._rank].addresses.offset(buffer, first), count)
            for letter, buffer in sides
        )
        self._move(self._touched(chain[0]), "glres", [source], [target], "switch", reduce_op="sum")

    def _chains(self, run: list[int]) -> list[list[int]]:
        """Receive-reduces that add to the same chunks, each to what the one before it left."""
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
        """Add an operation that moves data, after a barrier where it meets what was moved before."""
        if clash(accesses, self._lent):
            self._flush()
            self._line_up()
        if self._has_waited or clash(accesses, self._moved):
            self._line_up()
        operation: Json = {"name": name, "src_buff": sources, "dst_buff": targets}
        operation |= ({"channel_type": kind} if kind else {}) | more
        self._block.operations.append(operation)
        self._moved.extend(accesses)
        return operation

    def _line_up(self) -> None:
        if self._block.operations and self._block.operations[-1]["name"] != "nop":
            self._block.operations.append({"name": "nop"})
        self._moved, self._has_waited = [], False

    def _signal(self, name: str, messages: list[int]) -> None:
        if messages and (self._moved or self._has_waited):
            self._line_up()
        self._events(name, messages)

    def _wait(self, messages: list[int], name: str = "wait") -> None:
        self._events(name, messages)
        self._has_waited = self._has_waited or bool(messages)

    def _events(self, name: str, messages: list[int]) -> None:
        """Signals or waits on the channels of some messages, as many in one operation as may be."""
        for kind in ("memory", "port"):
            mine = [i for i in messages if self._type(i) == kind]
            for part in self._apart(mine):
                ids = [self._channel(number) for number in part]
                self._block.operations.append({"name": name, "channel_ids": ids, "channel_type": kind})

    def _greet(self) -> None:
        """All peers of the block are there."""
        for kind, keys in self._block.channels.items():
            prefix = "rlx" if kind == "memory" else ""
            for name in ("signal", "wait"):
                for ids in batches(list(range(len(keys)))):
                    operation = {"name": prefix + name, "channel_ids": ids, "channel_type": kind}
                    self._block.operations.append(operation)
        if self._block.operations:
            self._line_up()

    def _part(self, numbers: Sequence[int]) -> None:
        """Nobody reads this rank's memory any more, and nothing sent is still under way."""
        kinds, pulled = self._all.kind, self._messages.pulled
        read = [i for i in numbers if self._all.send_of.get(i) in pulled]
        lent = [i for i in numbers if kinds[i] == SEND and i in pulled]
        self._signal("signal", self._once(read))
        self._events("wait", self._once(lent))
        if lent:
            self._line_up()
        if self._lent:
            self._flush()

    def _flush(self) -> None:
        """Let what the proxy was given have left this rank's memory.

        The last put of each channel waits for that: ``flush`` by itself does nothing in the executor, which
        counts its outputs (handleFlush of src/core/include/execution_kernel.hpp), and a flush has none.
        """
        seen: set[int] = set()
        for operation in reversed(self._puts):
            ids = set(operation["channel_ids"])
            if ids - seen:
                operation["name"] = "pwsf"
            seen |= ids
        self._lent = []

    def _once(self, messages: list[int]) -> list[int]:
        """One message of each channel."""
        return list({self._channel(number): number for number in messages}.values())

    def _apart(self, messages: list[int]) -> list[list[int]]:
        """Parts of at most `PEERS` messages on channels that differ, order kept."""
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
        return self._fabric.channel_type(self._rank, self._all.peer[number])

    def _channel(self, number: int) -> int:
        """The block's number of the channel that a message takes."""
        if number not in self._channels:
            key = (self._all.peer[number], self._number, self._all.channel[number])
            self._channels[number] = _index(self._block.channels[self._type(number)], key)
        return self._channels[number]

    def _chunks(self, send: int) -> tuple[int, int, int]:
        every = self._all
        return every.source[send], every.first[send], every.past[send]

    def _end(self, number: int, side: str) -> Json:
        """The source or target of an operation within its own rank."""
        buffer = (self._all.source if side == "source" else self._all.target)[number]
        return {"type": _LETTERS[buffer], **self._span(number, self._rank, buffer)}

    def _span(self, number: int, rank: int, buffer: int) -> Json:
        index = self._gpus[rank].addresses.offset(buffer, self._all.first[number])
        return {"index": index, "size": self._all.count(number)}

    def _slot(self, send: int) -> Json:
        return {"type": "s", "index": self._messages.staged[send], "size": self._all.count(send)}

    def _slot_access(self, send: int) -> Access:
        return ("slot", self._messages.staged[send]), 0, 1, False

    def _remote_target(self, send: int, kind: str) -> Json:
        """Where a send's data go in the peer's memory."""
        peer, receive = self._all.peer[send], self._all.receive_of[send]
        if send in self._messages.staged:
            slot = {"index": self._messages.staged[send], "size": self._all.count(send)}
            return {**self._buffer(peer, "s", kind), **slot}
        return self._remote(send, peer, self._all.target[receive], kind)

    def _remote(self, send: int, rank: int, buffer: int, kind: str) -> Json:
        """The chunks of a send in another rank's buffer."""
        return {**self._buffer(rank, _LETTERS[buffer], kind), **self._span(send, rank, buffer)}

    def _buffer(self, peer: int, letter: str, kind: str) -> Json:
        return {"buffer_id": _index(self._block.buffers[kind], (peer, letter))}

    def _switch(self, letter: str, group: tuple[int, ...], index: int, count: int) -> Json:
        number = _index(self._block.switches, (letter, group))
        for rank in group:
            self._gpus[rank].groups.add((letter, group))
        return {"switch_channel_id": number, "index": index, "size": count}

    def _touched(self, number: int) -> list[Access]:
        """What an operation reads and writes in its own rank's memory."""
        every, found = self._all, list[Access]()
        first, past, kind = every.first[number], every.past[number], every.kind[number]
        if kind != RECEIVE:
            found.append((every.memory(every.source[number]), first, past, False))
        if kind != SEND:
            found.append((every.memory(every.target[number]), first, past, True))
        return found


def clash(some: list[Access], others: list[Access]) -> bool:
    """Whether two operations meet on the same data, one of them writing."""
    return any(
        one[0] == other[0] and one[1] < other[2] and other[1] < one[2] and (one[3] or other[3])
        for one in some
        for other in others
    )


def batches(items: list[_T]) -> Iterator[list[_T]]:
    """Parts of as many items as an operation may have peers."""
    for start in range(0, len(items), PEERS):
        yield items[start : start + PEERS]


def form_block(
    fabric: Fabric, lane: Block, number: int, gpus: Sequence[MscclppGpu], pipeline_bytes: int
) -> None:
    """Add a lane's thread block to every rank that takes part."""
    messages = route_messages(fabric, lane, gpus)
    stars = find_stars(fabric, lane, messages)
    counts = np.unique(lane.program.count[lane.numbers])
    slices = pipeline_bytes if len(counts) == 1 else 0
    for rank, numbers in sorted(lane.by_rank.items()):
        writer = BlockWriter(fabric, lane, number, messages, stars, gpus, rank)
        gpus[rank].blocks.append(writer.write(numbers, slices, int(counts[0])))


def _index(values: list[_T], value: _T) -> int:
    """Where a value stands; added if it is new."""
    if value not in values:
        values.append(value)
    return values.index(value)
