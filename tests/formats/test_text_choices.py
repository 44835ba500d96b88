"""Which sizes texts serve, and what options, names and shares are refused, at their limits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from treadle import parse
from treadle.errors import FormatError, ScheduleError
from treadle.formats.file_arguments import (
    MOST_CHUNKS,
    check_chunk_count,
    check_equal_shards,
    check_heading,
    has_equal_shards,
)
from treadle.formats.file_options import FileOptions, check_chunks, check_protocol, given_options, spelt
from treadle.formats.mscclpp.switch_channels import check_allocation
from treadle.formats.request import Given
from treadle.formats.selection.chunk_counts import _busy_time, parts_of
from treadle.formats.selection.supported_sizes import (
    SIZES,
    FileFacts,
    Selector,
    SupportedSizes,
    call_elements,
    round_sizes,
    supported_call_sizes,
    supported_sizes,
    supports_call,
)
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.schedules.collective import CollectiveKind

SUM, GATHER, SEND = CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER, CollectiveKind.BROADCAST


@pytest.mark.parametrize(
    ("kind", "size", "element", "elements"),
    [
        (SUM, 1027, 4, 256),
        (SUM, 3, 4, 0),
        (GATHER, 1027, 4, 252),  # 85 of each of three, rounded down to 84
        (GATHER, 1027, 2, 504),  # 171 of each, to 168
        (GATHER, 1027, 32, 30),
        (GATHER, 48, 4, 12),
        (GATHER, 47, 4, 0),
        (CollectiveKind.REDUCE_SCATTER, 1027, 4, 252),
        (CollectiveKind.ALLTOALL, 1027, 4, 252),
        (CollectiveKind.REDUCE, 1027, 4, 256),
    ],
)
def test_elements_of_a_call(kind: CollectiveKind, size: int, element: int, elements: int) -> None:
    assert call_elements(FileFacts(kind, 3, 6), size, element) == elements


@pytest.mark.parametrize(
    ("kind", "chunks", "sizes"),
    [
        # 12 and 24 elements of four bytes, of three ranks; one rank's are 4 and 8; 48 and 96 bytes
        (GATHER, 6, {"azure": [48, 96], "scheduler": [], "legacy": [48, 96], "rccl": [48, 96], "pp": [96]}),
        (GATHER, 8, {"azure": [96], "scheduler": [96], "legacy": [48, 96], "rccl": [96], "pp": []}),
        (GATHER, 48, {"azure": [], "scheduler": [], "legacy": [48, 96], "rccl": [], "pp": []}),
        (SUM, 8, {"azure": [96], "scheduler": [96], "legacy": [96], "rccl": [96], "pp": []}),
        (SEND, 48, {"azure": [], "scheduler": [], "legacy": [48, 96], "rccl": [], "pp": []}),
        (
            SEND,
            3,
            {"azure": [48, 96], "scheduler": [48, 96], "legacy": [48, 96], "rccl": [48, 96], "pp": [48, 96]},
        ),
    ],
)
def test_selectors_compare_what_they_compare(
    kind: CollectiveKind, chunks: int, sizes: dict[str, list[int]]
) -> None:
    names = dict(zip(("azure", "scheduler", "legacy", "rccl", "pp"), Selector, strict=True))
    facts = FileFacts(kind, 3, chunks)
    found = {name: list(supported_call_sizes(facts, selector, (48, 96))) for name, selector in names.items()}
    assert found == sizes


def test_sizes_beyond_a_texts_range_are_not_served() -> None:
    facts = FileFacts(SUM, 2, 1, min_bytes=64, max_bytes=128)
    assert [size for size in (60, 63, 64, 128, 131, 132) if supports_call(facts, Selector.RCCL, size)] == [
        64,
        128,
        131,
    ]
    assert supports_call(FileFacts(SUM, 2, 1, min_bytes=64), Selector.RCCL, 2**40)
    assert not supports_call(FileFacts(SUM, 2, 1), Selector.RCCL, 3)


@pytest.mark.parametrize(
    ("low", "high", "sizes"),
    [
        (2**20, 2**22, (2**20, 2**21, 2**22)),
        (2**20, 2**22 - 1, (2**20, 3 * 2**19, 2**21, 3 * 2**20)),
        (2**20 + 1, 2**22, (3 * 2**19, 2**21, 3 * 2**20, 2**22)),
        (0, 1024, (1024,)),
        (0, 1023, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
        (0, 3, (1, 2, 3)),
        (7, 7, (7,)),
        (2**29, 0, (2**29, 2**30, 2**31)),
        (2**28, 0, (2**28, 2**29, 2**30)),
        (2**31, 0, (2**31, 2**32, 2**33)),
    ],
)
def test_the_roundest_sizes_of_a_range(low: int, high: int, sizes: tuple[int, ...]) -> None:
    """Powers of two from 1 KB to 1 GB; fewer than three are filled up with all, then odd numbers of them."""
    assert round_sizes(low, high) == sizes


def test_what_is_served_in_words() -> None:
    assert (SIZES[0], SIZES[-1], len(SIZES)) == (1024, 1073741824, 21)
    some = SupportedSizes(Selector.RCCL, (1024, 4096), "r", (1024, 2048, 4096))
    assert some.summary == "2 of the 3 powers of two from 1KB to 4KB of float32: 1KB, 4KB"
    late = SupportedSizes(Selector.RCCL, (2048, 4096), "r", (1024, 2048, 4096))
    assert late.summary == "2 of the 3 powers of two from 1KB to 4KB of float32: all from 2KB"
    odd = SupportedSizes(Selector.RCCL, (), "r", (1024, 1536))
    assert odd.summary == "none of the 2 round sizes from 1KB to 1.5KB of float32"
    assert SupportedSizes(Selector.RCCL, (), "r", ()).summary == "no size of float32"
    rules = [
        supported_sizes(FileFacts(kind, 2, 6), selector).rule
        for kind in (GATHER, SUM, SEND)
        for selector in Selector
    ]
    elements, counts = "buffers of a number of elements that 6 divides", "counts of a rank that 6 divides"
    whole, sixteens = "buffers of a number of bytes that 6 divides", "buffers of a multiple of 96 bytes"
    assert rules == [
        *(elements, counts, whole, elements, sixteens),
        *(elements, elements, elements, elements, sixteens),
        *(elements, elements, whole, elements, sixteens),
    ]
    found = supported_sizes(FileFacts(SUM, 2, 3, 1500, 2000), Selector.AZURE)
    assert (found.asked, found.sizes) == ((1536, 1664, 1792), (1536,))


def nothing(kind: CollectiveKind, *offsets: int, **more: Any) -> Program:
    """A program without operations."""
    n = 2 if kind is CollectiveKind.ALLTOALL else len(offsets) - 1
    return program_from_operations(kind, [[]] * n, n_chunks=offsets[-1], shard_offset=offsets, **more)


def test_shards_are_equal_where_there_are_any() -> None:
    for kind in (GATHER, CollectiveKind.REDUCE_SCATTER):
        assert has_equal_shards(nothing(kind, 0, 2, 4, 6))
        assert not has_equal_shards(nothing(kind, 0, 2, 4, 7))
        with pytest.raises(
            ScheduleError, match=rf"X: {kind} with unequal shards \(1 to 3 chunks\) cannot be"
        ):
            check_equal_shards("X", nothing(kind, 0, 1, 4, 6))
        check_equal_shards("X", nothing(kind, 0, 2, 4, 6))
    assert not has_equal_shards(nothing(CollectiveKind.ALLTOALL, 0, 1, 2, 3, 5))
    assert has_equal_shards(nothing(SUM, 0, 1, 4, 6))
    check_equal_shards("X", nothing(SUM, 0, 1, 4, 6))


@pytest.mark.parametrize(
    ("name", "low", "high", "message"),
    [
        ("a", 0, 0, ""),
        ("a" * 100, 5, 0, ""),
        ("a.B_-9", 7, 7, ""),
        ("", 0, 0, "X: name '': expected letters, digits and _.- only"),
        ("a" * 101, 0, 0, "expected letters"),
        ("a b", 0, 0, "X: name 'a b': expected letters"),
        ("a", -1, 0, "X: sizes -1 to 0 bytes are no range"),
        ("a", 0, -1, "X: sizes 0 to -1 bytes are no range"),
        ("a", 8, 7, "X: sizes 8 to 7 bytes are no range"),
    ],
)
def test_headings_at_their_limits(name: str, low: int, high: int, message: str) -> None:
    if not message:
        check_heading("X", name, low, high)
        return
    with pytest.raises(FormatError, match=message):
        check_heading("X", name, low, high)


def test_chunks_protocols_and_options() -> None:
    assert MOST_CHUNKS == 4000000
    check_chunk_count("X", 4000000, "y")
    with pytest.raises(
        ScheduleError, match="X: 4000001 chunks in all buffers together, expected at most 4000000; y"
    ):
        check_chunk_count("X", 4000001, "y")
    for chunks in ("auto", "plan", 1):
        check_chunks(chunks)
    for chunks in ("x", 0, 2**60):
        with pytest.raises(ScheduleError, match=f"--chunks {chunks}: expected auto, plan or 1 to "):
            check_chunks(chunks)
    for protocol in (None, "Simple", "LL", "LL128"):
        check_protocol(protocol)
    with pytest.raises(ScheduleError, match="--protocol ll: expected Simple, LL, LL128"):
        check_protocol("ll")
    assert given_options(FileOptions()) == ()
    changed = FileOptions(in_place=True, instances=2, size_bytes=1, consolidate=True, accept_any_root=True)
    assert given_options(changed) == ("in_place", "instances", "size_bytes", "consolidate", "accept_any_root")
    assert (FileOptions().channels, FileOptions().chunks, FileOptions().max_size_bytes) == (1, "auto", 0)
    assert [spelt(name) for name in ("min_size_bytes", "accept_any_root")] == [
        "--min-size",
        "--accept-any-root",
    ]


def asked(*counts: int) -> Given:
    """Ranks that ask for so many sums each."""
    sums = frozenset((rank, 10 * rank + chunk) for rank, count in enumerate(counts) for chunk in range(count))
    return Given(frozenset(), sums)


def test_one_rank_asks_for_no_more_sums_than_the_others() -> None:
    program = nothing(SUM, 0, 1, 2, 3, 4)
    check_allocation(program, asked())
    check_allocation(program, asked(3, 3, 3, 3))
    check_allocation(program, asked(2, 1, 1, 1))
    check_allocation(nothing(CollectiveKind.REDUCE_SCATTER, 0, 1, 2, 3, 4), asked(9))
    with pytest.raises(ScheduleError) as caught:
        check_allocation(program, asked(0, 0, 4))
    assert str(caught.value) == (
        "MSCCL++: slow: rank 2 asks its switch for 100% of the sums, so that 50% of its link's rate pass; "
        "80% pass if all 4 ranks ask for as much: use a plan with a root at every rank"
    )
    # 1 + 9/16 is 5/4 of 1 + 1/4
    check_allocation(program, asked(0, 9, 7, 0))
    with pytest.raises(ScheduleError, match="rank 1 asks its switch for 59% of the sums, so that 63% of"):
        check_allocation(program, asked(0, 10, 7, 0))


def test_parts_of_programs_and_what_unknown_paths_cost() -> None:
    """Of two shards of one chunk and of three the larger is moved whole."""
    copy = Operation(OperationKind.COPY, 1, 3)
    send, receive = (
        Operation(kind, 1, 3, peer=peer)
        for kind, peer in ((OperationKind.SEND, 0), (OperationKind.RECEIVE, 1))
    )
    program = program_from_operations(
        CollectiveKind.ALLGATHER, [[receive], [copy, send]], n_chunks=4, shard_offset=[0, 1, 4]
    )
    with pytest.raises(ScheduleError, match=r"^the shards differ in their numbers of chunks$"):
        parts_of(program)
    even = program_from_operations(
        CollectiveKind.ALLGATHER, [[receive], [copy, send]], n_chunks=4, shard_offset=[0, 2, 4]
    )
    assert parts_of(even) == 2
    for by_step in (False, True):
        assert _busy_time(program, parse("ring:2"), by_step=by_step) == Fraction(3, 4)
