"""Reads algorithms of TACCL and SCCL: JSON objects with steps of sends.

A chunk has the ranks that hold it first (`pre`), the ranks that must receive it (`post`) and an address;
chunks of one address are contributions to one sum. A send is [address, source, target]; TACCL appends a time
and a link, and for reductions the name of the operation. The collective is inferred from the chunks.
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
"""Most chunks, and most ranks that hold chunks before and after."""


@dataclass(frozen=True)
class TacclPart:
    """A chunk: the ranks that hold it before and after, and its address."""

    before: frozenset[int]
    after: frozenset[int]
    address: int


@dataclass(frozen=True)
class TacclSend:
    """A send of the entire content at an address; `reduces` is None if the file does not say."""

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
    """Read an algorithm; FormatError if it is malformed, hostile, or not one of the six collectives."""
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
    """Reader of checked members of objects."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, message: str) -> FormatError:
        return FormatError(message, source=self.source)

    def member(self, value: Any, key: str, kind: type, where: str) -> Any:
        found = value.get(key) if isinstance(value, dict) else None
        if not isinstance(found, kind):
            raise self.fail(f"{where}: {key}: expected a {kind.__name__}")
        return found

    def number(self, value: Any, low: int, high: int, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.fail(f"{where}: {str(value)[:30]}: expected an integer from {low} to {high}")
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
            raise self.fail(f"{where}: {str(value)[:60]}: expected [address, source, target, ...]")
        address = self.number(value[0], 0, 2**31, where)
        tail, head = (self.number(end, 0, n - 1, where) for end in value[1:3])
        if address not in addresses or tail == head:
            raise self.fail(f"{where}: {str(value)[:60]}: no chunk has that address, or the ends are one")
        reduces = None if len(value) < 6 else isinstance(value[5], str) and value[5].startswith("rr")
        return TacclSend(step, address, tail, head, reduces)


def _collective(parts: list[TacclPart], n: int, source: str) -> tuple[str, int]:
    """Infer kind and root from the ranks that hold the chunks before and after."""
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
            "the chunks begin and end as in no supported collective (allgather, reduce-scatter, "
            "allreduce, broadcast, reduce, all-to-all)",
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


def _even(owners: list[Any], wanted: int, kind: str, rooted: str = "") -> tuple[str, int] | None:
    """Return `kind` if `wanted` ranks, or pairs, own equally many chunks; `rooted` if one owns all."""
    counts = Counter(owners)
    if rooted and len(counts) == 1:
        return rooted, min(owners[0])
    return (kind, -1) if len(counts) == wanted and len(set(counts.values())) == 1 else None
