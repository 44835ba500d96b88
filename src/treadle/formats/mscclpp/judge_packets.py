"""MSCCL++ plans of protocol LL at work: packets in scratch, which readers wait for."""

from __future__ import annotations

from dataclasses import replace

from treadle.formats.mscclpp.judge_blocks import BlockAtWork
from treadle.formats.mscclpp.judge_machine import Cell, Machine
from treadle.formats.mscclpp.reader import PACKETS, BufferChunks, ExecutionPlan, MscclppOperation

_PACKET = "packets"
"""Scratch as packets, a buffer of its own here: packet p lies where chunks 2p and 2p + 1 would."""
_SOURCES = {
    "ppkt": ("own", "own", 8),
    "rppkt": ("packet", "packet", 1),
    "upkt": ("packet", "packet", 1),
    "repkt": ("own", "packet", 10),
    "respkt": ("own", "packet", 10),
}
"""What each takes first, what else, and of how many at most."""
_TARGETS = {
    "ppkt": ("far", "far", 8),
    "rppkt": ("far", "far", 8),
    "upkt": ("own", "own", 1),
    "repkt": ("own", "own", 1),
    "respkt": ("own", "far", 10),
}


class PacketMachine(Machine):
    """As `Machine`, and packets."""

    def __init__(self, plan: ExecutionPlan, root: int) -> None:
        super().__init__(plan, root)
        self._told: dict[Cell, set[int]] = {}
        """Of each packet that was written, which ranks its writer knew to have begun."""
        self._unread: dict[Cell, str] = {}
        self._plain: set[tuple[int, int]] = set()
        """Scratch that other operations use, as packets that would lie there."""
        self._unknown: list[tuple[int, int, str]] = []
        """Packets to ranks that the writer did not know to have begun: writer, reader, operation."""

    def _step(self, block: BlockAtWork, operation: MscclppOperation) -> bool:
        if operation.name in PACKETS:
            return self._packets(block, operation)
        self._note_plain((*operation.sources, *operation.targets))
        return super()._step(block, operation)

    def _note_plain(self, places: tuple[BufferChunks, ...]) -> None:
        for place in places:
            if place.letter == "s":
                cells = range(place.index // 2, (place.index + place.size - 1) // 2 + 1)
                self._plain.update((rank, cell) for rank in place.ranks for cell in cells)

    def _packets(self, block: BlockAtWork, operation: MscclppOperation) -> bool:
        """Move packets; False if one that is read has not come."""
        ends = _ends(operation)
        if ends is None:
            self.found.append(f"{operation.where}: {operation.name} does not take these sources and targets")
            return True
        sources, targets = ends
        read = [cell for place in sources for cell in _packet_cells(place)]
        if not all(cell in self._told for cell in read):
            return False
        news = {rank for cell in read for rank in self._told[cell]}
        block.heard_there |= news
        for cell in read:
            self._unread.pop(cell, None)
        self._note_plain((*sources, *targets))
        # a thread sends on what it read itself: of what others of the block read it knows after a nop
        told = block.there | news
        for place in targets:
            for cell in _packet_cells(place):
                self._write(block, operation, cell, told)
        block.moves += 1
        mover = (block.number, block.moves)
        if operation.name == "ppkt":
            for source, target in zip(sources, targets, strict=True):
                self._transfer(block, operation, (source,), (target,), mover)
        else:
            self._transfer(block, operation, sources, targets, mover)
        return True

    def _write(self, block: BlockAtWork, operation: MscclppOperation, cell: Cell, told: set[int]) -> None:
        if cell in self._told:
            self.found.append(f"{operation.where}: packets of chunk {cell[2]} of gpu {cell[0]} a second time")
        self._told[cell] = told
        self._unread[cell] = operation.where
        if cell[0] not in block.there:
            self._unknown.append((block.rank, cell[0], operation.where))

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

    def _visit(
        self, block: BlockAtWork, operation: MscclppOperation, rank: int, mover: tuple[int, int]
    ) -> None:
        """Scratch is there at all times, and whoever reads packets is there."""
        if operation.name not in PACKETS:
            super()._visit(block, operation, rank, mover)

    def _check_ends(self) -> None:
        super()._check_ends()
        for (rank, _, place), where in self._unread.items():
            self.found.append(f"{where}: nobody reads the packets of chunk {place} of gpu {rank}")
        for rank, _, place in self._told:
            if (rank, place) in self._plain:
                self.found.append(f"gpu {rank}: packets of chunk {place} lie where other data do")
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


def _ends(
    operation: MscclppOperation,
) -> tuple[tuple[BufferChunks, ...], tuple[BufferChunks, ...]] | None:
    """Sources and targets, those in packets named so; None if they are not what the operation takes."""
    name, sources, targets = operation.name, operation.sources, operation.targets
    first, others, most = _SOURCES[name]
    taken = _named(sources, (first, others), most)
    first, others, most = _TARGETS[name]
    given = _named(targets, (first, others), most)
    if taken is None or given is None:
        return None
    if name != "ppkt":
        return (taken, given) if len({place.size for place in (*sources, *targets)}) == 1 else None
    # the first source names the buffer of all
    alike = len(sources) == len(targets) and len({place.letter for place in sources}) == 1
    sizes = all(one.size == other.size for one, other in zip(sources, targets, strict=False))
    return (taken, given) if alike and sizes else None


def _named(
    places: tuple[BufferChunks, ...], roles: tuple[str, str], most: int
) -> tuple[BufferChunks, ...] | None:
    """Places in their roles, the first's and the others'; None if there are too few, too many, or others."""
    if not (2 if roles[0] != roles[1] else 1) <= len(places) <= most:
        return None
    found = []
    for number, place in enumerate(places):
        role = roles[min(number, 1)]
        if place.how != ("remote" if role == "far" else "local") or (role != "own" and place.letter != "s"):
            return None
        found.append(place if role == "own" else replace(place, letter=_PACKET))
    return tuple(found)


def _packet_cells(place: BufferChunks) -> list[Cell]:
    if place.letter != _PACKET:
        return []
    return [(place.ranks[0], _PACKET, place.index + i) for i in range(place.size)]
