"""Cables as files tell them: every cell, with the line where it stands, and words at their limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.finder.building.observed_cables import (
    SeenCable,
    read_cables,
)


def read(folder: Path, text: str, *, name: str = "seen.csv", host: str | None = None) -> list[SeenCable]:
    (folder / name).write_bytes(text.encode())
    return list(read_cables(folder / name, host=host)[0])


def refusal(folder: Path, text: str) -> str:
    """What is said, without the name of the file."""
    with pytest.raises(FormatError) as caught:
        read(folder, text)
    said = str(caught.value)
    assert said.startswith(f"{folder / 'seen.csv'}:")
    return said.removeprefix(f"{folder / 'seen.csv'}:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[1] "H"[1]\nCa 1 "H" # "n0"\n', "1: a port before any node"),
        ('Ca 1 "H" # "n0"\n[1] "H"\n', "2: a port that cannot be read: '[1] \"H\"'"),
        (f'Ca 1 "H" # "n0"\n[{"x" * 70}\n', f"2: a port that cannot be read: '[{'x' * 59}'"),
        (
            f'Ca 1 "H" # "n0"\n\n[1] "{"Z" * 50}"[1]\n',
            f"3: node '{'Z' * 40}' is not described",
        ),
    ],
)
def test_what_ibnetdiscover_must_not_say(text: str, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, text) == said
