"""What MSCCL's runtimes take of several texts, at the first and last sizes of their ranges and beyond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.formats.msccl import file_selection as module
from treadle.formats.msccl.file_selection import check_selection
from treadle.formats.verdict import RangedFile
from treadle.schedules.collective import CollectiveKind


def data(**other: Any) -> bytes:
    """A text's first tag."""
    values = {"coll": "allreduce", "ngpus": 2, "nchunksperloop": 4, "minBytes": 64, "maxBytes": 1000} | other
    words = "".join(f' {key}="{value}"' for key, value in values.items())
    modes = "".join(f' {key}="{other.get(key, value)}"' for key, value in (("inplace", 0), ("outofplace", 1)))
    return f'  <algo name="x"{words}{"" if "inplace" in other else modes}>'.encode()


def text(file: str, low: int = 64, high: int | None = 1000, **other: Any) -> RangedFile:
    """A text that says what is meant, but for `other`; of two ranks and four chunks."""
    return RangedFile(
        file=file,
        data=data(**{"minBytes": low, "maxBytes": high or 0} | other),
        plan="p",
        name="x",
        collective=CollectiveKind.ALLREDUCE,
        n_ranks=2,
        n_chunks=4,
        in_place=False,
        min_bytes=low,
        max_bytes=high,
    )


def found(*texts: RangedFile, dialect: str | None = None) -> list[str]:
    """What is wrong with the choices among texts."""
    return list(check_selection(texts, {}, dialect))


def missed(file: str, counts: dict[int, list[int]], instead: str) -> list[str]:
    """Calls that a text does not get, by the bytes of an element."""
    return [
        f"{file}: not taken for {count} elements of {size} bytes, but {instead}"
        for size, elements in counts.items()
        for count in elements
    ]


def test_ranges_that_fit_are_chosen_as_meant() -> None:
    """64 to 1000 bytes are 16 to 250 times four elements of one byte, and 2 to 31 of eight."""
    assert found(text("a.xml")) == []
    assert found(text("a.xml", 64, 255), text("b.xml", 256, None)) == []
    # minBytes 65: of 68 bytes on; the first size of 64 is missed, of each width
    late = replace(text("a.xml"), data=data(minBytes=65))
    assert found(late) == missed("a.xml", {1: [64], 2: [32], 4: [16], 8: [8]}, "none")
    late = replace(text("a.xml"), data=data(minBytes=72))
    assert found(late) == missed("a.xml", {1: [64, 68], 2: [32], 4: [16], 8: [8]}, "none")
    # maxBytes 998 is before the last size of 1000, which elements of one and two bytes have
    short = replace(text("a.xml"), data=data(maxBytes=998))
    assert found(short) == missed("a.xml", {1: [1000], 2: [500]}, "none")
    short = replace(text("a.xml"), data=data(maxBytes=991))
    assert found(short) == missed("a.xml", {1: [996, 1000], 2: [496, 500], 4: [248], 8: [124]}, "none")
    middle = [text("a.xml", 64, 500), text("c.xml", 504, 1000)]
    assert found(*middle) == []


def test_sizes_beyond_a_range_are_not_the_texts() -> None:
    early = replace(text("a.xml"), data=data(minBytes=60))
    assert found(early) == ["a.xml: taken for 60 elements of 1 bytes, which is outside its range"]
    early = replace(text("a.xml"), data=data(minBytes=32))
    assert found(early) == [
        f"a.xml: taken for {count} elements of {size} bytes, which is outside its range"
        for size, count in ((1, 60), (2, 28), (4, 12), (8, 4))
    ]
    long = replace(text("a.xml"), data=data(maxBytes=1007))
    assert found(long) == ["a.xml: taken for 1004 elements of 1 bytes, which is outside its range"]
    assert found(replace(text("a.xml"), data=data(maxBytes=1003))) == []
    endless = replace(text("a.xml"), data=data(maxBytes=0))
    assert len(found(endless)) == 4
    # what has no end is not looked at beyond it; what begins at 0 has no call before it
    assert found(text("a.xml", 0, None)) == []


def test_the_first_that_serves_is_taken() -> None:
    """By the names of files in azure, as they are given in legacy; and rccl has no order."""
    wide, narrow = text("b.xml"), text("a.xml", 64, 127)
    instead = missed("b.xml", {1: [64, 68], 2: [32, 36], 4: [16, 20], 8: [8, 12]}, "a.xml")
    assert found(wide, narrow) == instead
    assert found(narrow, wide, dialect="rccl") == [
        f"a.xml and b.xml: both serve {count} elements of {2**power} bytes, and no order is known"
        for power, counts in enumerate(
            ((64, 68, 92, 120, 124), (32, 36, 44, 56, 60), (16, 20, 24, 28), (8, 12))
        )
        for count in counts
    ]
    legacy = [one for one in found(wide, narrow, dialect="legacy") if one.startswith("a.xml")]
    assert legacy[:2] == missed("a.xml", {1: [64, 68]}, "b.xml")
    filling = replace(wide, fills_in=True)
    assert found(filling, narrow) == []
    assert found(replace(wide, fills_in=True, data=data(minBytes=65))) == missed(
        "b.xml", {1: [64], 2: [32], 4: [16], 8: [8]}, "none"
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"ngpus": 3}, "(3, (True, False), 4)"),
        ({"nchunksperloop": 8}, "(2, (True, False), 8)"),
        ({"inplace": 1, "outofplace": 1}, "(2, (True, True), 4)"),
        ({"inplace": 1, "outofplace": 0}, "(2, (False, True), 4)"),
    ],
)
def test_headings_say_what_is_meant(other: dict[str, int], said: str) -> None:
    assert found(text("a.xml", **other)) == [
        f"a.xml: ranks, mode and chunks are {said}, meant are (2, (True, False), 4)"
    ]


def test_calls_in_place_are_others() -> None:
    inside = replace(text("a.xml", inplace=1, outofplace=0), in_place=True)
    assert found(inside) == []
    assert found(inside, text("b.xml")) == []


def test_shards_of_ranks_are_equal() -> None:
    gather = replace(
        text("a.xml", coll="allgather", nchunksperloop=5), n_chunks=5, collective=CollectiveKind.ALLGATHER
    )
    assert found(gather) == ["a.xml: 5 chunks are no equal shards of 2 ranks"]
    assert found(replace(text("a.xml", nchunksperloop=5), n_chunks=5)) == []


def test_a_folder_has_so_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TEXTS", {"azure": 1, "rccl": 2})
    two = [text("a.xml", 64, 127), text("b.xml", 128, 1000)]
    assert found(*two) == ["2 texts, the azure runtime reads 1"]
    assert found(*two, dialect="rccl") == []


def test_legacy_ends_before_its_last_size_and_compares_bytes() -> None:
    """Its last size is the one before maxBytes; of an allgather bytes are divided, not elements."""
    exact = text("a.xml", 64, 1000, maxBytes=1001)
    assert found(exact, dialect="legacy") == []
    short = text("a.xml", 64, 1000, maxBytes=1000)
    assert found(short, dialect="legacy") == missed("a.xml", {1: [1000], 2: [500]}, "none")
    endless = text("a.xml", 64, None, maxBytes=2000)
    assert found(endless, dialect="legacy") == []
    both = [exact, text("b.xml", 64, 1000, maxBytes=1001)]
    assert found(*both, dialect="legacy")[0] == "b.xml: not taken for 64 elements of 1 bytes, but a.xml"
    gather = replace(text("a.xml", 6, 60, coll="allgather", maxBytes=61), collective=CollectiveKind.ALLGATHER)
    # 60 bytes are of 8 a call where elements are counted; of bytes, all wholes of 4
    assert found(gather, dialect="legacy") == []


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"<alga>", "a.xml: expected the tag algo"),
        (data().replace(b' ngpus="2"', b""), "a.xml: the tag algo: 'ngpus'"),
        (data(minBytes="x"), "a.xml: the tag algo: invalid literal for int"),
        (b" " * 4096 + data(), "a.xml: expected the tag algo"),
    ],
)
def test_texts_without_a_heading_are_refused(head: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        found(replace(text("a.xml"), data=head))
