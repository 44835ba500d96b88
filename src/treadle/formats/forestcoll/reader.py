"""ForestColl's tree XML as its public code writes it: a `tree` of `send`s for each root and index.

`Algo` says how many chunks each node's shard is cut into, `tree` how many of them take it and how high it is,
`send` its ends and the nodes of its path, with commas between; names may be Python tuples, commas and all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded
from treadle.formats.xml_elements import Attributes, line_of, parse_xml

MAX_TEXT = 256 * 2**20
"""Largest text read, characters."""
MAX_SENDS = 2 * 10**6
MAX_CHUNKS = 2**40
"""Most chunks of a shard."""
MAX_NAME = 200
_MOST_HOPS = 64
_PART = re.compile(r"[^,()\[\]'\"]+|\([^()]*\)|\[[^\[\]]*\]|'[^']*'|\"[^\"]*\"|.", re.DOTALL)


@dataclass(frozen=True)
class ForestcollSend:
    """From a node to a node, over the nodes between."""

    tail: str
    head: str
    between: tuple[str, ...]


@dataclass(frozen=True)
class ForestcollTree:
    """Chunks that take one tree, and its sends in the file's order."""

    root: str
    index: int
    chunks: int
    height: int
    sends: tuple[ForestcollSend, ...]
    line: int


@dataclass(frozen=True)
class ForestcollFile:
    """Trees as written, and chunks per node."""

    chunks_per_node: int
    trees: tuple[ForestcollTree, ...]

    def nodes(self) -> tuple[str, ...]:
        """Names of all that send, receive or are roots, numbers in them by value."""
        names = {tree.root for tree in self.trees}
        names |= {name for tree in self.trees for send in tree.sends for name in (send.tail, send.head)}
        return tuple(sorted(names, key=_by_numbers))


def _by_numbers(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that puts gpu2 before gpu10."""
    parts = re.findall(r"\d{1,18}|\D+|\d+", name)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


def read(data: bytes, terms: Terms) -> ForestcollFile:
    """Read trees."""
    return parse_forestcoll_xml(*decoded(data, terms, "ForestColl's XML"))


def parse_forestcoll_xml(text: str, source: str) -> ForestcollFile:
    """Read trees; FormatError if the text is malformed or hostile."""
    root = parse_xml(text, source, MAX_TEXT, remove_pis=True)
    if root.tag != "Algo":
        raise FormatError(f"<{str(root.tag)[:40]}>: expected <Algo>", source=source)
    read = _Attributes(source)
    per_node = read.number(root, "nchunkspernode", 1, MAX_CHUNKS)
    trees, sends = [], 0
    for element in root:
        if element.tag != "tree":
            raise read.fail(element, "expected <tree>")
        trees.append(_tree(read, element))
        sends += len(trees[-1].sends)
        if sends > MAX_SENDS:
            raise FormatError(f"more than {MAX_SENDS} sends", source=source)
    if not trees:
        raise FormatError("no trees", source=source)
    return ForestcollFile(per_node, tuple(trees))


class _Attributes(Attributes):
    """Attributes of elements without spaces at their ends, each required."""

    def name(self, element: etree._Element, key: str, most: int = MAX_NAME) -> str:
        value = element.get(key)
        if not value or len(value) > most:
            raise self.fail(element, f"{key}: expected 1 to {most} characters")
        return str(value).strip()

    def number(self, element: etree._Element, key: str, low: int, high: int) -> int:
        value = self.name(element, key)
        if not re.fullmatch(r"[0-9]{1,15}", value, re.ASCII) or not low <= int(value) <= high:
            raise self.fail(element, f"{key}={value[:40]!r}: expected an integer from {low} to {high}")
        return int(value)


def _tree(read: _Attributes, element: etree._Element) -> ForestcollTree:
    sends = []
    for child in element:
        if child.tag != "send":
            raise read.fail(child, "expected <send>")
        tail, head = read.name(child, "src"), read.name(child, "dst")
        path = read.name(child, "path", MAX_NAME * _MOST_HOPS)
        names = _split(path)
        if not 2 <= len(names) <= _MOST_HOPS or (names[0], names[-1]) != (tail, head):
            raise read.fail(child, f"path={path[:60]!r}: expected nodes from {tail[:40]} to {head[:40]}")
        sends.append(ForestcollSend(tail, head, names[1:-1]))
    return ForestcollTree(
        read.name(element, "root"),
        read.number(element, "index", 0, MAX_CHUNKS),
        read.number(element, "nchunks", 1, MAX_CHUNKS),
        read.number(element, "height", 0, 4096),
        tuple(sends),
        line_of(element),
    )


def _split(path: str) -> tuple[str, ...]:
    """Names between commas that stand in no brackets and quotes."""
    found = [""]
    for match in _PART.finditer(path):
        if match[0] == ",":
            found.append("")
        else:
            found[-1] += match[0]
    return tuple(name.strip() for name in found)
