"""The in-process runtime against the collectives' definitions, and programs that cannot or must not pass."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.runtime_programs import exchange, random_program
from shortcuts.executed import execute, expected
from treadle.errors import MemoryLimitError, MissingDependencyError, ScheduleError
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.data import ElementType, Reduction, make_pattern, numpy_dtype
from treadle.runtime.in_process import Execution, PreparedProgram
from treadle.runtime.measured_sizes import measure
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind

SEND, RECEIVE = OperationKind.SEND, OperationKind.RECEIVE
INPUT, OUTPUT, SCRATCH = Buffer.INPUT, Buffer.OUTPUT, Buffer.SCRATCH


def check(program: Program, count: int, *, element: ElementType, reduction: Reduction) -> None:
    """Run on generated inputs and compare with `expected`, which shares nothing with the sweep's check."""
    n = program.n_ranks
    pattern = make_pattern(
        n, count, element=element, reduction=reduction, reduces=program.kind.reduces, seed=7
    )
    bounds = [program.element(int(chunk), count) for chunk in program.shard_offset]
    inputs = []
    for rank in range(n):
        whole = np.empty(count, dtype=numpy_dtype(element))
        pattern.fill(rank, whole, start=0)
        if program.kind is CollectiveKind.ALLGATHER:
            whole = whole[bounds[rank] : bounds[rank + 1]]
        inputs.append(whole)
    root = program.root if program.kind.is_rooted else None
    wanted = expected(program.kind, inputs, root=root, reduction=reduction, shard_bounds=bounds)
    found = execute(program, inputs, reduction=reduction)
    for rank in range(n):
        one, other = wanted[rank], found[rank]
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
@settings(max_examples=25)
@given(
    n=st.integers(2, 6),
    seed=st.integers(0, 10**6),
    trees_per_root=st.integers(1, 3),
    count=st.one_of(st.integers(0, 40), st.integers(40, 3000)),
    channels=st.integers(1, 2),
)
def test_every_collective_at_any_count(
    kind: CollectiveKind, in_place: bool, n: int, seed: int, trees_per_root: int, count: int, channels: int
) -> None:
    program = random_program(
        kind, n, seed=seed, trees_per_root=trees_per_root, in_place=in_place, channels=channels
    )
    check(program, count, element=ElementType.INT32, reduction=Reduction.SUM)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("element", list(ElementType))
@pytest.mark.parametrize("reduction", list(Reduction))
def test_every_type_and_reduction(kind: CollectiveKind, element: ElementType, reduction: Reduction) -> None:
    try:
        numpy_dtype(element)
    except MissingDependencyError as error:
        pytest.skip(str(error))
    check(random_program(kind, 5, seed=2, trees_per_root=2), 1003, element=element, reduction=reduction)


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
def test_unequal_and_empty_shards(kind: CollectiveKind) -> None:
    program = random_program(kind, 4, seed=5, weights=(3, 0, 1, 2))
    for count in (0, 1, 5, 101):
        check(program, count, element=ElementType.INT32, reduction=Reduction.SUM)


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


def test_a_failure_on_a_thread_is_raised() -> None:
    prepared = PreparedProgram(exchange(2, in_place=True))
    run = Execution(prepared, 4000, element=ElementType.INT32, slice_bytes=64, threads=2)
    run.memories[0].arrays[OUTPUT].setflags(write=False)
    for view in (entry[0] for actions in run._slices for entry in actions):
        view.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        run.run()


def test_sends_are_buffered() -> None:
    # in place, one rank's sum overwrites what the other still has to read, unless it was set aside
    program = exchange(2, in_place=True)
    assert PreparedProgram(program).staged
    check(program, 9, element=ElementType.INT32, reduction=Reduction.SUM)
    assert not PreparedProgram(exchange(2, in_place=False)).staged


@pytest.mark.parametrize("in_place", [False, True])
def test_a_shard_may_shrink_as_the_size_grows(in_place: bool) -> None:
    # of 2 elements in 5 chunks the third chunk gets one, of 3 elements none
    program = random_program(CollectiveKind.ALLGATHER, 5, seed=1, in_place=in_place)
    rows = measure(program, [12, 8, 4, 0], iterations=1, warmup=0)
    assert [row.wrong for row in rows] == [0] * 4


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


def test_input_is_read_only_out_of_place() -> None:
    program = program_from_operations(
        CollectiveKind.ALLREDUCE,
        [
            [Operation(OperationKind.COPY, 0, 1, source=INPUT, target=INPUT)],
            [Operation(OperationKind.COPY, 0, 1, source=INPUT, target=OUTPUT)],
        ],
        n_chunks=1,
        shard_offset=[0, 1, 1],
    )
    with pytest.raises(ScheduleError, match="writes INPUT, but the program is not in place"):
        PreparedProgram(program)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_every_shifted_transfer_shows(kind: CollectiveKind) -> None:
    """Move one message to the neighbouring chunk at both ends: data is wrong, or the range does not exist."""
    program = random_program(kind, 3, seed=1, trees_per_root=2)
    partner = PreparedProgram(program).partner
    for send in np.flatnonzero(program.operation_kind == SEND).tolist():
        first = program.first.copy()
        shifted = (int(first[send]) + 1) % (program.n_chunks - int(program.count[send]) + 1)
        if shifted == first[send]:
            continue
        first[[send, partner[send]]] = shifted
        mutant = replace(program, first=first)
        try:
            row = measure(mutant, [4096], iterations=1, warmup=0)[0]
        except ScheduleError:
            continue
        assert row.wrong > 0


@pytest.mark.parametrize("kind", [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE])
def test_a_reduction_that_overwrites_shows(kind: CollectiveKind) -> None:
    program = random_program(kind, 4, seed=1)
    for operation in np.flatnonzero(program.operation_kind == OperationKind.RECEIVE_REDUCE).tolist():
        kinds = program.operation_kind.copy()
        kinds[operation] = RECEIVE
        for reduction in (Reduction.SUM, Reduction.AVG):
            row = measure(replace(program, operation_kind=kinds), [4096], reduction=reduction, iterations=1)
            assert row[0].wrong > 0


def test_inputs_of_the_wrong_shape_are_refused() -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1)
    good = [np.zeros(5, dtype=np.int32)] * 3
    with pytest.raises(ScheduleError, match="expected 3 arrays, found 2"):
        execute(program, good[:2])
    with pytest.raises(ScheduleError, match=r"rank 2: expected shape \(5,\), found \(4,\)"):
        execute(program, [*good[:2], good[2][:4]])
    with pytest.raises(ScheduleError, match=r"one dtype out of .*, found float64, int32"):
        execute(program, [*good[:2], np.zeros(5)])
    with pytest.raises(ScheduleError, match="count -1"):
        Execution(PreparedProgram(program), -1, element=ElementType.INT32)


def test_buffers_beyond_the_memory_are_refused() -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1)
    with pytest.raises(MemoryLimitError, match=r"the buffers of 3 ranks need .* use a smaller size"):
        Execution(PreparedProgram(program), 2**40, element=ElementType.INT32)
