"""A rank's own launches on a CUDA runtime of threads: processes that open each other's memory, programs that
share staging, graphs that are replayed, waits that nobody ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest
from tools.rank_check import CheckedRank, FolderExchange

from harness.fake_gpu import live
from harness.rank_groups import in_threads
from samples.matrix_cases import modes, one_of_each_row
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.planning import program_of, solve
from treadle.runtime.data import Reduction
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol
from treadle.runtime.device.kernel_build import GPU_LIBRARY
from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import IpcMemory
from treadle.runtime.device.rank_blocks import RankBlocks, RankBuffers
from treadle.runtime.run_options import RunOptions

LL, SIMPLE = DeviceProtocol.LL, DeviceProtocol.SIMPLE


@pytest.fixture(autouse=True)
def on_it(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GPU_LIBRARY, str(library))


def lanes_of(fabric: str, kind: str, protocol: DeviceProtocol, *, in_place: bool = False) -> BlockProgram:
    program = program_of(solve(fabric, kind).plan, 1024, in_place=in_place)
    return lower_to_blocks(program, protocol, lanes=2, reached=())


def checked(
    programs: list[tuple[BlockProgram, int]], asked: RunOptions, *, threads: int = 1, slice_bytes: int = 512
) -> Callable[[RankBlocks], object]:
    """Launch programs one behind another without a pause, twice; wrong elements at a rank."""

    def work(rank_lanes: RankBlocks) -> int:
        check = CheckedRank(rank_lanes, asked)
        ready = [
            (check.prepared(rank_lanes.admit(lanes), count, slice_bytes), count) for lanes, count in programs
        ]
        if rank_lanes.memory.rank == 0:
            assert all(rank_lanes.prove(one) == () for one, _ in ready)
        return check.wrong([*ready, *ready], threads=threads)

    return work


def test_every_kind_of_schedule(library: Path) -> None:
    for turn, ((row, kind), plan) in enumerate(one_of_each_row().items()):
        in_place = modes(kind)[turn % len(modes(kind))]
        program = program_of(plan, 1024, in_place=in_place)
        lanes = lower_to_blocks(program, tuple(DeviceProtocol)[turn % 2], lanes=1, reached=())
        found = in_threads(program.n_ranks, checked([(lanes, 900)], RunOptions()))
        assert found == [0] * program.n_ranks, (row, kind)
    assert live(library) == 0


@pytest.mark.parametrize("protocol", [SIMPLE, LL])
def test_a_wait_that_nobody_ends_is_told_with_its_peer(library: Path, protocol: DeviceProtocol) -> None:
    """Of all peers, also one that comes when the others have given up: they told it nothing that is wrong."""

    def work(rank_lanes: RankBlocks) -> str:
        lanes = lanes_of("ring:4", "allreduce", protocol, in_place=True)
        first = rank_lanes.admit(lanes_of("ring:4", "allgather", LL))
        if rank_lanes.memory.rank == 2:  # never comes
            idle = tuple(replace(one, operations=()) if one.rank == 2 else one for one in lanes.lanes)
            lanes = replace(lanes, lanes=idle)
        ready = rank_lanes.prepare(rank_lanes.admit(lanes), 64, element=0, element_bytes=4, slice_bytes=64)
        at = gpu_library().address("treadle_peer_allocate", 256)
        assert first.number == 0
        assert rank_lanes.failure() == ""
        if rank_lanes.memory.rank == 0:
            sleep(0.5)
        rank_lanes.launch(ready, RankBuffers((at, at)), Reduction.SUM, threads=1)
        gpu_library().c.treadle_peer_free(at)
        return rank_lanes.failure()

    found = in_threads(4, work, limit_s=0.1)
    told = [one for one in found if one]
    assert len(told) == 3
    for one in told:
        assert f"allreduce, protocol {protocol}: rank " in str(one)
        assert "waited 0.1 s for rank " in str(one) or " had given up" in str(one)
    assert any("waited 0.1 s for rank " in str(one) for one in told)
    assert live(library) == 0


@pytest.mark.parametrize("protocol", [SIMPLE, LL])
def test_a_rank_that_gives_up_stops_its_peers(library: Path, protocol: DeviceProtocol) -> None:
    """Rank 2 never comes; rank 1 gives up after 0.1 s, and the others long before their own 60 s."""

    def work(rank_lanes: RankBlocks) -> str:
        rank = rank_lanes.memory.rank
        if rank == 2:
            return ""
        rank_lanes._limit_s = 0.1 if rank == 1 else 60.0
        admitted = rank_lanes.admit(lanes_of("ring:4", "allreduce", protocol, in_place=True))
        ready = rank_lanes.prepare(admitted, 64, element=0, element_bytes=4, slice_bytes=64)
        at = gpu_library().address("treadle_peer_allocate", 256)
        rank_lanes.launch(ready, RankBuffers((at, at)), Reduction.SUM, threads=2)
        first = rank_lanes.failure()
        # what is launched after that ends as well
        rank_lanes.launch(ready, RankBuffers((at, at)), Reduction.SUM, threads=2)
        gpu_library().c.treadle_peer_free(at)
        return first

    begun = monotonic()
    found = in_threads(4, work)
    assert monotonic() - begun < 20
    assert "rank 1, lane " in str(found[1])
    assert "waited 0.1 s for rank " in str(found[1])
    for rank in (0, 3):
        assert f"allreduce, protocol {protocol}: rank {rank} stopped because rank " in str(found[rank])
        assert " had given up; see the message of that rank" in str(found[rank])
    assert live(library) == 0


def test_refusals(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def work(rank_lanes: RankBlocks) -> None:
        lanes = lanes_of("ring:2", "allgather", SIMPLE)
        with pytest.raises(ScheduleError, match="a program of 3 ranks in a group of 2"):
            rank_lanes.admit(lanes_of("ring:3", "allgather", SIMPLE))
        direct = rank_lanes.admit(lower_to_blocks(lanes.program, SIMPLE, lanes=2))
        placed = rank_lanes.prepare(direct, 64, element=0, element_bytes=4, slice_bytes=64)
        with pytest.raises(ScheduleError, match="the program uses OUTPUT of peers that it cannot reach"):
            rank_lanes.launch(placed, RankBuffers((1, 1)), Reduction.SUM, threads=1)
        block = rank_lanes.memory.allocate(4096)
        with pytest.raises(ScheduleError, match="OUTPUT is not in the block that peers reach"):
            rank_lanes.launch(placed, RankBuffers((1, 1), (None, block)), Reduction.SUM, threads=1)
        ready = rank_lanes.prepare(rank_lanes.admit(lanes), 64, element=0, element_bytes=4, slice_bytes=64)
        assert rank_lanes.max_blocks(SIMPLE, 0, 1) == 1
        with pytest.raises(ScheduleError, match="a launch of all lanes at once: too many blocks"):
            rank_lanes.launch(ready, RankBuffers((1, 1)), Reduction.SUM, threads=1)

    monkeypatch.setenv("FAKE_CUDA_BLOCKS", "1")
    in_threads(2, work)
    assert live(library) == 0

    def alone(said: bytes) -> list[bytes]:
        return [said, said]

    with pytest.raises(MissingDependencyError, match="rank 0: a peer's memory: invalid device context"):
        IpcMemory(0, alone)
    with pytest.raises(MissingDependencyError, match="CUDA IPC: rank 0: the GPU: invalid argument"):
        IpcMemory(0, alone, device=3)
    with pytest.raises(MissingDependencyError, match=r"rank 1 has said nothing for 0\.05 s"):
        FolderExchange(tmp_path, 0, 2, limit_s=0.05)(b"")
    assert live(library) == 0
