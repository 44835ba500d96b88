"""Small TOML files: lengths, prices, counts and lines at their limits and beyond."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.finder.building import toml_sheet
from treadle.finder.building.toml_sheet import Length, Price, check_line, exact, metres, read_sheet
from treadle.typed_files import Table, read_value


class Sheet(Table, frozen=True):
    tray: Length | None = None
    port: Price | None = None


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("60cm", Fraction(3, 5)),
        ("2.4 m", Fraction(12, 5)),
        ("7mm", Fraction(7, 1000)),
        ("0.000001m", Fraction(1, 10**6)),
        ("0m", Fraction(0)),
        ("100000m", Fraction(100_000)),
    ],
)
def test_lengths(text: str, length: Fraction) -> None:
    assert metres(read_value({"tray": text}, Sheet).tray or "") == length


@pytest.mark.parametrize(
    "text", ["2", "m", "2km", "-2m", "2  m", "2.m", "2.1234567m", "1234567890mm", "2m\n", 2]
)
def test_what_is_no_length(text: object) -> None:
    with pytest.raises(
        FormatError, match=r"^tray: expected a length with a unit, as in 60cm or 2.4m, found "
    ):
        read_value({"tray": text}, Sheet)


def test_lengths_beyond_all_rooms() -> None:
    with pytest.raises(FormatError, match=r"^100000\.001m is more than 100000 m$"):
        metres("100000.001m")


@pytest.mark.parametrize(
    ("value", "amount"),
    [(0, Fraction(0)), (12.35, Fraction(247, 20)), (10**9, Fraction(10**9)), (1e-7, Fraction(1, 10**7))],
)
def test_prices(value: float, amount: Fraction) -> None:
    found = read_value({"port": value}, Sheet).port
    assert found is not None
    assert exact(found) == amount


@pytest.mark.parametrize("value", [-1, -0.5, 10**9 + 1, True, "5", float("nan"), float("inf"), [5]])
def test_what_is_no_price(value: object) -> None:
    with pytest.raises(FormatError, match=r"^port: expected a number from 0 to 10\*\*9, found "):
        read_value({"port": value}, Sheet)


def test_lines_of_text() -> None:
    assert check_line("a quote", "source") == "a quote"
    assert check_line("x" * 500, "source") == "x" * 500
    for value in ("", "x" * 501, "two\nlines", "\x1b[31m"):
        with pytest.raises(FormatError, match=r"^source: expected a string of one line$"):
            check_line(value, "source")


def test_files_of_the_most_bytes_and_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "floor.toml"
    assert toml_sheet.MAX_FILE_BYTES == 2**20
    path.write_text("port = 1\n")
    monkeypatch.setattr(toml_sheet, "MAX_FILE_BYTES", 9)
    assert read_sheet(path, "floor") == "port = 1\n"
    monkeypatch.setattr(toml_sheet, "MAX_FILE_BYTES", 8)
    with pytest.raises(FormatError, match="larger than 8 bytes, the most that is read") as caught:
        read_sheet(path, "floor")
    assert str(caught.value).startswith(f"{path}:")
