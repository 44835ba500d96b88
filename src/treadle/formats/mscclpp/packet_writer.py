"""Writes one thread block of an MSCCL++ plan whose messages are packets (protocol LL).

A packet has data and the number of the launch, by which readers recognize it: signals and barriers between a
message and its use are not needed. A signal at the beginning of the block shows once that a peer is there,
and so has finished with the scratch of earlier launches.
"""

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
"""Bytes of a packet for each byte of data, flags included."""


class PacketWriter(BlockWriter):
    """Writer of one rank's block, with each message as packets into the receiver's scratch."""

    def write_packets(self, numbers: Sequence[int]) -> MscclppBlock:
        """Return the block of these operations."""
        self._arrived: list[int] = []
        self._run_all(numbers)
        self._unpack()
        return self.block

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
        """Send the same chunks to several peers in one operation, if possible from packets or a sum."""
        every = self._all
        same: dict[Access, list[int]] = defaultdict(list)
        for send in run:
            same[self._touched(send)[0]].append(send)
        for access, sends in same.items():
            # An operation that forwards data reads the chunks that the receive writes.
            brought = ((one, (*self._touched(one)[-1][:3], False)) for one in self._arrived)
            arrived = next((one for one, written in brought if written == access), None)
            if arrived is not None:
                for part in batches(sends):  # Forward the packets themselves.
                    slot = self._slot(every.send_of[arrived])
                    self._move([], "rppkt", [slot], self._targets(part), "memory")
                continue
            # A sum that was just made is sent by the same operation, as far as that has targets left.
            rest = self._fused(access, sends)
            if rest and clash([access], self._pending()):
                self._unpack()
            for part in batches(rest):
                sources = [self._end(send, "source") for send in part]
                self._move(self._touched(part[0]), "ppkt", sources, self._targets(part), "memory")

    def _targets(self, sends: list[int]) -> list[Json]:
        return [self._remote_target(send, "memory") for send in sends]

    def _fused(self, access: Access, sends: list[int]) -> list[int]:
        """Let the last operation send its sum, too; return the sends beyond its number of targets."""
        last = self.block.operations[-1]
        if last["name"] != "repkt" or access not in [(*moved[:3], False) for moved in self.moved[-1:]]:
            return sends
        last["name"], last["channel_type"] = "respkt", "memory"
        last["dst_buff"] += self._targets(sends[:PEERS])
        return sends[PEERS:]

    def _sum(self, chain: list[int]) -> None:
        """Write consecutive receive-reduces of the same chunks as few operations."""
        source, target = self._end(chain[0], "source"), self._end(chain[0], "target")
        for part in batches(chain):
            terms = [self._slot(self._all.send_of[number]) for number in part]
            self._move(self._touched(part[0]), "repkt", [source, *terms], [target], reduce_op="sum")
            source = target

    def _unpack(self) -> None:
        """Copy arrived packets into their buffers."""
        for receive in self._arrived:
            slot, target = self._slot(self._all.send_of[receive]), self._end(receive, "target")
            self._move(self._touched(receive), "upkt", [slot], [target])
        self._arrived = []

    def _wait(self, messages: list[int]) -> None:
        """Write nothing: operations that read packets wait for them."""

    def _pending(self) -> list[Access]:
        """Return the targets of packets that are not unpacked."""
        return [access for one in self._arrived for access in self._touched(one)]


def form_packet_block(fabric: Fabric, lane: Block, number: int, gpus: Sequence[MscclppGpu]) -> None:
    """Add a block of packets to every rank that takes part; ScheduleError if a message leaves its box."""
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
    """Return the largest buffer of `n_chunks` chunks whose packets have valid offsets."""
    scratch = max(gpu.scratch_chunks for gpu in gpus)
    return _ADDRESSED // (_PACKET * max(1, scratch)) * n_chunks
