"""Executes CPU XML on integer contributions.

Shares no code with the writer. Memory is stored as segments of places with corresponding content, so that the
cost of a file depends on its instructions and not on the number of chunks that they move.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise

from treadle.errors import FormatError
from treadle.formats.cpu.interpreter_memory import Content, MemorySegments, Piece, Ranges, added
from treadle.formats.cpu.interpreter_parts import interpret_cpu_part
from treadle.formats.cpu.reader import CpuFile, Instruction, RankFile, is_cpu_part, parse_cpu_xml
from treadle.formats.verdict import Check, Terms, Verdict, decoded

MAX_TURNS = 10**8
"""Most turns of ranks, waiting or not, plus contributions moved: about a minute."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Execute a file, or the part of one rank alone; FormatError if it is malformed or hostile."""
    text, source = decoded(files[0], terms, "CPU XML")
    return (interpret_cpu_part if is_cpu_part(text) else interpret_cpu_xml)(text, source=source)


def interpret_cpu_xml(text: str, *, source: str = "CPU XML") -> Verdict:
    """Parse and execute a file.

    Violations are: ranks that wait for ever although no transfer is buffered, transfers of different sizes,
    memory used while a transfer writes it (or written while one reads it), undefined data read, missing
    chunks of a buffer, and wrong results. FormatError if the file is malformed or hostile.
    """
    return execute_cpu_file(parse_cpu_xml(text, source))


def execute_cpu_file(parsed: CpuFile) -> Verdict:
    """Execute a parsed file, like `interpret_cpu_xml`."""
    n_instructions = sum(len(rank.instructions) for rank in parsed.ranks)
    return Verdict(
        Check.EXECUTED,
        tuple(dict.fromkeys(_Machine(parsed).run())),
        (("instruction", n_instructions), ("rank", len(parsed.ranks))),
        len(parsed.ranks),
        parsed.collective,
        n_chunks=parsed.n_chunks,
    )


_Places = tuple[str, int, int]
"""Memory, first place, one past the last."""
_Begun = deque[tuple[Instruction, _Places]]


class _Rank:
    """The state of a rank."""

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
        """Number of transfers since the last sync that are not complete."""

    @property
    def now(self) -> Instruction | None:
        """The next instruction; None at the end."""
        return self.text.instructions[self.place] if self.place < len(self.text.instructions) else None

    def is_in_use(self, places: _Places, *sides: dict[str, Ranges]) -> bool:
        """Whether incomplete transfers of these sides use some of the places."""
        letter, *span = places
        return any(letter in side and side[letter].meets(*span) for side in sides)


class _Machine:
    """All ranks. Transfers are not buffered: one completes when both ends have begun it."""

    def __init__(self, text: CpuFile) -> None:
        self.text = text
        self.found: list[str] = []
        self.ranks = [_Rank(each, rank) for rank, each in enumerate(text.ranks)]
        self.begun: dict[tuple[int, int], tuple[_Begun, _Begun]] = defaultdict(lambda: (deque(), deque()))
        """Sends and receives of each (sender, receiver) without a counterpart so far."""
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
            raise FormatError(f"CPU XML: more than {MAX_TURNS} turns of ranks: too large to verify")

    def _memory(self, letter: str) -> str:
        return "i" if self.text.in_place and letter == "o" else letter

    def _chunks(self, number: int, step: Instruction, letter: str) -> _Places:
        """Return the chunks of an instruction in a buffer; no places and a violation if some are missing."""
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
            terms = (self._read(number, step, places, target) for places in (source, target))
            self._store(rank, target, added(*terms))
        return True

    def _look(
        self, number: int, step: Instruction, *, reads: Sequence[_Places] = (), writes: _Places = ("", 0, 0)
    ) -> None:
        """Report accesses to memory of incomplete transfers, and writes of the input out of place."""
        rank = self.ranks[number]
        if rank.is_in_use(writes, rank.writing, rank.reading) or any(
            rank.is_in_use(places, rank.writing) for places in reads
        ):
            self._note(number, step, "touches memory of a transfer under way")
        if not self.text.in_place and writes[0] == "i":
            self._note(number, step, "writes the input out of place")

    def _read(self, number: int, step: Instruction, source: _Places, target: _Places) -> list[Piece]:
        """Return the content of a rank's memory, for at most as many places as the target has."""
        memory, low, past = source
        count = min(past - low, target[2] - target[1])
        shift = target[1] - low
        found: list[Piece] = []
        for first, after, held in self.ranks[number].memory[memory].read(low, low + count):
            if held is None:
                self._note(number, step, f"reads chunk {first} of {memory} undefined")
            # This limits the memory of the verifier, which a short file could make large.
            self._count(1 + len(held or ()))
            if held and shift:
                held = {(origin, by - shift): times for (origin, by), times in held.items()}
            found.append((first + shift, after + shift, held or {}))
        return found

    def _store(self, rank: _Rank, target: _Places, segments: list[Piece]) -> None:
        if segments:
            rank.memory[target[0]].write(segments[0][0], segments[-1][1], segments)

    def _begin(self, number: int, step: Instruction, places: _Places, sender: int, receiver: int) -> None:
        """Begin a transfer at one end; execute it if the other end has begun it."""
        sends, receives = self.begun[sender, receiver]
        (sends if number == sender else receives).append((step, places))
        self.ranks[number].begun += 1
        # Without buffers, the data move only when both ends have begun the transfer.
        if not (sends and receives):
            return
        (sent, source), (taken, target) = sends.popleft(), receives.popleft()
        if (sent.chunk, sent.count) != (taken.chunk, taken.count):
            what = f"sends chunks {sent.chunk} (+{sent.count}) where rank {receiver} receives"
            self._note(sender, sent, f"{what} {taken.chunk} (+{taken.count})")
        self._store(self.ranks[receiver], target, self._read(sender, sent, source, target))
        self.ranks[sender].begun -= 1
        self.ranks[receiver].begun -= 1

    def _check_results(self) -> None:
        kind = self.text.collective
        if not self._has_right_shapes():
            self.found.append(f"the buffers' chunks do not fit {kind}")
            return
        everyone: Content = {(rank, 0): 1 for rank in range(len(self.ranks))}
        inputs = (
            (span.start, span.stop, rank)
            for rank, state in enumerate(self.ranks)
            for span in state.text.chunks["i"]
        )
        owned = MemorySegments((first, past, {(rank, 0): 1}) for first, past, rank in sorted(inputs))
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
        """Whether inputs and outputs have the shapes of the collective."""
        kind = self.text.collective
        inputs, outputs = ([rank.text.chunks[letter] for rank in self.ranks] for letter in "io")
        if kind == "alltoall":
            sent = _covered(inputs)
            return sent is not None and sent == _covered(outputs)
        entire = (range(self.text.n_chunks),)
        everywhere = [entire] * len(self.ranks)
        at_root = [entire if rank == self.text.root else () for rank in range(len(self.ranks))]
        expected = {
            "allgather": (None, everywhere),
            "reduce-scatter": (everywhere, None),
            "allreduce": (everywhere, everywhere),
            "broadcast": (at_root, everywhere),
            "reduce": (everywhere, at_root),
        }[kind]
        return all(
            found == wanted if wanted is not None else _covered(found) == [(0, self.text.n_chunks)]
            for found, wanted in zip((inputs, outputs), expected, strict=True)
        )


def _covered(buffers: list[tuple[range, ...]]) -> list[tuple[int, int]] | None:
    """Return the chunks of all buffers as rising ranges; None if two buffers have the same chunk."""
    spans = sorted((span.start, span.stop) for spans in buffers for span in spans)
    if any(one[1] > other[0] for one, other in pairwise(spans)):
        return None
    found = Ranges()
    for span in spans:
        found.add(*span)
    return list(found)
