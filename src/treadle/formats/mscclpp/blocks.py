"""Thread blocks of an MSCCL++ plan: how each message travels, and what each rank does in a lane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.formats.mscclpp.block_programs import INPUT, OUTPUT, RECEIVE_REDUCE, SEND, Block
from treadle.program.addresses import Addresses
from treadle.program.program import Program
from treadle.topologies.topology import Topology

PEERS = 8
"""Channels, and so remote ends, of one operation."""

_Json = dict[str, Any]
_Key = tuple[int, int, int]
"""A channel: peer, lane, the program's channel."""


@dataclass(frozen=True)
class Fabric:
    """What a plan may use between ranks."""

    program: Program
    topology: Topology
    domains: tuple[int, ...]
    switch_channels: bool

    def channel_type(self, rank: int, peer: int) -> str:
        """Direct loads and stores within a domain, a proxy beyond."""
        return "memory" if self.domains[rank] == self.domains[peer] else "port"

    def switch_of(self, send: int) -> int:
        """The switch that a send passes first, or -1."""
        path = int(self.program.path[send])
        if path < 0 or not len(self.program.links(path)):
            return -1
        link = int(self.program.links(path)[0])
        for node in (int(self.topology.tails[link]), int(self.topology.heads[link])):
            if not self.topology.is_compute[node]:
                return node
        return -1

    def is_operation(self, sends: Sequence[int], *, sums: bool) -> bool:
        """Whether the plan makes the sends one operation of a switch that works for ranks that ask.

        One passes the switch, and the others' paths begin (sums: end) there. What the plan sends from rank to
        rank goes so: an operation would cross links that the plan's throughput does not count.
        """
        switches = {self.switch_of(send) for send in sends}
        if not self.switch_channels or len(switches) != 1 or -1 in switches:
            return False
        switch = switches.pop()
        able = self.topology.aggregation if sums else self.topology.multicast
        hops = sorted(len(self.program.links(int(self.program.path[send]))) for send in sends)
        is_one = hops == [1] * (len(sends) - 1) + [2]
        return bool(is_one and able[switch] and not self.topology.turns_round[switch])


@dataclass
class MscclppBlock:
    """One thread block; channels and buffers are counted from 0 within it, type by type."""

    operations: list[_Json] = field(default_factory=list)
    channels: dict[str, list[_Key]] = field(default_factory=lambda: {"memory": [], "port": []})
    buffers: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: {"memory": [], "port": []})
    switches: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Operations, those within pipelines too."""
        return sum(1 + len(operation.get("ops", ())) for operation in self.operations)

    @property
    def has_pipeline(self) -> bool:
        """Whether slices flow through it."""
        return any("iter_context" in operation for operation in self.operations)

    def resources(self) -> Iterator[tuple[str, int]]:
        """What of the executor's tables it takes."""
        for kind in ("memory", "port"):
            yield f"{kind} channels", len(self.channels[kind])
            yield f"{kind} buffers", len(self.buffers[kind])
        yield "switch channels", len(self.switches)


class MscclppGpu:
    """One rank's part of a plan."""

    def __init__(self, rank: int, addresses: Addresses) -> None:
        self.rank = rank
        self.addresses = addresses
        self.blocks: list[MscclppBlock] = []
        self.scratch_chunks = len(addresses.scratch)
        self.groups: set[tuple[str, tuple[int, ...]]] = set()
        """Groups of switches that it takes part in; all ranks of a group must."""

    @property
    def n_chunks(self) -> int:
        """Chunks of all its buffers."""
        return self.addresses.input_chunks + self.addresses.output_chunks + self.scratch_chunks

    def stage(self, count: int) -> int:
        """Room for `count` chunks in scratch; its place."""
        self.scratch_chunks += count
        return self.scratch_chunks - count

    def to_json(self) -> _Json:
        """The rank's entry of the plan."""
        channels = {
            kind: sorted({key for block in self.blocks for key in block.channels[kind]})
            for kind in ("memory", "port")
        }
        access: dict[tuple[int, str], set[str]] = defaultdict(set)
        for block in self.blocks:
            for kind, buffers in block.buffers.items():
                for buffer in buffers:
                    access[buffer].add(kind)
        remote, switches = sorted(access), sorted(self.groups)
        entries: list[_Json] = [
            {"channel_type": kind, "connected_to": [key[0] for key in keys]}
            for kind, keys in channels.items()
            if keys
        ]
        entries += [
            {
                "channel_type": "switch",
                "buffer_type": letter,
                "rank_groups": [{"size": len(ranks), "ranks": list(ranks)}],
            }
            for letter, ranks in switches
        ]
        blocks: list[_Json] = []
        for number, block in enumerate(self.blocks):
            used = [
                {"channel_type": kind, "channel_ids": [channels[kind].index(key) for key in keys]}
                for kind, keys in block.channels.items()
                if keys
            ]
            if block.switches:
                ids = [switches.index(switch) for switch in block.switches]
                used.append({"channel_type": "switch", "channel_ids": ids})
            refs = [
                {"access_channel_type": kind, "remote_buffer_ids": [remote.index(one) for one in buffers]}
                for kind, buffers in block.buffers.items()
                if buffers
            ]
            blocks.append(
                {"id": number, "ops": block.operations, "channels": used, "remote_buffer_refs": refs}
            )
        return {
            "id": self.rank,
            "input_chunks": self.addresses.input_chunks,
            "output_chunks": self.addresses.output_chunks,
            "scratch_chunks": self.scratch_chunks,
            "threadblocks": blocks,
            "channels": entries,
            "remote_buffers": [
                {"rank": peer, "type": letter, "access_channel_types": sorted(access[peer, letter])}
                for peer, letter in remote
            ],
            "semaphores": [],
        }


@dataclass
class Messages:
    """How the messages of a lane travel; keys are sends."""

    pulled: set[int] = field(default_factory=set)
    """Read from the sender's memory by the receiver that sums."""
    staged: dict[int, int] = field(default_factory=dict)
    """Brought to the receiver's scratch, at this place."""
    stored: set[int] = field(default_factory=set)
    """Brought by a switch that sums and multicasts at once."""


def route_messages(fabric: Fabric, lane: Block, gpus: Sequence[MscclppGpu]) -> Messages:
    """Decide for every message of a lane how it travels."""
    every, found = lane.all, Messages()
    for send in lane.numbers:
        receive = every.receive_of.get(send)
        if receive is None:
            continue
        sender, receiver = every.owner[send], every.owner[receive]
        if every.kind[receive] == RECEIVE_REDUCE:
            near = fabric.channel_type(sender, receiver) == "memory"
            if near and _is_stable(lane, send, receive):
                found.pulled.add(send)
                continue
        elif _is_free(lane, send, receive):
            continue
        found.staged[send] = gpus[receiver].stage(every.count(send))
    return found


def _is_stable(lane: Block, send: int, receive: int) -> bool:
    """Whether nothing overwrites what is sent before the receiver has read it."""
    every = lane.all
    memory, first, past = every.memory(every.source[send]), every.first[send], every.past[send]
    for later in lane.by_rank[every.owner[send]][lane.list_index[send] :]:
        _, writes = every.touches(later, memory, first, past)
        # what another rank puts here may arrive as soon as that rank begins to
        if writes and not lane.is_before(receive, every.send_of.get(later, later)):
            return False
    return True


def _is_free(lane: Block, send: int, receive: int) -> bool:
    """Whether all earlier use of the target is over when the sender begins to put."""
    every = lane.all
    memory, first, past = every.memory(every.target[receive]), every.first[receive], every.past[receive]
    return all(
        # what was sent is read until its receiver has it: by the receiver itself, or by the proxy
        lane.is_before(every.receive_of.get(earlier, earlier), send)
        for earlier in lane.by_rank[every.owner[receive]][: lane.list_index[receive] - 1]
        if any(every.touches(earlier, memory, first, past))
    )


def find_stars(fabric: Fabric, lane: Block, messages: Messages) -> dict[int, tuple[int, ...]]:
    """Sums of an allreduce that one switch makes for a rank, which hands them out through it at once.

    Returns
    -------
    dict
        From the first receive-reduce of such a star to its ranks; its broadcast is added to `stored`.
    """
    every = lane.all
    stars: dict[int, tuple[int, ...]] = {}
    if not fabric.switch_channels or not np.any(fabric.topology.multicast & fabric.topology.aggregation):
        return stars
    for rank, numbers in lane.by_rank.items():
        by_range: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number in numbers:
            by_range[every.first[number], every.past[number]].append(number)
        for same in by_range.values():
            sums = [i for i in same if every.kind[i] == RECEIVE_REDUCE]
            sends = [i for i in same if every.kind[i] == SEND]
            place = numbers.index(sums[0]) if sums else 0
            if numbers[place : place + len(sums)] != sums:  # others are between: two sums, not one
                continue
            if not sums or same != sums + sends or any(send in messages.staged for send in sends):
                continue
            into = [every.send_of[number] for number in sums]
            ranks = {every.owner[send] for send in into}
            at_inputs = all(every.source[i] == INPUT for i in (sums[0], *into))
            at_outputs = all(
                every.target[i] == OUTPUT for i in (*sums, *(every.receive_of[s] for s in sends))
            )
            if (
                len(ranks) == len(sums)
                and sorted(ranks) == sorted(every.peer[send] for send in sends)
                and at_inputs
                and at_outputs
                and all(send in messages.pulled for send in into)
                and fabric.is_operation(into, sums=True)
                and fabric.is_operation(sends, sums=False)
                and fabric.switch_of(into[0]) == fabric.switch_of(sends[0])
                and len({fabric.domains[other] for other in (*ranks, rank)}) == 1
            ):
                stars[sums[0]] = tuple(sorted({*ranks, rank}))
                messages.stored.update(sends)
    return stars
