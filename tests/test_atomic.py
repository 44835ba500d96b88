"""Files appear whole, keep the access that they had, and links and devices stay what they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.atomic import write_bytes
from treadle.cli.main import main
from treadle.errors import FormatError


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o660, 0o666, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(mode: int, umask: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_bytes(path, b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", mode)
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_obeys_the_umask(umask: int, tmp_path: Path) -> None:
    write_bytes(tmp_path / "fresh", b"")
    assert mode_of(tmp_path / "fresh") == 0o666 & ~umask


def test_what_replaces_a_private_file_is_never_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(0o600)
    modes: list[int] = []
    really_open, really_replace = os.open, os.replace

    def opened(*arguments: object) -> int:
        descriptor = really_open(*arguments)  # type: ignore[arg-type]
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    def replaced(partial: Path, target: Path) -> None:
        modes.append(mode_of(partial))
        really_replace(partial, target)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "replace", replaced)
    write_bytes(path, b"secret")
    assert modes == [0o600, 0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_owner_and_group_stay_where_we_may_keep_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    os.chown(path, 4321, 1234)
    path.chmod(0o4640)
    write_bytes(path, b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (4321, 1234, 0o640)


@pytest.mark.parametrize(("mode", "kept"), [(0o660, 0o600), (0o664, 0o644), (0o646, 0o666), (0o600, 0o600)])
def test_a_group_that_is_not_the_old_one_gets_no_more_than_everybody(
    mode: int, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(mode)
    old = path.stat()

    class Foreign:
        st_uid, st_gid, st_mode = old.st_uid, old.st_gid + 1, old.st_mode

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refused)
    monkeypatch.setattr("treadle.atomic._status", lambda target: Foreign)
    write_bytes(path, b"new")
    assert mode_of(path) == kept


def test_a_write_protected_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    if os.geteuid() == 0:  # who may write anywhere
        monkeypatch.setattr(os, "access", lambda target, how: False)
    with pytest.raises(FormatError, match="is write-protected"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("later")
    write_bytes(tmp_path / "link", b"new")
    write_bytes(tmp_path / "dangling", b"later")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()
    assert ((tmp_path / "real").read_bytes(), mode_of(tmp_path / "real")) == (b"new", 0o600)
    assert (tmp_path / "later").read_bytes() == b"later"


def test_devices_are_written_and_folders_refused(tmp_path: Path) -> None:
    write_bytes(os.devnull, b"gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    (tmp_path / "loop").symlink_to("loop")
    for bad in (tmp_path, tmp_path / "no" / "folder", tmp_path / "loop", "a\0b"):
        with pytest.raises(FormatError, match="cannot be written"):
            write_bytes(bad, b"x")


def test_commands_keep_the_mode(tmp_path: Path) -> None:
    plan = tmp_path / "ring.plan"
    plan.write_bytes(b"")
    plan.chmod(0o600)
    assert main(["solve", "ring:4", "allgather", "-o", str(plan), "-q"]) == 0
    assert mode_of(plan) == 0o600
