"""The kernel's code as threads: every kind of schedule, odd sizes, all types, and waits that nobody ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samples.matrix_cases import modes, plans
from samples.runtime_programs import exchange, overwritten, random_program
from treadle import planning
from treadle.cli.main import main
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.planning import program_of
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.data import ElementType, Pattern, Reduction, make_pattern
from treadle.runtime.device import checked_blocks
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_machine import LaunchJob, aligned
from treadle.runtime.device.block_program import BlockAction, BlockProgram, DeviceProtocol
from treadle.runtime.device.emulated import BlockThreads, measure_emulated
from treadle.runtime.device.sized_blocks import STAGING_BYTES, at_size, part_ends
from treadle.runtime.memory import Layout, RankMemory, allocate
from treadle.schedules.collective import CollectiveKind

PROTOCOLS = tuple(DeviceProtocol)
SIZES = (20, 4100)


def test_every_kind_of_schedule_moves_the_right_data() -> None:
    """By turns in either protocol, in or out of place, 1 or 4 threads a block; in slices of 512 bytes."""
    for turn, ((row, kind), plan) in enumerate(plans().items()):
        protocol, in_place = PROTOCOLS[turn % 2], modes(kind)[turn // 2 % len(modes(kind))]
        rows = measure_emulated(
            program_of(plan, 1024, in_place=in_place),
            SIZES,
            device_protocols=(protocol,),
            threads=1 if turn % 3 else 4,
            slice_bytes=512,
            seed=turn,
        )
        assert [one.wrong for one in rows] == [0] * len(SIZES), (row, kind, in_place)
        assert {one.protocol for one in rows} == {protocol.value}


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


def test_sends_that_must_be_buffered() -> None:
    for program in (exchange(4, in_place=True), overwritten(3)):
        if (
            program.kind is CollectiveKind.BROADCAST
        ):  # rubbish is sent on purpose: that cannot be proved right
            with pytest.raises(ScheduleError, match=r"are not right: .* reads what is not there"):
                measure_emulated(program, [4])
        else:
            rows = measure_emulated(program, [20_000], device_protocols=PROTOCOLS, slice_bytes=32)
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


def test_launches_beyond_the_flags_of_lines() -> None:
    """Flags of LL have 32 bits: that of launch 2^32 is not 0, as memory has never been written is."""
    lanes = lower_to_blocks(pair_sum(), DeviceProtocol.LL, lanes=1)
    machine = at_launch(BlockThreads(lanes), 2**32 - 2)
    values = list(range(1, 8))
    assert [one.tolist() for one in launched(machine, 3, values)] == [[2.0 * value] * 3 for value in values]


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


@pytest.mark.parametrize("shifts", [(0, 0), (1, 1), (3, 0), (0, 2), (1, 3)])
def test_places_off_16_bytes_are_moved_in_vectors(shifts: tuple[int, int]) -> None:
    """Wherever buffers lie, staging is written in vectors, and what is in step with it at both ends."""
    machine = BlockThreads(lower_to_blocks(pair_sum(), DeviceProtocol.SIMPLE, lanes=1))
    count = 4000
    before = machine.vectors_moved()
    assert set(launched(machine, count, [5], shifts=shifts)[0].tolist()) == {10.0}
    moved = machine.vectors_moved() - before
    # rank 0 loads and puts; rank 1 loads what has come and its own, and stores
    assert moved >= (5 if shifts == (0, 0) else 2) * (count // 4 - 1)


def test_parts_begin_at_units_of_16_bytes() -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=0, trees_per_root=2)
    lanes = lower_to_blocks(program, DeviceProtocol.SIMPLE, lanes=2)
    for size in (0, 1, 7, 100, 12_345):
        for element_bytes in (2, 4, 8):
            ends = part_ends(lanes, size, element_bytes=element_bytes)
            assert (ends[0], ends[-1]) == (0, size)
            assert ends == sorted(ends)
            assert all(end * element_bytes % 16 == 0 for end in ends[:-1] if end < size)
    gather = lower_to_blocks(random_program(CollectiveKind.ALLGATHER, 3, seed=0), PROTOCOLS[0], lanes=2)
    ends = part_ends(gather, 100, element_bytes=4)
    shards = {gather.program.element(int(chunk), 100) for chunk in gather.program.shard_offset}
    assert shards <= set(ends)


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


def test_sums_are_passed_on_in_one_pass_and_stores_go_straight_to_their_place() -> None:
    """Of an allreduce by trees: sums are staged; what is broadcast over partial sums is not."""
    lanes = lower_to_blocks(plan_program("trees", "allreduce"), DeviceProtocol.SIMPLE, lanes=2)
    listed = [operation for lane in lanes.lanes for operation in lane.operations]
    assert sum(one.action is BlockAction.REDUCE and bool(one.puts) for one in listed) > 8
    assert sum(message.is_staged for message in lanes.messages) == sum(
        one.action is BlockAction.REDUCE for one in listed
    )
    assert not any(one.action is BlockAction.TAKE for one in listed)


def plan_program(row: str, kind: str) -> Program:
    return program_of(plans()[row, kind], 1024)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wait_that_nobody_ends_is_given_up(protocol: DeviceProtocol) -> None:
    lanes = lower_to_blocks(pair_sum(), protocol, lanes=1)

    def silent(one: BlockProgram) -> BlockProgram:
        first = replace(one.lanes[0], operations=())
        return replace(one, lanes=(first, *one.lanes[1:]))

    less = silent(lanes)
    layout = Layout(lanes.program, 4)
    memories = [allocate(layout, rank, np.dtype(np.float32)) for rank in range(2)]
    threads = BlockThreads(less, limit_s=0.05)
    with pytest.raises(ScheduleError, match=r"reduce, protocol \w+: rank 1, lane 1 waited 0.05 s for rank 0"):
        threads.run(
            at_size(less, 4, element_bytes=4),
            memories,
            [[memory.arrays[Buffer.INPUT].copy()] for memory in memories],
            [[memory.arrays[Buffer.OUTPUT].copy()] for memory in memories],
            element=0,
            reduction=Reduction.SUM,
        )


def test_lanes_and_threads_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for lanes in (0, 65):
        with pytest.raises(ScheduleError, match=rf"^lanes: expected 1 to 64, found {lanes}$"):
            lower_to_blocks(pair_sum(), PROTOCOLS[0], lanes=lanes)
    two = lower_to_blocks(pair_sum(), PROTOCOLS[0], lanes=64)
    assert len(two.lanes) == 2
    BlockThreads(two, threads=2048)
    for threads in (0, 2049):
        with pytest.raises(ScheduleError) as caught:
            BlockThreads(two, threads=threads)
        words = "expected 1 to 4096 threads in all"
        assert str(caught.value) == f"2 lanes of {threads} threads: {words}"
    machine: Any = BlockThreads(two, threads=3)
    monkeypatch.setattr(machine, "_emulate", lambda *_: 1)
    job: Any = LaunchJob()
    with pytest.raises(ScheduleError, match=r"^6 threads cannot be had; use fewer lanes$"):
        machine.launch(job, (0, 0, 0), 0, 1)


@pytest.mark.parametrize(("most", "launches"), [(3 * 8 - 1, 2), (3 * 8, 4)])
def test_large_data_are_launched_less_often(
    most: int, launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ranks have an input of 8 bytes, and one an output: each launch has data of its own."""
    told: list[tuple[int, int]] = []
    run, pattern = BlockThreads.run, checked_blocks.pattern_of

    def noted(machine: BlockThreads, *given: Any, **named: Any) -> float:
        assert [len(one) for of in given[2:4] for one in of] == [launches] * 4
        run(machine, *given, **named)
        return 6.0

    def seen(program: Program, count: int, asked: Any, group: int, launch: int) -> Any:
        told.append((group, launch))
        found = pattern(program, count, asked, group, launch)
        assert np.array_equal(found.values, pattern_of_seed(5 + 1000 * launch + group).values)
        return found

    def pattern_of_seed(seed: int) -> Pattern:
        return make_pattern(
            2, 2, element=ElementType.FLOAT32, reduction=Reduction.SUM, reduces=True, seed=seed
        )

    monkeypatch.setattr(checked_blocks, "_FOUR_LAUNCHES_BYTES", most)
    monkeypatch.setattr(BlockThreads, "run", noted)
    monkeypatch.setattr(checked_blocks, "pattern_of", seen)
    (row,) = measure_emulated(pair_sum(), [10], seed=5, device_protocols=(PROTOCOLS[0],))
    assert told == [(0, launch) for launch in range(launches)]
    assert (row.size_bytes, row.wrong) == (8, 0)
    assert row.time_s == 6.0 / launches


def test_lanes_that_are_not_right_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    make: Callable[..., BlockProgram] = checked_blocks.lower_to_blocks

    def forgetful(*given: Any, **named: Any) -> BlockProgram:
        made = make(*given, **named)
        return replace(made, lanes=tuple(replace(lane, enters=()) for lane in made.lanes))

    monkeypatch.setattr(checked_blocks, "lower_to_blocks", forgetful)
    with pytest.raises(ScheduleError, match=r"lanes of protocol \w+ are not right"):
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


def test_wrong_data_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    make: Callable[..., BlockProgram] = checked_blocks.lower_to_blocks

    def taking(*given: Any, **named: Any) -> BlockProgram:
        made = make(*given, **named)
        last = made.lanes[1]
        operations = tuple(
            replace(one, action=BlockAction.TAKE, source=None) if one.action is BlockAction.REDUCE else one
            for one in last.operations
        )
        return replace(made, lanes=(made.lanes[0], replace(last, operations=operations)))

    monkeypatch.setattr(checked_blocks, "lower_to_blocks", taking)
    monkeypatch.setattr(checked_blocks, "check_blocks", lambda *_, **__: ())
    (row,) = measure_emulated(pair_sum(), [400])
    assert row.wrong == 4 * 100


def model_of(ll_ns: int) -> dict[str, object]:
    """A cost model with the given latency of LL."""
    costs = {"occupancy_ns": 50, "efficiency": "9/10"}
    protocols = [
        {"name": name, "launch_ns": 1000, "box": {"alpha_ns": alpha, **costs}}
        for name, alpha in (("simple", 1000), ("ll", ll_ns))
    ]
    return {"treadle": "cost-model", "version": 1, "name": "made", "source": "a test", "protocols": protocols}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring:3", "allreduce", "-o", plan, "-q"]) == 0
    words = [
        "run",
        plan,
        "--runtime",
        "device-emulated",
        "--size",
        "1B,5B..40B",
        "--in-place",
        "--threads",
        "2",
    ]
    assert main([*words, "--protocol", "LL,Simple", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["protocol"] for row in rows] == ["LL", "Simple"] * 5
    assert not any(row["wrong"] for row in rows)
    assert main([*words, "--protocol", "ll"]) == 0
    assert "protocol" in capsys.readouterr().out
    assert main([*words, "--protocol", "LL128"]) == 2
    assert "expected auto, or some of Simple and LL with commas, found 'LL128'" in capsys.readouterr().err
    assert main(["run", plan, "--protocol", "LL", "--size", "1K"]) == 2
    wanted = "--protocol: for --runtime device-emulated and device-gpu only, found in-process"
    assert wanted in capsys.readouterr().err
    assert main(["run", plan, "--protocol", "auto", "--size", "1K"]) == 2  # which would mean nothing
    assert wanted in capsys.readouterr().err
    assert main(["run", plan, "--cost-model", "reference", "--size", "1K"]) == 2
    assert "--cost-model: for --runtime device-emulated" in capsys.readouterr().err
    model = tmp_path / "slow.json"  # LL is free of what Simple costs: it is taken at every size
    choose = ["run", plan, "--runtime", "device-emulated", "--size", "8K", "--protocol", "auto", "--json"]
    chosen = {}
    for name, ll_ns in (("dear", 10**6), ("cheap", 1)):
        model.write_text(json.dumps(model_of(ll_ns)))
        assert main([*choose, "--cost-model", str(model)]) == 0
        chosen[name] = json.loads(capsys.readouterr().out)["rows"][0]["protocol"]
    assert chosen == {"dear": "Simple", "cheap": "LL"}
    assert main([*words, "--lanes", "65"]) == 2
    assert "lanes: expected 1 to 64, found 65" in capsys.readouterr().err


def test_several_groups_run_one_after_the_other() -> None:
    plan = planning.solve("complete:4", "allreduce", mesh="2,2", axes="0").plan
    result = planning.run(plan, [4096], runtime="device-emulated")
    assert result.wrong == 0


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingDependencyError, match=r"needs a C\+\+17 compiler, no-such-compiler is not on"):
        measure_emulated(pair_sum(), [4])
