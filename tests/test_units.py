from fractions import Fraction

import pytest

from treadle.errors import FormatError
from treadle.units import format_bandwidth, format_size, parse_bandwidth, parse_size, parse_time_ns


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
        (parse_bandwidth, "1bit/s", "whole number of bytes/s"),
        (parse_bandwidth, "25GB", "unknown unit 'GB'"),
        (parse_size, "1.0001K", "whole number of bytes"),
        (parse_size, "64Mb", "unknown unit 'Mb'"),
        (parse_time_ns, "0.5ns", "whole number of nanoseconds"),
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
