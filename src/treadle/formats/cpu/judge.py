"""Executes CPU XML on integer contributions.

Shares no code with the writer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from lxml import etree

from treadle.errors import FormatError

MAX_TEXT = 256 * 2**20
"""Largest text read, characters."""
MAX_RANKS = 2**20
"""Most ranks of a text."""
MAX_CELLS = 4 * 10**6
"""Largest number of chunks in all buffers together."""
MAX_TURNS = 10**8
"""Most turns of ranks, waiting or not: about a minute."""

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")
_ATTRIBUTES = {
    "send": ("peer", "buf", "chunk", "cnt"),
    "recv": ("peer", "chunk", "cnt"),
    "copy": ("buf", "dbuf", "chunk", "cnt"),
    "reduce": ("slot", "buf", "chunk", "cnt"),
    "sync": (),
}
_Cell = tuple[str, int]
_Value = Counter[tuple[int, int]]


@dataclass(frozen=True)
class Instruction:
    """One instruction; what its kind does not use is -1 or empty."""

    kind: str
    line: int
    peer: int = -1
    buffer: str = ""
    target: str = ""
    slot: int = -1
    chunk: int = -1
    count: int = 0


@dataclass(frozen=True)
class RankText:
    """A rank as written: the chunks of its buffers, its slots and its instructions."""

    chunks: dict[str, tuple[range, ...]]
    slots: int
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class CpuText:
    """A text as written."""

    collective: str
    n_chunks: int
    root: int
    in_place: bool
    ranks: tuple[RankText, ...]


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


def parse_cpu_xml(text: str, *, source: str = "CPU XML") -> CpuText:
    """Read a text; FormatError, with its line, if it is malformed or hostile."""
    return CpuReader(source).text(parse_elements(text, source))


def parse_elements(text: str, source: str) -> etree._Element:
    """The top element of a text; FormatError if it is no plain XML."""
    if len(text) > MAX_TEXT:
        raise FormatError(f"{len(text)} characters, expected at most {MAX_TEXT}", source=source)
    if re.search(r"<!(?!--)", text):
        raise FormatError("a DTD, entity or CDATA section is not accepted", source=source)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True
    )
    try:
        return etree.fromstring(text.encode("utf-8"), parser)
    except UnicodeEncodeError:
        raise FormatError("not valid text (lone surrogate)", source=source) from None
    except etree.XMLSyntaxError as error:
        message = " ".join(str(error.msg).split())
        raise FormatError(f"not well-formed ({message})", source=source, line=error.lineno or 1) from None


class CpuReader:
    """Elements of a text to values.

    Parameters
    ----------
    source : str
        Name for messages.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.cells = 0

    def fail(self, element: etree._Element, message: str) -> FormatError:
        """An error that names the element."""
        line = element.sourceline if isinstance(element.sourceline, int) else 1
        return FormatError(f"<{element.tag}> {message}", source=self.source, line=line)

    def number(self, element: etree._Element, key: str, low: int, high: int) -> int:
        """An attribute that is an integer in a range."""
        value = element.get(key)
        if value is None:
            raise self.fail(element, f"lacks the attribute {key}")
        if not _NUMBER.fullmatch(value) or not low <= int(value) <= high:
            raise self.fail(element, f"{key}={value[:40]!r}: expected an integer from {low} to {high}")
        return int(value)

    def word(self, element: etree._Element, key: str, allowed: tuple[str, ...]) -> str:
        """An attribute that is one of some words."""
        value = element.get(key, "")
        if value not in allowed:
            raise self.fail(element, f"{key}={value[:40]!r}: expected one of {', '.join(allowed)}")
        return value

    def text(self, top: etree._Element) -> CpuText:
        """A whole text."""
        if top.tag != "cpu":
            raise self.fail(top, "found, expected <cpu>")
        n = self.number(top, "ranks", 1, MAX_RANKS)
        if len(top) != n or any(child.tag != "rank" for child in top):
            raise self.fail(top, f"holds {len(top)} elements, expected {n} ranks")
        return self.described(top, n, tuple(self.rank(child, rank, n) for rank, child in enumerate(top)))

    def described(self, top: etree._Element, n: int, ranks: tuple[RankText, ...]) -> CpuText:
        """Some of n ranks with what the top element says of all."""
        n_chunks = self.number(top, "chunks", 1, MAX_CELLS)
        for key in ("minBytes", "maxBytes"):
            self.number(top, key, 0, 2**62)
        return CpuText(
            collective=self.word(top, "collective", _COLLECTIVES),
            n_chunks=n_chunks,
            root=self.number(top, "root", -1, n - 1),
            in_place=bool(self.number(top, "inplace", 0, 1)),
            ranks=ranks,
        )

    def rank(self, element: etree._Element, rank: int, n: int) -> RankText:
        """Rank number `rank` of n."""
        self.number(element, "id", rank, rank)
        chunks = {letter: self.ranges(element, letter) for letter in "ios"}
        slots = self.number(element, "slots", 0, MAX_CELLS)
        self.cells += slots
        if self.cells > MAX_CELLS:
            raise self.fail(element, f"expected at most {MAX_CELLS} chunks in all buffers together")
        return RankText(chunks, slots, tuple(self.instruction(child, rank, n) for child in element))

    def ranges(self, element: etree._Element, letter: str) -> tuple[range, ...]:
        """Chunks of a buffer: rising ranges that do not touch."""
        found: list[range] = []
        for word in element.get(letter, "").split():
            match = re.fullmatch(r"([0-9]{1,15})-([0-9]{1,15})", word, re.ASCII)
            after = found[-1].stop if found else -1
            if not match or not after < int(match[1]) <= int(match[2]):
                raise self.fail(element, f"{letter}: {word[:40]!r}: expected rising ranges such as 0-3 8-11")
            found.append(range(int(match[1]), int(match[2]) + 1))
            self.cells += len(found[-1])
        if self.cells > MAX_CELLS:
            raise self.fail(element, f"expected at most {MAX_CELLS} chunks in all buffers together")
        return tuple(found)

    def instruction(self, element: etree._Element, rank: int, n: int) -> Instruction:
        """An instruction of a rank."""
        kind = str(element.tag)
        if kind not in _ATTRIBUTES:
            raise self.fail(element, f"is no instruction; expected one of {', '.join(_ATTRIBUTES)}")
        line = element.sourceline if isinstance(element.sourceline, int) else 1
        asked = _ATTRIBUTES[kind]
        to_slot = kind == "recv" and "slot" in element.attrib
        values = Instruction(
            kind,
            line,
            peer=self.number(element, "peer", 0, n - 1) if "peer" in asked else -1,
            buffer=self.word(element, "buf", ("i", "o", "s"))
            if "buf" in asked or (kind == "recv" and not to_slot)
            else "",
            target=self.word(element, "dbuf", ("i", "o", "s")) if "dbuf" in asked else "",
            slot=self.number(element, "slot", 0, MAX_CELLS) if "slot" in asked or to_slot else -1,
            chunk=self.number(element, "chunk", 0, 2**60) if "chunk" in asked else -1,
            count=self.number(element, "cnt", 1, MAX_CELLS) if "cnt" in asked else 0,
        )
        if values.peer == rank:
            raise self.fail(element, "names its own rank as the peer")
        return values


class _Rank:
    """A rank at work."""

    def __init__(self, text: RankText) -> None:
        self.text = text
        self.place = 0
        self.memory: dict[_Cell, _Value] = {}
        self.reading: Counter[_Cell] = Counter()
        self.writing: set[_Cell] = set()
        self.begun = 0
        """Transfers begun since the last sync that are not over."""


class _Machine:
    """All ranks; no transfer is buffered: it is over when both ends have begun it."""

    def __init__(self, text: CpuText) -> None:
        self.text = text
        self.found: list[str] = []
        self.ranks = [_Rank(rank) for rank in text.ranks]
        self.sends: dict[tuple[int, int], deque[tuple[Instruction, list[_Cell]]]] = defaultdict(deque)
        self.receives: dict[tuple[int, int], deque[tuple[Instruction, list[_Cell]]]] = defaultdict(deque)

    def run(self) -> list[str]:
        moving, turns = True, 0
        while moving and len(self.found) < 100:
            moving = False
            turns += len(self.ranks)
            if turns > MAX_TURNS:
                raise FormatError(f"CPU XML: more than {MAX_TURNS} turns of ranks: too large to judge")
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

    def _held(self, number: int, cell: _Cell) -> _Value | None:
        """What memory holds: what was stored, or the input; None if nothing."""
        rank = self.ranks[number]
        stored = rank.memory.get(cell)
        if stored is None and cell[0] == "i" and any(cell[1] in span for span in rank.text.chunks["i"]):
            return Counter({(number, cell[1]): 1})
        return stored

    def _chunks(self, rank: _Rank, letter: str) -> Iterator[int]:
        return (chunk for span in rank.text.chunks[letter] for chunk in span)

    def _cell(self, letter: str, chunk: int) -> _Cell:
        return ("i" if self.text.in_place and letter == "o" else letter, chunk)

    def _cells(self, number: int, step: Instruction, letter: str) -> list[_Cell]:
        """Chunks of an instruction in a buffer; those that the buffer lacks are a violation."""
        spans = self.ranks[number].text.chunks[letter]
        if not any(span.start <= step.chunk and step.chunk + step.count <= span.stop for span in spans):
            self.found.append(
                f"rank {number}: line {step.line}: buffer {letter} lacks chunks {step.chunk} to "
                f"{step.chunk + step.count - 1}"
            )
            return []
        return [self._cell(letter, chunk) for chunk in range(step.chunk, step.chunk + step.count)]

    def _slots(self, number: int, step: Instruction) -> list[_Cell]:
        if step.slot + step.count > self.ranks[number].text.slots:
            self.found.append(
                f"rank {number}: line {step.line}: slot {step.slot + step.count - 1} is too many"
            )
            return []
        return [("slot", slot) for slot in range(step.slot, step.slot + step.count)]

    def _step(self, number: int, rank: _Rank) -> bool:
        step = rank.text.instructions[rank.place]
        if step.kind == "sync":
            if rank.begun:
                return False
            rank.reading.clear()
            rank.writing.clear()
        elif step.kind == "send":
            cells = self._cells(number, step, step.buffer)
            self._look(number, step, reads=cells)
            rank.reading.update(cells)
            rank.begun += 1
            self.sends[number, step.peer].append((step, cells))
            self._meet(number, step.peer)
        elif step.kind == "recv":
            cells = self._slots(number, step) if step.slot >= 0 else self._cells(number, step, step.buffer)
            self._look(number, step, writes=cells)
            rank.writing.update(cells)
            rank.begun += 1
            self.receives[step.peer, number].append((step, cells))
            self._meet(step.peer, number)
        elif step.kind == "copy":
            source, target = (self._cells(number, step, letter) for letter in (step.buffer, step.target))
            self._look(number, step, reads=source, writes=target)
            for one, other in zip(source, target, strict=False):
                rank.memory[other] = self._read(number, step, one)
        else:
            source, target = self._slots(number, step), self._cells(number, step, step.buffer)
            self._look(number, step, reads=[*source, *target], writes=target)
            for one, other in zip(source, target, strict=False):
                rank.memory[other] = self._read(number, step, one) + self._read(number, step, other)
        return True

    def _look(
        self,
        number: int,
        step: Instruction,
        reads: list[_Cell] | None = None,
        writes: list[_Cell] | None = None,
    ) -> None:
        """Refuse what meets a transfer under way; INPUT out of place is never written."""
        rank = self.ranks[number]
        under_way = rank.writing.intersection(reads or []) or any(
            cell in rank.writing or rank.reading[cell] for cell in writes or []
        )
        if under_way:
            self.found.append(f"rank {number}: line {step.line}: touches memory of a transfer under way")
        if not self.text.in_place and any(cell[0] == "i" for cell in writes or []):
            self.found.append(f"rank {number}: line {step.line}: writes the input out of place")

    def _read(self, number: int, step: Instruction, cell: _Cell) -> _Value:
        value = self._held(number, cell)
        if value is None:
            self.found.append(
                f"rank {number}: line {step.line}: reads chunk {cell[1]} of {cell[0]} undefined"
            )
            return Counter()
        return Counter(value)

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
        for one, other in zip(source, target, strict=False):
            self.ranks[receiver].memory[other] = self._read(sender, sent, one)
        self.ranks[sender].begun -= 1
        self.ranks[receiver].begun -= 1

    def _check_results(self) -> None:
        kind = self.text.collective
        if not self._has_right_shapes():
            self.found.append(f"the buffers' chunks do not fit {kind}")
            return
        owned = self._owned()
        starts = [span.start for span, _ in owned]
        for number, rank in enumerate(self.ranks):
            wrong = 0
            for chunk in self._chunks(rank, "o"):
                if "reduce" in kind:
                    wanted: _Value = Counter({(other, chunk): 1 for other in range(len(self.ranks))})
                else:
                    wanted = Counter({(owned[bisect_right(starts, chunk) - 1][1], chunk): 1})
                wrong += self._held(number, self._cell("o", chunk)) != wanted
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
            has == wanted if wanted is not None else self._is_dealt_out(has)
            for has, wanted in zip((inputs, outputs), asked, strict=True)
        )

    def _is_dealt_out(self, buffers: list[tuple[range, ...]]) -> bool:
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
