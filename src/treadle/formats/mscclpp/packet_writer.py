"""One thread block of an MSCCL++ plan whose messages are packets (protocol LL)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from treadle.errors import ScheduleError
from treadle.formats.mscclpp.block_programs import SEND, Block
from treadle.formats.mscclpp.block_writer import Access, BlockWriter, Json, batches, clash
from treadle.formats.mscclpp.blocks import PEERS, Fabric, Messages, MscclppBlock, MscclppGpu
from treadle.program.program import OperationKind

_ADDRESSED = 2**32
"""Bytes of scratch that the executor's offsets reach."""
_PACKET = 2
"""Bytes of a packet for each byte of data: each 8 bytes come with their flag."""


class PacketWriter(BlockWriter):
    """Writes what one rank does in one lane, each message as packets into the receiver's scratch.

    A packet holds data and the number of the launch, by which readers know it: nothing signals, and nothing
    needs to be lined up between a message and what is made of it. That a peer is there, and so through with
    the scratch of earlier launches, is told once, when the block begins.
    """

    def write_packets(self, numbers: Sequence[int]) -> MscclppBlock:
        """The block of these operations."""
        self._arrived: list[int] = []
        self._run_all(numbers)
        self._unpack()
        return self._block

    def _run(self, kind: OperationKind, run: list[int]) -> None:
        if kind is OperationKind.SEND:
            self._send(run)
        elif kind is OperationKind.RECEIVE:
            for receive in run:
                if clash(self._touched(receive), self._pending()):
                    self._unpack()
                self._arrived.append(receive)
        else:
            self._unpack()
            super()._run(kind, run)

    def _send(self, run: list[int]) -> None:
        """The same chunks to several peers at once; what just arrived or was summed goes on from there."""
        every = self._all
        same: dict[Access, list[int]] = defaultdict(list)
        for send in run:
            same[self._touched(send)[0]].append(send)
        for access, sends in same.items():
            # what a receive writes is what an operation that sends it on reads
            brought = ((one, (*self._touched(one)[-1][:3], False)) for one in self._arrived)
            arrived = next((one for one, written in brought if written == access), None)
            if arrived is not None:
                for part in batches(sends):  # packets as they came, to others
                    slot = self._slot(every.send_of[arrived])
                    self._move([], "rppkt", [slot], self._targets(part), "memory")
                continue
            rest = self._fused(access, sends)
            if rest and clash([access], self._pending()):
                self._unpack()
            for part in batches(rest):
                sources = [self._end(send, "source") for send in part]
                self._move(self._touched(part[0]), "ppkt", sources, self._targets(part), "memory")

    def _targets(self, sends: list[int]) -> list[Json]:
        return [self._remote_target(send, "memory") for send in sends]

    def _fused(self, access: Access, sends: list[int]) -> list[int]:
        """Let the sum that the last operation made go out with it; what it has no room for."""
        last = self._block.operations[-1]
        if last["name"] != "repkt" or access not in [(*moved[:3], False) for moved in self._moved[-1:]]:
            return sends
        last["name"], last["channel_type"] = "respkt", "memory"
        last["dst_buff"] += self._targets(sends[:PEERS])
        return sends[PEERS:]

    def _sum(self, chain: list[int]) -> None:
        """Receive-reduces of the same chunks, one after the other in the program, as few operations."""
        source, target = self._end(chain[0], "source"), self._end(chain[0], "target")
        for part in batches(chain):
            terms = [self._slot(self._all.send_of[number]) for number in part]
            self._move(self._touched(part[0]), "repkt", [source, *terms], [target], reduce_op="sum")
            source = target

    def _unpack(self) -> None:
        """What has arrived, into its buffer."""
        for receive in self._arrived:
            slot, target = self._slot(self._all.send_of[receive]), self._end(receive, "target")
            self._move(self._touched(receive), "upkt", [slot], [target])
        self._arrived = []

    def _wait(self, messages: list[int], name: str = "wait") -> None:
        """Readers of packets wait by themselves."""

    def _pending(self) -> list[Access]:
        """What is still to be unpacked into."""
        return [access for one in self._arrived for access in self._touched(one)]


def form_packet_block(fabric: Fabric, lane: Block, number: int, gpus: Sequence[MscclppGpu]) -> None:
    """Add a lane's thread block to every rank that takes part.

    Raises
    ------
    ScheduleError
        If a message leaves its box: packets are stores to a peer's memory.
    """
    every, messages = lane.all, Messages()
    for send in lane.numbers:
        receive = every.receive_of.get(send) if every.kind[send] == SEND else None
        if receive is None:
            continue
        sender, receiver = every.owner[send], every.owner[receive]
        if fabric.channel_type(sender, receiver) != "memory":
            raise ScheduleError(
                f"MSCCL++: LL packets go within a box (NVLink domain), ranks {sender} and {receiver} are in "
                "two: leave --protocol out"
            )
        messages.staged[send] = gpus[receiver].stage(every.count(send))
    for rank, numbers in sorted(lane.by_rank.items()):
        writer = PacketWriter(fabric, lane, number, messages, {}, gpus, rank)
        gpus[rank].blocks.append(writer.write_packets(numbers))


def most_packet_bytes(gpus: Sequence[MscclppGpu], n_chunks: int) -> int:
    """Largest buffer of `n_chunks` chunks whose packets the executor's offsets reach."""
    scratch = max(gpu.scratch_chunks for gpu in gpus)
    return _ADDRESSED // (_PACKET * max(1, scratch)) * n_chunks
