"""Parts of CPU XML, a rank each: played alone, or put together and executed.

Shares no code with the writer.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.formats.cpu.interpreter_memory import Ranges
from treadle.formats.cpu.reader import CpuPart, Instruction, parse_cpu_part

_MAX_FAULTS = 100


@dataclass(frozen=True)
class PartInterpretation:
    """What playing a part alone showed.

    Parameters
    ----------
    part : CpuPart
    violations : tuple of str
        Memory touched while a transfer that writes it is under way (or written while one reads it), undefined
        data read, chunks that a buffer does not have, output that nothing is stored in.
    """

    part: CpuPart
    violations: tuple[str, ...]


def interpret_cpu_part(text: str, *, source: str = "CPU XML") -> PartInterpretation:
    """Parse a part and play it alone, as if all that it receives were right and there at once."""
    part = parse_cpu_part(text, source)
    return PartInterpretation(part, tuple(_Player(part).run()))


class _Memory:
    """A buffer, or the slots: which places there are, hold data, are being read and written."""

    def __init__(self) -> None:
        self.exists, self.held, self.read, self.written = (Ranges() for _ in range(4))

    def settle(self) -> None:
        """All transfers are over."""
        for low, past in self.written:
            self.held.add(low, past)
        self.read.clear()
        self.written.clear()


class _Player:
    """One rank at work; other ranks do what it expects of them."""

    def __init__(self, part: CpuPart) -> None:
        rank = part.text.ranks[0]
        self._instructions = rank.instructions
        self._memory = {name: _Memory() for name in ("i", "o", "s", "slots")}
        self._memory["slots"].exists.add(0, rank.slots)
        self._found: list[str] = []
        if part.text.in_place:  # where both exist they are one memory
            self._memory["i"] = self._memory["o"]
        for letter, spans in rank.chunks.items():
            for span in spans:
                if span.stop > part.text.n_chunks:
                    self._found.append(f"buffer {letter} has chunks past {part.text.n_chunks - 1}")
                self._memory[letter].exists.add(span.start, span.stop)
                if letter == "i":
                    self._memory["i"].held.add(span.start, span.stop)
        self._output = rank.chunks["o"]

    def run(self) -> list[str]:
        """All faults, up to a hundred."""
        for instruction in self._instructions:
            if len(self._found) >= _MAX_FAULTS:
                return self._found
            self._play(instruction)
        if any(memory.read or memory.written for memory in self._memory.values()):
            self._found.append("ends without waiting for its transfers")
        for span in self._output:
            lacking = self._memory["o"].held.first_out(span.start, span.stop)
            if lacking is not None:
                self._found.append(f"chunk {lacking} of the output is never stored")
        return self._found

    def _play(self, one: Instruction) -> None:
        if one.kind == "sync":
            for memory in self._memory.values():
                memory.settle()
        elif one.kind == "send":
            if self._reads(one, one.buffer, one.chunk):
                self._memory[one.buffer].read.add(one.chunk, one.chunk + one.count)
        elif one.kind == "recv":
            name, first = (one.buffer, one.chunk) if one.slot < 0 else ("slots", one.slot)
            if self._writes(one, name, first):
                self._memory[name].written.add(first, first + one.count)
        elif one.kind == "copy":
            if self._reads(one, one.buffer, one.chunk) and self._writes(one, one.target, one.chunk):
                self._memory[one.target].held.add(one.chunk, one.chunk + one.count)
        elif self._reads(one, "slots", one.slot) and self._reads(one, one.buffer, one.chunk):
            self._writes(one, one.buffer, one.chunk)

    def _reads(self, one: Instruction, name: str, first: int) -> bool:
        """Whether the memory has what is read; faults are noted."""
        memory, span = self._memory[name], (first, first + one.count)
        if not self._exists(one, name, first):
            return False
        for wrong, what in (
            (memory.held.first_out(*span), "undefined"),
            (memory.written.first_in(*span), "on its way"),
        ):
            if wrong is not None:
                self._note(one, f"reads {name} {wrong}, which is {what}")
                return False
        return True

    def _writes(self, one: Instruction, name: str, first: int) -> bool:
        memory, span = self._memory[name], (first, first + one.count)
        if not self._exists(one, name, first):
            return False
        busy = [place for use in (memory.read, memory.written) if (place := use.first_in(*span)) is not None]
        if busy:
            self._note(one, f"writes {name} {min(busy)}, which a transfer still uses")
            return False
        return True

    def _exists(self, one: Instruction, name: str, first: int) -> bool:
        if self._memory[name].exists.first_out(first, first + one.count) is not None:
            self._note(one, f"touches {name} {first} to {first + one.count - 1}, of which some do not exist")
            return False
        return True

    def _note(self, one: Instruction, message: str) -> None:
        self._found.append(f"line {one.line}: {one.kind} {message}")
