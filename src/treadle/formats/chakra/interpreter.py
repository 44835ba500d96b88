"""Reads Chakra execution traces and plays them.

Shares nothing with the writer but the schema.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treadle.errors import FormatError
from treadle.formats.chakra.schema import decode_error, schema
from treadle.formats.verdict import Check, Terms, Verdict

MAX_BYTES = 2**30
"""Largest trace of a rank."""
_MAX_MESSAGE = 2**24
_MAX_NODES = 10**7
_KINDS = {4: "COMP", 5: "SEND", 6: "RECEIVE"}
_SIZE = {"tensor_size": "int64_val"}
_MESSAGE = {
    **dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), "int32_val"),
    "comm_size": "int64_val",
}
"""Attributes of messages, and where their values are."""


@dataclass(frozen=True)
class TraceNode:
    """A node as written."""

    number: int
    kind: str
    waits: tuple[int, ...]
    size: int
    source: int = -1
    target: int = -1
    tag: int = -1


@dataclass(frozen=True)
class TraceInterpretation:
    """What playing the traces showed.

    Parameters
    ----------
    n_ranks, n_nodes, n_messages : int
    bytes_between : dict
        From (sender, receiver) to the bytes sent.
    violations : tuple of str
        Nodes that never start, messages without a counterpart or of two sizes, unknown dependences.
    """

    n_ranks: int
    n_nodes: int
    n_messages: int
    bytes_between: dict[tuple[int, int], int]
    violations: tuple[str, ...]


def read(data: bytes, terms: Terms) -> list[TraceNode]:
    """One rank's trace."""
    return parse_chakra(data, source=terms.source or "Chakra trace")


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Play the traces of all ranks; read that of one, whose messages have no other end.

    Raises
    ------
    FormatError
        If a trace is malformed or hostile, or protobuf cannot read it.
    """
    if terms.rank is not None:
        counts = (("node", len(read(files[0], terms))),)
        return Verdict(Check.PARSED, (), counts, 1, detail=f", rank {terms.rank} alone", is_part=True)
    seen = interpret_chakra(files, source=terms.source or "Chakra trace")
    return Verdict(
        Check.EXECUTED,
        seen.violations,
        (("node", seen.n_nodes), ("message", seen.n_messages), ("file", seen.n_ranks)),
        seen.n_ranks,
        detail=": dependences, messages and bytes, no data",
    )


def interpret_chakra(traces: Sequence[bytes], *, source: str = "Chakra trace") -> TraceInterpretation:
    """Play the traces of all ranks: nodes start when what they wait for is over, receives after their sends.

    Raises
    ------
    FormatError
        If a trace is malformed or hostile, or protobuf cannot read it.
    """
    ranks = [parse_chakra(data, source=f"{source} of rank {rank}") for rank, data in enumerate(traces)]
    violations: list[str] = []
    sent: Counter[tuple[int, int, int, int]] = Counter()
    taken: Counter[tuple[int, int, int, int]] = Counter()
    between: Counter[tuple[int, int]] = Counter()
    for rank, nodes in enumerate(ranks):
        for node in nodes:
            if node.kind == "COMP":
                continue
            mine = node.source if node.kind == "SEND" else node.target
            if mine != rank or not 0 <= node.source + node.target < 2 * len(ranks):
                violations.append(
                    f"rank {rank}: node {node.number} is between {node.source} and {node.target}"
                )
            message = (node.source, node.target, node.tag, node.size)
            (sent if node.kind == "SEND" else taken)[message] += 1
            if node.kind == "SEND":
                between[node.source, node.target] += node.size
    for message, count in ((sent - taken) + (taken - sent)).items():
        violations.append(f"message {message[:3]} of {message[3]} bytes: {count} without a counterpart")
    if any(count > 1 for count in sent.values()):
        violations.append("a tag is used twice between two ranks")
    if not violations:
        violations += _play(ranks)
    return TraceInterpretation(
        n_ranks=len(ranks),
        n_nodes=sum(map(len, ranks)),
        n_messages=sent.total(),
        bytes_between=dict(between),
        violations=tuple(violations[:100]),
    )


def _play(ranks: list[list[TraceNode]]) -> list[str]:
    """Nodes that never start."""
    after: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    """Places of the nodes that wait for (rank, number), or for a message under (-1, its place in `sent`)."""
    sent: dict[tuple[int, int, int], int] = {}
    blocked = [[len(set(node.waits)) + (node.kind == "RECEIVE") for node in nodes] for nodes in ranks]
    for rank, nodes in enumerate(ranks):
        for place, node in enumerate(nodes):
            for wait in set(node.waits):
                after[rank, wait].append((rank, place))
            if node.kind == "RECEIVE":
                key = sent.setdefault((node.source, node.target, node.tag), len(sent))
                after[-1, key].append((rank, place))
    ready = [
        (rank, place) for rank, row in enumerate(blocked) for place, count in enumerate(row) if not count
    ]
    for rank, place in ready:
        node = ranks[rank][place]
        following = after.pop((rank, node.number), [])
        if node.kind == "SEND":
            following += after.pop((-1, sent.get((node.source, node.target, node.tag), -1)), [])
        for other, at in following:
            blocked[other][at] -= 1
            if not blocked[other][at]:
                ready.append((other, at))
    first = [next((place for place, count in enumerate(counts) if count), None) for counts in blocked]
    return [
        f"rank {rank}: node {ranks[rank][place].number} never starts"
        for rank, place in enumerate(first)
        if place is not None
    ]


def parse_chakra(data: bytes, *, source: str = "Chakra trace") -> list[TraceNode]:
    """Read one rank's trace."""
    if len(data) > MAX_BYTES:
        raise FormatError(f"{len(data)} bytes, expected at most {MAX_BYTES}", source=source)
    classes = schema()
    messages = _messages(data, source)
    if not messages:
        raise FormatError("empty, expected metadata first", source=source)
    if not _read(classes["GlobalMetadata"], messages[0], source).version:
        raise FormatError("no version in the metadata", source=source)
    nodes: list[TraceNode] = []
    known: set[int] = set()
    for place, message in enumerate(messages[1:]):
        node = _read(classes["Node"], message, source)
        if node.type not in _KINDS:
            raise FormatError(f"node {place}: type {node.type} is not known here", source=source)
        if node.id in known:
            raise FormatError(f"node {place}: number {node.id} is used twice", source=source)
        known.add(node.id)
        values = {attribute.name: attribute for attribute in node.attr}
        what = _KINDS[node.type]
        keys = _SIZE if what == "COMP" else _MESSAGE
        numbers = []
        for key, field in keys.items():
            if key not in values:
                raise FormatError(f"node {place}: lacks {key}", source=source)
            numbers.append(int(getattr(values[key], field)))
            if numbers[-1] < 0:
                raise FormatError(f"node {place}: {key}={numbers[-1]}: expected at least 0", source=source)
        *ends, size = numbers
        nodes.append(TraceNode(node.id, what, (*node.data_deps, *node.ctrl_deps), size, *ends))
    return nodes


def _read(kind: Any, data: bytes, source: str) -> Any:
    try:
        return kind.FromString(data)
    except decode_error() as error:
        raise FormatError(f"no {kind.DESCRIPTOR.name} ({error})", source=source) from None


def _messages(data: bytes, source: str) -> list[bytes]:
    """The messages of a length-delimited stream."""
    found: list[bytes] = []
    place = 0
    while place < len(data):
        length, shift = 0, 0
        while True:
            if place >= len(data) or shift > 28:
                raise FormatError(f"byte {place}: a length is cut off or too long", source=source)
            byte = data[place]
            length |= (byte & 127) << shift
            place, shift = place + 1, shift + 7
            if byte < 128:
                break
        if length > _MAX_MESSAGE or place + length > len(data):
            raise FormatError(f"byte {place}: a message of {length} bytes does not fit", source=source)
        if len(found) > _MAX_NODES:
            raise FormatError(f"more than {_MAX_NODES} messages", source=source)
        found.append(data[place : place + length])
        place += length
    return found
