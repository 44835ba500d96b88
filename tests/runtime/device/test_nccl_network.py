"""Windows of NCCL that a network reaches as well: what is asked of the library, and what is refused."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from threading import Thread, current_thread
from typing import Any

import numpy as np
import pytest

from harness.rank_groups import ThreadExchange
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.device.block_program import (
    BlockAction,
    BlockFlag,
    BlockOperation,
    BlockProgram,
    DeviceProtocol,
    FlagPurpose,
    RankBlock,
)
from treadle.runtime.device.memory import nccl_network, peer_memory
from treadle.runtime.device.memory.nccl_network import NcclNetworkMemory

BOX_OF = (0, 1, 0, 1, 1)
"""Of five ranks: even ones but the last are in one box, the others in another."""


class StandIn:
    """The library at one rank; window w of rank r of its box lies at 1000 w + r + 1, of others at 0."""

    def __init__(self, rank: int, failing: str = "", *, multimem: int = 77) -> None:
        self.rank, self.failing, self.multimem = rank, failing, multimem
        self.asked: list[tuple[Any, ...]] = []
        self.windows = 0
        self.c = self

    def treadle_nccl_id_bytes(self) -> int:
        return 3

    def treadle_nccl_close(self, comm: int) -> None:
        self.asked.append(("treadle_nccl_close", comm))

    def _fails(self, name: str) -> None:
        if name == self.failing:
            raise ScheduleError(f"{name} failed")

    def call(self, name: str, *arguments: Any) -> None:
        self._fails(name)
        if name == "treadle_nccl_id":
            arguments[0].raw = b"i\0d"
            arguments = (len(arguments[0]),)
        elif name == "treadle_nccl_addresses":
            for peer, box in enumerate(BOX_OF[: len(arguments[1])]):
                arguments[1][peer] = (1000 * self.windows + peer + 1) * (box == BOX_OF[self.rank])
            arguments[2]._obj.value = self.multimem
            arguments = arguments[:1]
        elif name == "treadle_peer_write":
            values = np.ctypeslib.as_array((ctypes.c_uint64 * (arguments[2] // 8)).from_address(arguments[1]))
            arguments = (arguments[0], values.tolist())
        self.asked.append((name, *arguments))

    def address(self, name: str, *arguments: Any) -> int:
        self._fails(name)
        self.asked.append((name, *arguments))
        self.windows += name == "treadle_nccl_window"
        return 50 + self.rank

    def count(self, name: str, *arguments: Any) -> int:
        self.asked.append((name, *arguments))
        return 9


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[StandIn]], None]:
    """Has ranks, which are threads, find these libraries."""

    def use(given: list[StandIn]) -> None:
        def own() -> StandIn:
            return given[int(current_thread().name.rpartition("_")[2])]

        monkeypatch.setattr(nccl_network, "nccl_library", own)
        monkeypatch.setattr(peer_memory, "gpu_library", own)

    return use


def opened(n: int, then: Callable[[NcclNetworkMemory], Any] = lambda memory: memory) -> list[Any]:
    """What each rank has, or why not."""
    together, found = ThreadExchange(n), [None] * n

    def work(rank: int) -> None:
        try:
            found[rank] = then(NcclNetworkMemory(rank, together.of(rank), 20 + rank))
        except MissingDependencyError as error:
            found[rank] = error.args[0]

    threads = [Thread(target=work, args=(rank,), name=f"rank_{rank}") for rank in range(n)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    return found


@pytest.mark.parametrize(
    ("failing", "closed"),
    [
        ("treadle_peer_device", False),
        ("treadle_nccl_open", False),
        ("treadle_nccl_window", True),
        ("treadle_nccl_addresses", True),
        ("treadle_nccl_connect", True),
    ],
)
def test_where_one_rank_fails_all_give_back(
    libraries: Callable[[list[StandIn]], None], failing: str, closed: bool
) -> None:
    given = [StandIn(0), StandIn(1, failing)]
    libraries(given)
    assert opened(2) == [f"windows of NCCL and GIN: rank 1: {failing} failed"] * 2
    given_back = [[one for one in library.asked if one[0] == "treadle_nccl_close"] for library in given]
    assert given_back == [
        [("treadle_nccl_close", 50)] if failing != "treadle_peer_device" else [],
        [("treadle_nccl_close", 51)] if closed else [],
    ]


@pytest.fixture
def alone(libraries: Callable[[list[StandIn]], None]) -> tuple[NcclNetworkMemory, StandIn]:
    library = StandIn(1)
    libraries([StandIn(0), library])
    _, memory = opened(2)
    library.asked.clear()
    return memory, library


def lanes_that_raise(*raises: tuple[int, ...]) -> BlockProgram:
    """A lane for each; flag 1 says that a rank enters, the others that a message is there."""
    flags = tuple(
        BlockFlag(0, FlagPurpose.ENTERED if number == 1 else FlagPurpose.ARRIVAL, number)
        for number in range(4)
    )
    lanes = tuple(RankBlock(0, (BlockOperation(BlockAction.PUT, 0, 0, raises=own),)) for own in raises)
    nothing: Any = None
    return BlockProgram(nothing, DeviceProtocol.SIMPLE, False, (0, 1), lanes, (), flags)


def test_what_signals_cannot_carry_is_refused(alone: tuple[NcclNetworkMemory, StandIn]) -> None:
    memory, _ = alone
    memory.check(lanes_that_raise((0, 2), (3,), ()))
    words = "two operations raise one flag: a signal would be added to the other's"
    for raises in (((0, 2), (3, 0)), ((2,), (2,)), ((1,),), ((0,), (3, 1))):
        with pytest.raises(ScheduleError) as caught:
            memory.check(lanes_that_raise(*raises))
        assert str(caught.value) == words
    with pytest.raises(ScheduleError) as caught:
        memory.check(replace(lanes_that_raise(()), protocol=DeviceProtocol.LL))
    assert str(caught.value) == "protocol LL between hosts: lines go by loads and stores only"


@pytest.mark.parametrize(("lanes", "slot"), [(0, 2**23), (1, 2**23), (3, 2796032), (64, 131072)])
def test_slices_have_room_in_the_outbox(
    alone: tuple[NcclNetworkMemory, StandIn], lanes: int, slot: int
) -> None:
    """32 MB for four puts of each lane of rank 1, in multiples of 256 bytes."""
    memory, _ = alone
    tables: Any = type("Tables", (), {})()
    tables.lanes = np.array([[1, 0, 0, 0, 0]] * lanes + [[0, 0, 0, 0, 0]] * 5)
    tables.operations = np.zeros((3, 21), dtype=np.int64)
    tables.operations[:, 3] = (7, slot // 4, 9)
    tables.operations[:, 2] = 2**40
    memory.check_size(tables, 4)
    tables.operations[1, 3] += 1
    with pytest.raises(ScheduleError) as caught:
        memory.check_size(tables, 4)
    assert (
        str(caught.value)
        == f"slices of {slot + 4} bytes in {lanes} thread blocks: the outbox has {slot} bytes for each"
    )
    tables.operations = tables.operations[:0]
    memory.check_size(tables, 4)
