"""Windows of NCCL that a network reaches as well: what is asked of the library, and what is refused."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
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
from treadle.runtime.device.memory.gpu_library import GpuLibrary
from treadle.runtime.device.memory.nccl_network import OUTBOX_BYTES, NcclNetworkMemory
from treadle.runtime.device.memory.peer_memory import BLOCK_BYTES, FLAGS_AT, PeerBlock

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

    def said(self, name: str, *arguments: Any) -> None:
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


def test_ranks_meet_and_have_addresses_of_their_box(libraries: Callable[[list[StandIn]], None]) -> None:
    given = [StandIn(rank) for rank in range(5)]
    libraries(given)
    for rank, (memory, library) in enumerate(zip(opened(5), given, strict=True)):
        box = [peer + 1001 if BOX_OF[peer] == BOX_OF[rank] else 0 for peer in range(5)]
        assert memory.blocks == tuple(box)
        own_id = [("treadle_nccl_id", 3)] if rank == 0 else []
        assert library.asked == [
            ("treadle_peer_device", 20 + rank),
            *own_id,
            ("treadle_nccl_open", b"i\0d", rank, 5),
            ("treadle_nccl_window", 50 + rank, BLOCK_BYTES),
            ("treadle_nccl_addresses", 50 + rank),
            ("treadle_peer_write", 1001 + rank + FLAGS_AT, [2**20 - 1] * 5),
            ("treadle_nccl_window", 50 + rank, OUTBOX_BYTES),
            ("treadle_nccl_addresses", 50 + rank),
            ("treadle_nccl_connect", 50 + rank, 5, FLAGS_AT),
        ]
        assert memory.network is memory
        assert memory.library is library
        assert memory.no_multicast == ""
        assert OUTBOX_BYTES == 32 * 2**20
        library.asked.clear()
        for _ in range(2):
            memory.close()
        assert library.asked == [("treadle_nccl_close", 50 + rank)]


@pytest.mark.parametrize("lacking", [None, 3])
def test_boxes_have_an_address_where_every_rank_has_one(
    libraries: Callable[[list[StandIn]], None], lacking: int | None
) -> None:
    libraries([StandIn(rank, multimem=0 if rank == lacking else 70 + rank) for rank in range(5)])
    boxes = ((0, 2), (1, 3, 4))

    def then(memory: NcclNetworkMemory) -> tuple[PeerBlock, str]:
        assert memory.allocate(64).multicast == {}
        assert memory.no_multicast == ""  # nobody has asked
        return memory.allocate(128, (*boxes, (0, 1))), memory.no_multicast

    for rank, (block, why) in enumerate(opened(5, then)):
        assert (block.size, block.number, block.addresses[rank]) == (128, 3, 4001 + rank)
        if lacking is None:
            assert block.multicast == {box: 70 + rank if rank in box else 0 for box in boxes}
            assert why == ""
        else:
            assert block.multicast == {}
            assert why == "NCCL has no multimem address of its windows here"


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
    words = "two operations raise a flag: a signal adds to what one has told"
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
        == f"slices of {slot + 4} bytes in {lanes} lanes: the outbox has {slot} bytes for each"
    )
    tables.operations = tables.operations[:0]
    memory.check_size(tables, 4)


def test_a_launch_tells_where_windows_are(alone: tuple[NcclNetworkMemory, StandIn]) -> None:
    memory, library = alone
    memory.launch(5, 6, "places", [(-1, 0), (3, 44)], 7, 8, 9, None)
    assert memory.max_blocks(2, 96) == 9
    (name, comm, rank, tables, places, given, *codes), room = library.asked
    assert (name, comm, rank, tables, places, codes) == (
        *("treadle_nccl_launch", 51, 5, 6, "places"),
        [7, 8, 9, None],
    )
    told = given._obj
    assert (list(told.windows), list(told.at), told.outbox_bytes) == ([-1, 3], [0, 44], OUTBOX_BYTES)
    assert room == ("treadle_nccl_room", 2, 2, 96)
    assert [(name, getattr(type(told), name).offset) for name, _ in told._fields_] == [
        ("windows", 0),
        ("at", 16),
        ("outbox_bytes", 32),
    ]


class Functions:
    """A library whose functions return what is told, and put words where the caller has room for them."""

    def __init__(self, found: Any = 0) -> None:
        self.found, self.known, self.arguments = found, dict[str, Any](), tuple[Any, ...]()

    def __getattr__(self, name: str) -> Any:
        def function(*arguments: Any) -> Any:
            self.arguments = arguments
            arguments[-2].value = b"no \xff way"
            assert arguments[-1] == len(arguments[-2]) == 300
            return self.found

        return self.known.setdefault(name, function)


def test_libraries_have_the_functions_of_their_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Functions] = []

    def load(path: str) -> Functions:
        assert path == "lanes.so"
        made.append(Functions())
        return made[-1]

    monkeypatch.setattr(ctypes, "CDLL", load)
    kinds = []
    for with_network in (False, True):
        GpuLibrary(Path("lanes.so"), with_network=with_network)
        kinds.append({name.split("_")[1] for name in made[-1].known})
    assert kinds == [{"peer", "rank", "cumem"}, {"peer", "rank", "nccl"}]
    monkeypatch.setattr(nccl_network, "build_for_nccl", lambda: Path("lanes.so"))
    assert "treadle_nccl_open" in made[1].known
    assert isinstance(nccl_network.nccl_library(), GpuLibrary)
    assert made[2].known.keys() == made[1].known.keys()
    whole, address = ctypes.c_int64, ctypes.c_void_p
    found = made[2].known["treadle_nccl_open"]
    assert (found.restype, found.argtypes) == (address, (address, whole, whole, address, whole))


def test_functions_say_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = Functions()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: functions)
    library = GpuLibrary(Path("lanes.so"))
    for found, address, count, is_said in ((0, None, 0, True), (5, 5, 5, False), (-1, -1, None, False)):
        functions.found = found
        for call, expected in ((library.address, address), (library.count, count)):
            if expected is None:
                with pytest.raises(ScheduleError, match=r"^no \ufffd way$"):
                    call("treadle_peer_open", 1, 2)
            else:
                assert call("treadle_peer_open", 1, 2) == expected
            assert functions.arguments[:-2] == (1, 2)
        if is_said:
            library.call("treadle_peer_open", 3)
        else:
            with pytest.raises(ScheduleError, match=r"^no \ufffd way$"):
                library.call("treadle_peer_open", 3)
