"""Executes MSCCL++ plans with packets in scratch, for which readers wait."""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.formats.mscclpp.interpreter_blocks import BlockAtWork, ReadOrder
from treadle.formats.mscclpp.interpreter_machine import Cell, Machine, Move, Places, is_by_port
from treadle.formats.mscclpp.interpreter_slices import Scale
from treadle.formats.mscclpp.reader import PACKETS, BufferChunks, ExecutionPlan, MscclppOperation

_PACKET = "packets"
"""Scratch as packets, a separate buffer here: packet p has the memory of chunks 2p and 2p + 1."""
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
"""Sources and targets of each operation; * for one or more: data or packets here, packets of a peer, or of
all ranks of a switch's group."""
_MOST = {"ppkt": 8, "rppkt": 8}
"""Most sources or targets, else 10."""
_HOW = {"own": "local", "packet": "local", "far": "remote", "all": "switch"}

_Ends = tuple[Places, Places]


@dataclass
class _Packet:
    """A written packet."""

    writer: int
    told: set[int]
    """Ranks that its writer knew to have begun."""
    node: int


class PacketMachine(Machine):
    """A `Machine` with packets."""

    def __init__(self, plan: ExecutionPlan, root: int, scale: Scale | None = None) -> None:
        self._order = ReadOrder()
        super().__init__(plan, root, scale, self._order)
        self._packets: dict[Cell, _Packet] = {}
        self._unread: dict[Cell, str] = {}
        """Packets from other ranks, and the operations that wrote them."""
        self._plain: set[tuple[int, int]] = set()
        """Packets whose memory other operations use."""
        self._unknown: list[tuple[int, int, str]] = []
        """Packets whose writer did not know that the reader has begun: writer, reader, operation."""
        self._carried: list[tuple[Cell, int, str]] = []
        """Packets that a proxy reads: cell, receiver, operation."""
        self._by = -1
        """Node of the unit that is being moved."""
        self._there: set[int] = set()
        """Ranks that have begun, as known by the thread that moves the unit."""
        self._touches: dict[tuple[int, int, Cell], tuple[int, int]] = {}
        """Thread and node of accesses of packet operations to plain memory, by mover and cell."""
        self._threads: dict[tuple[int, int], tuple[int, set[int]]] = {}
        """Last node of each thread (block, unit), and the ranks that it knows to have begun."""
        self._now: tuple[int, int] | None = None
        """Thread and node of the unit that a packet operation moves; None for other operations."""

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
        """Move packets; return False if one that is read has not arrived."""
        by_port = operation.name in ("ppkt", "rppkt") and is_by_port(operation)
        ends = _ends(operation, by_port=by_port)
        if ends is None:
            self.found.append(f"{operation.where}: {operation.name} does not take these sources and targets")
            return True
        sources, targets = ends
        if not self._fits(operation, (*sources, *targets)):
            return True
        read = [cell for place in sources for cell in _packet_cells(place)]
        # A proxy copies memory as it is; all other operations wait for each packet's flag.
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
                if cell in read:  # A store to all ranks also writes the rank's own packets again.
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
        move = Move(block, operation, (block.number, block.moves))
        pairs = [((one,), (other,)) for one, other in zip(sources, targets, strict=False)]
        for group in pairs if operation.name == "ppkt" else [(sources, targets)]:
            self._now = (-1, block.node)
            self._transfer(move, *group)
        return True

    def _by_proxy(
        self, block: BlockAtWork, operation: MscclppOperation, sources: Places, targets: Places
    ) -> None:
        """Let proxies copy packets, which the block's threads have waited for or know to be written."""
        waits = operation.name == "rppkt"
        if waits:
            block.since += [self._packets[cell].node for cell in _packet_cells(sources[0])]
            block.line_up()
        for number, (target, channel) in enumerate(zip(targets, operation.channels, strict=False)):
            source = sources[0 if waits else number]
            for cell in () if waits else _packet_cells(source):
                move = Move(block, operation, (block.number, 0))
                if not self._is_over(move, self.written[cell], cell, False):
                    what = f"packets of {self._chunk(cell)} that may not be written"
                    self.found.append(f"{operation.where}: a proxy sends {what}")
                    return
            self._carried += [(cell, target.ranks[0], operation.where) for cell in _packet_cells(source)]
            self._now = None
            mover = self._proxy_move(block, channel, of_packets=True)
            self._transfer(Move(block, operation, mover), (source,), (target,))

    def _fits(self, operation: MscclppOperation, places: Places) -> bool:
        """Whether packets fit into scratch, which has twice the size only in protocol LL."""
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
        """Find the thread of a unit: the same in all packet operations that have it at the same position."""
        packets = [self._packets[cell] for cell in reads if cell[1] == _PACKET]
        before = [block.node, *(packet.node for packet in packets)]
        # A thread knows what it read itself; what other threads of the block read it knows after a nop.
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

    def _look(self, move: Move, cell: Cell, *, writing: bool) -> None:
        """Record an access; packets cannot conflict, because they are written once and readers wait."""
        if cell[1] != _PACKET:
            super()._look(move, cell, writing=writing)
            if self._now is not None:
                self._touches[*move.mover, cell] = self._now
        elif writing:
            packet = self._packets[cell]
            packet.node, packet.told = self._by, self._there
            self.written[cell] = move.mover
            # The receiver may still read the packets of the last launch from this scratch.
            if cell[0] not in self._there:
                self._unknown.append((move.block.rank, cell[0], move.operation.where))

    def _is_over(self, move: Move, earlier: tuple[int, int], cell: Cell, is_read: bool) -> bool:
        if super()._is_over(move, earlier, cell, is_read):
            return True
        thread, node = self._touches.get((*earlier, cell), (None, None))
        if self._now is not None and (earlier[0], thread) == (move.block.number, self._now[0]):
            return True
        at = self._now[1] if self._now else move.block.node
        return is_read and self._order.is_over(at, *earlier, node)

    def _visit(self, move: Move, rank: int) -> None:
        """Record an access; scratch always exists, and readers of packets are there."""
        if move.operation.name not in PACKETS:
            super()._visit(move, rank)

    def _check_ends(self) -> None:
        super()._check_ends()
        for cell, where in self._unread.items():
            self.found.append(f"{where}: no block reads the packets of {self._chunk(cell)}")
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
                    f"{where}: gpu {reader} may still read packets of the last launch, which these overwrite"
                )
            elif reader not in last[writer]:
                self.found.append(
                    f"{where}: two launches on, gpu {reader} may still read packets that these overwrite"
                )
        for cell, receiver, where in self._carried:
            packet = self._packets[cell]
            known = last[packet.writer] if self.plan.has_double_scratch else packet.told
            if receiver not in known:
                self.found.append(
                    f"{where}: a proxy may still send packets of chunk {cell[2] // self.slices} to gpu "
                    f"{receiver} when those of a later launch overwrite them"
                )


def _ends(operation: MscclppOperation, *, by_port: bool = False) -> _Ends | None:
    """Return sources and targets, with packets in their own buffer; None if they do not fit the operation."""
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
    # The executor uses the buffer of the first source for all.
    has_one_buffer = len({place.letter for place in sources}) == 1
    sizes, others = ([place.size for place in places] for places in (sources, targets))
    return (taken, given) if has_one_buffer and sizes == others else None


def _named(places: Places, roles: tuple[str, ...], most: int) -> Places | None:
    """Return places in their roles; None if their number or kind does not fit."""
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
