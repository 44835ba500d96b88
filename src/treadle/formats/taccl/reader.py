"""Algorithms of TACCL and SCCL: JSON objects that say their type, with steps of sends.

A chunk has ranks where it is at first (`pre`), ranks where it must get (`post`) and an address; chunks of one
address are contributions to one sum. A send is [address, source, target], with a time and a link after these
in TACCL's, and the word of a reduction in its reducing ones. What the collective is follows from the chunks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded
from treadle.input_files import parse_json

MAX_TEXT = 128 * 2**20
"""Largest text read, characters."""
MAX_SENDS = 10**6
MAX_CHUNKS = 2**22
"""Most chunks, and most places of chunks before and after."""


@dataclass(frozen=True)
class TacclPart:
    """A chunk: where it is, where it must get, and its address."""

    before: frozenset[int]
    after: frozenset[int]
    address: int


@dataclass(frozen=True)
class TacclSend:
    """A send of all that a rank has at an address; `reduces`: None where the file does not say."""

    step: int
    address: int
    tail: int
    head: int
    reduces: bool | None


@dataclass(frozen=True)
class TacclFile:
    """An algorithm as written."""

    name: str
    kind: str
    root: int
    n_ranks: int
    parts: tuple[TacclPart, ...]
    sends: tuple[TacclSend, ...]


def read(data: bytes, terms: Terms) -> TacclFile:
    """Read an algorithm."""
    return parse_taccl_json(*decoded(data, terms, "TACCL algorithm"))


def parse_taccl_json(text: str, source: str) -> TacclFile:
    """Read an algorithm; FormatError if it is malformed, hostile, or no collective that is known here."""
    if len(text) > MAX_TEXT:
        raise FormatError(f"{len(text)} characters, expected at most {MAX_TEXT}", source=source)
    read = _Members(source)
    top = parse_json(text, source=source)
    if read.member(top, "sccl_type", str, "file") != "algorithm":
        raise FormatError(f"sccl_type {top['sccl_type'][:40]!r}: expected 'algorithm'", source=source)
    collective = read.member(top, "collective", dict, "file")
    n = read.number(collective.get("nodes"), 2, 4096, "collective: nodes")
    chunks = read.member(collective, "chunks", list, "collective")
    if not 1 <= len(chunks) <= MAX_CHUNKS:
        raise FormatError(f"{len(chunks)} chunks, expected 1 to {MAX_CHUNKS}", source=source)
    parts, places = [], 0
    for number, chunk in enumerate(chunks):
        part = read.part(chunk, n, f"chunk {number}")
        places += len(part.before) + len(part.after)
        if places > MAX_CHUNKS:
            raise FormatError(f"more than {MAX_CHUNKS} places of chunks", source=source)
        parts.append(part)
    addresses = {part.address for part in parts}
    sends: list[TacclSend] = []
    for number, step in enumerate(read.member(top, "steps", list, "file")):
        for send in read.member(step, "sends", list, f"step {number}"):
            sends.append(read.send(send, number, n, addresses))
            if len(sends) > MAX_SENDS:
                raise FormatError(f"more than {MAX_SENDS} sends", source=source)
    kind, root = _collective(parts, n, source)
    return TacclFile(str(top.get("name", ""))[:200], kind, root, n, tuple(parts), tuple(sends))


class _Members:
    """Members of objects, each checked."""

    def __init__(self, source: str) -> None:
        self.source = source

    def member(self, value: Any, key: str, kind: type, where: str) -> Any:
        found = value.get(key) if isinstance(value, dict) else None
        if not isinstance(found, kind):
            raise FormatError(f"{where}: {key}: expected a {kind.__name__}", source=self.source)
        return found

    def number(self, value: Any, low: int, high: int, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise FormatError(
                f"{where}: {str(value)[:30]}: expected an integer from {low} to {high}", source=self.source
            )
        return value

    def part(self, value: Any, n: int, where: str) -> TacclPart:
        before, after = (
            frozenset(self.number(rank, 0, n - 1, where) for rank in self.member(value, key, list, where))
            for key in ("pre", "post")
        )
        return TacclPart(before, after, self.number(value.get("addr"), 0, 2**31, where))

    def send(self, value: Any, step: int, n: int, addresses: set[int]) -> TacclSend:
        where = f"step {step}"
        if not isinstance(value, list) or not 3 <= len(value) <= 6:
            message = f"{where}: {str(value)[:60]}: expected [address, source, target, ...]"
            raise FormatError(message, source=self.source)
        address = self.number(value[0], 0, 2**31, where)
        tail, head = (self.number(end, 0, n - 1, where) for end in value[1:3])
        if address not in addresses or tail == head:
            message = f"{where}: {str(value)[:60]}: no chunk has that address, or the ends are one"
            raise FormatError(message, source=self.source)
        reduces = None if len(value) < 6 else isinstance(value[5], str) and value[5].startswith("rr")
        return TacclSend(step, address, tail, head, reduces)


def _collective(parts: list[TacclPart], n: int, source: str) -> tuple[str, int]:
    """Kind and root, from where chunks are and must get."""
    ranks = {frozenset({rank}) for rank in range(n)}
    by_address: dict[int, list[TacclPart]] = defaultdict(list)
    for part in parts:
        by_address[part.address].append(part)
    found = None
    if all(len(part.before) == 1 for part in parts):
        if len(by_address) == len(parts):
            found = _spreading(parts, n)
        elif all(len(same) == n and {one.before for one in same} == ranks for same in by_address.values()):
            found = _summing(by_address, n)
    if found is None:
        raise FormatError(
            "its chunks begin and end as in no collective that is known here (allgather, reduce-scatter, "
            "allreduce, broadcast, reduce, alltoall)",
            source=source,
        )
    return found


def _spreading(parts: list[TacclPart], n: int) -> tuple[str, int] | None:
    if all(len(part.after) == n for part in parts):
        return _even([part.before for part in parts], n, "allgather", "broadcast")
    if all(len(part.after) == 1 for part in parts):
        pairs = [(part.before, part.after) for part in parts if part.before != part.after]
        return _even(pairs, n * (n - 1), "alltoall")
    return None


def _summing(by_address: dict[int, list[TacclPart]], n: int) -> tuple[str, int] | None:
    afters = [{part.after for part in same} for same in by_address.values()]
    if all(len(after) == n for found in afters for after in found):
        return "allreduce", -1
    if any(len(found) != 1 or len(next(iter(found))) != 1 for found in afters):
        return None
    return _even([next(iter(found)) for found in afters], n, "reduce-scatter", "reduce")


def _even(homes: list[Any], wanted: int, kind: str, rooted: str = "") -> tuple[str, int] | None:
    """The kind if so many ranks, or pairs, have as many chunks each; the rooted one if one has all."""
    counts = Counter(homes)
    if rooted and len(counts) == 1:
        return rooted, min(homes[0])
    return (kind, -1) if len(counts) == wanted and len(set(counts.values())) == 1 else None
