"""Memory that peers reach: what all ranks hear when one fails, and descriptors that go from rank to rank."""

from __future__ import annotations

import os
import socket
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread

import pytest

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.memory import cumem
from treadle.runtime.device.memory.cumem import _passed
from treadle.runtime.device.memory.peer_memory import (
    BLOCK_BYTES,
    FLAGS_AT,
    MOST_FLAGS,
    STAGING_AT,
    PeerBlock,
    PeerMemory,
)


class NoMemory(PeerMemory):
    """Blocks of no bytes."""

    def __init__(self, rank: int, heard: list[bytes]) -> None:
        self.given: list[bytes] = []
        self.asked: list[tuple[int, Sequence[tuple[int, ...]]]] = []

        def exchange(said: bytes) -> list[bytes]:
            self.given.append(said)
            return [*heard[:rank], said, *heard[rank:]]

        super().__init__(rank, exchange, "nothing")

    def _allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:
        self.asked.append((size, groups))
        return PeerBlock(size, (7,))

    def close(self) -> None:
        """Nothing is there."""


def test_places_in_the_first_block() -> None:
    """16 MB of staging for each protocol, then flags of 8 bytes."""
    assert STAGING_AT == {DeviceProtocol.SIMPLE: 0, DeviceProtocol.LL: 2**24}
    assert (FLAGS_AT, MOST_FLAGS, BLOCK_BYTES) == (2**25, 2**19, 2**25 + 2**22)


def test_blocks_are_numbered_as_they_are_made() -> None:
    memory = NoMemory(0, [b""])
    assert (memory.n_ranks, memory.blocks, memory.network, memory.no_multicast) == (0, (), None, "")
    assert (memory.first.size, memory.first.number) == (0, 0)
    assert [memory.allocate(5).number for _ in range(2)] == [0, 1]
    third = memory.allocate(9, [(0, 1)])
    assert (third.size, third.number, memory.asked) == (9, 2, [(5, ()), (5, ()), (9, [(0, 1)])])


@pytest.mark.parametrize(
    ("error", "heard", "words"),
    [
        (None, [b"", b""], ""),
        (ScheduleError("no  room"), [b"", b""], "rank 1: no  room"),
        (MissingDependencyError("no GPU"), [b"", b"worse"], "rank 1: no GPU"),
        (ScheduleError("no room"), [b"bad \xff", b"worse"], "rank 0: bad \ufffd"),
        (None, [b"", b"worse"], "rank 2: worse"),
        (ValueError("a\n  b"), [b"", b""], "rank 1: ValueError: a b"),
        (KeyError(3), [b"", b""], "rank 1: KeyError: 3"),
        (OSError("x" * 201), [b"", b""], f"rank 1: OSError: {'x' * 200}"),
    ],
)
def test_all_ranks_fail_with_the_words_of_the_first(
    error: Exception | None, heard: list[bytes], words: str
) -> None:
    """Rank 1 of three does some work."""
    memory = NoMemory(1, heard)

    def work() -> int:
        if error is not None:
            raise error
        return 5

    if not words:
        assert memory._together(work) == 5
        memory.barrier()
        assert memory.given == [b"", b""]
        return
    with pytest.raises(MissingDependencyError) as caught:
        memory._together(work)
    assert str(caught.value) == f"nothing: {words}"


@pytest.fixture
def ends() -> tuple[list[socket.socket], list[str]]:
    """Sockets of three ranks, and their names."""
    made = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3)]
    names = [f"\0treadle-test-{os.getpid()}-{id(one)}" for one in made]
    for one, name in zip(made, names, strict=True):
        one.bind(name)
    return made, names


def files(folder: Path, *names: str) -> list[int]:
    """Descriptors of new files that hold their names."""
    for name in names:
        (folder / name).write_text(name)
    return [os.open(folder / name, os.O_RDONLY) for name in names]


def held(descriptor: int) -> str:
    """What a descriptor's file holds; the descriptor is closed."""
    try:
        return os.pread(descriptor, 99, 0).decode()
    finally:
        os.close(descriptor)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_reach_the_ranks_for_whom_they_are(
    ends: tuple[list[socket.socket], list[str]], tmp_path: Path
) -> None:
    """Rank 0 has one for each of the others, rank 2 one for rank 0; rank 1 gives none."""
    sockets, names = ends
    one, two, three = files(tmp_path, "for 1", "for 2", "for 0")
    given, senders = [{1: one, 2: two}, {}, {0: three}], [{2}, {0}, {0}]
    found: list[dict[int, int]] = [{}, {}, {}]

    def rank(number: int) -> None:
        found[number] = _passed(sockets[number], number, given[number], names, senders[number])

    threads = [Thread(target=rank, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert [{peer: held(at) for peer, at in each.items()} for each in found] == [
        {2: "for 0"},
        {0: "for 1"},
        {0: "for 2"},
    ]
    assert given == [{1: one, 2: two}, {}, {0: three}]  # whose descriptors they stay
    for descriptor in (one, two, three):
        os.close(descriptor)
    for end in sockets:
        end.close()


@pytest.mark.parametrize(
    "words",
    [
        lambda own, other: f"{other} 2",  # meant for somebody else
        lambda own, other: f"{own} 1",  # of a rank that has none for this one
        lambda own, other: f"{own} 3",  # that has given it before
        lambda own, other: f"{own} two",
        lambda own, other: own,
    ],
)
def test_descriptors_of_strangers_are_closed(
    ends: tuple[list[socket.socket], list[str]], tmp_path: Path, words: Callable[[str, str], str]
) -> None:
    """Before those of ranks 3 and 2, rank 0 receives a descriptor with other words."""
    sockets, names = ends
    own, *_ = sockets
    before = open_descriptors()
    third, strange, second = files(tmp_path, "third", "strange", "second")
    for text, descriptor in (
        (f"{names[0]} 3", third),
        (words(names[0], names[1]), strange),
        (f"{names[0]} 2", second),
    ):
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))]
        sockets[1].sendmsg([text.encode()], passed, 0, names[0])
        os.close(descriptor)
    found = _passed(own, 0, {}, names, {2, 3})
    assert open_descriptors() == before + 2
    assert {peer: held(at) for peer, at in found.items()} == {2: "second", 3: "third"}
    for end in sockets:
        end.close()


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
