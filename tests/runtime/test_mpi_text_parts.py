"""Texts executed with data by ranks that are threads: what they move, count, refuse and print."""

# ruff: noqa: N802 (methods have MPI's names)

from __future__ import annotations

import json
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import places
from treadle import planning
from treadle.errors import FormatError
from treadle.runtime import mpi_run as module
from treadle.runtime.mpi_run import execute_file, execute_files


class Shared:
    """What the ranks of a world have in common."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.barrier = threading.Barrier(n)
        self.messages: dict[tuple[int, int, int], queue.Queue[Any]] = defaultdict(queue.Queue)
        self.values: list[Any] = [None] * n
        self.lock = threading.Lock()


class Request:
    """A message under way."""

    def __init__(self, room: Any = None, source: queue.Queue[Any] | None = None) -> None:
        self.room, self.source = room, source

    def Test(self) -> bool:
        """Whether it has come."""
        if self.source is None:
            return True
        try:
            self.room[:] = self.source.get_nowait()
        except queue.Empty:
            time.sleep(0)
            return False
        self.source = None
        return True

    def Wait(self) -> None:
        """Until it has come, or too long."""
        if self.source is not None:
            self.room[:] = self.source.get(timeout=20)
            self.source = None


class World:
    """The methods of a communicator that the executor uses."""

    def __init__(self, shared: Shared, rank: int) -> None:
        self.shared, self.rank = shared, rank

    def Get_rank(self) -> int:
        """Which one this is."""
        return self.rank

    def Get_size(self) -> int:
        """How many there are."""
        return self.shared.n

    def _queue(self, source: int, dest: int, tag: int) -> queue.Queue[Any]:
        with self.shared.lock:
            return self.shared.messages[source, dest, tag]

    def Isend(self, data: Any, dest: int, tag: int = 0) -> Request:
        """Buffered."""
        self._queue(self.rank, dest, tag).put(np.array(data))
        return Request()

    def Irecv(self, room: Any, source: int, tag: int = 0) -> Request:
        """Into an array."""
        return Request(room, self._queue(source, self.rank, tag))

    def Barrier(self) -> None:
        """All ranks meet."""
        self.shared.barrier.wait(20)

    def Iprobe(self) -> bool:
        """Whether a message for this rank is left."""
        with self.shared.lock:
            return any(not one.empty() for key, one in self.shared.messages.items() if key[1] == self.rank)

    def allgather(self, value: Any) -> list[Any]:
        """Of all ranks."""
        self.shared.values[self.rank] = value
        self.Barrier()
        found = list(self.shared.values)
        self.Barrier()
        return found

    def allreduce(self, value: int) -> int:
        """The sum."""
        return sum(self.allgather(value))


def ranks(n: int, do: Callable[[World], Any]) -> list[Any]:
    """What each rank returns, or raises."""
    shared, results = Shared(n), list[Any]([None] * n)

    def work(rank: int) -> None:
        try:
            results[rank] = do(World(shared, rank))
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


@pytest.mark.parametrize("target", ["msccl-xml", "cpu-xml"])
@pytest.mark.parametrize(
    "kind", ["allgather", "reduce-scatter", "allreduce", "alltoall", "broadcast", "reduce"]
)
@pytest.mark.parametrize("in_place", [False, True])
def test_emitted_texts_come_out_right(kind: str, target: str, in_place: bool) -> None:
    if in_place and kind == "alltoall":
        return
    options: dict[str, Any] = {"root": 1} if kind in ("broadcast", "reduce") else {}
    asked: dict[str, Any] = (
        {} if target == "cpu-xml" else {"chunks": "plan", "accept_any_root": bool(options)}
    )
    plan = planning.solve("ring(3)", kind, **options).plan
    text = planning.lower(plan, to=target, in_place=in_place, **asked).text
    assert ranks(3, lambda world: execute_file(text, world, 36, root=1)) == [[0]] * 3


CHAIN = (places.GOLDEN / "allreduce_chain3.xml").read_text(encoding="utf-8")


def test_what_is_wrong_is_counted_at_each_rank() -> None:
    """Rank 0 takes the sum of chunk 1 into chunk 2, then that of chunk 2: one is never stored."""
    assert ranks(3, lambda world: execute_file(CHAIN, world, 6)) == [[0]] * 3
    old = '<step s="1" type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1"'
    assert old in CHAIN
    moved = CHAIN.replace(old, old.replace('dstoff="1"', 'dstoff="2"'), 1)
    assert ranks(3, lambda world: execute_file(moved, world, 6)) == [[2], [0], [0]]
    added = CHAIN.replace('type="r"', 'type="rrc"', 1)
    assert ranks(3, lambda world: execute_file(added, world, 12)) == [[4], [0], [0]]


def test_a_message_that_nobody_receives_is_told() -> None:
    """Two ranks copy what they have, and rank 1 sends besides."""
    copy = '<copy buf="i" dbuf="o" chunk="{0}" cnt="1"/><send peer="0" buf="i" chunk="1" cnt="1"/>'
    rank = '<rank id="{0}" i="{0}-{0}" o="0-1" slots="0">{1}</rank>'
    head = '<cpu collective="allgather" ranks="2" chunks="2" root="-1" inplace="0" minBytes="0" maxBytes="0">'
    text = head + rank.format(0, "") + rank.format(1, copy.format(1)) + "</cpu>"
    found = ranks(2, lambda world: execute_file(text, world, 4, source="file"))
    assert all(isinstance(one, FormatError) for one in found)
    assert str(found[0]) == "file: a message was sent that no rank receives"


def test_files_are_reported_at_the_first_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = tmp_path / "right.xml", tmp_path / "wrong.xml"
    right.write_text(CHAIN, encoding="utf-8")
    wrong.write_text(CHAIN.replace('type="r"', 'type="rrc"'), encoding="utf-8")
    words = [str(right), str(wrong), "--elements", "9"]
    assert ranks(3, lambda world: execute_files(words, world)) == [1] * 3
    # every rank but the one where a sum is complete receives it: twice too much is in two thirds
    (line,) = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    assert report["right.xml"] == [0]
    assert report["wrong.xml"][0] > 0
    assert ranks(3, lambda world: execute_files(words[:1], world)) == [0] * 3
    assert json.loads(capsys.readouterr().out) == {"right.xml": [0]}


def test_long_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.xml"
    path.write_text(CHAIN, encoding="utf-8")
    monkeypatch.setattr(module, "MAX_TEXT", len(CHAIN))
    assert ranks(3, lambda world: execute_files([str(path)], world)) == [0] * 3
    monkeypatch.setattr(module, "MAX_TEXT", len(CHAIN) - 1)
    with pytest.raises(FormatError, match=f"more than {len(CHAIN) - 1} bytes"):
        execute_files([str(path)], World(Shared(1), 0))
