"""What MSCCL++'s selector takes of several plans, at the first and last sizes of their ranges and beyond."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from treadle.errors import FormatError
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


def test_plans_are_taken_from_their_first_size_to_the_last() -> None:
    """Of 100 to 1000 bytes those of 32 to 128, 160, 544, 960 and 992; not 96 and 1024."""
    assert found([text("a")], [row("a")]) == []
    for first, sizes in ((128, []), (129, [128]), (161, [128, 160])):
        wanted = [f"a: not taken for {size} bytes, but none" for size in sizes]
        assert found([text("a")], [row("a", first)]) == wanted
    for last, sizes in ((992, []), (991, [992]), (959, [960, 992])):
        wanted = [f"a: not taken for {size} bytes, but none" for size in sizes]
        assert found([text("a")], [row("a", 100, last)]) == wanted
    split = [row("a", 100, 543), row("a", 545)]
    assert found([text("a")], split) == ["a: not taken for 544 bytes, but none"]
    assert found([text("a")], [row("a", 96)]) == ["a: taken for 96 bytes, which is outside its range"]
    assert found([text("a")], [row("a", 100, 1024)]) == [
        "a: taken for 1024 bytes, which is outside its range"
    ]


def test_a_range_without_end_goes_as_far_as_offsets_do() -> None:
    endless = text("a", 0, None)
    for first in (0, 1):
        assert found([endless], [row("a", first, 2**32 - 1)]) == []
    assert found([endless], [row("a", 1, 2**32 - 33)]) == ["a: not taken for 4294967264 bytes, but none"]
    assert found([endless], [row("a", 1, 2**33)]) == [
        "a: taken for 4294967296 bytes, which it does not serve"
    ]
    assert found([endless], [row("a", 33, 2**32 - 1)]) == ["a: not taken for 32 bytes, but none"]
    assert found([replace(endless, max_bytes=31)], []) == []


def test_the_first_row_that_fits_is_taken() -> None:
    both = [text("a", name="a"), text("b", 100, 200, name="b")]
    rows = [row("a", name="a"), row("b", 100, 200, name="b")]
    assert found(both, rows) == [f"b: not taken for {size} bytes, but a" for size in (128, 160, 192)]
    assert found([both[0], replace(both[1], fills_in=True)], rows) == []
    other = [f"a: not taken for {size} bytes, but b" for size in (128, 160)]
    assert found(both, rows[::-1]) == other
    for key, value in (
        ("collective", "broadcast"),
        ("ranks", 3),
        ("in_place", True),
        ("root", 0),
        ("unit", 224),
    ):
        rows = [row("a", name="a", **{key: value}), row("b", 100, 200, name="b")]
        lost = [one for one in found(both, rows) if one.startswith("b: ")]
        assert lost == []


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
    assert "a: taken for 128 bytes, which it does not serve" in found([wrong, meant], rows)
    assert found([text("a", 100, 130), replace(meant, fills_in=True)], rows) == []


@pytest.mark.parametrize(
    ("kind", "chunks", "is_served"),
    [
        ("allgather", (1, 2), True),
        ("allgather", (2, 4), True),
        ("allgather", (4, 8), False),
        ("reducescatter", (2, 1), True),
        ("reducescatter", (8, 4), False),
        ("allreduce", (4, 4), True),
    ],
)
def test_parts_of_gathers_are_divided_by_their_own_chunks(
    kind: str, chunks: tuple[int, int], is_served: bool
) -> None:
    """Of 192 bytes of two ranks a part has 96: six sixteens."""
    gpus = [dict(zip(("input_chunks", "output_chunks"), chunks, strict=True))] * 2
    least = [{"input_chunks": 1, "output_chunks": 2}] * 2 if kind == "allgather" else [
        {"input_chunks": 2, "output_chunks": 1}
    ] * 2  # fmt: skip
    one = text("a", 192, 192, collective=kind, gpus=gpus)
    other = text("b", 192, 192, collective=kind, gpus=least, name="b")
    faults = found([one, replace(other, fills_in=True)], [row("a", 192, 192, collective=kind)])
    assert ("a: taken for 192 bytes, which it does not serve" in faults) is not is_served


def test_tables_and_folders_agree() -> None:
    assert found([text("a")], [row("a"), row("c", name="c")]) == [
        "c: the selector knows it, the folder does not"
    ]
    twice = [text("a"), text("b", 2000, 3000)]
    assert found(twice, [row("a"), row("b", 2000, 3000)]) == ["two plans are named x"]
    # NCCL's interface hands no reduce to plans
    assert found([text("a", collective="reduce")], []) == []
    with pytest.raises(FormatError, match=r"treadle_set\.py: expected the table PLANS"):
        check_selection([text("a")], {"treadle_set.py": b"ROWS = []\n"}, None)
    with pytest.raises(FormatError, match="a: no JSON: "):
        found([replace(text("a"), data=b"{")], [])
