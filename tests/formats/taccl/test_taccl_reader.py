"""TACCL's algorithms read whole, refused on either side of each limit, and followed when they go wrong."""

from __future__ import annotations

from typing import Any

import pytest

from samples.foreign.foreign_files import Json, as_bytes, taccl
from treadle.formats.taccl.traffic import traffic
from treadle.formats.verdict import Terms
from treadle.program.program import OperationKind


def chunk(before: list[int], after: list[int], address: int) -> Json:
    """Where a chunk is, must get, and its address."""
    return {"pre": before, "post": after, "addr": address}


def pairs(n: int, *, times: int = 1, own: bool = True) -> list[Json]:
    """Chunks of an all-to-all of n, with or without what stays."""
    ends = [(one, other) for one in range(n) for other in range(n) if own or one != other]
    return [
        chunk([one], [other], place * times + turn)
        for place, (one, other) in enumerate(ends)
        for turn in range(times)
    ]


def shares(n: int, addresses: dict[int, list[int]]) -> list[Json]:
    """Contributions of n ranks to sums that some ranks must get."""
    return [chunk([rank], after, address) for address, after in addresses.items() for rank in range(n)]


EVERYONE = [0, 1, 2]


def sent(sample: Json) -> list[tuple[int, ...]]:
    """(step, sender, receiver, chunk, whether it is added) of the messages of an algorithm."""
    program = traffic(as_bytes(sample), Terms()).program
    kinds = {OperationKind.RECEIVE: 0, OperationKind.RECEIVE_REDUCE: 1}
    columns = (program.operation_kind, program.step, program.peer, program.first)
    rows = [
        (rank, [int(column[place]) for column in columns])
        for rank in range(program.n_ranks)
        for place in program.operations(rank)
    ]
    return sorted(
        (step, peer, rank, first, kinds[OperationKind(kind)])
        for rank, (kind, step, peer, first) in rows
        if kind in kinds
    )


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_sent_in_a_step_was_there_before_it(order: int) -> None:
    """Rank 0's own is added at 1, also where 0 gets the sum of two in the same step, before or after it."""
    together = [[5, 2, 0, 0, 0, "rrc"], [5, 0, 1]][::order]
    steps: list[list[list[Any]]] = [[[5, 1, 2]], together]
    assert sent(taccl("x", 3, shares(3, {5: EVERYONE}), steps)) == [
        (0, 1, 2, 0, 1),
        (1, 0, 1, 0, 1),
        (1, 2, 0, 0, 1),
    ]


@pytest.mark.parametrize(
    ("chunks", "send", "offset", "first"),
    [
        # rank 1's addresses 1 and 8 are chunks 2 and 3
        ([chunk([place % 3], EVERYONE, (0, 8, 2, 5, 1, 4)[place]) for place in range(6)], [8, 1, 0], 2, 3),
        # of shard (2, 1), number 7 of nine
        (pairs(3, times=2), [15, 2, 1], 2, 15),
        # address 9 is that of rank 0's sum
        (shares(3, {4: [2], 9: [0], 1: [1]}), [9, 2, 0], 1, 0),
    ],
)
def test_chunks_have_the_place_of_their_shard(
    chunks: list[Json], send: list[int], offset: int, first: int
) -> None:
    sample = taccl("x", 3, chunks, [[send]])
    program = traffic(as_bytes(sample), Terms()).program
    assert np_list(program.shard_offset) == list(range(0, offset * len(program.shard_offset), offset))
    assert program.n_chunks == 3 * offset
    assert [one[3] for one in sent(sample)] == [first]


def np_list(values: Any) -> list[int]:
    """Plain integers."""
    return [int(value) for value in values]


def test_shards_of_sums_are_even_and_a_roots_are_its_own() -> None:
    """Four chunks of three ranks begin at 0, 4/3, 8/3; those of a root's follow on all before it."""
    sums = {8: EVERYONE, 5: EVERYONE, 6: EVERYONE, 2: EVERYONE}
    even = traffic(as_bytes(taccl("x", 3, shares(3, sums), [])), Terms()).program
    assert (even.n_chunks, np_list(even.shard_offset), even.root) == (4, [0, 1, 2, 4], -1)
    to_one = traffic(as_bytes(taccl("x", 3, shares(3, {8: [1], 5: [1]}), [])), Terms()).program
    assert (to_one.n_chunks, np_list(to_one.shard_offset), to_one.root) == (2, [0, 0, 2, 2], 1)
