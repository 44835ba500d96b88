"""Manifests of sets: every entry, what meets, and folders that hold something else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.formats.verdict import RangedFile
from treadle.lowering import set_folder
from treadle.lowering.set_folder import (
    _check_apart,
    _kept,
    _manifest,
    _meet,
    _read_manifest,
    _replace_folder,
    _text_of,
    is_set_folder,
)
from treadle.schedules.collective import CollectiveKind


def text(first: int = 0, last: int | None = None, **values: Any) -> RangedFile:
    base: dict[str, Any] = {
        "file": "texts/a.xml",
        "data": b"data",
        "plan": "a",
        "name": "own",
        "collective": CollectiveKind.REDUCE,
        "n_ranks": 8,
        "n_chunks": 24,
        "in_place": True,
        "min_bytes": first,
        "max_bytes": last,
        "root": 3,
        "fills_in": True,
    }
    return RangedFile(**{**base, **values})


ROW = {
    "file": "texts/a.xml",
    "plan": "a",
    "name": "own",
    "algorithm": "ring",
    "protocol": "LL",
    "collective": "reduce",
    "ranks": 8,
    "chunks": 24,
    "in_place": True,
    "min_bytes": 5,
    "max_bytes": 9,
    "root": 3,
    "fills_in": True,
    "sha256": hashlib.sha256(b"data").hexdigest(),
}


def lowered(*texts: RangedFile, dialect: str = "azure") -> Any:
    return SimpleNamespace(format="msccl-xml", dialect=dialect, texts=texts)


def test_a_manifest_says_what_every_text_is_for() -> None:
    loading = SimpleNamespace(runtime="MSCCL", fallback="rings")
    other = text(10, file="texts/b.xml", collective=CollectiveKind.ALLGATHER, root=-1)
    titles = {"texts/a.xml": ("ring", "LL"), "texts/b.xml": ("bfb", "")}
    told = _manifest(
        lowered(dialect=""),
        (text(5, 9), other),
        titles,
        SimpleNamespace(loading=loading),  # type: ignore[arg-type]
    )
    assert told == {
        "treadle": "set",
        "version": 1,
        "format": "msccl-xml",
        "profile": None,
        "runtime": "MSCCL",
        "left_aside": "rings",
        "texts": [
            ROW,
            {
                **ROW,
                "file": "texts/b.xml",
                "algorithm": "bfb",
                "protocol": None,
                "collective": "allgather",
                "min_bytes": 10,
                "max_bytes": None,
                "root": -1,
            },
        ],
    }


def test_a_text_is_read_back_from_its_row(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.xml").write_bytes(b"data")
    assert _text_of(ROW, tmp_path) == text(5, 9)
    plain = {**ROW, "max_bytes": None, "in_place": False, "fills_in": False, "root": -1}
    assert _text_of(plain, tmp_path) == text(5, None, in_place=False, fills_in=False, root=-1)


@pytest.mark.parametrize(
    ("values", "file", "said"),
    [
        ({"file": "/etc/x"}, "set.json", "'/etc/x' is outside the folder"),
        ({"file": "a/../../x"}, "set.json", "'a/../../x' is outside the folder"),
        (
            {"sha256": "0"},
            "texts/a.xml",
            "was changed since the set was written; lower its plan again",
        ),
        ({"ranks": "eight"}, "set.json", "cannot be read as a set: invalid literal for int()"),
        ({"collective": "gossip"}, "set.json", "cannot be read as a set: 'gossip' is not a valid"),
        ({"file": "texts/none.xml"}, "set.json", "cannot be read as a set: [Errno 2]"),
        ({"min_bytes": None}, "set.json", "cannot be read as a set: int() argument"),
    ],
)
def test_rows_that_are_none(values: dict[str, Any], file: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.xml").write_bytes(b"data")
    with pytest.raises(FormatError) as caught:
        _text_of({**ROW, **values}, tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / file}: {said}")


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ((0, None), (9, None), True),
        ((0, 9), (9, None), True),
        ((0, 8), (9, None), False),
        ((9, None), (0, 8), False),
        ((9, 20), (0, 9), True),
        ((5, 6), (0, None), True),
        ((5, 6), (7, 8), False),
    ],
)
def test_ranges_that_meet(one: tuple[int, int | None], other: tuple[int, int | None], meet: bool) -> None:
    assert _meet(text(*one), text(*other)) is meet


def test_two_plans_may_not_serve_the_same_calls() -> None:
    here, folder = text(0, 9), Path("sets")
    for other in (
        text(10, plan="b"),
        text(9, plan="a"),
        text(9, plan="b", n_ranks=4),
        text(9, plan="b", in_place=False),
        text(9, plan="b", collective=CollectiveKind.BROADCAST),
    ):
        _check_apart([here, other], folder)
    with pytest.raises(FormatError) as caught:
        _check_apart([here, text(20, 30), text(9, plan="b", file="texts/b.xml")], folder)
    assert str(caught.value) == (
        "sets: texts/a.xml and texts/b.xml would serve the same calls; narrow one (--min-size, --max-size) "
        "or name another folder"
    )


def write(folder: Path, rows: list[dict[str, Any]], **values: Any) -> None:
    told = {"treadle": "set", "version": 1, "format": "msccl-xml", "profile": "azure", "texts": rows}
    folder.mkdir(exist_ok=True)
    (folder / "set.json").write_text(json.dumps({**told, **values}))


def test_texts_of_other_plans_are_kept(tmp_path: Path) -> None:
    rows = [
        {**ROW, "file": "a.xml", "plan": "a"},
        {**ROW, "file": "b.xml", "plan": "b", "protocol": None, "algorithm": "bfb"},
        {**ROW, "file": "c.xml", "plan": "a", "in_place": False},
    ]
    for row in rows:
        (tmp_path / str(row["file"])).write_bytes(b"data")
    write(tmp_path, rows)
    kept, titles = _kept(tmp_path, lowered(text(plan="a")))
    assert [one.file for one in kept] == ["b.xml", "c.xml"]
    assert titles == {"b.xml": ("bfb", ""), "c.xml": ("ring", "LL")}
    assert _kept(tmp_path / "nothing", lowered(text())) == ([], {})
    empty = tmp_path / "empty"
    empty.mkdir()
    assert _kept(empty, lowered(text())) == ([], {})
    with pytest.raises(FormatError) as caught:
        _kept(tmp_path, lowered(text(plan="a"), dialect=""))
    assert str(caught.value) == (
        f"{tmp_path}: holds texts of msccl-xml azure, found msccl-xml; a runtime reads one kind: name "
        "another folder"
    )
    only = tmp_path / "only"
    write(only, [{**ROW, "file": "../a.xml"}][:0])
    assert _kept(only, lowered(text(plan="a"), dialect="rccl")) == ([], {}), "nothing is left of another"


def test_folders_that_hold_something_else(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    assert not is_set_folder(tmp_path)
    with pytest.raises(FormatError) as caught:
        _kept(tmp_path, lowered(text()))
    assert str(caught.value) == (f"{tmp_path}: holds 'a' and no set; name a folder of its own (-o texts/)")
    with pytest.raises(FormatError) as caught:
        _kept(tmp_path / "a", lowered(text()))
    assert str(caught.value) == f"{tmp_path / 'a'}: is a file; name a folder for a set"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"version": 2}, "expected a set of version 1, found ('set', 2)"),
        ({"treadle": "plan"}, "expected a set of version 1, found ('plan', 1)"),
        ({"texts": {}}, "expected a set of version 1, found ('set', 1)"),
    ],
)
def test_manifests_of_others(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    write(tmp_path, [], **values)
    path = tmp_path / "set.json"
    with pytest.raises(FormatError) as caught:
        _read_manifest(path)
    assert str(caught.value) == f"{path}: {said}"


def test_manifests_of_the_most_bytes_and_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [])
    path = tmp_path / "set.json"
    assert is_set_folder(tmp_path)
    assert set_folder._MOST_BYTES == 2**24
    size = path.stat().st_size
    monkeypatch.setattr(set_folder, "_MOST_BYTES", size)
    assert _read_manifest(path)["texts"] == []
    monkeypatch.setattr(set_folder, "_MOST_BYTES", size - 1)
    with pytest.raises(FormatError) as caught:
        _read_manifest(path)
    assert str(caught.value) == f"{path}: is larger than {size - 1} bytes, the most that is read"
    monkeypatch.undo()
    told = json.loads(path.read_text())
    for key in ("format", "profile", "texts", "version"):
        path.write_text(json.dumps({name: value for name, value in told.items() if name != key}))
        with pytest.raises(FormatError) as caught:
            _read_manifest(path)
        assert str(caught.value) == f"{path}: cannot be read as a set: {key!r}"


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 250)
    _replace_folder(target, {"a": b"1", "deep/b": b"2"})
    _replace_folder(target, {"deep/c": b"3"})
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert [str(path.relative_to(target)) for path in sorted(target.rglob("*"))] == ["deep", "deep/c"]
    assert (target / "deep" / "c").read_bytes() == b"3"
