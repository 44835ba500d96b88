"""Sizes as typed, and the table of a sweep."""

import pytest

from samples.runtime_programs import random_program
from treadle.errors import FormatError
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.measured_sizes import SweepRow, make_row, measure, parse_size, parse_sizes
from treadle.schedules.collective import CollectiveKind


@pytest.mark.parametrize(
    ("text", "size"),
    [("1K", 1024), ("64MB", 64 * 2**20), ("3B", 3), ("1.5KiB", 1536), ("2gb", 2**31), (" 4 KB ", 4096)],
)
def test_size(text: str, size: int) -> None:
    assert parse_size(text) == size


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
