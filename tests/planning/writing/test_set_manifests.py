"""Manifests of sets: every entry, what meets, and folders that hold something else."""

from __future__ import annotations

from pathlib import Path

from treadle.lowering.set_folder import (
    _replace_folder,
)


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 250)
    _replace_folder(target, {"a": b"1", "deep/b": b"2"})
    _replace_folder(target, {"deep/c": b"3"})
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert [str(path.relative_to(target)) for path in sorted(target.rglob("*"))] == ["deep", "deep/c"]
    assert (target / "deep" / "c").read_bytes() == b"3"
