"""Small TOML files: lengths, prices, counts and lines at their limits and beyond."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.planning.building import toml_sheet
from treadle.planning.building.toml_sheet import (
    check_known,
    line_of_text,
    metres,
    price,
    read_tables,
    sub_table,
    whole,
)


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
    assert metres(text, "tray") == length


@pytest.mark.parametrize("text", ["2", "m", "2km", "-2m", "2  m", "2.m", "2.1234567m", "1234567890mm", 2])
def test_what_is_no_length(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        metres(text, "tray")
    assert str(caught.value) == (
        f"tray: found {str(text)!r}, expected a length with a unit, as in 60cm or 2.4m"
    )


def test_lengths_beyond_all_rooms() -> None:
    with pytest.raises(FormatError) as caught:
        metres("100000.001m", "tray")
    assert str(caught.value) == "tray: 100000.001m is more than 100000 m"
    with pytest.raises(FormatError, match=f"^tray: found '{'x' * 60}', expected a length"):
        metres("x" * 70, "tray")


@pytest.mark.parametrize(
    ("value", "amount"),
    [(0, Fraction(0)), (12.35, Fraction(247, 20)), (10**9, Fraction(10**9)), (1e-7, Fraction(1, 10**7))],
)
def test_prices(value: float, amount: Fraction) -> None:
    assert price(value, "port") == amount


@pytest.mark.parametrize("value", [-1, -0.5, 10**9 + 1, True, "5", None, float("nan"), float("inf"), [5]])
def test_what_is_no_price(value: object) -> None:
    with pytest.raises(FormatError) as caught:
        price(value, "port")
    assert str(caught.value) == f"port: found {str(value)!r}, expected a number from 0 to 10**9"


def test_counts() -> None:
    assert whole(1, "units") == 1
    assert whole(10**6, "units") == 10**6
    assert whole(3, "units", least=3, most=5) == 3
    assert whole(5, "units", least=3, most=5) == 5
    for value in (2, 6, True, 4.0, "4", None):
        with pytest.raises(FormatError) as caught:
            whole(value, "units", least=3, most=5)
        assert str(caught.value) == f"units: found {str(value)!r}, expected a whole number from 3 to 5"
    with pytest.raises(FormatError) as caught:
        whole(10**6 + 1, "units")
    assert str(caught.value) == "units: found '1000001', expected a whole number from 1 to 1000000"


def test_lines_of_text() -> None:
    assert line_of_text("a quote", "source") == "a quote"
    assert line_of_text("x" * 500, "source") == "x" * 500
    for value in ("", "x" * 501, "two\nlines", "\x1b[31m", 3):
        with pytest.raises(FormatError) as caught:
            line_of_text(value, "source")
        assert str(caught.value) == "source: expected one line of text"


def test_keys_and_tables() -> None:
    check_known({"units": 1}, "rack", {"units", "tray"})
    with pytest.raises(FormatError) as caught:
        check_known({"units": 1, "unitz": 2}, "rack", {"units", "tray"})
    assert str(caught.value).startswith("unknown rack: key 'unitz'")
    assert "units" in str(caught.value)
    assert sub_table({"rack": {"units": 1}}, "rack") == {"units": 1}
    assert sub_table({"rack": {"units": 1}}, "floor") == {}
    with pytest.raises(FormatError) as caught:
        sub_table({"rack": 1}, "rack")
    assert str(caught.value) == "rack: expected a table [rack]"


def refused(path: Path) -> FormatError:
    with pytest.raises(FormatError) as caught:
        read_tables(path, "floor")
    assert str(caught.value).startswith(f"{path}:")
    return caught.value


def test_files_of_the_most_bytes_and_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "floor.toml"
    assert toml_sheet.MAX_FILE_BYTES == 2**20
    path.write_text("a = 1\nb = 2\n")
    assert read_tables(path, "floor") == {"a": 1, "b": 2}
    monkeypatch.setattr(toml_sheet, "MAX_FILE_BYTES", 12)
    assert read_tables(str(path), "floor") == {"a": 1, "b": 2}
    monkeypatch.setattr(toml_sheet, "MAX_FILE_BYTES", 11)
    assert "larger than 11 bytes, the most that is read" in str(refused(path))
    assert toml_sheet.MOST_METRES == 100_000


def test_lines_of_the_most_characters_and_one_more(tmp_path: Path) -> None:
    path = tmp_path / "floor.toml"
    path.write_text("a = 1\n#" + "x" * 999)
    assert read_tables(path, "floor") == {"a": 1}
    path.write_text("a = 1\n#" + "x" * 1000)
    error = refused(path)
    assert "longer than 1000 characters" in str(error)
    assert error.line == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a = ", "not TOML: "),
        (b"a = " + b"9" * 900 + b"\nb = " + b"[" * 900, "not TOML"),
        (b"\xff\xfe", "byte 0xff is not valid UTF-8; expected the floor as TOML"),
    ],
)
def test_bytes_that_are_no_tables(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "floor.toml"
    path.write_bytes(data)
    assert message in str(refused(path))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert "No such file" in str(refused(tmp_path / "nothing"))
    assert "this is a folder" in str(refused(tmp_path))
