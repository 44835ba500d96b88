"""The in-process runtime against the collectives' definitions, and programs that cannot or must not pass."""

import numpy as np
import pytest

from samples.runtime_programs import random_program
from treadle.errors import MemoryLimitError, ScheduleError
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.data import ElementType
from treadle.runtime.in_process import Execution, PreparedProgram
from treadle.runtime.measured_sizes import measure
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind

SEND, RECEIVE = OperationKind.SEND, OperationKind.RECEIVE
INPUT, OUTPUT, SCRATCH = Buffer.INPUT, Buffer.OUTPUT, Buffer.SCRATCH


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_slices_change_nothing(kind: CollectiveKind, in_place: bool) -> None:
    program = random_program(kind, 5, seed=4, trees_per_root=3, in_place=in_place)
    rows = measure(program, [5000, 40_000], slice_bytes=64, iterations=2, budget_s=0.01)
    assert [row.wrong for row in rows] == [0, 0]
    layout = Execution(PreparedProgram(program), 10_000, element=ElementType.FLOAT32, slice_bytes=64).layout
    assert layout.n_slices > 10


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_threads_change_nothing(kind: CollectiveKind, in_place: bool) -> None:
    prepared = PreparedProgram(random_program(kind, 5, seed=4, trees_per_root=3, in_place=in_place))
    outputs = []
    for threads in (1, 4):
        run = Execution(prepared, 10_007, element=ElementType.INT32, slice_bytes=512, threads=threads)
        assert run.threads == threads
        assert run.layout.n_slices > 4
        for rank, memory in enumerate(run.memories):
            memory.arrays[INPUT][...] = np.arange(len(memory.arrays[INPUT])) * (rank + 1)
        run.run()
        outputs.append([memory.arrays[OUTPUT].copy() for memory in run.memories])
    for one, other in zip(*outputs, strict=True):
        assert np.array_equal(one, other)


def test_deadlock_is_an_error() -> None:
    # either rank forwards only what it has received
    def rank(me: int) -> list[Operation]:
        return [
            Operation(RECEIVE, 1 - me, 1, peer=1 - me),
            Operation(SEND, me, 1, peer=1 - me, source=INPUT, target=INPUT, waits=(0,)),
        ]

    program = program_from_operations(
        CollectiveKind.ALLGATHER, [rank(0), rank(1)], n_chunks=2, shard_offset=[0, 1, 2]
    )
    with pytest.raises(ScheduleError, match=r"deadlock: 4 of 4 operations.*rank 0, operation 0"):
        PreparedProgram(program)


def pair(send: Operation, *receives: Operation) -> Program:
    return program_from_operations(
        CollectiveKind.ALLGATHER, [[send], list(receives)], n_chunks=2, shard_offset=[0, 1, 2]
    )


def test_messages_must_match() -> None:
    send = Operation(SEND, 0, 1, peer=1, source=INPUT, target=INPUT)
    with pytest.raises(ScheduleError, match="rank 0 to rank 1 on channel 0: 1 sends, 0 receives"):
        PreparedProgram(pair(send))
    with pytest.raises(ScheduleError, match="rank 0 to rank 1 on channel 0: 1 sends, 0 receives"):
        PreparedProgram(pair(send, Operation(RECEIVE, 0, 1, peer=0, channel=1)))
    with pytest.raises(ScheduleError, match="expected the same chunks"):
        PreparedProgram(pair(send, Operation(RECEIVE, 1, 1, peer=0)))


def test_ranges_must_exist() -> None:
    foreign = Operation(SEND, 1, 1, peer=1, source=INPUT, target=INPUT)
    with pytest.raises(ScheduleError, match=r"rank 0, operation 0 .* reads INPUT, which has chunks 0 to 0"):
        PreparedProgram(pair(foreign, Operation(RECEIVE, 1, 1, peer=0)))
    send = Operation(SEND, 0, 1, peer=1, source=INPUT, target=INPUT)
    with pytest.raises(ScheduleError, match=r"rank 1, operation 0 .* writes INPUT"):
        PreparedProgram(pair(send, Operation(RECEIVE, 0, 1, peer=0, target=INPUT)))


def test_buffers_beyond_the_memory_are_refused() -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1)
    with pytest.raises(MemoryLimitError, match=r"the buffers of 3 ranks need .* use a smaller size"):
        Execution(PreparedProgram(program), 2**40, element=ElementType.INT32)
