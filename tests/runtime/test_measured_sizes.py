"""Sizes as typed, and the table of a sweep."""

from typing import Any

import pytest

from samples.runtime_programs import random_program
from treadle.errors import FormatError
from treadle.program.group_lists import ProgramGroups
from treadle.program.program import program_from_operations
from treadle.runtime import measured_sizes
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.measured_sizes import (
    SweepRow,
    group_pattern,
    make_row,
    measure,
    parse_size,
    parse_sizes,
    worst_of,
)
from treadle.runtime.run_options import RunOptions
from treadle.schedules.collective import CollectiveKind


@pytest.mark.parametrize(
    ("text", "size"),
    [("1K", 1024), ("64MB", 64 * 2**20), ("3B", 3), ("1.5KiB", 1536), ("2gb", 2**31), (" 4 KB ", 4096)],
)
def test_size(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_sizes_at_their_limits() -> None:
    assert parse_size("1024TB") == parse_size(f"{2**50}B") == 2**50
    assert parse_size(f"{'0' * 16}12.5K") == 12800
    number = r"expected an integer number of bytes up to 1024TB"
    unit = r"expected a size with a unit, such as 512B, 1K or 64MB, found"
    for text, message in (
        (f"{2**50 + 1}B", f"size '{2**50 + 1}B': {number}"),
        ("1.3K", f"size '1.3K': {number}"),
        (f"{'0' * 17}12.5K", f"{unit} '{'0' * 17}12.5K'"),
        ("7", f"{unit} '7'"),
    ):
        with pytest.raises(FormatError) as caught:
            parse_size(text)
        assert str(caught.value) == message
    for text, rest in (
        (" 1K.. ", "'1K..': expected two sizes, as in 1K..1GB"),
        ("1B, 1K-2.5 M", "'1K-2.5 M': expected two dots, as in 1K..2.5 M"),
        ("0B..1B", "'0B..1B': expected 0 < first <= last"),
        ("3B..2B", "'3B..2B': expected 0 < first <= last"),
    ):
        with pytest.raises(FormatError) as caught:
            parse_sizes(text)
        assert str(caught.value) == f"size range {rest}"


@pytest.mark.parametrize(
    "text", ["", "12", "K", "-1K", "1Kbit", "1e3K", "0.3B", "2048TB", "nan", "9" * 400 + "K"]
)
def test_bad_size(text: str) -> None:
    with pytest.raises(FormatError):
        parse_size(text)


def test_sizes() -> None:
    assert parse_sizes("1K..64M") == [1024 * 2**i for i in range(17)]
    assert parse_sizes("3K..10K") == [3072, 6144]
    assert parse_sizes("1K..1K") == [1024]
    assert parse_sizes("1M, 1K") == [2**20, 2**10]
    for text in ("4K..1K", "0B..1K", "1K..", "..1K", "1K,,2K", "1K..2K..4K"):
        with pytest.raises(FormatError):
            parse_sizes(text)


def test_rows_follow_nccl_tests() -> None:
    program = random_program(CollectiveKind.ALLGATHER, 4, seed=1)
    row = make_row(program, 1024, [3e-6, 1e-6, 2e-6], 0, element=ElementType.FLOAT32, reduction=Reduction.SUM)
    # nccl-tests: count is the shard's, algbw = size / time, busbw = algbw * (N - 1) / N
    assert (row.size_bytes, row.count, row.reduction, row.root) == (4096, 256, None, -1)
    assert row.time_s == 2e-6
    assert row.algbw_bytes_per_s == pytest.approx(4096 / 2e-6)
    assert row.busbw_bytes_per_s == pytest.approx(4096 / 2e-6 * 3 / 4)
    program = random_program(CollectiveKind.ALLREDUCE, 4, seed=1)
    row = make_row(program, 1024, [2e-6], 0, element=ElementType.FLOAT16, reduction=Reduction.MAX)
    assert (row.size_bytes, row.count, row.reduction) == (2048, 1024, Reduction.MAX)
    assert row.busbw_bytes_per_s == pytest.approx(2048 / 2e-6 * 3 / 2)
    program = random_program(CollectiveKind.BROADCAST, 4, seed=1)
    row = make_row(program, 1024, [2e-6], 0, element=ElementType.INT32, reduction=Reduction.SUM)
    assert (row.count, row.root, row.busbw_bytes_per_s) == (1024, 1, row.algbw_bytes_per_s)


def test_rows_of_unequal_shards_and_of_no_time() -> None:
    """Of ten elements in five chunks the shards have two, none and eight."""
    made = program_from_operations(
        CollectiveKind.ALLGATHER, [[], [], []], n_chunks=5, shard_offset=[0, 1, 1, 5]
    )
    row = make_row(made, 10, [4.0, 1.0], 7, element=ElementType.INT64, reduction=Reduction.SUM, worst_group=2)
    assert (row.size_bytes, row.count, row.time_s, row.iterations) == (80, 8, 2.5, 2)
    assert (row.algbw_bytes_per_s, row.wrong, row.worst_group) == (32.0, 7, 2)
    assert (
        make_row(made, 0, [0.0], 0, element=ElementType.INT64, reduction=Reduction.SUM).busbw_bytes_per_s == 0
    )
    found = [worst_of(wrong) for wrong in ((0, 3, 1, 3), (5,), (0, 0), (1, 0))]
    assert found == [1, None, None, 0]


@pytest.mark.parametrize(
    ("asked", "warm", "timed"),
    [
        ({"budget_s": 12.0}, 2, 4),
        ({"budget_s": 12.0, "iterations": 3, "warmup": 9}, 3, 3),
        ({"budget_s": 2.9}, 0, 1),
        ({"budget_s": 6.0, "iterations": 9}, 1, 2),
        ({"budget_s": 1e9}, 2, 20),
    ],
)
def test_large_sizes_are_run_less_often(
    asked: Any, warm: int, timed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups that take 1 s and 2 s; their first runs are checked, with data of their own."""
    told: list[tuple[int, bool]] = []

    def run(execution: Any, pattern: Any, *, refill: bool = False) -> float:
        if refill:
            seeds = [group_pattern(execution.layout.program, 2, RunOptions(seed=7), n).values for n in (0, 1)]
            assert (pattern.values == seeds[len(told)]).all()
        told.append((len(told), refill))
        return 1.0 + (len(told) - 1) % 2

    monkeypatch.setattr(measured_sizes, "_timed_run", run)
    monkeypatch.setattr(measured_sizes, "count_wrong", lambda layout, rank, memory, pattern: rank)
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1)
    (row,) = measure(ProgramGroups((program, program), ((0, 1, 2), (3, 4, 5))), [9], seed=7, **asked)
    assert [refill for _, refill in told] == [True] * 2 + [False] * 2 * (warm + timed)
    assert (row.iterations, row.time_s, row.wrong, row.worst_group) == (timed, 3.0, 6, 0)


def test_sweep_measures_each_size_once() -> None:
    seen: list[SweepRow] = []
    program = random_program(CollectiveKind.ALLREDUCE, 4, seed=1, trees_per_root=2)
    rows = measure(
        program, [0, 2, 4096], element=ElementType.FLOAT16, iterations=3, budget_s=0.05, on_row=seen.append
    )
    assert rows == seen
    assert [row.size_bytes for row in rows] == [0, 2, 4096]
    assert [row.wrong for row in rows] == [0, 0, 0]
    assert all(1 <= row.iterations <= 3 and row.time_s > 0 for row in rows)
