"""Workload files: what is read, and how everything else is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.finder.workload import (
    Call,
    Exchange,
    Network,
    Workload,
    allreduce_of,
    load_workload,
    parse_workload,
)

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
        ("[[collectives]]", "'kind' is missing"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "5"', "no unit"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "1MB"\ncount = -1', "positive number"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "1MB"\ncount = nan', "positive number"),
        ('[[collectives]]\nkind = "allreduce"\nsize = "1MB"\ncount = true', "positive number"),
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
    with pytest.raises(FormatError, match="not valid UTF-8; expected a workload"):
        load_workload(path)
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(FormatError, match="larger than") as large:
        load_workload(path)
    assert str(large.value).count(str(path)) == 1
    path.write_text("nodes = 2")
    with pytest.raises(FormatError) as told:
        load_workload(path)
    assert str(told.value).count(str(path)) == 1
    with pytest.raises(FormatError, match="this is a folder"):
        load_workload(tmp_path)


def test_a_single_allreduce() -> None:
    assert allreduce_of(5).calls == (Call(Exchange.ALLREDUCE, 5),)


def _call(**fields: str) -> str:
    given = {"kind": '"allreduce"', "size": '"1MB"', **fields}
    return "[[collectives]]\n" + "".join(f"{key} = {value}\n" for key, value in given.items())


KEYS = "known are count, group_size, kind, size, stride"
KINDS = 'expected "allgather", "reduce-scatter", "allreduce" or "alltoall"'
COUNT = "collectives[0].count: expected a positive number less than 10**12"
QUANTITY = 'expected a quantity with its unit in quotes, as in "10us" or "64MB"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_call(kind='"gossip"'), f'collectives[0].kind: {KINDS}, found "gossip"'),
        (_call(kind=f'"{"k" * 101}"'), f'collectives[0].kind: {KINDS}, found "{"k" * 59}...'),
        (_call(kind="3"), 'collectives[0].kind: expected a string, found 3'),
        (_call() + _call(size="5"), f'collectives[1].size: {QUANTITY}, found 5'),
        (_call(size='"0B"'), "collectives[0].size: expected at least 1 byte"),
        (_call(count="0"), 'collectives[0].count: expected a positive number less than 10**12, found 0'),
        (_call(count="1e12"), f"{COUNT}, found 1000000000000.0"),
        (_call(count='"1"'), 'collectives[0].count: expected a positive number less than 10**12, found "1"'),
        (_call(group_size="1"), 'collectives[0].group_size: expected 2 to 2147483647, found 1'),
        (_call(group_size="true"), 'collectives[0].group_size: expected an integer, found true'),
        (_call(stride="0"), 'collectives[0].stride: expected 1 to 2147483647, found 0'),
        (_call(stride="true"), 'collectives[0].stride: expected an integer, found true'),
        (_call(stride="1.0"), 'collectives[0].stride: expected an integer, found 1.0'),
        (_call(stride=str(2**31)), 'collectives[0].stride: expected 1 to 2147483647, found 2147483648'),
        (_call(colour="1"), f'collectives[0]: unknown key "colour"; {KEYS}'),
        (_call(**{"c" * 101: "1"}), f'collectives[0]: unknown key "{"c" * 59}...; {KEYS}'),
        ('[[collectives]]\nsize = "1MB"', "collectives[0]: key 'kind' is missing"),
        ('[[collectives]]\nkind = "allreduce"', "collectives[0]: key 'size' is missing"),
        ("collectives = [3]", 'collectives[0]: expected a table, found 3'),
        ("network = 3\n" + _call(), 'network: expected a table, found 3'),
        ("[network]\nbeta = 3\n" + _call(), 'network: unknown key "beta"; known are alpha, bandwidth'),
        ("[network]\nalpha = 3\n" + _call(), f'network.alpha: {QUANTITY}, found 3'),
        ("[network]\nbandwidth = 3\n" + _call(), f'network.bandwidth: {QUANTITY}, found 3'),
        ("names = 3\n" + _call(), 'file: unknown key "names"; known are collectives, name, network'),
        ("name = 3\n" + _call(), 'name: expected a string, found 3'),
        ("#" * 1001 + "\n" + _call(), 'line 1 is longer than 1000 characters'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_full(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_workload(text)
    assert str(refused.value) == message


def test_what_is_just_allowed() -> None:
    job = parse_workload(
        "#" * 1000 + "\n" + _call(count="999999999999", group_size="2", stride=str(2**31 - 1))
    )
    assert (job.name, job.alpha_s, job.bandwidth_bytes_per_s) == ("workload", None, None)
    assert job.calls == (Call(Exchange.ALLREDUCE, 2**20, Fraction(999999999999), 2, 2**31 - 1),)
    (plain,) = parse_workload(_call(size='"1B"', count="0.25"), default_name="mine").calls
    assert plain == Call(Exchange.ALLREDUCE, 1, Fraction(1, 4))
    assert (plain.group_size, plain.stride) == (None, 1)
    assert Call(Exchange.ALLREDUCE, 1).count == 1
    job = parse_workload('[network]\nalpha = "7ns"\n' + _call(), default_name="mine")
    assert (job.name, job.alpha_s, job.bandwidth_bytes_per_s) == ("mine", 7e-9, None)


def test_files_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "two.words.toml"
    text = _call()
    path.write_text(text + "\n" * (2**20 - len(text)))
    assert load_workload(path).name == "two.words"
    path.write_text(text + "\n" * (2**20 - len(text) + 1))
    with pytest.raises(FormatError, match="larger than 1048576 bytes, the most"):
        load_workload(path)


def test_networks_at_their_limits() -> None:
    assert Network(0.0, 1).gamma_s_per_byte == 0
    assert Network(999_999.0, 1, 0.5).gamma_s_per_byte == 0.5
    for alpha, bandwidth, gamma in ((-1e-9, 1, 0.0), (1e6, 1, 0.0), (1.0, 0, 0.0), (1.0, 1, -1e-12)):
        with pytest.raises(ScheduleError, match="network: latency must be from 0 to less than"):
            Network(alpha, bandwidth, gamma)


def test_workloads_have_some_calls_and_not_too_many() -> None:
    call = Call(Exchange.ALLGATHER, 1)
    assert len(Workload("most", (call,) * 10_000).calls) == 10_000
    for calls in ((), (call,) * 10_001):
        with pytest.raises(ScheduleError, match=f"workload: {len(calls)} collectives, expected 1 to 10000"):
            Workload("x", calls)


@pytest.mark.parametrize(("n", "size", "stride"), [(6, 1, 2), (6, 7, 1), (6, 4, 1), (6, 3, 3), (6, 1, 1)])
def test_groups_that_do_not_fit(n: int, size: int, stride: int) -> None:
    message = f"workload: groups of {size} with stride {stride} do not divide {n} nodes evenly"
    with pytest.raises(ScheduleError, match=message):
        Call(Exchange.ALLREDUCE, 1, group_size=size, stride=stride).groups(n)


def test_groups_that_just_fit() -> None:
    assert Call(Exchange.ALLREDUCE, 1, group_size=6).groups(6) == (tuple(range(6)),)
    assert Call(Exchange.ALLREDUCE, 1, group_size=3, stride=2).groups(6) == ((0, 2, 4), (1, 3, 5))
    assert Call(Exchange.ALLREDUCE, 1, group_size=2).groups(2) == ((0, 1),)
