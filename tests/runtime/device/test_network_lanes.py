"""Lanes of ranks in boxes of two that a network joins: what kernels over NCCL's GIN do, as threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.rank_check import CheckedRank

from harness.fake_gpu import build_fake, live
from harness.rank_groups import in_threads
from treadle.planning import program_of, solve
from treadle.program.program import Buffer
from treadle.runtime.data import ElementType
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol
from treadle.runtime.device.kernel_build import GPU_LIBRARY
from treadle.runtime.device.rank_blocks import RankBlocks
from treadle.runtime.run_options import RunOptions

KINDS = ("allreduce", "allgather", "reduce-scatter", "broadcast", "reduce", "alltoall")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, lanes_library: None) -> Path:
    return build_fake(tmp_path_factory.mktemp("network") / "lanes.so", "-DFAKE_NETWORK")


def lanes_of(kind: str, reached: tuple[Buffer, ...]) -> BlockProgram:
    program = program_of(solve("ring:4", kind).plan, 1024)
    return lower_to_blocks(program, DeviceProtocol.SIMPLE, lanes=2, reached=reached)


@pytest.mark.parametrize("reached", [(), (Buffer.INPUT, Buffer.OUTPUT)])
def test_what_no_address_reaches_goes_through_an_outbox(
    network: Path, reached: tuple[Buffer, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GPU_LIBRARY, str(network))
    monkeypatch.setenv("FAKE_CUDA_BOX", "2")
    programs = [(lanes_of(kind, reached), count) for kind in KINDS for count in (5, 2003)]

    def work(rank_lanes: RankBlocks) -> int:
        block = rank_lanes.memory.allocate(2**20) if reached else None
        check = CheckedRank(rank_lanes, RunOptions(element=ElementType.FLOAT32), block)
        ready = [(check.prepared(rank_lanes.admit(lanes), count, 512), count) for lanes, count in programs]
        return check.wrong([*ready, *ready, *ready[:4]], threads=2)

    assert in_threads(4, work) == [0] * 4
    assert live(network) == 0
