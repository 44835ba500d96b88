"""Memory that peers reach: what all ranks hear when one fails, and descriptors that go from rank to rank."""

from __future__ import annotations

import os
import socket

import pytest

from treadle.errors import MissingDependencyError
from treadle.runtime.device.memory import cumem
from treadle.runtime.device.memory.cumem import _passed


@pytest.fixture
def ends() -> tuple[list[socket.socket], list[str]]:
    """Sockets of three ranks, and their names."""
    made = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3)]
    names = [f"\0treadle-test-{os.getpid()}-{id(one)}" for one in made]
    for one, name in zip(made, names, strict=True):
        one.bind(name)
    return made, names


def test_who_passes_nothing_is_named(
    ends: tuple[list[socket.socket], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets, names = ends
    assert cumem._LIMIT_S == 60
    monkeypatch.setattr(cumem, "_LIMIT_S", 0.0)
    with pytest.raises(MissingDependencyError, match=r"^rank 1 passes no descriptor$"):
        _passed(sockets[0], 0, {}, names, {2, 1})
    assert _passed(sockets[0], 0, {}, names, set()) == {}
    for end in sockets:
        end.close()
