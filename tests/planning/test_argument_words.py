"""What annotations allow, how refusals show a value, key figures of values, and names like others."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from treadle.brief import format_field


class Colour(StrEnum):
    """Text that is none, for a parameter of text."""

    RED = "red"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("is_optimal", True, "optimal"),
        ("is_optimal", np.bool_(False), "not optimal"),
        ("is_late", False, ""),
        ("is_late", True, "late"),
        ("is_embedded", False, ""),
        ("colour", Colour.RED, "red"),
        ("text", "  a \n b ", "a b"),
        ("text", "x" * 40, "x" * 40),
        ("text", "x" * 41, "x" * 40 + "..."),
        ("algbw", Fraction(25 * 10**9, 3), "8.33 GB/s algbw"),
        ("link_bytes_per_s", 3 * 10**9, "3 GB/s link"),
        ("rate", 1000, "1 kB/s rate"),
        ("upper", 1000.0, "1 kB/s upper"),
        ("n_ranks", 1, "1 rank"),
        ("n_ranks", 2, "2 ranks"),
        ("n_entries", 1, "1 entry"),
        ("n_ranks", 0, ""),
        ("peak_bytes", 1536, "1.5KB peak"),
        ("loss", 0.125, "12.5% loss"),
        ("seconds", 1.23456, "1.23 s"),
        ("wait_time_s", 1.23456, "1.23 s wait time"),
        ("gap", 0.123456, "gap 0.1235"),
        ("gap", Fraction(1, 3), "gap 1/3"),
        ("some_count", np.int64(7), "some count 7"),
        ("gap", float("inf"), "gap inf"),
        ("seconds", {"total": 1.23456, "x": 1.0}, "1.23 CPU s"),
        ("seconds", {"x": 1.0}, ""),
        ("table", np.zeros((2, 3)), "table (2, 3)"),
        ("rows", np.zeros(1), "1 row"),
        ("rows", np.zeros(0), "0 rows"),
        ("rows", [1, 2], "2 rows"),
        ("rows", [], ""),
        ("other", None, ""),
        ("other", len, ""),
        ("other", object(), "object"),
    ],
)
def test_key_figures(name: str, value: Any, words: str) -> None:
    assert format_field(name, value) == words
