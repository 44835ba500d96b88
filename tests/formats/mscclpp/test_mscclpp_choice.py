"""What MSCCL++'s selector takes of several plans, at the first and last sizes of their ranges and beyond."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from treadle.formats.mscclpp.file_selection import check_selection
from treadle.formats.verdict import RangedFile
from treadle.schedules.collective import CollectiveKind

Row = list[Any]


def plan(**other: Any) -> bytes:
    """What the executor compares of a plan of two ranks, of which one has fewer chunks."""
    gpus = [{"input_chunks": 2, "output_chunks": 2}, {"input_chunks": 1, "output_chunks": 1}]
    values = {"name": "x", "collective": "allreduce", "inplace": False, "gpus": gpus}
    return json.dumps({**values, "min_message_size": 0, "max_message_size": 2**64 - 1, **other}).encode()


def text(file: str, low: int = 100, high: int | None = 1000, **other: Any) -> RangedFile:
    """A plan that is meant for these sizes, of which its chunks serve whole 32s."""
    return RangedFile(
        file, plan(**other), "p", "x", CollectiveKind.ALLREDUCE, 2, 2, in_place=False, min_bytes=low,
        max_bytes=high,
    )  # fmt: skip


def row(file: str, first: int = 100, last: int = 1000, /, **other: Any) -> Row:
    """A line of the selector's table."""
    values = {"name": "x", "collective": "allreduce", "ranks": 2, "first": first, "last": last, "unit": 32}
    return [file, *(values | {"in_place": False, "root": -1} | other).values()]


def found(texts: list[RangedFile], rows: list[Row]) -> list[str]:
    """What is wrong with the choices."""
    module = f"import os\nOTHER = 3\nPLANS = {[tuple(one) for one in rows]!r}\n"
    return list(check_selection(texts, {"treadle_set.py": module.encode()}, None))


@pytest.mark.parametrize(
    "other",
    [
        {"min_message_size": 129},
        {"max_message_size": 127},
        {"inplace": True},
        {"name": "y"},
        {"gpus": [{"input_chunks": 2, "output_chunks": 2}] * 2 + [{"input_chunks": 1, "output_chunks": 1}]},
        {"gpus": [{"input_chunks": 2, "output_chunks": 2}, {"input_chunks": 3, "output_chunks": 2}]},
    ],
)
def test_what_is_taken_is_served(other: dict[str, Any]) -> None:
    """The plan that is taken for another's first size of 128 bytes does not serve it."""
    meant = text("b", 100, 130, name="b")
    wrong = text("a", 100, 130, **other)
    rows = [row("a", 128, 128)]
    assert "a: chosen for 128 bytes, which it does not support" in found([wrong, meant], rows)
    assert found([text("a", 100, 130), replace(meant, fills_in=True)], rows) == []
