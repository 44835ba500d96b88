"""Quantities as people type them, and as they are shown."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from treadle.errors import FormatError
from treadle.units import (
    bandwidth_unit,
    format_bandwidth,
    format_bandwidth_in,
    format_fraction,
    format_link_bandwidth,
    format_seconds,
    format_size,
    parse_bandwidth,
    parse_decimal_size,
    parse_size,
    parse_time_ns,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("25GB/s", 25 * 10**9),
        ("25 GB/s", 25 * 10**9),
        (" 24.3GB/s ", 24_300_000_000),
        ("400Gbit/s", 50 * 10**9),
        ("400Gbps", 50 * 10**9),
        ("400Gb/s", 50 * 10**9),
        ("8bit/s", 1),
        ("1B/s", 1),
        ("1kB/s", 1000),
        ("1KB/s", 1000),
        ("1MiB/s", 2**20),
        ("0B/s", 0),
        ("1.125PB/s", 1_125_000_000_000_000),
    ],
)
def test_bandwidths(text, value):
    assert parse_bandwidth(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1K", 1024),
        ("1k", 1024),
        ("64MB", 2**26),
        ("64M", 2**26),
        ("64MiB", 2**26),
        ("1.5KB", 1536),
        ("7B", 7),
    ],
)
def test_sizes_are_powers_of_1024(text, value):
    assert parse_size(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10us", 10**4),
        ("10µs", 10**4),
        ("10μs", 10**4),
        ("1.5ms", 1_500_000),
        ("30s", 3 * 10**10),
        ("2min", 12 * 10**10),
        ("3h", 3 * 3600 * 10**9),
        ("7s", 7 * 10**9),
        ("7ns", 7),
    ],
)
def test_times(text, value):
    assert parse_time_ns(text) == value


@pytest.mark.parametrize("parse", [parse_bandwidth, parse_size, parse_time_ns])
@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "25",
            "0",
            "GB/s",
            "25 parsecs",
            "-25GB/s",
            "+1K",
            "1e9B/s",
            "nan",
            "inf GB/s",
            ".5K",
            "5.K",
        ),
        *("25GB/s/s", "1_000KB", "٣KB", "25GB/s\n25GB/s", "9" * 1000 + "KB", "0x10K", "1,5K", "25gB/S"),
    ],
)
def test_everything_else_is_a_one_line_error(parse, text):
    with pytest.raises(FormatError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_bandwidth, "25", "has no unit; write for instance 25GB/s"),
        (parse_bandwidth, "1bit/s", "integer number of bytes/s"),
        (parse_bandwidth, "25GB", "unknown unit 'GB'"),
        (parse_size, "1.0001K", "integer number of bytes"),
        (parse_size, "64Mb", "unknown unit 'Mb'"),
        (parse_time_ns, "0.5ns", "integer number of nanoseconds"),
        (parse_time_ns, "9" * 20 + "h", "too large"),
    ],
)
def test_errors_say_what_to_write(parse, text, message):
    with pytest.raises(FormatError, match=message):
        parse(text)


def test_formatting():
    assert format_size(0) == "0B"
    assert format_size(1023) == "1023B"
    assert format_size(1024) == "1KB"
    assert format_size(3 * 2**30 // 2) == "1.5GB"
    assert format_bandwidth(Fraction(1040 * 10**9, 3)) == "346.67 GB/s"
    assert format_bandwidth(999) == "999 B/s"
    assert format_bandwidth(Fraction(1, 3)) == "0.33 B/s"
    assert format_bandwidth(0) == "0 B/s"


def test_what_is_written_can_be_read():
    for power in range(50):
        assert parse_size(format_size(2**power)) == 2**power
    for power in range(16):
        assert parse_bandwidth(format_bandwidth(10**power)) == 10**power


EXAMPLES = {
    parse_bandwidth: ("bandwidth", "25GB/s or 400Gbit/s", "bytes/s"),
    parse_size: ("size", "64MB or 512B", "bytes"),
    parse_decimal_size: ("size", "1MB or 32KiB", "bytes"),
    parse_time_ns: ("time", "10us or 30s", "nanoseconds"),
}
LARGEST = {parse_bandwidth: "B/s", parse_size: "B", parse_decimal_size: "B", parse_time_ns: "ns"}


@pytest.mark.parametrize("parse", EXAMPLES, ids=lambda parse: parse.__name__)
def test_refusals_in_full(parse: Callable[[str], int]) -> None:
    what, example, base = EXAMPLES[parse]
    unit = LARGEST[parse]

    def said(text: str) -> str:
        with pytest.raises(FormatError) as caught:
            parse(text)
        return str(caught.value)

    assert said("x") == f"{what} 'x': expected a number with a unit, such as {example}"
    assert said("7") == f"{what} '7' has no unit; write for instance {example}"
    assert said("7 q") == f"{what} '7 q': unknown unit 'q'; write for instance {example}"
    assert said(f"0.5{unit}") == f"{what} '0.5{unit}': expected an integer number of {base}"
    text = f"{2**63}{unit}"
    assert said(text) == f"{what} {text!r} is too large; expected less than 2**63 {base}"
    assert parse(f"{2**63 - 1}{unit}") == 2**63 - 1
    padded = f"1{unit}".rjust(40)
    assert parse(padded) == 1
    assert said(f" {padded}") == (
        f"{what} {' ' + padded[:39] + '...'!r}: expected a number with a unit, such as {example}"
    )


@pytest.mark.parametrize(
    ("prefix", "factor"),
    [
        *(("", 1), ("k", 10**3), ("K", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12), ("P", 10**15)),
        *(("Ki", 2**10), ("Mi", 2**20), ("Gi", 2**30), ("Ti", 2**40), ("Pi", 2**50)),
    ],
)
def test_every_prefix(prefix: str, factor: int) -> None:
    assert parse_bandwidth(f"3{prefix}B/s") == 3 * factor
    assert bandwidth_unit(f" {prefix}B/s ") == factor
    for bits in ("bit/s", "b/s", "bps"):
        assert parse_bandwidth(f"24{prefix}{bits}") == 3 * factor
    assert parse_decimal_size(f"3{prefix}B") == 3 * factor
    if prefix:
        assert parse_decimal_size(f"3{prefix}") == 3 * factor
        binary = 1024 ** (1 + "KMGTP".index(prefix[0].upper()))
        assert parse_size(f"3{prefix}B" if len(prefix) == 2 else f"3{prefix}") == 3 * binary


@pytest.mark.parametrize("power", [1, 2, 3, 4, 5])
def test_the_largest_unit_that_is_reached(power: int) -> None:
    prefix, below = "BKMGTP"[power], "BKMGT"[power - 1]
    ending = "" if power == 1 else "B"
    assert format_size(1024**power) == f"1{prefix}B"
    assert format_size(-(1024**power)) == f"-1{prefix}B"
    assert format_size(1023 * 1024 ** (power - 1)) == f"1023{below}{ending}"
    kilo = {"B": "", "K": "k"}.get(below, below)
    assert format_bandwidth(1000**power) == f"1 {prefix.replace('K', 'k')}B/s"
    assert format_bandwidth(-(1000**power)) == f"-1 {prefix.replace('K', 'k')}B/s"
    assert format_bandwidth(999 * 1000 ** (power - 1)) == f"999 {kilo}B/s"


def test_decimals() -> None:
    assert format_size(1025) == "1KB"
    assert format_size(1024 + 1024 // 8) == "1.12KB"  # half to even
    assert format_size(1024 + 3 * 1024 // 8) == "1.38KB"
    assert format_size(100 * 1024) == "100KB"
    assert format_size(-1536) == "-1.5KB"
    assert format_bandwidth(Fraction(-1, 1000)) == "0 B/s"
    assert format_bandwidth(Fraction(-1, 100)) == "-0.01 B/s"
    assert format_link_bandwidth(10**15 + 1) == "1.000000000000001 PB/s"
    assert format_bandwidth_in(Fraction(25 * 10**9, 3), "Gbit/s") == "66.67 Gbit/s"
    assert format_bandwidth_in(Fraction(25 * 10**9, 3), "Gbit/s", digits=4) == "66.6667 Gbit/s"
    assert format_bandwidth_in(0, "GB/s") == "0 GB/s"
    assert format_bandwidth_in(-123456, "GB/s") == "-0.000123 GB/s"
    assert format_bandwidth_in(5 * 10**6, "GB/s") == "0.005 GB/s"
    assert format_bandwidth_in(6 * 10**6, "GB/s") == "0.01 GB/s"


def test_units_of_bandwidths_in_full() -> None:
    with pytest.raises(FormatError) as caught:
        bandwidth_unit("x" * 50)
    assert str(caught.value) == f"unit '{'x' * 40}': expected one such as GB/s, Gbit/s, MB/s or GiB/s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((1.0, "1.00 s"), (12.345, "12.3 s"), (123.45, "123 s"), (1234.5, "1234 s"), (0.999, "999 ms")),
        *((1e-3, "1.00 ms"), (0.0123, "12.3 ms"), (9.99e-4, "999 us"), (1e-6, "1.00 us")),
        *((9.9e-7, "0.990 us"), (5e-10, "0.001 us"), (4.9e-10, "0"), (-1.0, "0")),
    ],
)
def test_seconds_have_three_digits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        *(
            (Fraction(0), "nothing"),
            (Fraction(1, 10**4), "0.01%"),
            (Fraction(1, 10**4 + 1), "less than 0.01%"),
        ),
        *((Fraction(1, 3), "33.33%"), (Fraction(3, 2), "150.00%")),
    ],
)
def test_shares_are_never_rounded_to_nothing(share: Fraction, text: str) -> None:
    assert format_fraction(share) == text
