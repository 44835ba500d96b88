"""Ranks that ask switches in launches of their own, by memory with addresses that reach several ranks: the
fake GPU copies and adds up there."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tools.rank_check import CheckedRank

from harness.fake_gpu import live
from harness.rank_groups import in_processes, in_threads
from treadle.errors import MissingDependencyError
from treadle.planning import program_of, solve
from treadle.program.program import Buffer, Program
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol
from treadle.runtime.device.kernel_build import GPU_LIBRARY
from treadle.runtime.device.memory.cumem import CuMemMemory
from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import Exchange, PeerMemory
from treadle.runtime.device.rank_blocks import RankBlocks, RankBuffers
from treadle.runtime.device.switch_parts import switch_groups
from treadle.runtime.run_options import RunOptions
from treadle.topologies.topology import Topology

SIMPLE = DeviceProtocol.SIMPLE
PLACED = (Buffer.INPUT, Buffer.OUTPUT)
FOUR, EIGHT, BOXES = "dgx_h100(1, 4, nvls=True)", "dgx_h100(1, nvls=True)", "dgx_h100(2, 4, nvls=True)"
KINDS = ("allreduce", "allgather", "reduce-scatter", "broadcast", "reduce", "alltoall")


@pytest.fixture(autouse=True)
def on_it(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GPU_LIBRARY, str(library))
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "8")


def own_device(rank: int, exchange: Exchange) -> PeerMemory:
    return CuMemMemory(rank, exchange, rank)


@cache
def case(fabric: str, kind: str, *, in_place: bool = False) -> tuple[Topology, Program]:
    is_whole = kind in ("allreduce", "allgather", "reduce-scatter") and fabric != BOXES
    if kind == "alltoall":
        plan = solve(fabric, kind).plan
    elif is_whole:
        plan = solve(fabric, kind, algorithm="nvls").plan
    else:
        plan = solve(fabric, kind, multicast=True).plan
    return plan.topology, program_of(plan, 1024, in_place=in_place)


def lowered(
    fabric: str, kind: str, protocol: DeviceProtocol = SIMPLE, *, in_place: bool = False
) -> BlockProgram:
    topology, program = case(fabric, kind, in_place=in_place)
    return lower_to_blocks(program, protocol, lanes=2, switches=topology, reached=PLACED)


def asks(lanes: BlockProgram) -> bool:
    return any(one.sums >= 0 or one.multicast >= 0 for lane in lanes.lanes for one in lane.operations)


def wrong_of(
    rank_lanes: RankBlocks,
    programs: list[tuple[BlockProgram, int]],
    asked: RunOptions,
    groups: tuple[tuple[int, ...], ...],
    *,
    through: bool,
    threads: int = 1,
) -> int:
    """Wrong elements of launches of programs, twice, with buffers in a block or copied to it and back."""
    block = rank_lanes.memory.allocate(2**20, groups)
    rank = rank_lanes.memory.rank
    assert {group: bool(at) for group, at in block.multicast.items()} == {g: rank in g for g in groups}
    check = CheckedRank(rank_lanes, asked, block, through=through)
    ready = [(check.prepared(rank_lanes.admit(lanes), count, 512), count) for lanes, count in programs]
    if rank_lanes.memory.rank == 0:
        assert all(rank_lanes.prove(one) == () for one, _ in ready)
    return check.wrong([*ready, *ready], threads=threads)


@pytest.mark.parametrize(("n", "fabric"), [(4, FOUR), (8, EIGHT)])
@pytest.mark.parametrize("through", [False, True])
def test_every_collective_asks_switches_and_is_right(
    library: Path, n: int, fabric: str, through: bool
) -> None:
    programs, groups = [], (tuple(range(n)),)
    for turn, kind in enumerate(KINDS):
        lanes = lowered(fabric, kind)
        assert asks(lanes) == (kind != "alltoall")
        programs += [(lanes, 8 * n), (lanes, 1003 + turn)]
        programs.append((lowered(fabric, kind, DeviceProtocol.LL), 77))
        if not through and kind in ("allreduce", "allgather", "reduce-scatter", "broadcast"):
            programs.append((lowered(fabric, kind, in_place=True), 2100 - turn))

    def work(rank_lanes: RankBlocks) -> int:
        return wrong_of(rank_lanes, programs, RunOptions(), groups, through=through, threads=1 + 2 * through)

    assert in_threads(n, work, memory=own_device) == [0] * n
    assert live(library) == 0


@pytest.mark.parametrize(
    ("element", "reduction"),
    [
        (ElementType.FLOAT16, Reduction.SUM),
        (ElementType.BFLOAT16, Reduction.MAX),
        (ElementType.FLOAT32, Reduction.MAX),
        (ElementType.INT32, Reduction.MIN),
        (ElementType.INT64, Reduction.SUM),
    ],
)
def test_elements_and_reductions(library: Path, element: ElementType, reduction: Reduction) -> None:
    """Also where the switch has no instruction, as for the greatest of float32: rank by rank."""
    programs = [(lowered(FOUR, kind), count) for kind in KINDS[:3] for count in (4, 501)]
    asked = RunOptions(element=element, reduction=reduction)

    def work(rank_lanes: RankBlocks) -> int:
        return wrong_of(rank_lanes, programs, asked, ((0, 1, 2, 3),), through=False)

    assert in_threads(4, work, memory=own_device) == [0] * 4
    assert live(library) == 0


def test_processes_and_several_boxes(library: Path, tmp_path: Path) -> None:
    groups = switch_groups(case(BOXES, "allreduce")[0], case(BOXES, "allreduce")[1].nodes.tolist())
    assert groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    programs = [(lowered(BOXES, kind), count) for kind in KINDS[:4] for count in (333, 1601)]
    assert all(asks(lanes) for lanes, _ in programs)

    def work(rank_lanes: RankBlocks) -> int:
        return wrong_of(rank_lanes, programs, RunOptions(), groups, through=True)

    assert in_processes(8, tmp_path, work, memory=own_device) == [0] * 8
    two = [
        (
            lower_to_blocks(program_of(solve("complete:2", kind).plan, 64), SIMPLE, lanes=2, reached=PLACED),
            999,
        )
        for kind in KINDS
    ]

    def of_two(rank_lanes: RankBlocks) -> int:
        return wrong_of(rank_lanes, two, RunOptions(), ((0, 1),), through=False)

    (tmp_path / "two").mkdir()
    assert in_processes(2, tmp_path / "two", of_two, memory=own_device) == [0, 0]
    assert live(library) == 0


def test_a_graph_is_replayed_with_its_copies(library: Path) -> None:
    fake = ctypes.CDLL(str(library))
    lanes = lowered(FOUR, "allreduce")

    def work(rank_lanes: RankBlocks) -> list[float]:
        gpu, rank, n = gpu_library(), rank_lanes.memory.rank, 64
        block = rank_lanes.memory.allocate(4096, ((0, 1, 2, 3),))
        ready = rank_lanes.prepare(rank_lanes.admit(lanes), n, element=0, element_bytes=4, slice_bytes=64)
        data = np.full(n, rank + 1.0, np.float32)
        own = gpu.address("treadle_peer_allocate", data.nbytes)
        at = block.addresses[rank]
        buffers = RankBuffers((at, at + 2048), (block, block), (own, data.nbytes), (own, data.nbytes))
        fake.fake_cuda_capture()
        rank_lanes.launch(ready, buffers, Reduction.SUM, threads=1)
        fake.fake_cuda_end_capture()
        found = []
        for turn in range(20):
            data[:] = rank + turn
            gpu.call("treadle_peer_write", own, data.ctypes.data, data.nbytes)
            assert fake.fake_cuda_replay() == 0
            gpu.call("treadle_peer_read", data.ctypes.data, own, data.nbytes)
            found.append(float(data[turn]))
        gpu.c.treadle_peer_free(own)
        return found

    folder = library.parent / "replayed"
    folder.mkdir()
    expected = [6.0 + 4 * turn for turn in range(20)]
    assert in_processes(4, folder, work, memory=own_device) == [expected] * 4


def test_without_multicast_the_reason_is_known_at_all_ranks(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = (0, 1, 2)

    def reason(rank_lanes: RankBlocks) -> str:
        assert rank_lanes.memory.allocate(4096, (group,)).multicast == {}
        return rank_lanes.memory.no_multicast

    def one_device(rank: int, exchange: Exchange) -> PeerMemory:
        return CuMemMemory(rank, exchange, 0)

    found = in_threads(3, reason, memory=one_device)
    assert found == [found[0]] * 3
    assert "a GPU more in a multicast object: invalid argument" in str(found[0])
    assert "ranks share one" in str(in_threads(3, reason)[0])
    monkeypatch.setenv("FAKE_CUDA_NO_MULTICAST", "1")
    found = in_threads(3, reason, memory=own_device)
    assert (
        found
        == [
            "CUDA's virtual memory: rank 0: this GPU has no multicast: that takes NVSwitch with SHARP, "
            "and its fabric manager"
        ]
        * 3
    )
    assert live(library) == 0
    with pytest.raises(
        MissingDependencyError, match="CUDA's virtual memory: rank 0: the GPU: invalid argument"
    ):
        CuMemMemory(0, lambda said: [said], 9)
