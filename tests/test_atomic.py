"""Files appear whole, keep the access that they had, and links and devices stay what they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from treadle.atomic import write_bytes


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


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
