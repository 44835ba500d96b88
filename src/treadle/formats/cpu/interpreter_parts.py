"""Verifies the part of one rank in CPU XML alone, as if all other ranks did what it expects of them.

Shares no code with the writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from treadle.formats.cpu.interpreter_memory import Ranges
from treadle.formats.cpu.reader import CpuPart, Instruction, parse_cpu_part
from treadle.formats.verdict import Check, Verdict

_MAX_FAULTS = 100


def interpret_cpu_part(text: str, *, source: str = "CPU XML") -> Verdict:
    """Parse a part and execute it alone, as if everything that it receives were correct.

    Violations are memory used while a transfer writes it (or written while one reads it), undefined data
    read, missing chunks of a buffer, and output that is never stored.
    """
    part = parse_cpu_part(text, source)
    return Verdict(
        Check.EXECUTED,
        tuple(islice(_faults(part), _MAX_FAULTS)),
        (("instruction", len(part.text.ranks[0].instructions)),),
        1,
        part.text.collective,
        detail=f", rank {part.rank} alone",
        variant=f", part of rank {part.rank} of {part.n_ranks}",
        n_chunks=part.text.n_chunks,
        is_part=True,
    )


class _Memory:
    """A buffer, or the slots: places that exist, contain data, are being read, are being written."""

    def __init__(self) -> None:
        self.exists, self.held, self.read, self.written = (Ranges() for _ in range(4))

    def finish_transfers(self) -> None:
        """Let all transfers end."""
        for low, past in self.written:
            self.held.add(low, past)
        self.read.clear()
        self.written.clear()


def _faults(part: CpuPart) -> Iterator[str]:
    rank = part.text.ranks[0]
    memories = {name: _Memory() for name in ("i", "o", "s", "slots")}
    memories["slots"].exists.add(0, rank.slots)
    if part.text.in_place:  # Places that both buffers have are the same memory.
        memories["i"] = memories["o"]
    for letter, spans in rank.chunks.items():
        for span in spans:
            if span.stop > part.text.n_chunks:
                yield f"buffer {letter} has chunks past {part.text.n_chunks - 1}"
            memories[letter].exists.add(span.start, span.stop)
            if letter == "i":
                memories["i"].held.add(span.start, span.stop)
    for instruction in rank.instructions:
        if fault := _execute(memories, instruction):
            yield f"line {instruction.line}: {instruction.kind} {fault}"
    if any(memory.read or memory.written for memory in memories.values()):
        yield "ends without waiting for its transfers"
    for span in rank.chunks["o"]:
        missing = memories["o"].held.first_out(span.start, span.stop)
        if missing is not None:
            yield f"chunk {missing} of the output is never stored"


def _execute(memories: dict[str, _Memory], one: Instruction) -> str:
    """Execute an instruction, or return what is wrong with it; it then has no effect."""
    if one.kind == "sync":
        for memory in memories.values():
            memory.finish_transfers()
        return ""
    chunks, slots = (one.buffer, one.chunk), ("slots", one.slot)
    reads = {"send": [chunks], "copy": [chunks], "reduce": [slots, chunks]}.get(one.kind, [])
    target = (one.target, one.chunk) if one.kind == "copy" else chunks
    writes = {"send": [], "recv": [slots if one.slot >= 0 else chunks]}.get(one.kind, [target])
    for uses, is_read in ((reads, True), (writes, False)):
        for name, first in uses:
            if fault := _fault(memories[name], name, first, first + one.count, is_read=is_read):
                return fault
    for name, first in writes or reads:
        memory = memories[name]
        place = {"send": memory.read, "recv": memory.written}.get(one.kind, memory.held)
        place.add(first, first + one.count)
    return ""


def _fault(memory: _Memory, name: str, first: int, past: int, *, is_read: bool) -> str:
    """Return what is wrong with an access to places from `first` up to `past`."""
    if memory.exists.first_out(first, past) is not None:
        return f"touches {name} {first} to {past - 1}, of which some do not exist"
    if not is_read:
        busy = [at for use in (memory.read, memory.written) if (at := use.first_in(first, past)) is not None]
        return f"writes {name} {min(busy)}, which a transfer still uses" if busy else ""
    if (wrong := memory.held.first_out(first, past)) is not None:
        return f"reads {name} {wrong}, which is undefined"
    if (wrong := memory.written.first_in(first, past)) is not None:
        return f"reads {name} {wrong}, which is on its way"
    return ""
