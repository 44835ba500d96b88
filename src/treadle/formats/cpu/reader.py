"""CPU XML as values: reads what is well-formed, refuses the rest.

Shares no code with the writer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

from treadle.formats.verdict import Terms, decoded
from treadle.formats.xml_elements import Attributes, line_of, parse_xml

MAX_TEXT = 256 * 2**20
"""Largest text read, characters."""
MAX_RANKS = 2**20
"""Most ranks of a text."""
MAX_CELLS = 2**40
"""Largest number of chunks in all buffers together."""

_COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")
_BUFFERS = ("i", "o", "s")
_ATTRIBUTES = {
    "send": ("peer", "buf", "chunk", "cnt"),
    "recv": ("peer", "buf", "chunk", "cnt"),
    "copy": ("buf", "dbuf", "chunk", "cnt"),
    "reduce": ("slot", "buf", "chunk", "cnt"),
    "sync": (),
}
_TO_SLOT = ("peer", "slot", "chunk", "cnt")
"""Attributes of a ``recv`` that has a slot."""


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
class RankFile:
    """A rank as written: the chunks of its buffers, its slots and its instructions."""

    chunks: dict[str, tuple[range, ...]]
    slots: int
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class CpuFile:
    """A text as written."""

    collective: str
    n_chunks: int
    root: int
    in_place: bool
    ranks: tuple[RankFile, ...]


@dataclass(frozen=True)
class CpuPart:
    """A part as written.

    Parameters
    ----------
    rank, n_ranks : int
    text : CpuFile
        Of this rank alone.
    """

    rank: int
    n_ranks: int
    text: CpuFile


def read(data: bytes, terms: Terms) -> CpuFile | CpuPart:
    """Return a text, or a part."""
    text, source = decoded(data, terms, "CPU XML")
    return parse_cpu_part(text, source) if is_cpu_part(text) else parse_cpu_xml(text, source)


def is_cpu_part(text: str) -> bool:
    """Whether a text begins as a part does."""
    return text.lstrip().startswith("<cpupart")


def parse_cpu_xml(text: str, source: str = "CPU XML") -> CpuFile:
    """Read a text; FormatError, with its line, if it is malformed or hostile."""
    reader, top, n = _opened(text, source, "cpu")
    if len(top) != n or any(child.tag != "rank" for child in top):
        raise reader.fail(top, f"holds {len(top)} elements, expected {n} ranks")
    return reader.described(top, n, tuple(reader.rank(child, rank, n) for rank, child in enumerate(top)))


def parse_cpu_part(text: str, source: str = "CPU XML") -> CpuPart:
    """Read a part; FormatError, with its line, if it is malformed or hostile."""
    reader, top, n = _opened(text, source, "cpupart")
    if len(top) != 1 or top[0].tag != "rank":
        raise reader.fail(top, f"holds {len(top)} elements, expected one rank")
    rank = reader.number(top[0], "id", 0, n - 1)
    return CpuPart(rank, n, reader.described(top, n, (reader.rank(top[0], rank, n),)))


def _opened(text: str, source: str, tag: str) -> tuple[_Reader, etree._Element, int]:
    """Return the top element, and the number of ranks that it names."""
    reader, top = _Reader(source), parse_xml(text, source, MAX_TEXT)
    if top.tag != tag:
        raise reader.fail(top, f"found, expected <{tag}>")
    return reader, top, reader.number(top, "ranks", 1, MAX_RANKS)


class _Reader(Attributes):
    """Elements of a text to values."""

    cells = 0
    """Chunks of all buffers so far."""

    def described(self, top: etree._Element, n: int, ranks: tuple[RankFile, ...]) -> CpuFile:
        """Return some of n ranks with what the top element says of all."""
        n_chunks = self.number(top, "chunks", 1, MAX_CELLS)
        for key in ("minBytes", "maxBytes"):
            self.number(top, key, 0, 2**62)
        return CpuFile(
            collective=self.choice(top, "collective", _COLLECTIVES, ""),
            n_chunks=n_chunks,
            root=self.number(top, "root", -1, n - 1),
            in_place=bool(self.number(top, "inplace", 0, 1)),
            ranks=ranks,
        )

    def rank(self, element: etree._Element, rank: int, n: int) -> RankFile:
        """Return rank number `rank` of n."""
        self.number(element, "id", rank, rank)
        chunks = {letter: self._ranges(element, letter) for letter in _BUFFERS}
        slots = self.number(element, "slots", 0, MAX_CELLS)
        self._count(element, slots)
        return RankFile(chunks, slots, tuple(self._instruction(child, rank, n) for child in element))

    def _count(self, element: etree._Element, cells: int) -> None:
        self.cells += cells
        if self.cells > MAX_CELLS:
            raise self.fail(element, f"expected at most {MAX_CELLS} chunks in all buffers together")

    def _ranges(self, element: etree._Element, letter: str) -> tuple[range, ...]:
        """Return the chunks of a buffer: rising ranges that do not touch."""
        found: list[range] = []
        for word in element.get(letter, "").split():
            match = re.fullmatch(r"([0-9]{1,15})-([0-9]{1,15})", word, re.ASCII)
            after = found[-1].stop if found else -1
            if not match or not after < int(match[1]) <= int(match[2]):
                raise self.fail(element, f"{letter}: {word[:40]!r}: expected rising ranges such as 0-3 8-11")
            found.append(range(int(match[1]), int(match[2]) + 1))
        self._count(element, sum(map(len, found)))
        return tuple(found)

    def _instruction(self, element: etree._Element, rank: int, n: int) -> Instruction:
        kind = str(element.tag)
        if kind not in _ATTRIBUTES:
            raise self.fail(element, f"is no instruction; expected one of {', '.join(_ATTRIBUTES)}")
        keys = _TO_SLOT if kind == "recv" and "slot" in element.attrib else _ATTRIBUTES[kind]
        values = Instruction(
            kind,
            line_of(element),
            peer=self.number(element, "peer", 0, n - 1) if "peer" in keys else -1,
            buffer=self.choice(element, "buf", _BUFFERS, "") if "buf" in keys else "",
            target=self.choice(element, "dbuf", _BUFFERS, "") if "dbuf" in keys else "",
            slot=self.number(element, "slot", 0, MAX_CELLS) if "slot" in keys else -1,
            chunk=self.number(element, "chunk", 0, 2**60) if "chunk" in keys else -1,
            count=self.number(element, "cnt", 1, MAX_CELLS) if "cnt" in keys else 0,
        )
        if values.peer == rank:
            raise self.fail(element, "names its own rank as the peer")
        return values
