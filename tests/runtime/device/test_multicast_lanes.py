"""Ranks that ask switches in launches of their own, by memory with addresses that reach several ranks: the
fake GPU copies and adds up there."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from tools.rank_check import CheckedRank

from harness.fake_gpu import live
from harness.rank_groups import in_threads
from treadle.errors import MissingDependencyError
from treadle.planning import program_of, solve
from treadle.program.program import Buffer, Program
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol
from treadle.runtime.device.kernel_build import GPU_LIBRARY
from treadle.runtime.device.memory.cumem import CuMemMemory
from treadle.runtime.device.memory.peer_memory import Exchange, PeerMemory
from treadle.runtime.device.rank_blocks import RankBlocks
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
