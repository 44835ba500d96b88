"""Demand matrices from files: at the limits and beyond them, with every word of a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.inputs import demand_files
from treadle.inputs.demand_files import read_demands

EXPECTED = "expected an integer from 0 to 2**20 (only ratios matter: scale all by one factor)"


def read(folder: Path, text: str) -> list[list[int]]:
    (folder / "demands").write_text(text)
    found: list[list[int]] = read_demands(folder / "demands").matrix.tolist()
    return found


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n\n 3 ,0,1048576\n5,6,0\n",
        "[[0, 1, 2], [3, 0, 1048576], [5, 6, 0]]",
        "  \n[[0,1,2],[3,0,1048576],[5,6,0]]",
    ],
)
def test_rows_are_what_a_rank_has_for_each(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text) == [[0, 1, 2], [3, 0, 2**20], [5, 6, 0]]


LONG = "x" * 24


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has 0 rows; expected 2 to 3, one per rank"),
        ("0\n", "has 1 row; expected 2 to 3, one per rank"),
        ("0,1\n" * 4, "has 4 rows; expected 2 to 3, one per rank"),
        ("0,1\n1\n", "row 2 has 1 value; expected 2, as many as there are rows"),
        ("0,1,2\n1,0\n", "row 1 has 3 values; expected 2, as many as there are rows"),
        ("0,1,2,3,4,5\n1,0\n", "row 1 has 4 values; expected 2, as many as there are rows"),
        ("0,1\n1,x\n", f"row 2, column 2: found 'x'; {EXPECTED}"),
        ("0, -1\n1,0\n", f"row 1, column 2: found '-1'; {EXPECTED}"),
        ("0,12345678\n1,0\n", f"row 1, column 2: found '12345678'; {EXPECTED}"),
        (f"0,{LONG}\n1,0\n", f"row 1, column 2: found '{LONG}'; {EXPECTED}"),
        (f"0,{LONG}x\n1,0\n", f"row 1, column 2: found '{'x' * 20}...'; {EXPECTED}"),
        ("[[0, 1], [1048577, 0]]", f"row 2, column 1: found '1048577'; {EXPECTED}"),
        ("[[0, 1], [-1, 0]]", f"row 2, column 1: found '-1'; {EXPECTED}"),
        ("[[0, 1], [true, 0]]", f"row 2, column 1: found 'true'; {EXPECTED}"),
        ("[[0, 1], [1.5, 0]]", f"row 2, column 1: found '1.5'; {EXPECTED}"),
        ('[[0, 1], ["é", 0]]', f"row 2, column 1: found '\"é\"'; {EXPECTED}"),
        ("[[0, 1], [[7], 0]]", f"row 2, column 1: found 'a list'; {EXPECTED}"),
        ("[[0, {}], [7, 0]]", f"row 1, column 2: found 'an object'; {EXPECTED}"),
        (f"[[0, {'9' * 41}], [7, 0]]", f"row 1, column 2: found 'a huge integer'; {EXPECTED}"),
        (f"[[0, {'9' * 40}], [7, 0]]", f"row 1, column 2: found '{'9' * 20}...'; {EXPECTED}"),
        (f"[[0, -1{'0' * 40}], [7, 0]]", f"row 1, column 2: found 'a huge integer'; {EXPECTED}"),
        ("[[0, 1], [1]]", "row 2 has 1 value; expected 2, as many as there are rows"),
        ("[]", "has 0 rows; expected 2 to 3, one per rank"),
        ("[[0], 1]", "expected a JSON list of lists of integers"),
        ('{"a": 1}', "expected a JSON list of lists of integers"),
        ("[[0, 1]", "is not JSON; expected a list of lists of integers"),
        ("[" * 100_000, "is not JSON; expected a list of lists of integers"),
    ],
)
def test_what_is_no_matrix(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand_files, "MAX_RANKS", 3)
    with pytest.raises(FormatError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'demands'}: {said}"


def test_matrices_that_say_nothing_name_their_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught:
        read(tmp_path, "0,0\n0,0\n")
    assert str(caught.value).startswith(f"{tmp_path / 'demands'}: ")
