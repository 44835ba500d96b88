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
from treadle.formats.cpu.interpreter_memory import Content, MemorySegments, Piece, Ranges, added
from treadle.formats.cpu.interpreter_parts import interpret_cpu_part
from treadle.formats.cpu.reader import CpuFile, Instruction, RankFile, is_cpu_part, parse_cpu_xml
from treadle.formats.verdict import Check, Terms, Verdict, decoded

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


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Execute a text; play a part alone, as if the other ranks did theirs.

    Raises
    ------
    FormatError
        If it is malformed or hostile.
    """
    text, source = decoded(files[0], terms, "CPU XML")
    if not is_cpu_part(text):
        seen = interpret_cpu_xml(text, source=source)
        counts = (("instruction", seen.n_instructions), ("rank", seen.n_ranks))
        return Verdict(
            Check.EXECUTED, seen.violations, counts, seen.n_ranks, seen.collective, n_chunks=seen.n_chunks
        )
    played = interpret_cpu_part(text, source=source)
    part = played.part
    return Verdict(
        Check.EXECUTED,
        played.violations,
        (("instruction", len(part.text.ranks[0].instructions)),),
        1,
        part.text.collective,
        detail=f", rank {part.rank} alone",
        variant=f", part of rank {part.rank} of {part.n_ranks}",
        n_chunks=part.text.n_chunks,
        is_part=True,
    )


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
    return execute_cpu_file(parse_cpu_xml(text, source))


def execute_cpu_file(parsed: CpuFile) -> CpuInterpretation:
    """Execute a text that is parsed, as `interpret_cpu_xml`."""
    return CpuInterpretation(
        collective=parsed.collective,
        n_ranks=len(parsed.ranks),
        n_chunks=parsed.n_chunks,
        n_instructions=sum(len(rank.instructions) for rank in parsed.ranks),
        violations=tuple(dict.fromkeys(_Machine(parsed).run())),
    )


_Places = tuple[str, int, int]
"""Memory, first place, one past the last."""
_Begun = deque[tuple[Instruction, _Places]]


class _Rank:
    """A rank at work."""

    def __init__(self, text: RankFile, rank: int) -> None:
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

    @property
    def now(self) -> Instruction | None:
        """The next instruction; None at the end."""
        return self.text.instructions[self.place] if self.place < len(self.text.instructions) else None

    def is_in_use(self, places: _Places, *sides: dict[str, Ranges]) -> bool:
        """Whether some of the places are in ranges of transfers under way."""
        letter, *span = places
        return any(letter in side and side[letter].meets(*span) for side in sides)


class _Machine:
    """All ranks; no transfer is buffered: it is over when both ends have begun it."""

    def __init__(self, text: CpuFile) -> None:
        self.text = text
        self.found: list[str] = []
        self.ranks = [_Rank(each, rank) for rank, each in enumerate(text.ranks)]
        self.begun: dict[tuple[int, int], tuple[_Begun, _Begun]] = defaultdict(lambda: (deque(), deque()))
        """Sends and receives of each (sender, receiver) that the other end has not met."""
        self.turns = 0

    def run(self) -> list[str]:
        moving = True
        while moving and len(self.found) < 100:
            moving = False
            self._count(len(self.ranks))
            for number, rank in enumerate(self.ranks):
                while (step := rank.now) is not None and self._step(number, rank, step):
                    rank.place += 1
                    moving = True
        for number, rank in enumerate(self.ranks):
            if rank.now is not None:
                self._note(number, rank.now, "waits for ever")
            elif rank.reading or rank.writing:
                self.found.append(f"rank {number}: ends without waiting for its transfers")
        if not self.found:
            self._check_results()
        return self.found

    def _note(self, number: int, step: Instruction, fault: str) -> None:
        self.found.append(f"rank {number}: line {step.line}: {fault}")

    def _count(self, turns: int) -> None:
        self.turns += turns
        if self.turns > MAX_TURNS:
            raise FormatError(f"CPU XML: more than {MAX_TURNS} turns of ranks: too large to judge")

    def _memory(self, letter: str) -> str:
        return "i" if self.text.in_place and letter == "o" else letter

    def _chunks(self, number: int, step: Instruction, letter: str) -> _Places:
        """Return chunks of an instruction in a buffer; those that the buffer lacks are a violation."""
        spans, past = self.ranks[number].text.chunks[letter], step.chunk + step.count
        place = bisect_right(spans, step.chunk, key=lambda span: span.start) - 1
        if place < 0 or past > spans[place].stop:
            self._note(number, step, f"buffer {letter} lacks chunks {step.chunk} to {past - 1}")
            return letter, 0, 0
        return self._memory(letter), step.chunk, past

    def _slots(self, number: int, step: Instruction) -> _Places:
        past = step.slot + step.count
        if past > self.ranks[number].text.slots:
            self._note(number, step, f"slot {past - 1} is too many")
            return "slot", 0, 0
        return "slot", step.slot, past

    def _step(self, number: int, rank: _Rank, step: Instruction) -> bool:
        if step.kind == "sync":
            if rank.begun:
                return False
            rank.reading.clear()
            rank.writing.clear()
        elif step.kind == "send":
            places = self._chunks(number, step, step.buffer)
            self._look(number, step, reads=[places])
            rank.reading[places[0]].add(*places[1:])
            self._begin(number, step, places, number, step.peer)
        elif step.kind == "recv":
            places = self._slots(number, step) if step.slot >= 0 else self._chunks(number, step, step.buffer)
            self._look(number, step, writes=places)
            rank.writing[places[0]].add(*places[1:])
            self._begin(number, step, places, step.peer, number)
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
        if rank.is_in_use(writes, rank.writing, rank.reading) or any(
            rank.is_in_use(places, rank.writing) for places in reads
        ):
            self._note(number, step, "touches memory of a transfer under way")
        if not self.text.in_place and writes[0] == "i":
            self._note(number, step, "writes the input out of place")

    def _read(self, number: int, step: Instruction, source: _Places, target: _Places) -> list[Piece]:
        """Return what a rank's memory holds, for as many places of a target as there are."""
        memory, low, past = source
        count = min(past - low, target[2] - target[1])
        shift = target[1] - low
        found: list[Piece] = []
        for first, after, held in self.ranks[number].memory[memory].read(low, low + count):
            if held is None:
                self._note(number, step, f"reads chunk {first} of {memory} undefined")
            self._count(1 + len(held or ()))  # bounds what is made, which a short text could make large
            if held and shift:
                held = {(origin, by - shift): times for (origin, by), times in held.items()}
            found.append((first + shift, after + shift, held or {}))
        return found

    def _store(self, rank: _Rank, target: _Places, pieces: list[Piece]) -> None:
        if pieces:
            rank.memory[target[0]].write(pieces[0][0], pieces[-1][1], pieces)

    def _begin(self, number: int, step: Instruction, places: _Places, sender: int, receiver: int) -> None:
        """Begin a transfer at one end; carry it out if the other end has begun it."""
        sends, receives = self.begun[sender, receiver]
        (sends if number == sender else receives).append((step, places))
        self.ranks[number].begun += 1
        if not (sends and receives):
            return
        (sent, source), (taken, target) = sends.popleft(), receives.popleft()
        if (sent.chunk, sent.count) != (taken.chunk, taken.count):
            what = f"{taken.chunk} (+{taken.count})"
            self._note(
                sender,
                sent,
                f"sends chunks {sent.chunk} (+{sent.count}) where rank {receiver} receives {what}",
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
        inputs = ((span, rank) for rank, state in enumerate(self.ranks) for span in state.text.chunks["i"])
        owned = MemorySegments(
            (span.start, span.stop, {(rank, 0): 1})
            for span, rank in sorted(inputs, key=lambda one: one[0].start)
        )
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

    def _has_right_shapes(self) -> bool:
        """Whether inputs and outputs are those of the collective."""
        kind = self.text.collective
        inputs, outputs = ([rank.text.chunks[letter] for rank in self.ranks] for letter in "io")
        if kind == "alltoall":
            sent = _covered(inputs)
            return sent is not None and sent == _covered(outputs)
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
            has == wanted if wanted is not None else _covered(has) == [(0, self.text.n_chunks)]
            for has, wanted in zip((inputs, outputs), asked, strict=True)
        )


def _covered(buffers: list[tuple[range, ...]]) -> list[tuple[int, int]] | None:
    """Return the chunks of all buffers as rising ranges; None if a chunk is in two of them."""
    spans = sorted((span.start, span.stop) for spans in buffers for span in spans)
    if any(one[1] > other[0] for one, other in pairwise(spans)):
        return None
    found = Ranges()
    for span in spans:
        found.add(*span)
    return list(found)
