"""Executes all ranks of an MSCCL++ plan on integer contributions, and finds moves in no defined order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from treadle.errors import FormatError
from treadle.formats.mscclpp.interpreter_blocks import BlockAtWork, Clock, News, PlanAtWork, ReadOrder, merge
from treadle.formats.mscclpp.interpreter_slices import FORMS, Scale, is_sum, scales, unrolled
from treadle.formats.mscclpp.reader import (
    MAX_CHUNKS,
    BufferChunks,
    ExecutionPlan,
    MscclppOperation,
)

MAX_TURNS = 10**8
"""Most turns of blocks, waiting or not: about a minute."""
MAX_MOVED = 10**7
"""Most units that are moved: about a minute."""

Value = dict[tuple[int, int], int]
"""Number of times that each (rank, chunk) is contained; equal values are shared, so they never change."""
Cell = tuple[int, str, int]
"""Rank, buffer and position."""
Places = tuple[BufferChunks, ...]


class Move(NamedTuple):
    """A move of a block; `mover` is the block or proxy, and its count of moves."""

    block: BlockAtWork
    operation: MscclppOperation
    mover: tuple[int, int]


def _sum(values: list[Value]) -> Value:
    """Add values."""
    if len(values) == 1:
        return values[0]
    total: Value = {}
    for value in values:
        for key, times in value.items():
            total[key] = total.get(key, 0) + times
    return total


def is_by_port(operation: MscclppOperation) -> bool:
    """Whether proxies execute an operation."""
    return bool(operation.channels) and all(kind == "port" for kind, _ in operation.channels)


class Machine(PlanAtWork[BlockAtWork, News]):
    """Memories, channels and blocks of all ranks."""

    def __init__(
        self, plan: ExecutionPlan, root: int, scale: Scale | None = None, order: ReadOrder | None = None
    ) -> None:
        self.root, self.found = root, list[str]()
        self.n = len(plan.sizes)
        self.scale = scale or scales(plan)[0]
        self.slices = self.scale.units
        if sum(sum(sizes.values()) for sizes in plan.sizes) * self.slices > MAX_CHUNKS:
            raise FormatError(f"MSCCL++ plan: more than {MAX_CHUNKS} parts of chunks: too large to verify")
        work = [(rank, block) for rank, blocks in enumerate(plan.blocks) for block in blocks]
        blocks = [
            BlockAtWork(number, rank, unrolled(block, self.scale), order)
            for number, (rank, block) in enumerate(work)
        ]
        super().__init__(plan, blocks, News({}, set()))
        self.moved = 0
        self.memory: dict[Cell, Value] = {}
        self.written: dict[Cell, tuple[int, int]] = {}
        self.read: dict[Cell, list[tuple[int, int]]] = defaultdict(list)
        self.proxies: dict[tuple[int, str, int], list[int]] = {}
        """Number of the proxy, its moves, and the last move without packets, for each port channel."""
        self.visits: list[tuple[int, int, int, str]] = []
        """Accesses to another rank's memory: mover, its count, that rank, operation."""

    def run(self) -> list[str]:
        """Let all blocks work until none can; return the violations."""
        moving, turns = True, 0
        while moving and len(self.found) < 100:
            turns += len(self.blocks)
            if turns > MAX_TURNS:
                raise FormatError(f"MSCCL++ plan: more than {MAX_TURNS} turns of blocks: too large to verify")
            moving = self._work()
        left = [block.now for block in self.blocks if block.now is not None]
        self.found += [f"{operation.where}: {operation.name} waits for ever" for operation in left[:20]]
        if not self.found:
            self._check_ends()
            self._check_results()
        return self.found

    # --- memory

    def _cell(self, rank: int, letter: str, index: int) -> Cell:
        """Return the memory of a chunk; in place, the larger buffer contains the smaller one."""
        if self.plan.in_place and letter in "io":
            mine, other = (
                self.plan.sizes[rank][side] * self.slices for side in (letter, "io"[letter == "i"])
            )
            if mine < other:
                index += rank * mine
            letter = "i"
        return rank, letter, index

    def _held(self, cell: Cell) -> Value | None:
        """Return the content of memory, which is the input at first; None if undefined."""
        stored = self.memory.get(cell)
        rank, letter, place = cell
        if stored is not None or letter != "i":
            return stored
        if self.plan.collective == "broadcast" and rank != self.root:
            return None
        count = self.plan.sizes[rank]["i"] * self.slices
        place -= self._cell(rank, "i", 0)[2]
        base = rank * count if self.plan.collective == "allgather" else 0
        return {(rank, base + place): 1} if 0 <= place < count else None

    def _expected(self, rank: int, place: int) -> Value | None:
        """Return the correct content of an output chunk; None if any is correct."""
        kind, count = self.plan.collective, self.plan.sizes[rank]["o"] * self.slices
        share = self.plan.sizes[rank]["i"] * self.slices
        if kind == "allgather":
            return {(place // share, place): 1}
        if kind == "broadcast":
            return {(self.root, place): 1}
        if kind == "alltoall":
            part = count // self.n
            return {(place // part, rank * part + place % part): 1}
        if kind == "reduce" and rank != self.root:
            return None
        base = rank * count if kind == "reducescatter" else 0
        return {(other, base + place): 1 for other in range(self.n)}

    def _check_results(self) -> None:
        for rank, sizes in enumerate(self.plan.sizes):
            wrong = [
                place
                for place in range(sizes["o"] * self.slices)
                if (wanted := self._expected(rank, place)) is not None
                and self._held(self._cell(rank, "o", place)) != wanted
            ]
            if wrong:
                first = wrong[0] // self.slices
                self.found.append(f"gpu {rank}: {len(wrong)} output chunks wrong, first {first}")

    def _check_ends(self) -> None:
        for (rank, kind, number), left in self.signals.items():
            if left:
                channel = f"{kind} channel {number}"
                self.found.append(f"gpu {rank}: {len(left)} signals on {channel} that no block waits for")
        last: dict[int, Clock] = defaultdict(dict)
        for block in self.blocks:
            merge(last[block.rank], block.heard)
            merge(last[block.rank], block.known)
        for mover, count, rank, where in self.visits:
            if last[rank].get(mover, 0) < count:
                self.found.append(f"{where}: touches gpu {rank}'s memory, which may have left by then")
        for (rank, kind, number), (proxy, _, count) in self.proxies.items():
            if last[rank].get(proxy, 0) < count:
                self.found.append(f"gpu {rank}: may end while {kind} channel {number} still reads its memory")

    # --- operations

    def _signal(self, block: BlockAtWork, channel: tuple[int, str, int], *, relaxed: bool) -> None:
        news = News({}, {block.rank})
        if not relaxed:
            proxy = self.proxies.get(channel)
            clock = block.known | ({proxy[0]: proxy[1]} if proxy else {})
            news = News(clock, news.there, block.content().nodes)
        self.signals[self.ends[channel]].append(news)

    def _move(self, block: BlockAtWork, operation: MscclppOperation) -> None:
        if any(place.size < 0 for place in (*operation.sources, *operation.targets)):
            self.found.append(f"{operation.where}: a slice lies past the end of the chunks")
            return
        by_proxy = operation.name in ("put", "pws", "pwsf") and is_by_port(operation)
        for sources, targets, channel in self._transfers(operation):
            if by_proxy and channel is not None:
                mover = self._proxy_move(block, channel)
            else:
                block.moves += 1
                mover = block.number, block.moves
            self._transfer(Move(block, operation, mover), sources, targets)
            if operation.name in ("pws", "pwsf") and channel is not None:
                self._signal(block, (block.rank, *channel), relaxed=False)
        if operation.name == "pwsf":
            for channel in operation.channels:
                number, moves, _ = self.proxies[block.rank, *channel]
                merge(block.heard, {number: moves})

    def _proxy_move(
        self, block: BlockAtWork, channel: tuple[str, int], *, of_packets: bool = False
    ) -> tuple[int, int]:
        """Count a move of a channel's proxy; return the proxy's number and count."""
        proxy = self.proxies.setdefault((block.rank, *channel), [-1 - len(self.proxies), 0, 0])
        proxy[1] += 1
        if not of_packets:
            proxy[2] = proxy[1]
        return proxy[0], proxy[1]

    def _transfers(
        self, operation: MscclppOperation
    ) -> Iterator[tuple[Places, Places, tuple[str, int] | None]]:
        """Yield sources, targets and channel of each transfer: puts and gets are several in one operation."""
        name, sources, targets = operation.name, operation.sources, operation.targets
        pairs = list(zip(sources, targets, strict=False))
        if name in FORMS:
            channels = operation.channels if len(operation.channels) == len(targets) else ()
            if (
                len(sources) == len(targets) > 0
                and all((s.how, t.how) == FORMS[name] and s.size == t.size for s, t in pairs)
                and (name in ("put", "pws", "pwsf", "get") or len(sources) == 1)
                and (name not in ("pws", "pwsf") or channels)
            ):
                for (source, target), channel in zip(pairs, channels or [None] * len(pairs), strict=True):
                    yield (source,), (target,), channel
                return
        elif is_sum(operation):
            yield sources, targets, None
            return
        self.found.append(f"{operation.where}: {name} does not take these sources and targets")

    def _transfer(self, move: Move, sources: Places, targets: Places) -> None:
        self.moved += sources[0].size
        if self.moved > MAX_MOVED:
            raise FormatError(
                f"MSCCL++ plan: more than {MAX_MOVED} parts of chunks moved: too large to verify"
            )
        where, block = move.operation.where, move.block
        for place in range(sources[0].size):
            reads = [self._cell(r, s.letter, s.index + place) for s in sources for r in s.ranks]
            writes = [self._cell(r, t.letter, t.index + place) for t in targets for r in t.ranks]
            values: list[Value] = []
            for cell in reads:
                held = self._held(cell)
                if held is None:
                    chunk = cell[2] // self._per_chunk(cell)
                    self.found.append(f"{where}: reads chunk {chunk} of gpu {cell[0]} undefined")
                    return
                values.append(held)
            total = _sum(values)
            # All reads come before the first write: a move may overwrite its own sources.
            self._begin(block, reads)
            for cell in reads:
                self._look(move, cell, writing=False)
            for cell in writes:
                self._look(move, cell, writing=True)
            self.memory.update(dict.fromkeys(writes, total))
        if sources[0].size:
            for rank in {r for place in (*sources, *targets) for r in place.ranks} - {block.rank}:
                self._visit(move, rank)

    def _begin(self, block: BlockAtWork, reads: list[Cell]) -> None:
        """Prepare the move of a unit."""

    def _visit(self, move: Move, rank: int) -> None:
        """Record an access to another rank's memory."""
        where = move.operation.where
        if rank not in move.block.there:
            self.found.append(f"{where}: touches gpu {rank}'s memory before that gpu is there")
        self.visits.append((*move.mover, rank, where))

    def _look(self, move: Move, cell: Cell, *, writing: bool) -> None:
        """Record an access; report it if a conflicting earlier access may be incomplete."""
        written = self.written.get(cell)
        conflicts = written is not None and not self._is_over(move, written, cell, False)
        if writing:
            readers = self.read.pop(cell, [])
            conflicts = conflicts or any(not self._is_over(move, one, cell, True) for one in readers)
            self.written[cell] = move.mover
        else:
            self.read[cell].append(move.mover)
        if conflicts:
            where = f"chunk {cell[2] // self._per_chunk(cell)} of buffer {cell[1]} of gpu {cell[0]}"
            self.found.append(f"{move.operation.where}: races on {where}")

    def _per_chunk(self, cell: Cell) -> int:
        return self.scale.slots if cell[1] == "s" and self.scale.slots else self.slices

    def _is_over(self, move: Move, earlier: tuple[int, int], _cell: Cell, _is_read: bool) -> bool:
        """Whether an earlier move, or only its read of a cell, is complete before a move."""
        return earlier == move.mover or move.block.known.get(earlier[0], 0) >= earlier[1]
