"""The kernel's code as threads: every kind of schedule, odd sizes, all types, and waits that nobody ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samples.runtime_programs import random_program
from treadle import planning
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.device import checked_blocks
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_machine import LaunchJob, aligned
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol
from treadle.runtime.device.emulated import BlockThreads, measure_emulated
from treadle.runtime.device.sized_blocks import STAGING_BYTES, at_size
from treadle.runtime.memory import Layout, RankMemory, allocate
from treadle.schedules.collective import CollectiveKind

PROTOCOLS = tuple(DeviceProtocol)


@pytest.mark.parametrize("element", list(ElementType))
@pytest.mark.parametrize("reduction", list(Reduction))
def test_every_type_and_reduction(element: ElementType, reduction: Reduction) -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1, in_place=True)
    rows = measure_emulated(
        program,
        [1, 6, 3002],
        element=element,
        reduction=reduction,
        device_protocols=PROTOCOLS,
        slice_bytes=64,
    )
    assert not any(row.wrong for row in rows)


def pair_sum() -> Program:
    """Rank 1 adds to what rank 0 sends, and keeps it: a reduce of one chunk."""
    send = Operation(OperationKind.SEND, 0, 1, peer=1)
    add = Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=0)
    return program_from_operations(
        CollectiveKind.REDUCE, [[send], [add]], n_chunks=1, shard_offset=[0, 0, 1], root=1
    )


def summed(values: NDArray[Any], code: int, *, protocol: DeviceProtocol, shift: int = 0) -> NDArray[Any]:
    """Sum of two rows by the kernel; `shift`: elements by which buffers miss the bounds of 16 bytes."""
    lanes = lower_to_blocks(pair_sum(), protocol, lanes=1)
    count = values.shape[1]
    tables = at_size(lanes, count, element_bytes=values.itemsize, slice_bytes=64)
    layout = Layout(lanes.program, count)
    memories = []
    for rank in range(2):
        made = allocate(layout, rank, values.dtype)
        arrays = {
            buffer: np.empty(len(array) + shift, dtype=values.dtype)[shift:]
            for buffer, array in made.arrays.items()
        }
        memories.append(RankMemory(arrays, made.spans))
    outputs = [[np.empty_like(memory.arrays[Buffer.OUTPUT])] for memory in memories]
    inputs = [[np.ascontiguousarray(row)] for row in values]
    BlockThreads(lanes).run(tables, memories, inputs, outputs, element=code, reduction=Reduction.SUM)
    return outputs[1][0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_halves_are_rounded_as_numpy_rounds_them(protocol: DeviceProtocol) -> None:
    """All pairs of kinds of numbers: subnormal, normal, huge, infinite."""
    bits = np.random.default_rng(0).integers(0, 2**16, size=(2, 20_000), dtype=np.uint16)
    values = bits.view(np.float16)
    with np.errstate(all="ignore"):
        expected = values[0] + values[1]
    found = summed(values, 1, protocol=protocol)
    assert np.array_equal(found, expected, equal_nan=True)
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16: ml_dtypes is not installed")
    brains = bits.view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        wide = (brains[0].astype(np.float32) + brains[1].astype(np.float32)).astype(ml_dtypes.bfloat16)
    found = summed(brains, 2, protocol=protocol)
    assert np.array_equal(found.astype(np.float32), wide.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_any_count_and_pointer(protocol: DeviceProtocol, shift: int) -> None:
    for dtype, code in ((np.int64, 4), (np.int32, 3), (np.float32, 0), (np.float16, 1)):
        for count in (1, 3, 17, 333):
            values = np.random.default_rng(count).integers(-900, 900, size=(2, count)).astype(dtype)
            found = summed(values, code, protocol=protocol, shift=shift)
            assert np.array_equal(found, values[0] + values[1]), (dtype, count)
    huge = np.full((2, 3), 2**62, dtype=np.int64)
    assert summed(huge, 4, protocol=protocol).tolist() == [-(2**63)] * 3


def launched(
    machine: BlockThreads, count: int, values: list[int], *, shifts: tuple[int, int] = (0, 0)
) -> list[NDArray[Any]]:
    """Results of reduces of both ranks' values, one launch each; buffers `shifts` elements off 16 bytes."""
    layout = Layout(machine.lanes.program, count)
    memories = []
    for rank, shift in enumerate(shifts):
        made = allocate(layout, rank, np.dtype(np.float32))
        arrays = {
            buffer: aligned(4 * (len(one) + shift)).view(np.float32)[shift:]
            for buffer, one in made.arrays.items()
        }
        memories.append(RankMemory(arrays, made.spans))
    inputs = [[np.full(count, float(value), np.float32) for value in values] for _ in memories]
    outputs = [[np.empty_like(memory.arrays[Buffer.OUTPUT]) for _ in values] for memory in memories]
    tables = at_size(machine.lanes, count, element_bytes=4)
    machine.run(tables, memories, inputs, outputs, element=0, reduction=Reduction.SUM)
    return outputs[1]


def at_launch(machine: BlockThreads, number: int) -> BlockThreads:
    """The machine as it is when so many launches have been before."""
    machine._next_launch = number
    for one in machine.flags:
        one[one > 0] = (number - 1) * 2**20 + 2**20 - 1
    return machine


def test_waits_end_however_often_they_have_polled() -> None:
    """As after 2^32 polls of a GPU: the counter of threads has 8 bits and wraps before the limit is over."""
    lanes = lower_to_blocks(pair_sum(), DeviceProtocol.SIMPLE, lanes=1)
    silent = replace(lanes, lanes=(replace(lanes.lanes[0], operations=()), *lanes.lanes[1:]))
    begun = monotonic()
    with pytest.raises(ScheduleError, match=r"waited 0.2 s for rank 0 and gave up"):
        launched(BlockThreads(silent, limit_s=0.2), 4, [1])
    assert monotonic() - begun < 20


@pytest.mark.parametrize("period", [2**32 - 1, 2**32])
def test_lines_of_launches_long_before_are_not_taken(period: int) -> None:
    """After launches 5 and 6 all lines but the first are left alone, until flags begin again."""
    count = 3000
    for _ in range(4):  # a rank that takes old lines may be late
        machine = BlockThreads(lower_to_blocks(pair_sum(), DeviceProtocol.LL, lanes=1), threads=2)
        launched(at_launch(machine, 5), count, [1, 1])
        launched(at_launch(machine, period - 1), 2, [2] * 6)
        found = launched(at_launch(machine, period + 5), count, [3, 4])
        assert [set(one.tolist()) for one in found] == [{6.0}, {8.0}]


def test_staging_is_bounded() -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 6, seed=0, trees_per_root=2)
    simple = lower_to_blocks(program, DeviceProtocol.SIMPLE, lanes=2)
    assert any(message.is_staged for message in simple.messages)
    tables = at_size(simple, 2**30, element_bytes=4, slice_bytes=2**40)
    staged = tables.puts[tables.puts[:, 1] == 3]
    for rank in range(6):
        own = staged[staged[:, 0] == rank]
        assert int((own[:, 2] + own[:, 3] * own[:, 4]).max(initial=0)) <= STAGING_BYTES[simple.protocol]
    low_latency = lower_to_blocks(program, DeviceProtocol.LL, lanes=2)
    with pytest.raises(ScheduleError, match=r"protocol LL needs .* of staging at a rank, 16MB are there"):
        at_size(low_latency, 2**24, element_bytes=4)


def test_lanes_and_threads_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for lanes in (0, 65):
        with pytest.raises(ScheduleError, match=rf"^--lanes: expected 1 to 64, found {lanes}$"):
            lower_to_blocks(pair_sum(), PROTOCOLS[0], lanes=lanes)
    two = lower_to_blocks(pair_sum(), PROTOCOLS[0], lanes=64)
    assert len(two.lanes) == 2
    BlockThreads(two, threads=2048)
    for threads in (0, 2049):
        with pytest.raises(ScheduleError) as caught:
            BlockThreads(two, threads=threads)
        words = "expected 1 to 4096 threads in total"
        assert str(caught.value) == f"2 thread blocks of {threads} threads: {words}"
    machine: Any = BlockThreads(two, threads=3)
    monkeypatch.setattr(machine, "_emulate", lambda *_: 1)
    job: Any = LaunchJob()
    with pytest.raises(ScheduleError, match=r"^6 threads are not available; use fewer --lanes$"):
        machine.launch(job, (0, 0, 0), 0, 1)


def test_lanes_that_are_not_right_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    make: Callable[..., BlockProgram] = checked_blocks.lower_to_blocks

    def forgetful(*given: Any, **named: Any) -> BlockProgram:
        made = make(*given, **named)
        return replace(made, lanes=tuple(replace(lane, enters=()) for lane in made.lanes))

    monkeypatch.setattr(checked_blocks, "lower_to_blocks", forgetful)
    with pytest.raises(ScheduleError, match=r"thread-block program of protocol \w+ is wrong"):
        measure_emulated(pair_sum(), [4])


def test_lanes_are_proved_right_once_for_each_number_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    judge, told = checked_blocks.check_blocks, []

    def counted(lanes: BlockProgram, *, slices: int) -> Any:
        told.append(slices)
        return judge(lanes, slices=slices)

    monkeypatch.setattr(checked_blocks, "check_blocks", counted)
    asked, seen = {"slice_bytes": 32, "device_protocols": (PROTOCOLS[0],)}, []
    rows = measure_emulated(pair_sum(), [4, 8, 64, 68, 128], on_row=seen.append, **asked)
    assert [*rows] == seen
    assert len(rows) == 5
    assert len(told) == len(set(told)) > 1


def test_several_groups_run_one_after_the_other() -> None:
    plan = planning.solve("complete:4", "allreduce", mesh="2,2", axes="0").plan
    result = planning.run(plan, [4096], runtime="device-emulated")
    assert result.wrong == 0


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingDependencyError, match=r"needs a C\+\+17 compiler, no-such-compiler is not on"):
        measure_emulated(pair_sum(), [4])
