"""Workload files: what is read, and how everything else is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.finder.workload import Call, Exchange, allreduce_of, load_workload, parse_workload

GOOD = """
name = "mixture of experts"
[network]
alpha = "5us"
bandwidth = "400Gbit/s"
[[collectives]]
kind = "allreduce"
size = "64MB"
count = 12
[[collectives]]
kind = "alltoall"
size = "1MB"
count = 0.5
group_size = 8
stride = 4
"""


def test_a_workload_is_read() -> None:
    job = parse_workload(GOOD)
    assert (job.name, job.alpha_s, job.bandwidth_bytes_per_s) == ("mixture of experts", 5e-6, 50 * 10**9)
    assert job.calls == (
        Call(Exchange.ALLREDUCE, 64 * 2**20, Fraction(12)),
        Call(Exchange.ALLTOALL, 2**20, Fraction(1, 2), 8, 4),
    )


def test_groups_tile_the_nodes() -> None:
    groups = Call(Exchange.ALLREDUCE, 1, group_size=2, stride=3).groups(12)
    assert groups == ((0, 3), (1, 4), (2, 5), (6, 9), (7, 10), (8, 11))
    assert Call(Exchange.ALLREDUCE, 1).groups(3) == ((0, 1, 2),)
    with pytest.raises(ScheduleError, match="do not divide 12 nodes"):
        Call(Exchange.ALLREDUCE, 1, group_size=5).groups(12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'collectives' is missing"),
        ("collectives = []", "at least one table"),
        ("collectives = 3", "at least one table"),
        ("[[collectives]]", "'kind' is missing"),
        ('[[collectives]]\nkind = "gossip"\nsize = "1MB"', "expected one of allgather"),
        ('[[collectives]]\nkind = "allreduce"\nsize = 5', "quantity with its unit"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "5"', "no unit"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "0B"', "at least 1 byte"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "1MB"\ncount = -1', "positive number"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "1MB"\ncount = nan', "positive number"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "1MB"\ncount = true', "positive number"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "1MB"\ngroup_size = 1', "at least 2"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "1MB"\ncolour = 1', "'colour' is unknown"),
        ('nam = "x"\n[[collectives]]\nkind = "allreduce"\nsize = "1MB"', "'nam' is unknown"),
        ('name = "a\\nb"\n[[collectives]]\nkind = "allreduce"\nsize = "1MB"', "one line"),
        ("[[collectives", "not TOML"),
        ("a = " + "[" * 900, "not TOML"),
    ],
)
def test_anything_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_workload(text)


def test_files_are_read_with_limits(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(GOOD)
    assert load_workload(path) == parse_workload(GOOD)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="cannot be read"):
        load_workload(path)
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(FormatError, match="larger than") as large:
        load_workload(path)
    assert str(large.value).count(str(path)) == 1
    path.write_text("nodes = 2")
    with pytest.raises(FormatError) as told:
        load_workload(path)
    assert str(told.value).count(str(path)) == 1
    with pytest.raises(FormatError, match="no such workload file"):
        load_workload(tmp_path)


def test_a_single_allreduce() -> None:
    assert allreduce_of(5).calls == (Call(Exchange.ALLREDUCE, 5),)
