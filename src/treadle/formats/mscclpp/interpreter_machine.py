"""All ranks of an MSCCL++ plan at work on integer contributions, each move judged against those before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

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
"""How often each (rank, chunk) is contained; shared by places that hold the same, so never changed."""
Cell = tuple[int, str, int]
"""Rank, buffer, place."""


def _sum(values: list[Value]) -> Value:
    """What a place holds that all of these are added into."""
    if len(values) == 1:
        return values[0]
    total: Value = {}
    for value in values:
        for key, times in value.items():
            total[key] = total.get(key, 0) + times
    return total


def is_by_port(operation: MscclppOperation) -> bool:
    """Whether proxies carry an operation out."""
    return bool(operation.channels) and all(kind == "port" for kind, _ in operation.channels)


class Machine(PlanAtWork[BlockAtWork, News]):
    """All ranks' memories, channels and blocks."""

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
        """For each port channel, the number of its proxy, its moves, and the last that is not of packets."""
        self.visits: list[tuple[int, int, int, str]] = []
        """Touches of another rank's memory: mover, its count, rank touched, operation."""

    def run(self) -> list[str]:
        """Let all blocks work till nobody can; what was wrong."""
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
        """In place, input and output are one memory: the larger holds the smaller at the rank's own part."""
        if self.plan.in_place and letter in "io":
            mine, other = (
                self.plan.sizes[rank][side] * self.slices for side in (letter, "io"[letter == "i"])
            )
            if mine < other:
                index += rank * mine
            letter = "i"
        return rank, letter, index

    def _held(self, cell: Cell) -> Value | None:
        """What memory holds: what was stored, or the input; None if nothing."""
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
        """What an output chunk must hold; None if nothing is asked of it."""
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
                self.found.append(
                    f"gpu {rank}: {len(wrong)} output chunks wrong, first {wrong[0] // self.slices}"
                )

    def _check_ends(self) -> None:
        for (rank, kind, number), left in self.signals.items():
            if left:
                self.found.append(
                    f"gpu {rank}: {len(left)} signals on {kind} channel {number} nobody waits for"
                )
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

    def _merged(self, blocks: list[BlockAtWork]) -> News:
        clock: Clock = {}
        for block in blocks:
            merge(clock, block.known)
        there = {rank for block in blocks for rank in block.there}
        return News(clock, there, tuple(node for block in blocks for node in block.content().nodes))

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
            self._transfer(block, operation, sources, targets, mover)
            if operation.name in ("pws", "pwsf") and channel is not None:
                self._signal(block, (block.rank, *channel), relaxed=False)
        if operation.name == "pwsf":
            for channel in operation.channels:
                number, moves, _ = self.proxies[block.rank, *channel]
                merge(block.heard, {number: moves})

    def _proxy_move(
        self, block: BlockAtWork, channel: tuple[str, int], *, of_packets: bool = False
    ) -> tuple[int, int]:
        """Number of a channel's proxy, and the count of the move that it makes now."""
        proxy = self.proxies.setdefault((block.rank, *channel), [-1 - len(self.proxies), 0, 0])
        proxy[1] += 1
        if not of_packets:
            proxy[2] = proxy[1]
        return proxy[0], proxy[1]

    def _transfers(
        self, operation: MscclppOperation
    ) -> Iterator[tuple[tuple[BufferChunks, ...], tuple[BufferChunks, ...], tuple[str, int] | None]]:
        """What an operation sums and where to: puts and gets are several transfers in one operation."""
        sources, targets, channels = operation.sources, operation.targets, operation.channels
        if operation.name in FORMS:
            each = operation.name in ("put", "pws", "pwsf", "get")
            if (
                len(sources) == len(targets) > 0
                and all(
                    (s.how, t.how) == FORMS[operation.name] for s, t in zip(sources, targets, strict=True)
                )
                and all(s.size == t.size for s, t in zip(sources, targets, strict=True))
                and (each or len(sources) == 1)
                and (operation.name not in ("pws", "pwsf") or len(channels) == len(targets))
            ):
                carried = channels if len(channels) == len(targets) else (None,) * len(targets)
                yield from zip(((s,) for s in sources), ((t,) for t in targets), carried, strict=True)
                return
        elif is_sum(operation):
            yield sources, targets, None
            return
        self.found.append(f"{operation.where}: {operation.name} does not take these sources and targets")

    def _transfer(
        self,
        block: BlockAtWork,
        operation: MscclppOperation,
        sources: tuple[BufferChunks, ...],
        targets: tuple[BufferChunks, ...],
        mover: tuple[int, int],
    ) -> None:
        self.moved += sources[0].size
        if self.moved > MAX_MOVED:
            raise FormatError(
                f"MSCCL++ plan: more than {MAX_MOVED} parts of chunks moved: too large to verify"
            )
        for place in range(sources[0].size):
            reads = [self._cell(r, s.letter, s.index + place) for s in sources for r in s.ranks]
            writes = [self._cell(r, t.letter, t.index + place) for t in targets for r in t.ranks]
            values: list[Value] = []
            for cell in reads:
                held = self._held(cell)
                if held is None:
                    chunk = cell[2] // self._per_chunk(cell)
                    self.found.append(f"{operation.where}: reads chunk {chunk} of gpu {cell[0]} undefined")
                    return
                values.append(held)
            total = _sum(values)
            self._begin(block, reads)
            for cell in reads:
                self._look(block, operation, cell, mover, writing=False)
            for cell in writes:
                self._look(block, operation, cell, mover, writing=True)
            for cell in writes:
                self.memory[cell] = total
        if not sources[0].size:
            return
        for rank in {r for place in (*sources, *targets) for r in place.ranks} - {block.rank}:
            self._visit(block, operation, rank, mover)

    def _begin(self, block: BlockAtWork, reads: list[Cell]) -> None:
        """Note that a unit is moved."""

    def _visit(
        self, block: BlockAtWork, operation: MscclppOperation, rank: int, mover: tuple[int, int]
    ) -> None:
        """Note that another rank's memory is touched."""
        if rank not in block.there:
            self.found.append(f"{operation.where}: touches gpu {rank}'s memory before that gpu is there")
        self.visits.append((*mover, rank, operation.where))

    def _look(
        self,
        block: BlockAtWork,
        operation: MscclppOperation,
        cell: Cell,
        mover: tuple[int, int],
        *,
        writing: bool,
    ) -> None:
        """Note an access; a race unless what came before on the same chunk is known to be over."""
        written = self.written.get(cell)
        races = written is not None and not self._is_over(block, written, mover, cell, False)
        if writing:
            readers = self.read.pop(cell, [])
            races = races or any(not self._is_over(block, one, mover, cell, True) for one in readers)
            self.written[cell] = mover
        else:
            self.read[cell].append(mover)
        if races:
            where = f"chunk {cell[2] // self._per_chunk(cell)} of buffer {cell[1]} of gpu {cell[0]}"
            self.found.append(f"{operation.where}: races on {where}")

    def _per_chunk(self, cell: Cell) -> int:
        return self.scale.slots if cell[1] == "s" and self.scale.slots else self.slices

    def _is_over(
        self, block: BlockAtWork, earlier: tuple[int, int], mover: tuple[int, int], _cell: Cell, _read: bool
    ) -> bool:
        """Whether an earlier move, or its read of a cell alone, is over before a block's move."""
        return earlier == mover or block.known.get(earlier[0], 0) >= earlier[1]
