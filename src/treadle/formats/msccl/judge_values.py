"""What a chunk of memory contains while a text is executed: whose contributions, and which of them twice."""

from __future__ import annotations

Value = tuple[tuple[int, int, int], ...]
"""Rising by chunk: (chunk, ranks that contributed, ranks that contributed twice or more), ranks as bit sets.

A result needs each contribution just once, so 0, 1 and "more" are all the counts that can matter; a sum keeps
"more" for ever. Nearly every value is about one chunk.
"""

EMPTY: Value = ()


def contribution(rank: int, chunk: int) -> Value:
    """A chunk as one rank brought it."""
    return ((chunk, 1 << rank, 0),)


def added(one: Value, other: Value) -> Value:
    """The sum of two values.

    Examples
    --------
    >>> added(contribution(0, 5), contribution(1, 5))
    ((5, 3, 0),)
    >>> added(contribution(0, 5), contribution(0, 5))
    ((5, 1, 1),)
    """
    if len(one) == len(other) == 1 and one[0][0] == other[0][0]:
        (chunk, here, many), (_, there, more) = one[0], other[0]
        return ((chunk, here | there, many | more | here & there),)
    total = {chunk: (ranks, many) for chunk, ranks, many in one}
    for chunk, ranks, many in other:
        here, more = total.get(chunk, (0, 0))
        total[chunk] = here | ranks, many | more | here & ranks
    return tuple((chunk, *total[chunk]) for chunk in sorted(total))


def difference(found: Value | None, wanted: Value) -> str:
    """How a value differs from the wanted one, which has no contribution twice."""
    if found is None:
        return "nothing was stored"
    has = {chunk: (ranks, many) for chunk, ranks, many in found}
    asked = {chunk: ranks for chunk, ranks, _ in wanted}
    missing = [
        (rank, chunk)
        for chunk, ranks in sorted(asked.items())
        for rank in _members(ranks & ~has.get(chunk, (0, 0))[0])
    ]
    extra = [
        (rank, chunk)
        for chunk, (ranks, many) in sorted(has.items())
        for rank in _members(ranks & ~asked.get(chunk, 0) | many)
    ]
    return (
        f"{len(missing)} contributions missing {missing[:2]}, {len(extra)} too many {extra[:2]} (rank, chunk)"
    )


def _members(ranks: int) -> list[int]:
    found = []
    while ranks:
        lowest = ranks & -ranks
        found.append(lowest.bit_length() - 1)
        ranks ^= lowest
    return found
