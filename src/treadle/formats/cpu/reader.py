"""CPU XML as values: reads what is well-formed, refuses the rest.

Shares no code with the writer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

from treadle.errors import FormatError

MAX_TEXT = 256 * 2**20
"""Largest text read, characters."""
MAX_RANKS = 2**20
"""Most ranks of a text."""
MAX_CELLS = 2**40
"""Largest number of chunks in all buffers together."""

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")
_ATTRIBUTES = {
    "send": ("peer", "buf", "chunk", "cnt"),
    "recv": ("peer", "chunk", "cnt"),
    "copy": ("buf", "dbuf", "chunk", "cnt"),
    "reduce": ("slot", "buf", "chunk", "cnt"),
    "sync": (),
}


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
