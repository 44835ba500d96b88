"""Patterns of inputs and places of chunks at odd sizes, and the numbers of a table's row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treadle.errors import FormatError
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.data import (
    ElementType,
    Pattern,
    Reduction,
    finish_average,
    make_pattern,
    poison,
    reduced,
)
from treadle.runtime.in_process import Execution, PreparedProgram
from treadle.runtime.measured_sizes import (
    _checked_run,
    _timed_runs,
    make_row,
    measure,
    parse_size,
    parse_sizes,
    worst_of,
)
from treadle.runtime.memory import (
    Layout,
    RankMemory,
    allocate,
    count_wrong,
    fill_input,
    is_same_memory,
    slices_for,
)
from treadle.schedules.collective import CollectiveKind

INPUT, OUTPUT, SCRATCH = Buffer


def test_types_have_their_bytes_and_reductions_their_functions() -> None:
    assert [(one.n_bytes, one.exact_limit) for one in ElementType] == [
        (4, 16777216),
        (2, 2048),
        (2, 256),
        (4, 2147483647),
        (8, 9223372036854775807),
    ]
    assert [one.ufunc for one in Reduction] == [np.add, np.maximum, np.minimum, np.add]


@pytest.mark.parametrize(
    ("n_ranks", "count", "period"),
    [
        *((3, 0, 1), (3, 1, 1), (3, 9, 9), (64, 10**5, 65521), (65, 10**5, 8191), (512, 10**4, 8191)),
        *((513, 10**4, 1021), (600, 1020, 1020), (5000, 10**4, 1021)),
    ],
)
def test_periods_by_the_number_of_ranks(n_ranks: int, count: int, period: int) -> None:
    """65521 x 64, 8191 x 512 are at most 2**22 elements, with a rank more they are beyond."""
    found = make_pattern(
        n_ranks, count, element=ElementType.INT32, reduction=Reduction.MAX, reduces=False, seed=0
    )
    assert found.values.shape == (n_ranks, period)
    assert found.result.shape == (period,)


def magnitudes(n: int, reduction: Reduction, *, reduces: bool = True) -> tuple[int, int]:
    """Least and largest magnitude of many inputs of two bytes."""
    found = make_pattern(
        n, 4000, element=ElementType.FLOAT16, reduction=reduction, reduces=reduces, seed=4
    ).values.astype(np.int64)
    assert (found > 0).any()
    assert (found < 0).any()
    return int(abs(found).min()), int(abs(found).max())


def test_magnitudes_use_the_whole_exact_range() -> None:
    """Of float16 it is 2048, which three or 500 ranks share where they are summed."""
    assert magnitudes(500, Reduction.SUM) == (1, 4)
    assert magnitudes(500, Reduction.AVG) == (1, 4)
    assert magnitudes(1024, Reduction.SUM) == (1, 2)
    assert magnitudes(1025, Reduction.SUM) == (1, 1)
    assert magnitudes(2048, Reduction.SUM) == (1, 1)
    assert magnitudes(2049, Reduction.SUM) == (0, 1)
    for reduction, reduces in ((Reduction.MAX, True), (Reduction.MIN, True), (Reduction.SUM, False)):
        low, high = magnitudes(300, reduction, reduces=reduces)
        assert (low, high) == (1, 2048)


def test_where_ranks_are_too_many_some_bring_nothing() -> None:
    """Of 2050 ranks, of element g ranks -g and 1 - g counted from 2048: those in turn."""
    found = make_pattern(
        2050, 3, element=ElementType.FLOAT16, reduction=Reduction.SUM, reduces=True, seed=1
    ).values
    assert [np.flatnonzero(column == 0).tolist() for column in found.T] == [
        [2048, 2049],
        [2047, 2048],
        [2046, 2047],
    ]


def test_results_are_those_of_all_ranks() -> None:
    inputs = np.array([[7, -5], [-2, 4], [1, -9]], dtype=np.int32)
    wanted = {"sum": [6, -10], "max": [7, 4], "min": [-2, -9], "avg": [2, -4]}
    for reduction, values in wanted.items():
        assert reduced(inputs, Reduction(reduction)).tolist() == values
    assert reduced(inputs.astype(np.float64), Reduction.AVG).tolist() == [2, -10 / 3]
    sums = np.array([-7, 7], dtype=np.int64)
    finish_average(sums, 2)
    assert sums.tolist() == [-4, 3]
    single = np.array([10], dtype=np.float32)
    finish_average(single, 3)
    assert single[0] == np.float32(10) / np.float32(3)
    assert make_pattern(
        3, 5, element=ElementType.INT32, reduction=Reduction.SUM, reduces=False, seed=1
    ).result.tolist() == (
        make_pattern(3, 5, element=ElementType.INT32, reduction=Reduction.SUM, reduces=False, seed=1)
        .values[0]
        .tolist()
    )


def test_poison_is_no_result() -> None:
    whole, part = np.ones(2, dtype=np.int32), np.ones(2, dtype=np.float16)
    poison(whole)
    poison(part)
    assert whole.tolist() == [-(2**31)] * 2
    assert np.isnan(part).all()


PATTERN = Pattern(np.array([[1, 2, 3], [4, 5, 6]]), np.array([5, 7, 9]))


def test_patterns_repeat_from_any_start() -> None:
    buffer = np.zeros(8, dtype=np.int64)
    PATTERN.fill(1, buffer, start=4)
    assert buffer.tolist() == [5, 6, 4, 5, 6, 4, 5, 6]
    assert PATTERN.count_wrong_copy(1, buffer, start=4) == 0
    assert PATTERN.count_wrong_copy(0, buffer, start=4) == 8
    assert PATTERN.count_wrong_result(np.array([9, 5, 0, 9]), start=2) == 1
    assert PATTERN.count_wrong_result(np.array([], dtype=np.int64), start=2) == 0


def nothing(kind: CollectiveKind, root: int = -1, **more: Any) -> Program:
    """Three ranks of unequal shards, of which one touches scratch."""
    copy = Operation(OperationKind.COPY, 0, 1, source=SCRATCH, target=SCRATCH)
    values: dict[str, Any] = {"n_chunks": 5, "shard_offset": [0, 2, 2, 5]}
    return program_from_operations(kind, [[], [], [copy]], root=root, **values | more)


def test_spans_of_thirteen_elements() -> None:
    """Five chunks begin at 0, 2, 5, 7 and 10."""
    layout = Layout(nothing(CollectiveKind.ALLGATHER), 13)
    assert [layout.spans(rank, INPUT) for rank in range(3)] == [[(0, 5)], [], [(5, 13)]]
    assert [layout.length(rank, INPUT) for rank in range(3)] == [5, 0, 8]
    assert layout.spans(0, OUTPUT) == [(0, 13)]
    whole = Operation(OperationKind.COPY, 1, 3, target=SCRATCH)
    program = program_from_operations(
        CollectiveKind.ALLREDUCE, [[whole], [whole]], n_chunks=5, shard_offset=[0, 2, 5]
    )
    assert [*Layout(program, 13).ranges(1, 0)] == [(2, 10)]
    assert [*Layout(program, 2).ranges(0, 0)] == [(0, 1)]
    assert [*Layout(program, 1).ranges(0, 0)] == []
    # chunks of 3, 2 and 3 elements in two slices
    assert [[*Layout(program, 13, 2).ranges(0, piece)] for piece in (0, 1)] == [
        [(2, 3), (5, 6), (7, 8)],
        [(3, 5), (6, 7), (8, 10)],
    ]
    assert [[*Layout(program, 13, 3).ranges(0, piece)] for piece in range(3)] == [
        [(2, 3), (7, 8)],
        [(3, 4), (5, 6), (8, 9)],
        [(4, 5), (6, 7), (9, 10)],
    ]


@pytest.mark.parametrize(
    ("count", "element", "most", "slices"),
    [(0, 4, 8, 1), (10, 4, 8, 1), (11, 4, 8, 2), (11, 4, 12, 1), (100, 2, 13, 4), (100, 2, 40, 1)],
)
def test_slices_keep_the_largest_chunk_small(count: int, element: int, most: int, slices: int) -> None:
    program = nothing(CollectiveKind.ALLREDUCE)
    assert slices_for(program, count, element_bytes=element, slice_bytes=most) == slices


def test_memory_of_an_exchange_has_parts() -> None:
    """Rank 1 of three is sent shards 1, 4 and 7, of 2, 0 and 3 elements."""
    offsets = [0, 1, 3, 3, 4, 4, 6, 7, 10, 10]
    program = program_from_operations(CollectiveKind.ALLTOALL, [[]] * 3, n_chunks=5, shard_offset=offsets)
    layout = Layout(program, 5)
    memory = allocate(layout, 1, np.dtype(np.int64))
    memory.arrays[OUTPUT][...] = [10, 11, 12, 13, 14]
    assert [(start, part.tolist()) for start, part in memory.parts(OUTPUT)] == [
        (1, [10, 11]),
        (7, [12, 13, 14]),
    ]
    assert memory.view(OUTPUT, 8, 10).tolist() == [13, 14]
    assert memory.view(OUTPUT, 1, 2).tolist() == [10]
    assert len(memory.arrays[SCRATCH]) == 0
    pattern = Pattern(np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), np.zeros(3))
    # shard (0, 1) is elements 1 and 2 of rank 0, shard (2, 1) elements 7 to 9 of rank 2
    memory.arrays[OUTPUT][...] = [2, 3, 8, 9, 7]
    assert count_wrong(layout, 1, memory, pattern) == 0
    memory.arrays[OUTPUT][...] = [2, 0, 8, 0, 0]
    assert count_wrong(layout, 1, memory, pattern) == 3
    fill_input(1, memory, pattern)
    assert memory.arrays[INPUT].tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("kind", "root", "output", "wrong"),
    [
        ("allreduce", -1, [5, 7, 9, 5, 0], 1),
        ("broadcast", 1, [4, 5, 6, 4, 5], 0),
        ("broadcast", 0, [4, 2, 6, 1, 2], 2),
        ("allgather", -1, [1, 2, 3, 4, 0], 2),
    ],
)
def test_wrong_elements_by_the_definition(kind: str, root: int, output: list[int], wrong: int) -> None:
    found = CollectiveKind(kind)
    offsets = [0, 2, 5] if root < 0 else [0 if rank <= root else 5 for rank in range(3)]
    program = program_from_operations(found, [[], []], n_chunks=5, shard_offset=offsets, root=root)
    layout = Layout(program, 5)
    memory = allocate(layout, 0, np.dtype(np.int64))
    memory.arrays[OUTPUT][...] = output
    assert count_wrong(layout, 0, memory, PATTERN) == wrong


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
def test_in_place_the_smaller_lies_in_the_larger(kind: CollectiveKind) -> None:
    program = nothing(kind, in_place=True)
    memory = allocate(Layout(program, 13), 2, np.dtype(np.int32))
    large, small = (OUTPUT, INPUT) if kind is CollectiveKind.ALLGATHER else (INPUT, OUTPUT)
    memory.arrays[large][...] = np.arange(13)
    assert memory.arrays[small].tolist() == list(range(5, 13))
    assert len(memory.arrays[SCRATCH]) == 13
    assert is_same_memory(program, large, small)
    assert not is_same_memory(program, large, SCRATCH)
    assert is_same_memory(program, SCRATCH, SCRATCH)
    assert not is_same_memory(nothing(kind), large, small)


def test_storage_is_used_again_where_it_is_large_enough() -> None:
    program = nothing(CollectiveKind.ALLREDUCE)
    storage = allocate(Layout(program, 9), 2, np.dtype(np.int32))
    for count, is_used in ((9, True), (4, True), (10, False)):
        memory = allocate(Layout(program, count), 2, np.dtype(np.int32), storage=storage)
        assert len(memory.arrays[INPUT]) == count
        assert np.shares_memory(memory.arrays[INPUT], storage.arrays[INPUT]) is is_used
    empty = RankMemory({OUTPUT: np.zeros(0)}, {OUTPUT: []})
    assert empty.view(OUTPUT, 0, 0).tolist() == []


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1024T", 2**50),
        ("0B", 0),
        ("1.5ib", None),
        ("0.5K", 512),
        ("1gib", 2**30),
        ("00000000000000000001B", 1),
    ],
)
def test_sizes_at_their_limits(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(FormatError, match="expected an integer number of bytes up to 1024TB"):
            parse_size(text)
    else:
        assert parse_size(text) == size
    for other in ("1024.001T", "1025T"):
        with pytest.raises(FormatError, match=f"size '{other}': expected an integer number of bytes up to"):
            parse_size(other)
    with pytest.raises(FormatError, match="expected a size with a unit, such as 512B"):
        parse_size("000000000000000000001B")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1K..", r"size range '1K\.\.': expected two sizes, as in 1K\.\.1GB"),
        ("..1K", r"size range '\.\.1K': expected two sizes"),
        ("1K. .", "expected a size with a unit"),
        ("1K - 4K", r"size range '1K - 4K': expected two dots, as in 1K \.\. 4K"),
        ("0B..4K", r"size range '0B\.\.4K': expected 0 < first <= last"),
        ("5K..4K", r"size range '5K\.\.4K': expected 0 < first <= last"),
    ],
)
def test_ranges_that_are_none_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_sizes(text)
    assert parse_sizes("3B..13B,0B,5B..5B") == [3, 6, 12, 0, 5]


def test_rows_count_the_largest_shard() -> None:
    """Of 13 elements the shards have 5, 0 and 8; an exchange's bus carries 2/3 of its bytes."""
    values: dict[str, Any] = {"element": ElementType.INT64, "reduction": Reduction.MIN}
    row = make_row(nothing(CollectiveKind.REDUCE_SCATTER), 13, [2.0, 8.0, 4.0], 3, **values)
    assert (row.size_bytes, row.count, row.reduction, row.root, row.wrong) == (104, 8, Reduction.MIN, -1, 3)
    assert (row.time_s, row.iterations, row.algbw_bytes_per_s) == (4.0, 3, 26.0)
    assert row.busbw_bytes_per_s == pytest.approx(26 * 2 / 3)
    assert (row.reference_time_s, row.worst_group, row.protocol) == (None, None, None)
    row = make_row(
        nothing(CollectiveKind.ALLREDUCE), 13, [0.0], 0, reference_time_s=1.5, worst_group=2, **values
    )
    assert (row.count, row.algbw_bytes_per_s, row.busbw_bytes_per_s) == (13, 0, 0)
    assert (row.reference_time_s, row.worst_group) == (1.5, 2)
    rooted = nothing(CollectiveKind.BROADCAST, 2, shard_offset=[0, 0, 0, 5])
    row = make_row(rooted, 13, [1.0, 3.0], 0, **values)
    assert (row.count, row.reduction, row.root, row.time_s) == (13, None, 2, 2.0)


@pytest.mark.parametrize(
    ("wrong", "group"), [([0, 0], None), ([5], None), ([0, 5, 5], 1), ([1, 0], 0), ([], None)]
)
def test_the_first_of_the_worst_groups(wrong: list[int], group: int | None) -> None:
    assert worst_of(wrong) == group


def test_what_a_program_leaves_undone_is_counted_and_times_are_as_asked() -> None:
    """An allreduce that copies its input: nearly all elements of both ranks are wrong."""
    copy = Operation(OperationKind.COPY, 0, 2)
    program = program_from_operations(
        CollectiveKind.ALLREDUCE, [[copy], [copy]], n_chunks=2, shard_offset=[0, 1, 2]
    )
    rows = measure(program, [403, 3], element=ElementType.INT32, iterations=4, budget_s=30.0)
    assert [(row.size_bytes, row.count, row.wrong, row.iterations) for row in rows] == [
        (400, 100, 200, 4),
        (0, 0, 0, 4),
    ]
    (row,) = measure(program, [400], iterations=4, budget_s=0.0)
    assert (row.element, row.reduction, row.iterations) == (ElementType.FLOAT32, Reduction.SUM, 1)


def test_runs_are_checked_on_fresh_buffers_and_refilled_in_place() -> None:
    """What lay in memory before is no result; sums in place do not grow from run to run."""
    idle = program_from_operations(
        CollectiveKind.BROADCAST, [[], []], n_chunks=1, shard_offset=[0, 1, 1], root=0
    )
    run = Execution(PreparedProgram(idle), 6, element=ElementType.INT32)
    pattern = Pattern(np.array([[1, 2, 3], [4, 5, 6]], dtype=np.int32), np.zeros(3, dtype=np.int32))
    for memory in run.memories:
        memory.arrays[OUTPUT][...] = [1, 2, 3, 1, 2, 3]
    wrong, seconds = _checked_run(run, pattern)
    assert wrong == 12
    assert seconds >= 0
    copy = Operation(OperationKind.COPY, 0, 1)
    copying = program_from_operations(
        CollectiveKind.BROADCAST, [[copy], []], n_chunks=1, shard_offset=[0, 1, 1], root=0
    )
    run = Execution(PreparedProgram(copying), 6, element=ElementType.INT32)
    assert _checked_run(run, pattern)[0] == 6
    run.memories[0].arrays[OUTPUT][...] = 0
    run.memories[0].arrays[INPUT][...] = 9
    assert _timed_runs([(run, pattern)]) >= 0
    assert run.memories[0].arrays[OUTPUT].tolist() == [9] * 6
    in_place = program_from_operations(
        CollectiveKind.ALLREDUCE, [[], []], n_chunks=1, shard_offset=[0, 1, 1], in_place=True
    )
    run = Execution(PreparedProgram(in_place), 6, element=ElementType.INT32)
    run.memories[1].arrays[INPUT][...] = 9
    assert _timed_runs([(run, pattern)]) >= 0
    assert run.memories[1].arrays[INPUT].tolist() == [4, 5, 6, 4, 5, 6]
