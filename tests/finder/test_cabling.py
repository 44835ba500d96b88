"""Cabling lists: every link once, every port once a direction."""

from __future__ import annotations

import csv
import io

from treadle import cabling
from treadle.units import parse_bandwidth


def test_csv_shows_every_digit_of_a_bandwidth() -> None:
    for bandwidth in (3_125_000_000, 25 * 10**9 // 3, 1, 2**50):
        text = cabling(f'ring(3, bandwidth="{bandwidth}B/s")').sheet.csv()
        assert {parse_bandwidth(row["bandwidth"]) for row in csv.DictReader(io.StringIO(text))} == {bandwidth}
    assert "3.125 GB/s" in cabling('ring(3, bandwidth="25Gbit/s")').sheet.csv()
