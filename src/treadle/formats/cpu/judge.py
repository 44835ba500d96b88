"""Executes CPU XML on integer contributions.

Shares no code with the writer. Memory is held in segments of places with like content, so that a text costs
what its instructions do, however many chunks they move.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from treadle.errors import FormatError
from treadle.formats.cpu.judge_memory import Content, MemorySegments, Piece, Ranges, added
from treadle.formats.cpu.reader import CpuText, Instruction, RankText, parse_cpu_xml

MAX_TURNS = 10**8
"""Most turns of ranks, waiting or not, and contributions moved: about a minute."""


@dataclass(frozen=True)
class CpuInterpretation:
    """What executing a text showed; no violations if it does what its collective asks."""

    collective: str
    n_ranks: int
    n_chunks: int
    n_instructions: int
    violations: tuple[str, ...]


def interpret_cpu_xml(text: str, *, source: str = "CPU XML") -> CpuInterpretation:
    """Parse and execute a text.

    Returns
    -------
    CpuInterpretation
        Violations are: ranks that wait for ever although no transfer is buffered, transfers of different
        sizes, memory touched while a transfer that writes it is under way (or written while one reads it),
        undefined data read, chunks that a buffer does not have, and wrong results.

    Raises
    ------
    FormatError
        If the text is malformed or hostile.
    """
    return execute_cpu_text(parse_cpu_xml(text, source=source))


def execute_cpu_text(parsed: CpuText) -> CpuInterpretation:
    """`interpret_cpu_xml` of a text that is parsed."""
    return CpuInterpretation(
        collective=parsed.collective,
        n_ranks=len(parsed.ranks),
        n_chunks=parsed.n_chunks,
        n_instructions=sum(len(rank.instructions) for rank in parsed.ranks),
        violations=tuple(dict.fromkeys(_Machine(parsed).run())),
    )


_Places = tuple[str, int, int]
"""Memory, first place, one past the last."""


class _Rank:
    """A rank at work."""

    def __init__(self, text: RankText, rank: int) -> None:
        self.text = text
        self.place = 0
        self.memory: dict[str, MemorySegments] = defaultdict(MemorySegments)
        self.memory["i"] = MemorySegments(
            (span.start, span.stop, {(rank, 0): 1}) for span in text.chunks["i"]
        )
        self.reading: dict[str, Ranges] = defaultdict(Ranges)
        self.writing: dict[str, Ranges] = defaultdict(Ranges)
        self.begun = 0
        """Transfers begun since the last sync that are not over."""

    def is_in_use(self, places: _Places, *, only_written: bool) -> bool:
        """Whether a transfer under way uses some of the places."""
        letter, *span = places
        sides = (self.writing,) if only_written else (self.writing, self.reading)
        return any(letter in side and side[letter].meets(*span) for side in sides)


class _Machine:
    """All ranks; no transfer is buffered: it is over when both ends have begun it."""

    def __init__(self, text: CpuText) -> None:
        self.text = text
        self.found: list[str] = []
        self.ranks = [_Rank(each, rank) for rank, each in enumerate(text.ranks)]
        self.sends: dict[tuple[int, int], deque[tuple[Instruction, _Places]]] = defaultdict(deque)
        self.receives: dict[tuple[int, int], deque[tuple[Instruction, _Places]]] = defaultdict(deque)
        self.turns = 0

    def run(self) -> list[str]:
        moving = True
        while moving and len(self.found) < 100:
            moving = False
            self._count(len(self.ranks))
            for number, rank in enumerate(self.ranks):
                while rank.place < len(rank.text.instructions) and self._step(number, rank):
                    rank.place += 1
                    moving = True
        for number, rank in enumerate(self.ranks):
            if rank.place < len(rank.text.instructions):
                line = rank.text.instructions[rank.place].line
                self.found.append(f"rank {number}: line {line}: waits for ever")
            elif rank.reading or rank.writing:
                self.found.append(f"rank {number}: ends without waiting for its transfers")
        if not self.found:
            self._check_results()
        return self.found

    def _count(self, turns: int) -> None:
        self.turns += turns
        if self.turns > MAX_TURNS:
            raise FormatError(f"CPU XML: more than {MAX_TURNS} turns of ranks: too large to judge")

    def _memory(self, letter: str) -> str:
        return "i" if self.text.in_place and letter == "o" else letter

    def _chunks(self, number: int, step: Instruction, letter: str) -> _Places:
        """Chunks of an instruction in a buffer; those that the buffer lacks are a violation."""
        spans = self.ranks[number].text.chunks[letter]
        place = bisect_right(spans, step.chunk, key=lambda span: span.start) - 1
        if place < 0 or step.chunk + step.count > spans[place].stop:
            self.found.append(
                f"rank {number}: line {step.line}: buffer {letter} lacks chunks {step.chunk} to "
                f"{step.chunk + step.count - 1}"
            )
            return letter, 0, 0
        return self._memory(letter), step.chunk, step.chunk + step.count

    def _slots(self, number: int, step: Instruction) -> _Places:
        if step.slot + step.count > self.ranks[number].text.slots:
            self.found.append(
                f"rank {number}: line {step.line}: slot {step.slot + step.count - 1} is too many"
            )
            return "slot", 0, 0
        return "slot", step.slot, step.slot + step.count

    def _step(self, number: int, rank: _Rank) -> bool:
        step = rank.text.instructions[rank.place]
        if step.kind == "sync":
            if rank.begun:
                return False
            rank.reading.clear()
            rank.writing.clear()
        elif step.kind == "send":
            places = self._chunks(number, step, step.buffer)
            self._look(number, step, reads=[places])
            rank.reading[places[0]].add(*places[1:])
            rank.begun += 1
            self.sends[number, step.peer].append((step, places))
            self._meet(number, step.peer)
        elif step.kind == "recv":
            places = self._slots(number, step) if step.slot >= 0 else self._chunks(number, step, step.buffer)
            self._look(number, step, writes=places)
            rank.writing[places[0]].add(*places[1:])
            rank.begun += 1
            self.receives[step.peer, number].append((step, places))
            self._meet(step.peer, number)
        elif step.kind == "copy":
            source, target = (self._chunks(number, step, letter) for letter in (step.buffer, step.target))
            self._look(number, step, reads=[source], writes=target)
            self._store(rank, target, self._read(number, step, source, target))
        else:
            source, target = self._slots(number, step), self._chunks(number, step, step.buffer)
            self._look(number, step, reads=[source, target], writes=target)
            taken, held = self._read(number, step, source, target), self._read(number, step, target, target)
            self._store(rank, target, added(taken, held))
        return True

    def _look(
        self, number: int, step: Instruction, *, reads: Sequence[_Places] = (), writes: _Places = ("", 0, 0)
    ) -> None:
        """Refuse what meets a transfer under way; INPUT out of place is never written."""
        rank = self.ranks[number]
        if rank.is_in_use(writes, only_written=False) or any(
            rank.is_in_use(places, only_written=True) for places in reads
        ):
            self.found.append(f"rank {number}: line {step.line}: touches memory of a transfer under way")
        if not self.text.in_place and writes[0] == "i":
            self.found.append(f"rank {number}: line {step.line}: writes the input out of place")

    def _read(self, number: int, step: Instruction, source: _Places, target: _Places) -> list[Piece]:
        """What a rank's memory holds, for as many places of a target as there are."""
        memory, low, past = source
        count = min(past - low, target[2] - target[1])
        shift = target[1] - low
        found: list[Piece] = []
        for first, after, held in self.ranks[number].memory[memory].read(low, low + count):
            if held is None:
                self.found.append(
                    f"rank {number}: line {step.line}: reads chunk {first} of {memory} undefined"
                )
            self._count(1 + len(held or ()))  # bounds what is made, which a short text could make large
            if held and shift:
                held = {(origin, by - shift): times for (origin, by), times in held.items()}
            found.append((first + shift, after + shift, held or {}))
        return found

    def _store(self, rank: _Rank, target: _Places, pieces: list[Piece]) -> None:
        if pieces:
            rank.memory[target[0]].write(pieces[0][0], pieces[-1][1], pieces)

    def _meet(self, sender: int, receiver: int) -> None:
        """Carry out a transfer that both ends have begun."""
        sends, receives = self.sends[sender, receiver], self.receives[sender, receiver]
        if not (sends and receives):
            return
        (sent, source), (taken, target) = sends.popleft(), receives.popleft()
        if (sent.chunk, sent.count) != (taken.chunk, taken.count):
            self.found.append(
                f"rank {sender}: line {sent.line}: sends chunks {sent.chunk} (+{sent.count}) "
                f"where rank {receiver} receives {taken.chunk} (+{taken.count})"
            )
        self._store(self.ranks[receiver], target, self._read(sender, sent, source, target))
        self.ranks[sender].begun -= 1
        self.ranks[receiver].begun -= 1

    def _check_results(self) -> None:
        kind = self.text.collective
        if not self._has_right_shapes():
            self.found.append(f"the buffers' chunks do not fit {kind}")
            return
        everyone: Content = {(rank, 0): 1 for rank in range(len(self.ranks))}
        owned = MemorySegments((span.start, span.stop, {(rank, 0): 1}) for span, rank in self._owned())
        for number, rank in enumerate(self.ranks):
            wrong = 0
            for span in rank.text.chunks["o"]:
                parts: list[Piece] = [(span.start, span.stop, everyone)]
                if "reduce" not in kind:
                    parts = owned.read(span.start, span.stop)
                for low, past, wanted in parts:
                    held = rank.memory[self._memory("o")].read(low, past)
                    wrong += sum(after - first for first, after, found in held if found != wanted)
            if wrong:
                self.found.append(f"rank {number}: {wrong} chunks of the output are wrong")

    def _owned(self) -> list[tuple[range, int]]:
        """Ranges of the inputs, rising, with their ranks."""
        spans = ((span, rank) for rank, state in enumerate(self.ranks) for span in state.text.chunks["i"])
        return sorted((one for one in spans), key=lambda one: one[0].start)

    def _has_right_shapes(self) -> bool:
        """Whether inputs and outputs are those of the collective."""
        kind = self.text.collective
        inputs, outputs = ([rank.text.chunks[letter] for rank in self.ranks] for letter in "io")
        if kind == "alltoall":
            sent, taken = (
                sorted((s.start, s.stop) for spans in side for s in spans) for side in (inputs, outputs)
            )
            return _is_disjoint(sent) and _is_disjoint(taken) and _union(sent) == _union(taken)
        whole = (range(self.text.n_chunks),)
        all_whole = [whole] * len(self.ranks)
        only_root = [whole if rank == self.text.root else () for rank in range(len(self.ranks))]
        asked = {
            "allgather": (None, all_whole),
            "reduce-scatter": (all_whole, None),
            "allreduce": (all_whole, all_whole),
            "broadcast": (only_root, all_whole),
            "reduce": (all_whole, only_root),
        }[kind]
        return all(
            has == wanted if wanted is not None else self._is_divided(has)
            for has, wanted in zip((inputs, outputs), asked, strict=True)
        )

    def _is_divided(self, buffers: list[tuple[range, ...]]) -> bool:
        """Whether each chunk is in one rank's buffer."""
        spans = sorted((span.start, span.stop) for spans in buffers for span in spans)
        return _is_disjoint(spans) and _union(spans) == [(0, self.text.n_chunks)]


def _is_disjoint(spans: list[tuple[int, int]]) -> bool:
    return all(one[1] <= other[0] for one, other in pairwise(spans))


def _union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rising spans, those that touch made one."""
    found: list[tuple[int, int]] = []
    for low, high in spans:
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        elif high > low:
            found.append((low, high))
    return found
