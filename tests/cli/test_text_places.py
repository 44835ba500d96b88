"""Where ``lower`` puts texts: names of files, of groups, and folders that a runtime parses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.atomic import write_bytes
from treadle.cli.file_paths import RuntimeFilePath, check_folder, group_output_path, output_path
from treadle.errors import FormatError
from treadle.planning import Profile


def form(**changes: Any) -> Any:
    values = {
        "extension": ".xml",
        "is_per_rank": False,
        "parses_folder": False,
        "is_begun_by": lambda text: text.startswith("<algo"),
    }
    return SimpleNamespace(**(values | changes))


def test_a_file_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    plan = Path("some/ring.v2.plan")
    named = output_path(str(tmp_path / "x.txt"), plan, form())
    assert (named.path, named.is_own_folder) == (tmp_path / "x.txt", False)
    for output in (f"{tmp_path}/new/", str(tmp_path)):
        place = output_path(output, plan, form())
        assert (place.path, place.is_own_folder) == (Path(output) / "ring.v2.xml", True)
    per_rank = output_path(str(tmp_path), plan, form(is_per_rank=True))
    assert per_rank.path == tmp_path / "ring.v2"
    with pytest.raises(FormatError, match="there is no folder"):
        output_path(str(tmp_path / "no" / "x"), plan, form())


def test_groups_stand_beside_each_other_or_apart(tmp_path: Path) -> None:
    plan = Path("ring.plan")
    for parses, is_per_rank, path in (
        (False, False, "ring-g1.xml"),
        (True, False, "ring-g1/ring-g1.xml"),
        (True, True, "ring-g1/ring-g1"),
    ):
        folder = RuntimeFilePath(tmp_path / "x", True, form(parses_folder=parses, is_per_rank=is_per_rank))
        place = group_output_path(folder, plan, "g1")
        assert (place.path, place.is_own_folder) == (tmp_path / path, True)
        assert place.target is folder.target


def test_several_files_have_suffixes(tmp_path: Path) -> None:
    files = (("", b"1"), (".rank0", b"2"), (".box1.xml", b"3"))
    assert RuntimeFilePath(tmp_path / "a.b.txt", False, form()).targets(files) == [
        (tmp_path / "a.b.txt", b"1"),
        (tmp_path / "a.b.rank0.txt", b"2"),
        (tmp_path / "a.b.box1.xml", b"3"),
    ]
    assert RuntimeFilePath(tmp_path / "a", False, form()).targets(files) == [
        (tmp_path / "a", b"1"),
        (tmp_path / "a.rank0", b"2"),
        (tmp_path / "a.box1.xml", b"3"),
    ]


def test_only_a_folder_that_was_named_is_made(tmp_path: Path) -> None:
    RuntimeFilePath(tmp_path / "no" / "x", False, form()).folder()
    assert not (tmp_path / "no").exists()
    own = RuntimeFilePath(tmp_path / "new" / "deep" / "x", True, form())
    for _ in range(2):
        with own.folder():
            assert (tmp_path / "new" / "deep").is_dir()
    with pytest.raises(OSError, match="disk"), own.folder():
        raise OSError("disk is full")
    assert (tmp_path / "new" / "deep").is_dir()
    none = RuntimeFilePath(tmp_path / "none" / "deep" / "x", True, form())
    with pytest.raises(FormatError, match="cannot be written"), none.folder():
        write_bytes(tmp_path / "none" / "deep", b"")
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FormatError) as caught:
        RuntimeFilePath(tmp_path / "file" / "x", True, form()).folder().__enter__()
    assert str(caught.value) == f"{tmp_path / 'file'}: cannot be made: File exists"


def test_a_folder_that_is_parsed_holds_its_texts_only(tmp_path: Path) -> None:
    place = RuntimeFilePath(tmp_path / "own.xml", True, form(parses_folder=True))
    (tmp_path / "own.xml").write_bytes(b"anything")
    (tmp_path / "folder").mkdir()
    (tmp_path / "good.xml").write_bytes(b"<algo>" + b"x" * 5000)
    check_folder(place, None)
    (tmp_path / "zz.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "notes").write_bytes(b" <algo")
    with pytest.raises(FormatError) as caught:
        check_folder(place, None)
    assert str(caught.value) == (
        f"{tmp_path}: holds 'notes', which is not an MSCCL file, and the runtime parses every file of its "
        "folder; name a folder that is empty or does not exist yet"
    )
    check_folder(place, Profile.LEGACY)
    check_folder(RuntimeFilePath(tmp_path / "own.xml", False, form(parses_folder=True)), None)
    check_folder(RuntimeFilePath(tmp_path / "own.xml", True, form()), None)
    check_folder(RuntimeFilePath(tmp_path / "later" / "own.xml", True, form(parses_folder=True)), None)
    with pytest.raises(FormatError) as caught:
        check_folder(RuntimeFilePath(tmp_path / "notes" / "x", True, form(parses_folder=True)), None)
    assert str(caught.value) == f"{tmp_path / 'notes'}: cannot be read: Not a directory"
