"""Parts of the way of a GPU's tensors by themselves: opening, choices, tables, buffers; with stand-ins."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.planning import program_of, solve
from treadle.runtime.data import Reduction
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.block_sizes import BlockChoice, BlockLimits
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch
from torch.distributed import DistBackendError, HashStore, ReduceOp

from treadle.torch import Options
from treadle.torch.gpu import gpu_engine, opening
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.gpu.gpu_engine import GpuEngine
from treadle.torch.gpu.gpu_settings import GpuMemory, GpuMethod, GpuSettings
from treadle.torch.gpu.opening import NoBlockProgramError, StoreExchange, open_blocks
from treadle.torch.gpu.peer_buffers import BlockKernel, CallMethod
from treadle.torch.group_engine import NoPlanError, TensorCall
from treadle.torch.plans import Membership, SizedProgram
from treadle.torch.reductions import reduction_of
from treadle.torch.settings import settings_of

SIMPLE, LL = DeviceProtocol.SIMPLE, DeviceProtocol.LL
LIMIT = timedelta(seconds=3)
RING = parse("ring:3")


def test_ranks_tell_each_other_through_the_store() -> None:
    """In turns, whose words are apart."""
    store = HashStore()
    for turn, words in enumerate((b"\0\xff", b"later")):
        store.set(f"gpu/{turn}/1", words.hex())
    exchange = StoreExchange(store, 0, 2, LIMIT)
    assert exchange(b"own") == [b"own", b"\0\xff"]
    assert exchange(b"") == [b"", b"later"]


class Opened:
    """Lanes of a rank that are opened, with room for so many blocks by threads and protocol."""

    def __init__(self, network: object = None) -> None:
        self.memory = SimpleNamespace(network=network, words="stand-in")
        self.closed, self.asked = 0, list[tuple[Any, ...]]()

    def room(self, protocol: DeviceProtocol, element: int, threads: int) -> int:
        self.asked.append((protocol, element, threads))
        return {SIMPLE: 9, LL: 6}[protocol]

    def close(self) -> None:
        self.closed += 1


def opened(
    monkeypatch: pytest.MonkeyPatch,
    *,
    own: str = "",
    others: Sequence[tuple[str, str, str]] = (("h", "", ""),),
    then: Sequence[tuple[str, int]] = (("", 7),),
    settings: GpuSettings | None = None,
    network: object = None,
    fails: str = "",
) -> tuple[Any, Opened, list[Any]]:
    """What rank 0 finds that hears others, or why it has no lanes."""
    settings = GpuSettings() if settings is None else settings
    lanes, made = Opened(network), list[Any]()
    heard = [[host, words or repr(settings), lacks] for host, words, lacks in others]
    turns: list[list[Any]] = [heard, list(map(list, then))]

    def exchange(said: bytes) -> list[bytes]:
        made.append(json.loads(said))
        return [said, *(json.dumps(one).encode() for one in turns.pop(0))]

    def library() -> None:
        if own:
            raise MissingDependencyError(own)

    def memory(*given: Any, has_far: bool) -> Any:
        made.append((*given[1:4], has_far))
        if fails:
            raise ScheduleError(fails)
        return lanes.memory

    def rank_lanes(given: object, *, limit_s: float) -> Opened:
        made.append((given is lanes.memory, limit_s))
        return lanes

    for name, found in (("gpu_library", library), ("_memory", memory), ("RankBlocks", rank_lanes)):
        monkeypatch.setattr(opening, name, found)
    monkeypatch.setattr(opening, "host_name", lambda: "h")
    try:
        return open_blocks(exchange, 0, 4, settings, limit_s=2.5, store=HashStore()), lanes, made
    except NoBlockProgramError as error:
        return (str(error), error.is_between_hosts), lanes, made


def test_lanes_have_the_least_room_of_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    found, lanes, made = opened(monkeypatch)
    assert found == (lanes, 6)
    assert made == [
        ["h", repr(GpuSettings()), ""],
        (0, 4, GpuMemory.IPC, False),
        (True, 2.5),
        ["", 6],
    ]
    assert lanes.asked == [(SIMPLE, 0, 512), (LL, 0, 512)]
    assert opened(monkeypatch, then=[("", 5)])[0][1] == 5
    assert opened(monkeypatch, then=[("", 1)])[0][1] == 1
    found, lanes, made = opened(
        monkeypatch, others=[("far", "", "")], settings=GpuSettings(memory=GpuMemory.NCCL), network="NIC"
    )
    assert found == (lanes, 6)
    assert made[1] == (0, 4, GpuMemory.NCCL, True)
    assert lanes.asked == [(SIMPLE, 0, 256), (LL, 0, 256)]
    # who asks for lanes by name is not stopped at the border of a host
    found, lanes, made = opened(
        monkeypatch, others=[("far", "", "")], settings=GpuSettings(way=GpuMethod.LANES)
    )
    assert (found, made[1][-1]) == ((lanes, 6), True)


@pytest.mark.parametrize(
    ("given", "words", "between", "closed"),
    [
        ({"own": "no nvcc"}, "rank 0: no nvcc", False, 0),
        ({"others": [("h", "", ""), ("h", "x", "no GPU")]}, "rank 2: no GPU", False, 0),
        (
            {"others": [("far", "x", "")]},
            "ranks have other options or TREADLE_GPU variables than others",
            False,
            0,
        ),
        (
            {"others": [("far", "", ""), ("h", "", ""), ("moon", "", "")]},
            "its ranks are on 3 hosts; TREADLE_GPU_MEMORY=nccl asks for kernels that cross them",
            True,
            0,
        ),
        ({"then": [("", 0)]}, "a GPU has room for no block of the kernel", False, 1),
        ({"then": [("", 2), ("no handle", 0)]}, "rank 2: no handle", False, 1),
        ({"fails": "no memory"}, "rank 0: no memory", False, 0),
    ],
)
def test_where_one_rank_has_no_lanes_none_has(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], words: str, between: bool, closed: int
) -> None:
    others = given.pop("others", [("h", "", "")] * len(given.get("then", [0])))
    given["then"] = given.get("then", [("", 9)] * len(others))
    found, lanes, _ = opened(monkeypatch, others=others, **given)
    assert (found, lanes.closed) == ((words, between), closed)


class Lanes:
    """Stand-in of `RankBlocks`."""

    def __init__(self) -> None:
        self.memory = SimpleNamespace(network=None, words="stand-in")
        self.asked: list[Any] = []
        self.wrong: tuple[str, ...] = ()
        self.failed = ""

    def failure(self) -> str:
        return self.failed

    def admit(self, lanes: Any) -> Any:
        self.asked.append(("admit", lanes))
        return SimpleNamespace(number=3)

    def prepare(self, admitted: Any, count: int, **named: int) -> Any:
        self.asked.append(("prepare", admitted.number, count, named))
        return f"tables {count}"

    def prove(self, ready: Any) -> tuple[str, ...]:
        return self.wrong

    def drop(self, ready: Any) -> None:
        self.asked.append(("drop", ready))

    def launch(self, ready: Any, buffers: Any, reduction: Reduction, *, threads: int, stream: int) -> None:
        self.asked.append(("launch", ready, buffers, reduction, threads, stream))

    def close(self) -> None:
        self.asked.append(("close",))


def engine_of(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuSettings | None = None, rank: int = 0
) -> tuple[Any, Lanes]:
    """Rank 0 of three, with lanes and buffers that are stand-ins."""
    gpu = GpuSettings() if gpu is None else gpu
    group = Membership("g", rank, (0, 1, 2), RING, LIMIT)
    engine: Any = GpuEngine(HashStore(), group, settings_of(Options(fabric=RING, gpu=gpu), {}), gpu)
    lanes = Lanes()
    program = SizedProgram(program_of(solve(RING, "allreduce", algorithm="ring").plan, 64), RING, "made")
    engine._lanes, engine._room = lanes, 8
    engine._source = SimpleNamespace(program=lambda *_, in_place: program)
    way: Any = CallMethod("lanes", "buffers", " by a stand-in", "")  # type: ignore[arg-type]
    engine._buffers = SimpleNamespace(has_switches=False, way=lambda *_: way, allocate=lambda size: size)
    for name, found in (("device_of", 0), ("stream_of", 11), ("is_capturing", False)):
        monkeypatch.setattr(streams, name, lambda *_, found=found: found)
    monkeypatch.setattr(gpu_engine, "choose_blocks", lambda *_, **__: BlockChoice(SIMPLE, 1, 512, 2048, 0.0))
    return engine, lanes


def call_of(count: int, dtype: torch.dtype = torch.bfloat16, operation: Any = ReduceOp.MIN) -> TensorCall:
    flat = torch.zeros(count, dtype=dtype)
    how = reduction_of(operation, dtype)
    return TensorCall(CollectiveKind.ALLREDUCE, count, flat, flat, True, reduction=how)


def test_calls_are_launched_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine, lanes = engine_of(monkeypatch)
    with caplog.at_level(logging.INFO, "treadle.torch"):
        for _ in range(2):
            engine.run(call_of(1024))
    made = {"element": 2, "element_bytes": 2, "slice_bytes": 2048}
    launch = ("launch", "tables 1024", "buffers", Reduction.MIN, 512, 11)
    assert lanes.asked == [("admit", "lanes"), ("prepare", 3, 1024, made), launch, launch]
    assert [one.getMessage() for one in caplog.records] == [
        "group g: allreduce of 2KB on GPUs by lanes by a stand-in: protocol Simple, at most 1 blocks of 512 "
        "threads, slices of 2KB, by cost model nccl-hopper"
    ]
    silent, _ = engine_of(monkeypatch, rank=1)
    caplog.clear()
    silent.run(call_of(1024))
    assert caplog.records == []
    lanes.wrong = ("a race",)
    with pytest.raises(DistBackendError) as caught:
        engine.run(call_of(1025))
    assert str(caught.value) == "treadle: allreduce in group g: lanes are not right: a race"
    lanes.failed = "rank 2 is gone"
    with pytest.raises(DistBackendError) as caught:
        engine.run(call_of(1024))
    assert str(caught.value) == (
        "treadle: group g: rank 2 is gone; the group cannot be used any more: end this process, or destroy "
        "the process group and make it again"
    )
    engine.close()
    engine.check()
    assert lanes.asked[-1] == ("close",)
    with pytest.raises(NoPlanError, match=r"^the group is closed$"):
        engine.run(call_of(1024))


def test_why_switches_are_not_asked_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for rank, count in ((0, 1), (1, 0)):
        engine, _ = engine_of(monkeypatch, rank=rank)
        way: Any = CallMethod("lanes", "buffers", "", "no NVSwitch")  # type: ignore[arg-type]
        engine._buffers.way = lambda *_, way=way: way
        caplog.clear()
        with caplog.at_level(logging.INFO, "treadle.torch"):
            for _ in range(2):
                engine.run(call_of(1024))
        told = [one.getMessage() for one in caplog.records if "NVSwitch" in one.getMessage()]
        words = "goes from rank to rank, where its plan asks switches: no NVSwitch"
        assert told == [f"group g: allreduce of 2KB on GPUs {words}"] * count


def test_tables_that_no_graph_needs_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was used least of late goes first; what a graph has seen stays."""
    engine, lanes = engine_of(monkeypatch)
    assert gpu_engine._MOST_PREPARED == 256
    monkeypatch.setattr(gpu_engine, "_MOST_PREPARED", 3)
    captured = {4: True}
    for count in (4, 6, 8, 6, 4, 10, 12, 8):
        monkeypatch.setattr(streams, "is_capturing", lambda count=count: captured.pop(count, False))
        engine.run(call_of(count))
    assert [one[1] for one in lanes.asked if one[0] == "drop"] == ["tables 8", "tables 6", "tables 10"]
    assert [key[1] for key in engine._prepared] == [4, 12, 8]


@pytest.mark.parametrize(
    ("gpu", "network", "switches", "room", "limits", "lanes", "threads"),
    [
        (GpuSettings(), None, False, 8, BlockLimits(most_lanes=8), 1, 512),
        (GpuSettings(), None, True, 2, BlockLimits(most_lanes=2), 2, 512),
        (GpuSettings(), None, True, 1, BlockLimits(most_lanes=1), 1, 512),
        (GpuSettings(lanes=1), None, True, 8, BlockLimits(lanes=1, most_lanes=8), 1, 512),
        (GpuSettings(), "NIC", False, 8, BlockLimits((SIMPLE,), most_lanes=8), 1, 256),
        (
            GpuSettings(protocol=LL, lanes=3, threads=96, slice_bytes=4096),
            *(None, False, 5),
            *(BlockLimits((LL,), 3, 96, 4096, 5), 1, 512),
        ),
    ],
)
def test_launches_are_chosen_within_what_is_said(
    monkeypatch: pytest.MonkeyPatch,
    gpu: GpuSettings,
    network: object,
    switches: bool,
    room: int,
    limits: BlockLimits,
    lanes: int,
    threads: int,
) -> None:
    engine, opened = engine_of(monkeypatch, gpu)
    opened.memory.network, engine._buffers.has_switches, engine._room = network, switches, room
    asked: list[Any] = []

    def choose(*given: Any, **named: Any) -> BlockChoice:
        asked.append((given[1], given[2].model, named))
        return BlockChoice(SIMPLE, 1, 512, 2048, 0.0)

    monkeypatch.setattr(gpu_engine, "choose_blocks", choose)
    found = engine._choice(engine._source.program(0, in_place=True), 4000)
    assert (found.lanes, found.threads) == (lanes, threads)
    assert asked == [(4000, "nccl-hopper", {"rate_bytes_per_s": 450 * 10**9, "limits": limits})]


def test_kernels_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches combine all but the least and greatest of float32; what is not combined goes as bytes."""
    for dtype, code, n_bytes in (
        (torch.float32, 0, 4),
        (torch.float16, 1, 2),
        (torch.bfloat16, 2, 2),
        (torch.int32, 3, 4),
        (torch.int64, 4, 8),
    ):
        average = Reduction.SUM if n_bytes == 2 else Reduction.AVG  # those of 2 bytes are scaled before
        for operation, how in ((ReduceOp.SUM, Reduction.SUM), (ReduceOp.AVG, average)):
            found = gpu_engine._kernel_of(call_of(7, dtype, operation))
            assert found == BlockKernel(code, n_bytes, 7, how, can_switch_sum=True)
        found = gpu_engine._kernel_of(call_of(7, dtype, ReduceOp.MAX))
        assert found.can_switch_sum is (dtype is not torch.float32)
    plain = replace(call_of(7, torch.float64), reduction=None)
    assert gpu_engine._kernel_of(plain) == BlockKernel(5, 1, 56, Reduction.MAX, can_switch_sum=False)
    for call, words in (
        (call_of(7, torch.float64), "no kernel combines torch.float64 this way"),
        (call_of(7, torch.int32, ReduceOp.BOR), "no kernel combines torch.int32 this way"),
    ):
        with pytest.raises(NoPlanError, match=f"^{words}$"):
            gpu_engine._kernel_of(call)


def test_memory_is_made_at_the_first_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for way, words in (
        (GpuMethod.NCCL, "TREADLE_GPU says so"),
        (GpuMethod.STEPS, "TREADLE_GPU says so"),
        (GpuMethod.AUTO, "no room"),
        (GpuMethod.LANES, "no room"),
    ):
        engine, _ = engine_of(monkeypatch, GpuSettings(way=way))
        engine._lanes = None
        monkeypatch.setattr(streams, "is_capturing", lambda: True)
        if way in (GpuMethod.AUTO, GpuMethod.LANES):
            with pytest.raises(DistBackendError) as caught:
                engine.run(call_of(4))
            assert str(caught.value) == (
                "treadle: group g makes its memory at the first call that needs it, which cannot be in a "
                "graph that is captured: call the collective before"
            )
        monkeypatch.setattr(streams, "is_capturing", lambda: False)
        asked: list[Any] = []

        def no_lanes(exchange: Any, *given: Any, asked: list[Any] = asked, **named: Any) -> Any:
            asked.append((given[:2], named["limit_s"]))
            raise NoBlockProgramError("no room", is_between_hosts=True)

        monkeypatch.setattr(gpu_engine, "open_blocks", no_lanes)
        for _ in range(2):
            with pytest.raises(NoPlanError, match=f"^{words}$"):
                engine.empty(4, 6)
        assert asked == ([] if words != "no room" else [((0, 6), 3.0)])
        assert engine.is_between_hosts is (words == "no room")
    engine, lanes = engine_of(monkeypatch)
    engine._lanes = None
    monkeypatch.setattr(gpu_engine, "open_blocks", lambda *_, **__: (lanes, 5))
    with caplog.at_level(logging.INFO, "treadle.torch"):
        assert engine._open(0) is lanes
    assert engine._room == 5
    assert [one.getMessage() for one in caplog.records] == ["group g: memory of peers by stand-in"]
    monkeypatch.setattr(streams, "tensor_at", lambda *given: given)
    engine._buffers = SimpleNamespace(allocate=lambda size: 1000 + size)
    assert (engine.empty(0, 2), engine.empty(3, 2)) == ((1001, 0, 2), (1003, 3, 2))
