"""What of a GPU's tensors peers and switches reach, and what is copied to a window; in memory of the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.planning import program_of, solve
from treadle.runtime.data import Reduction
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.block_sizes import BlockChoice
from treadle.runtime.device.memory.peer_memory import PeerBlock
from treadle.schedules.collective import CollectiveKind

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch

from treadle.torch.gpu.peer_buffers import BlockKernel, PeerBuffers
from treadle.torch.group_engine import TensorCall
from treadle.torch.plans import SizedProgram

SIMPLE, LL = DeviceProtocol.SIMPLE, DeviceProtocol.LL


class Blocks:
    """Memory of rank 1 in a group of four, in which each block is a tensor."""

    def __init__(self, no_multicast: str = "") -> None:
        self.rank, self.no_multicast, self.made = 1, no_multicast, list[torch.Tensor]()

    def allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:
        self.made.append(torch.zeros(size, dtype=torch.uint8))
        multicast = {} if self.no_multicast else dict.fromkeys(groups, 5)
        return PeerBlock(size, (0, self.made[-1].data_ptr(), 0, 0), multicast, len(self.made))


BOX = "dgx_h100(1, 4, nvls=True)"
CHOICE = BlockChoice(SIMPLE, 2, 32, 512, 0.0)
KERNEL = BlockKernel(0, 4, 8, Reduction.SUM, can_switch_sum=True)


@pytest.fixture(scope="module")
def asking() -> dict[bool, SizedProgram]:
    """A program that asks a switch, by whether it is in place."""
    plan = solve(BOX, "allreduce", algorithm="nvls").plan
    return {
        in_place: SizedProgram(program_of(plan, 64, in_place=in_place), plan.topology, "made")
        for in_place in (False, True)
    }


def buffers_of(memory: Blocks, window: int = 32) -> PeerBuffers:
    given: Any = memory
    return PeerBuffers(given, ((0, 1, 2, 3),), window, before=lambda: None)


def whole(source: torch.Tensor, target: torch.Tensor) -> TensorCall:
    return TensorCall(CollectiveKind.ALLREDUCE, 8, source, target, source is target)


def floats_in(memory: Blocks, first: int, past: int) -> torch.Tensor:
    """Of the last block."""
    return memory.made[-1][4 * first : 4 * past].view(torch.float32)


@pytest.mark.parametrize(("window", "is_copied"), [(32, True), (31, False)])
def test_other_tensors_are_copied_to_a_window(
    asking: dict[bool, SizedProgram], window: int, is_copied: bool
) -> None:
    """Also where only one of the two is in a block, from its first byte or beyond its last."""
    memory = Blocks()
    buffers = buffers_of(memory, window)
    apart = torch.zeros(8)
    way = buffers.method(whole(apart, apart), KERNEL, CHOICE, asking[True], lambda: asking[False])
    if not is_copied:
        assert way.words == ""
        assert way.refusal == "32B do not fit into a window of 31B"
        assert way.buffers.blocks == (None, None)
        assert memory.made == []
        return
    at = memory.made[0].data_ptr()
    assert len(memory.made[0]) == 64
    assert way.words == " that ask switches for copies"
    assert way.buffers.addresses == (at, at + 32)
    assert [block and block.number for block in way.buffers.blocks] == [1, 1]
    assert (way.buffers.given, way.buffers.wanted) == ((apart.data_ptr(), 32), (apart.data_ptr(), 32))
    assert not way.lanes.program.in_place


def test_why_switches_are_not_asked(asking: dict[bool, SizedProgram]) -> None:
    memory = Blocks("no NVSwitch")
    buffers = buffers_of(memory)
    buffers.allocate(64)
    inside = floats_in(memory, 8, 16)
    given = (asking[True], lambda: asking[False])
    way = buffers.method(whole(inside, inside), KERNEL, CHOICE, *given)
    assert (way.words, way.refusal) == (" that put into tensors", "no NVSwitch")
    assert way.lanes.groups == ()
    apart = torch.zeros(8)
    way = buffers.method(whole(apart, apart), KERNEL, CHOICE, *given)
    assert (way.words, way.refusal, len(memory.made)) == ("", "no NVSwitch", 1)
    assert all(one.is_staged for one in way.lanes.messages)
    # one block of a rank would be slow: the reason is the lowering's
    one = replace(CHOICE, lanes=1)
    memory = Blocks()
    buffers = buffers_of(memory)
    way = buffers.method(whole(apart, apart), KERNEL, one, *given)
    assert way.refusal.startswith("slow: one block of a rank has 32 KB")
    buffers.allocate(64)
    inside = floats_in(memory, 0, 8)
    way = buffers.method(whole(inside, inside), KERNEL, one, *given)
    assert (way.words, way.refusal[:14]) == (" that put into tensors", "slow: one bloc")
    # of LL nothing is put into tensors, and no reason is told
    way = buffers.method(whole(inside, inside), KERNEL, replace(CHOICE, protocol=LL), *given)
    assert (way.words, way.refusal, way.buffers.blocks) == ("", "", (None, None))


def test_tensors_lie_in_blocks_whole_or_not(asking: dict[bool, SizedProgram]) -> None:
    memory = Blocks()
    buffers = buffers_of(memory)
    buffers.allocate(64)
    room = memory.made[0]
    longer = torch.zeros(1)
    inner, last = floats_in(memory, 0, 8), floats_in(memory, 8, 16)
    found = buffers._blocks_of(whole(inner, last))
    assert [block and block.number for block in found] == [1, 1]
    assert buffers._blocks_of(whole(longer, last))[0] is None
    past: Any = SimpleNamespace(
        data_ptr=lambda: room.data_ptr() + 33, numel=lambda: 8, element_size=lambda: 4
    )
    before: Any = SimpleNamespace(
        data_ptr=lambda: room.data_ptr() - 1, numel=lambda: 8, element_size=lambda: 4
    )
    assert buffers._blocks_of(whole(past, before)) == (None, None)
    gather = replace(whole(inner, last), kind=CollectiveKind.ALLGATHER)
    assert [block and block.number for block in buffers._blocks_of(gather)] == [None, 1]
    reduce = replace(whole(inner, last), kind=CollectiveKind.REDUCE)
    assert [block and block.number for block in buffers._blocks_of(reduce)] == [1, None]
