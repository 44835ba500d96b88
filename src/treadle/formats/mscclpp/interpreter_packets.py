"""MSCCL++ plans of packets at work: packets in scratch, which readers wait for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.formats.mscclpp.interpreter_blocks import BlockAtWork, ReadOrder
from treadle.formats.mscclpp.interpreter_machine import Cell, Machine, is_by_port
from treadle.formats.mscclpp.interpreter_slices import Scale
from treadle.formats.mscclpp.reader import PACKETS, BufferChunks, ExecutionPlan, MscclppOperation

_PACKET = "packets"
"""Scratch as packets, a buffer of its own here: packet p lies where chunks 2p and 2p + 1 would."""
_ROLES = {
    "ppkt": (("own*",), ("far*",)),
    "ppkt by port": (("packet*",), ("far*",)),
    "rppkt": (("packet",), ("far*",)),
    "upkt": (("packet",), ("own",)),
    "cpkt": (("own",), ("packet",)),
    "repkt": (("own", "packet*"), ("own",)),
    "respkt": (("own", "packet*"), ("own", "far*")),
    "recpkt": (("own", "packet*"), ("own", "packet")),
    "recspkt": (("own", "packet*"), ("own", "packet", "far*")),
    "gstorepkt": (("packet",), ("all",)),
}
"""What each operation takes, and where to; * for one or more: data or packets here, packets of a peer, or of
all ranks of a switch's group."""
_MOST = {"ppkt": 8, "rppkt": 8}
"""Most sources or targets, else 10."""
_HOW = {"own": "local", "packet": "local", "far": "remote", "all": "switch"}

_Ends = tuple[tuple[BufferChunks, ...], tuple[BufferChunks, ...]]


@dataclass
class _Packet:
    """Facts about a packet that was written."""

    writer: int
    """Rank."""
    told: set[int]
    """Ranks that its writer knew to have begun."""
    node: int


class PacketMachine(Machine):
    """As `Machine`, and packets."""

    def __init__(self, plan: ExecutionPlan, root: int, scale: Scale | None = None) -> None:
        self._order = ReadOrder()
        super().__init__(plan, root, scale, self._order)
        self._packets: dict[Cell, _Packet] = {}
        self._unread: dict[Cell, str] = {}
        """Packets from elsewhere."""
        self._plain: set[tuple[int, int]] = set()
        """Scratch that other operations use, as packets that would lie there."""
        self._unknown: list[tuple[int, int, str]] = []
        """Packets to ranks that the writer did not know to have begun: writer, reader, operation."""
        self._carried: list[tuple[Cell, int, str]] = []
        """Packets that a proxy reads: cell, the rank they go to, operation."""
        self._by = -1
        """Node of the unit that is moved now."""
        self._there: set[int] = set()
        """Ranks that the thread that moves it knows to have begun."""
        self._touches: dict[tuple[int, int, Cell], tuple[int, int]] = {}
        """Plain memory that operations of packets touch, by mover and cell: thread and node."""
        self._threads: dict[tuple[int, int], tuple[int, set[int]]] = {}
        """For a thread of a block, by the unit of an operation that it moves: its last node, and the threads
        that it knows to have begun."""
        self._now: tuple[int, int] | None = None
        """Thread and node of the unit that an operation of packets moves; None for other operations."""

    def _step(self, block: BlockAtWork, operation: MscclppOperation) -> bool:
        if operation.name in PACKETS:
            return self._move_packets(block, operation)
        self._now = None
        self._note_plain((*operation.sources, *operation.targets))
        return super()._step(block, operation)

    def _note_plain(self, places: tuple[BufferChunks, ...]) -> None:
        for place in places:
            if place.letter == "s" and place.size > 0:
                cells = range(place.index // 2, (place.index + place.size - 1) // 2 + 1)
                self._plain.update((rank, cell) for rank in place.ranks for cell in cells)

    def _move_packets(self, block: BlockAtWork, operation: MscclppOperation) -> bool:
        """Move packets; False if one that is read has not come."""
        by_port = operation.name in ("ppkt", "rppkt") and is_by_port(operation)
        ends = _ends(operation, by_port=by_port)
        if ends is None:
            self.found.append(f"{operation.where}: {operation.name} does not take these sources and targets")
            return True
        sources, targets = ends
        if not self._fits(operation, (*sources, *targets)):
            return True
        read = [cell for place in sources for cell in _packet_cells(place)]
        # a proxy copies what is there; all other operations wait for each packet's flag
        if not all(cell in self._packets for cell in read):
            if by_port and operation.name == "ppkt":
                self.found.append(f"{operation.where}: a proxy sends packets that are not written")
                return True
            return False
        news = {rank for cell in read for rank in self._packets[cell].told}
        block.heard_there |= news
        for cell in read:
            self._unread.pop(cell, None)
        self._note_plain((*sources, *targets))
        for place in targets:
            for cell in _packet_cells(place):
                if cell in read:  # a store to all ranks writes what is here again
                    continue
                if cell in self._packets:
                    self.found.append(f"{operation.where}: packets of {self._chunk(cell)} a second time")
                self._packets[cell] = _Packet(block.rank, block.there, block.node)
                if cell[0] != block.rank or operation.name == "gstorepkt":
                    self._unread[cell] = operation.where
        if by_port:
            self._by_proxy(block, operation, sources, targets)
            return True
        block.moves += 1
        mover = (block.number, block.moves)
        pairs = [((one,), (other,)) for one, other in zip(sources, targets, strict=False)]
        for group in pairs if operation.name == "ppkt" else [(sources, targets)]:
            self._now = (-1, block.node)
            self._transfer(block, operation, *group, mover)
        return True

    def _by_proxy(
        self,
        block: BlockAtWork,
        operation: MscclppOperation,
        sources: tuple[BufferChunks, ...],
        targets: tuple[BufferChunks, ...],
    ) -> None:
        """Let proxies copy packets; before, the block's threads wait for them, or know them written."""
        waits = operation.name == "rppkt"
        if waits:
            block.since += [self._packets[cell].node for cell in _packet_cells(sources[0])]
            block.line_up()
        for number, (target, channel) in enumerate(zip(targets, operation.channels, strict=False)):
            source = sources[0 if waits else number]
            for cell in () if waits else _packet_cells(source):
                if not self._is_over(block, self.written[cell], (block.number, 0), cell, False):
                    what = f"packets of {self._chunk(cell)} that may not be written"
                    self.found.append(f"{operation.where}: a proxy sends {what}")
                    return
            self._carried += [(cell, target.ranks[0], operation.where) for cell in _packet_cells(source)]
            self._now = None
            mover = self._proxy_move(block, channel, of_packets=True)
            self._transfer(block, operation, (source,), (target,), mover)

    def _fits(self, operation: MscclppOperation, places: tuple[BufferChunks, ...]) -> bool:
        """Whether packets lie in scratch, which has twice the room in protocol LL alone."""
        if self.plan.is_low_latency or self.plan.reuses_scratch:
            return True
        for place in places:
            for rank in place.ranks if place.letter == _PACKET else ():
                if 2 * (place.index + place.size) > self.plan.sizes[rank]["s"] * self.slices:
                    self.found.append(
                        f"{operation.where}: packets lie past the end of the scratch of gpu {rank}, "
                        "which has no room for flags in protocol Simple"
                    )
                    return False
        return True

    def _chunk(self, cell: Cell) -> str:
        return f"chunk {cell[2] // self.slices} of gpu {cell[0]}"

    def _begin(self, block: BlockAtWork, reads: list[Cell]) -> None:
        """Note who moves a unit: one thread in all operations of packets that have it at the same place."""
        packets = [self._packets[cell] for cell in reads if cell[1] == _PACKET]
        before = [block.node, *(packet.node for packet in packets)]
        # a thread sends on what it read itself: of what others of the block read it knows after a nop
        self._there = block.there.union(*(packet.told for packet in packets))
        if self._now is None:
            self._by = self._order.add(before, block.known)
            return
        key = block.number, self._now[0] + 1
        if key in self._threads:
            node, there = self._threads[key]
            before.append(node)
            self._there |= there
        self._by = self._order.add(before, block.known)
        self._now = (key[1], self._by)
        self._threads[key] = self._by, self._there
        block.since.append(self._by)

    def _look(
        self,
        block: BlockAtWork,
        operation: MscclppOperation,
        cell: Cell,
        mover: tuple[int, int],
        *,
        writing: bool,
    ) -> None:
        """Packets are not raced for: they are written once, and their readers wait."""
        if cell[1] != _PACKET:
            super()._look(block, operation, cell, mover, writing=writing)
            if self._now is not None:
                self._touches[*mover, cell] = self._now
        elif writing:
            packet = self._packets[cell]
            packet.node, packet.told = self._by, self._there
            self.written[cell] = mover
            if cell[0] not in self._there:
                self._unknown.append((block.rank, cell[0], operation.where))

    def _is_over(
        self, block: BlockAtWork, earlier: tuple[int, int], mover: tuple[int, int], cell: Cell, read: bool
    ) -> bool:
        if super()._is_over(block, earlier, mover, cell, read):
            return True
        thread, node = self._touches.get((*earlier, cell), (None, None))
        if self._now is not None and (earlier[0], thread) == (block.number, self._now[0]):
            return True
        return read and self._order.is_over(self._now[1] if self._now else block.node, *earlier, node)

    def _visit(
        self, block: BlockAtWork, operation: MscclppOperation, rank: int, mover: tuple[int, int]
    ) -> None:
        """Scratch is there at all times, and whoever reads packets is there."""
        if operation.name not in PACKETS:
            super()._visit(block, operation, rank, mover)

    def _check_ends(self) -> None:
        super()._check_ends()
        for cell, where in self._unread.items():
            self.found.append(f"{where}: nobody reads the packets of {self._chunk(cell)}")
        for rank, _, place in self._packets:
            if (rank, place) in self._plain:
                chunk = place // self.slices
                self.found.append(f"gpu {rank}: packets of chunk {chunk} lie where other data do")
        last: dict[int, set[int]] = {}
        for block in self.blocks:
            last.setdefault(block.rank, set()).update(block.there, block.heard_there)
        for writer, reader, where in self._unknown:
            if not self.plan.has_double_scratch:
                self.found.append(
                    f"{where}: gpu {reader} may still read packets of the launch before, which these go over"
                )
            elif reader not in last[writer]:
                self.found.append(
                    f"{where}: two launches on, gpu {reader} may still read packets that these go over"
                )
        for cell, receiver, where in self._carried:
            packet = self._packets[cell]
            known = last[packet.writer] if self.plan.has_double_scratch else packet.told
            if receiver not in known:
                self.found.append(
                    f"{where}: a proxy may still send packets of chunk {cell[2] // self.slices} to gpu "
                    f"{receiver} when those of a later launch go over them"
                )


def _ends(operation: MscclppOperation, *, by_port: bool = False) -> _Ends | None:
    """Sources and targets, those in packets named so; None if they are not what the operation takes."""
    name, sources, targets = operation.name, operation.sources, operation.targets
    roles = _ROLES["ppkt by port" if by_port and name == "ppkt" else name]
    taken, given = (
        _named(places, wanted, _MOST.get(name, 10))
        for places, wanted in zip((sources, targets), roles, strict=True)
    )
    if taken is None or given is None or (by_port and len(operation.channels) != len(targets)):
        return None
    if name != "ppkt":
        return (taken, given) if len({place.size for place in (*sources, *targets)}) == 1 else None
    # the first source names the buffer of all
    alike = len(sources) == len(targets) and len({place.letter for place in sources}) == 1
    sizes = all(one.size == other.size for one, other in zip(sources, targets, strict=False))
    return (taken, given) if alike and sizes else None


def _named(
    places: tuple[BufferChunks, ...], roles: tuple[str, ...], most: int
) -> tuple[BufferChunks, ...] | None:
    """Places in their roles; None if there are too few, too many, or others."""
    repeats = roles[-1].endswith("*")
    if not len(roles) <= len(places) <= (most if repeats else len(roles)):
        return None
    found = []
    for number, place in enumerate(places):
        role = roles[min(number, len(roles) - 1)].removesuffix("*")
        if place.how != _HOW[role] or (role != "own" and place.letter != "s"):
            return None
        found.append(place if role == "own" else replace(place, letter=_PACKET))
    return tuple(found)


def _packet_cells(place: BufferChunks) -> list[Cell]:
    if place.letter != _PACKET:
        return []
    return [(rank, _PACKET, place.index + i) for rank in place.ranks for i in range(place.size)]
