"""What MSCCL's runtimes take of several texts, at the first and last sizes of their ranges and beyond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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


def test_shards_of_ranks_are_equal() -> None:
    gather = replace(
        text("a.xml", coll="allgather", nchunksperloop=5), n_chunks=5, collective=CollectiveKind.ALLGATHER
    )
    assert found(gather) == ["a.xml: 5 chunks are not equal shards of 2 ranks"]
    assert found(replace(text("a.xml", nchunksperloop=5), n_chunks=5)) == []
