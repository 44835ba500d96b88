"""Quantities as people type them, and as they are shown."""

from __future__ import annotations

import pytest

from treadle.units import (
    bandwidth_unit,
    parse_bandwidth,
    parse_decimal_size,
    parse_size,
    parse_time_ns,
)

EXAMPLES = {
    parse_bandwidth: ("bandwidth", "25GB/s or 400Gbit/s", "bytes/s"),
    parse_size: ("size", "64MB or 512B", "bytes"),
    parse_decimal_size: ("size", "1MB or 32KiB", "bytes"),
    parse_time_ns: ("time", "10us or 30s", "nanoseconds"),
}
LARGEST = {parse_bandwidth: "B/s", parse_size: "B", parse_decimal_size: "B", parse_time_ns: "ns"}


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
