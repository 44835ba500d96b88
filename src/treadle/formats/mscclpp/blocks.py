"""Thread blocks of an MSCCL++ plan: the path of each message, and the JSON of each rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.formats.mscclpp.block_programs import INPUT, OUTPUT, RECEIVE_REDUCE, SEND, Block
from treadle.program.addresses import Addresses
from treadle.program.program import Program
from treadle.topologies.topology import Topology

PEERS = 8
"""Most channels, and so remote ends, of one operation."""

_Json = dict[str, Any]
_Key = tuple[int, int, int]
"""A channel: peer, thread block, the program's channel."""


@dataclass(frozen=True)
class Fabric:
    """Connections between ranks that a plan may use."""

    program: Program
    topology: Topology
    domains: tuple[int, ...]
    switch_channels: bool

    def channel_type(self, rank: int, peer: int) -> str:
        """Return memory (loads and stores) within a domain, port (a proxy) between domains."""
        return "memory" if self.domains[rank] == self.domains[peer] else "port"

    def switch_of(self, send: int) -> int:
        """Return the first switch on the path of a send, or -1."""
        path = int(self.program.path[send])
        links = self.program.links(path)[:1] if path >= 0 else ()
        ends = (int(nodes[link]) for link in links for nodes in (self.topology.tails, self.topology.heads))
        return next((node for node in ends if not self.topology.is_compute[node]), -1)

    def is_operation(self, sends: Sequence[int], *, sums: bool) -> bool:
        """Whether the sends are one GPU-initiated operation of a switch in the plan.

        The path of one send passes the switch, and the others' paths begin (sums: end) there. Other sends of
        the plan are from rank to rank: an in-network operation would cross links that its throughput ignores.
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
    """One thread block; its channels and buffers are numbered from 0, by type."""

    operations: list[_Json] = field(default_factory=list)
    channels: dict[str, list[_Key]] = field(default_factory=lambda: {"memory": [], "port": []})
    buffers: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: {"memory": [], "port": []})
    switches: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)


class MscclppGpu:
    """One rank's part of a plan."""

    def __init__(self, rank: int, addresses: Addresses) -> None:
        self.rank = rank
        self.addresses = addresses
        self.blocks: list[MscclppBlock] = []
        self.scratch_chunks = len(addresses.scratch)
        self.groups: set[tuple[str, tuple[int, ...]]] = set()
        """Groups of ranks at a switch, by buffer; all ranks of a group must list it."""

    @property
    def n_chunks(self) -> int:
        """Chunks of all buffers."""
        return self.addresses.input_chunks + self.addresses.output_chunks + self.scratch_chunks

    def stage(self, count: int) -> int:
        """Reserve `count` chunks of scratch and return their position."""
        self.scratch_chunks += count
        return self.scratch_chunks - count

    def to_json(self) -> _Json:
        """Return the rank's entry of the plan."""
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
        entries: list[_Json] = _by_kind(
            ("channel_type", "connected_to"),
            {kind: [key[0] for key in keys] for kind, keys in channels.items()},
        )
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
            ids = {kind: [channels[kind].index(key) for key in keys] for kind, keys in block.channels.items()}
            ids["switch"] = [switches.index(switch) for switch in block.switches]
            refs = {kind: [remote.index(one) for one in buffers] for kind, buffers in block.buffers.items()}
            blocks.append(
                {
                    "id": number,
                    "ops": block.operations,
                    "channels": _by_kind(("channel_type", "channel_ids"), ids),
                    "remote_buffer_refs": _by_kind(("access_channel_type", "remote_buffer_ids"), refs),
                }
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


def _by_kind(keys: tuple[str, str], lists: Mapping[str, list[int]]) -> list[_Json]:
    """Return an object with a kind and its numbers for each kind that has any."""
    return [dict(zip(keys, (kind, numbers), strict=True)) for kind, numbers in lists.items() if numbers]


@dataclass
class Messages:
    """Transport of the messages of a thread-block program; keys are sends."""

    pulled: set[int] = field(default_factory=set)
    """Sends that the receiver reads from the sender's memory and adds."""
    staged: dict[int, int] = field(default_factory=dict)
    """Positions in the receiver's scratch of sends that are stored there."""
    stored: set[int] = field(default_factory=set)
    """Sends that a switch does as part of a combined sum and multicast."""


def route_messages(fabric: Fabric, lane: Block, gpus: Sequence[MscclppGpu]) -> Messages:
    """Choose the transport of every message of a thread-block program."""
    every, found = lane.all, Messages()
    for send in lane.numbers:
        receive = every.receive_of.get(send)
        if receive is None:
            continue
        sender, receiver = every.owner[send], every.owner[receive]
        if every.kind[receive] == RECEIVE_REDUCE:
            # A pulled message needs no scratch, but its data must stay unchanged until they are read.
            near = fabric.channel_type(sender, receiver) == "memory"
            if near and _is_stable(lane, send, receive):
                found.pulled.add(send)
                continue
        elif _is_free(lane, send, receive):
            continue
        found.staged[send] = gpus[receiver].stage(every.count(send))
    return found


def _is_stable(lane: Block, send: int, receive: int) -> bool:
    """Whether the sent data stay unchanged until the receiver has read them."""
    every = lane.all
    memory, first, past = every.memory(every.source[send]), every.first[send], every.past[send]
    for later in lane.by_rank[every.owner[send]][lane.list_index[send] :]:
        _, writes = every.touches(later, memory, first, past)
        # Data that another rank puts here may arrive as soon as that rank begins to send them.
        if writes and not lane.is_before(receive, every.send_of.get(later, later)):
            return False
    return True


def _is_free(lane: Block, send: int, receive: int) -> bool:
    """Whether all earlier use of the target is complete when the sender begins to put."""
    every = lane.all
    memory, first, past = every.memory(every.target[receive]), every.first[receive], every.past[receive]
    return all(
        # Sent data are read until the receiver has them: by the receiver itself, or by the proxy.
        lane.is_before(every.receive_of.get(earlier, earlier), send)
        for earlier in lane.by_rank[every.owner[receive]][: lane.list_index[receive] - 1]
        if any(every.touches(earlier, memory, first, past))
    )


def find_stars(fabric: Fabric, lane: Block, messages: Messages) -> dict[int, tuple[int, ...]]:
    """Find the sums of an allreduce that a switch computes for one rank and multicasts to all.

    Return the ranks of each such star by its first receive-reduce, and add its sends to `stored`.
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
            # With other operations between them, these would be two sums.
            if numbers[place : place + len(sums)] != sums:
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
