"""Which operations of a rank wait for which, against the reads and writes of each pair."""

from __future__ import annotations

from random import Random

import pytest

from treadle.program.hazards import Row, find_waits
from treadle.program.operation_lists import Buffer, OperationKind

SEND, RECEIVE, ADD, COPY = OperationKind


def touched(row: Row, *, in_place: bool) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Memory and chunks that an operation reads, and those that it writes."""
    kind, first, count, _, source, target, *_ = row
    memory = [0, 0 if in_place else 1, 2]
    chunks = range(first, first + count)
    reads = set() if kind == RECEIVE else {(memory[source], chunk) for chunk in chunks}
    writes = set() if kind == SEND else {(memory[target], chunk) for chunk in chunks}
    return reads, writes


def drawn(seed: int) -> list[Row]:
    """Fourteen operations on three chunks."""
    draw = Random(seed)
    rows: list[Row] = []
    for step in range(14):
        kind = draw.choice((SEND, RECEIVE, ADD, COPY))
        first = draw.randrange(3)
        source, target = draw.choice(tuple(Buffer)), draw.choice(tuple(Buffer))
        rows.append((kind, first, draw.randint(1, 3 - first), 1, source, target, 0, step, 0))
    return rows


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_every_pair_that_meets_is_ordered(seed: int, in_place: bool) -> None:
    """Whoever writes what an earlier one touches, or reads what it writes, comes after it by some waits."""
    rows = drawn(seed)
    waits = find_waits(rows, in_place=in_place, reduces=True)
    before: list[set[int]] = []
    for found in waits:
        before.append(set(found).union(*(before[one] for one in found)))
    for later, earlier in ((b, a) for b in range(len(rows)) for a in range(b)):
        (reads, writes), (reads_before, writes_before) = (
            touched(rows[one], in_place=in_place) for one in (later, earlier)
        )
        if writes & (reads_before | writes_before) or reads & writes_before:
            assert earlier in before[later], (rows[earlier], rows[later])


@pytest.mark.parametrize("seed", range(5))
def test_how_many_chunks_there_are_does_not_matter(seed: int) -> None:
    """Each of the three chunks becomes many, beginning at numbers that no table has in their order."""
    begin, rows = (6, 9, 16, 10**6), drawn(seed)
    wide = [
        (kind, begin[first], begin[first + count] - begin[first], *rest) for kind, first, count, *rest in rows
    ]
    for in_place in (False, True):
        assert find_waits(wide, in_place=in_place, reduces=True) == find_waits(
            rows, in_place=in_place, reduces=True
        )
