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
    sends = read.sends(read.member(top, "steps", list, "file"), n, {part.address for part in parts})
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

    def sends(self, steps: list[Any], n: int, addresses: set[int]) -> list[TacclSend]:
        found: list[TacclSend] = []
        for number, step in enumerate(steps):
            for send in self.member(step, "sends", list, f"step {number}"):
                if not isinstance(send, list) or not 3 <= len(send) <= 6:
                    raise FormatError(
                        f"step {number}: {str(send)[:60]}: expected [address, source, target, ...]",
                        source=self.source,
                    )
                where = f"step {number}"
                address = self.number(send[0], 0, 2**31, where)
                tail, head = (self.number(end, 0, n - 1, where) for end in send[1:3])
                if address not in addresses or tail == head:
                    raise FormatError(
                        f"{where}: {str(send)[:60]}: no chunk has that address, or the ends are one",
                        source=self.source,
                    )
                reduces = None if len(send) < 6 else isinstance(send[5], str) and send[5].startswith("rr")
                found.append(TacclSend(number, address, tail, head, reduces))
                if len(found) > MAX_SENDS:
                    raise FormatError(f"more than {MAX_SENDS} sends", source=self.source)
        return found


def _collective(parts: list[TacclPart], n: int, source: str) -> tuple[str, int]:
    """Kind and root, from where chunks are and must get."""
    everyone = frozenset(range(n))
    by_address: dict[int, list[TacclPart]] = defaultdict(list)
    for part in parts:
        by_address[part.address].append(part)
    afters = {part.after for part in parts}
    if all(len(part.before) == 1 for part in parts):
        if len(by_address) == len(parts):
            found = _spreading(parts, everyone)
        elif all({one.before for one in same} == {frozenset({r}) for r in everyone} and len(same) == n
                 for same in by_address.values()):  # fmt: skip
            found = _summing(by_address, afters, everyone)
        else:
            found = None
        if found is not None:
            return found
    raise FormatError(
        "its chunks begin and end as in no collective that is known here (allgather, reduce-scatter, "
        "allreduce, broadcast, reduce, alltoall)",
        source=source,
    )


def _spreading(parts: list[TacclPart], everyone: frozenset[int]) -> tuple[str, int] | None:
    homes = Counter(next(iter(part.before)) for part in parts)
    if all(part.after == everyone for part in parts):
        if len(homes) == 1:
            return "broadcast", next(iter(homes))
        return ("allgather", -1) if _is_even(homes, len(everyone)) else None
    if all(len(part.after) == 1 for part in parts):
        pairs = Counter(
            (one, other)
            for one, other in ((next(iter(part.before)), next(iter(part.after))) for part in parts)
            if one != other
        )
        n = len(everyone)
        return ("alltoall", -1) if _is_even(pairs, n * (n - 1)) else None
    return None


def _summing(
    by_address: dict[int, list[TacclPart]], afters: set[frozenset[int]], everyone: frozenset[int]
) -> tuple[str, int] | None:
    if afters == {everyone}:
        return "allreduce", -1
    if any(len({one.after for one in same}) != 1 for same in by_address.values()):
        return None
    if any(len(after) != 1 for after in afters):
        return None
    homes = Counter(next(iter(same[0].after)) for same in by_address.values())
    if len(homes) == 1:
        return "reduce", next(iter(homes))
    return ("reduce-scatter", -1) if _is_even(homes, len(everyone)) else None


def _is_even(counts: Counter[Any], wanted: int) -> bool:
    return len(counts) == wanted and len(set(counts.values())) == 1
