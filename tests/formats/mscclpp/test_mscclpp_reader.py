"""MSCCL++ plans as they are read: every table and number, and both sides of each limit."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from samples.readers.mscclpp_plans import gpu, plan_of_three
from shortcuts.json_edits import Change, at
from treadle.errors import FormatError
from treadle.formats.mscclpp import reader
from treadle.formats.mscclpp.reader import (
    BufferChunks,
    ExecutionPlan,
    MscclppOperation,
    parse_mscclpp_json,
)

MOST = 2**64 - 1


def parsed(*changes: Change, base: dict[str, Any] | None = None) -> ExecutionPlan:
    """The plan of three ranks, or another, after these changes."""
    plan = plan_of_three() if base is None else copy.deepcopy(base)
    for change in changes:
        change(plan)
    return parse_mscclpp_json(json.dumps(plan), "file")


def test_every_part_of_a_plan_is_read() -> None:
    plan = parsed()
    assert (plan.collective, plan.in_place, plan.is_low_latency, plan.has_double_scratch) == (
        "allgather",
        True,
        False,
        False,
    )
    assert (plan.min_bytes, plan.max_bytes, plan.reuses_scratch, plan.has_packets) == (3, 9, False, False)
    assert [one.name for one in plan.operations][2:6] == ["pipeline", "signal", "nop", "barrier"]
    assert plan.sizes == [
        {"i": 3, "o": 5, "s": 7},
        {"i": 1, "o": 5, "s": 2},
        {"i": 2, "o": 4, "s": 5},
    ]
    assert plan.peers == [{"memory": [2, 1, 1], "port": [2]}, {}, {}]
    assert plan.semaphores == [[0, 2**31], [], []]
    assert plan.violations == []
    where = "gpu 0 threadblock 0 op"
    memory = (("memory", 0), ("memory", 2))  # places 1 and 0 of the block's channels 2 and 0
    assert plan.blocks == [
        [
            [
                MscclppOperation(
                    "put",
                    f"{where} 0",
                    memory,
                    (BufferChunks((0,), "i", 1, 2, "local"),),
                    (BufferChunks((1,), "o", 3, 2, "remote"),),
                ),
                MscclppOperation(
                    "gstore",
                    f"{where} 1",
                    (),
                    (BufferChunks((0,), "s", 6, 1, "local"),),
                    # place 1 of the block's switch channels 1 and 0: the first group
                    (BufferChunks((2, 0), "o", 2, 2, "switch"),),
                ),
                MscclppOperation(
                    "pipeline",
                    f"{where} 2",
                    numbers=(4, 48),
                    inner=(
                        MscclppOperation("signal", f"{where} 2.0", (("port", 0),)),
                        MscclppOperation("nop", f"{where} 2.1"),
                    ),
                ),
                MscclppOperation("barrier", f"{where} 3", numbers=(6, 3)),
                MscclppOperation("sem_acquire", f"{where} 4", numbers=(1, 0)),
                MscclppOperation("sem_release", f"{where} 5", numbers=(0,)),
            ],
            [MscclppOperation("nop", "gpu 0 threadblock 1 op 0")],
        ],
        [],
        [],
    ]


def test_what_may_be_left_out_has_its_default() -> None:
    plain = ExecutionPlan("reduce", False)
    assert (plain.is_low_latency, plain.has_double_scratch) == (False, False)

    def strip(plan: dict[str, Any]) -> None:
        for key in ("min_message_size", "max_message_size", "buffer_alignment"):
            del plan[key]
        del plan["gpus"][0]["threadblocks"][0]["ops"][4:]
        del plan["gpus"][0]["semaphores"]
        plan["use_double_scratch_buffer"] = True

    none = at("max_message_size", 0)
    assert parsed(strip, none).violations == []
    plan = parsed(strip)
    assert plan.semaphores == [[], [], []]
    assert (plan.has_double_scratch, plan.violations) == (True, [])


def within(path: str) -> str:
    """A place of the first block's, or of its operations."""
    return path.replace("op ", "block ops ").replace("block ", "gpus 0 threadblocks 0 ")


def group(*ranks: int, size: int | None = None) -> list[dict[str, Any]]:
    """A switch's group, which may claim another size."""
    return [{"ranks": list(ranks), "size": len(ranks) if size is None else size}]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("name", 7, "plan: name: expected a string"),
        ("inplace", 1, "plan: inplace: expected true or false"),
        ("use_double_scratch_buffer", 0, "use_double_scratch_buffer: expected true"),
        ("reuse_resources", 1, "reuse_resources: expected true or false"),
        ("min_message_size", -1, f"min_message_size=-1: expected an integer from 0 to {MOST}"),
        ("min_message_size", 10, "max_message_size=9: expected an integer from 10 to"),
        ("max_message_size", MOST + 1, f"from 3 to {MOST}"),
        ("min_message_size", True, "min_message_size: expected an integer"),
        ("buffer_alignment", 15, "buffer_alignment=15: expected an integer from 16 to 16"),
        ("buffer_alignment", 17, "from 16 to 16"),
        ("gpus 1", [], "gpu 1: expected an object"),
        ("gpus 2 id", 1, "gpu 2: id=1: expected an integer from 2 to 2"),
        ("gpus 1 input_chunks", -1, "gpu 1: input_chunks=-1"),
        ("gpus 1 output_chunks", 4_000_001, "output_chunks=4000001"),
        (
            "gpus 0 channels 0 channel_type",
            "wire",
            "channel_type='wire': expected one of memory, port, switch",
        ),
        ("gpus 0 channels 0 connected_to", [0], "gpu 0: connected_to names the gpu itself"),
        ("gpus 0 channels 1 connected_to", [3], "connected_to: expected integers from 0 to 2"),
        ("gpus 0 channels 1 connected_to", [-1], "connected_to: expected integers from 0 to 2"),
        ("gpus 0 channels 1 connected_to", [True], "connected_to: expected integers from 0 to 2"),
        ("gpus 0 channels 1 connected_to", [1.0], "connected_to: expected integers from 0 to 2"),
        ("gpus 0 channels 3 buffer_type", "x", "buffer_type='x': expected one of i, o, s"),
        ("gpus 0 channels 3 rank_groups", group(0, 3), "ranks: expected integers from 0 to 2"),
        ("gpus 0 channels 3 rank_groups", group(0, 1, size=1), "size=1: expected an integer from 2 to 2"),
        ("gpus 0 channels 3 rank_groups", group(0, 1, size=3), "size=3: expected an integer from 2 to 2"),
        ("gpus 0 channels 3 rank_groups", group(1, 2), r"group \[1, 2\] must name this rank once"),
        ("gpus 0 channels 3 rank_groups", group(0, 0), r"group \[0, 0\] must name this rank once"),
        ("gpus 0 remote_buffers", [{"rank": 3}], "gpu 0: rank=3: expected an integer from 0 to 2"),
        ("gpus 0 remote_buffers", [{"rank": -1}], "gpu 0: rank=-1"),
        ("gpus 0 remote_buffers", [{"rank": 1, "type": "q"}], "type='q': expected one of i, o, s"),
        ("gpus 0 remote_buffers", [{"rank": 1, "type": "i"}], "access_channel_types: expected a list"),
        ("gpus 0 semaphores", [{"init_value": 2**31 + 1}], "init_value=2147483649"),
        (
            "gpus 0 semaphores",
            [{"init_value": -1}],
            "init_value=-1: expected an integer from 0 to 2147483648",
        ),
        ("gpus 0 semaphores", [{"init_value": 0}], "semaphore_ids: expected integers from 0 to 0"),
        ("gpus 0 threadblocks 1 id", 2, "threadblock 1: id=2: expected an integer from 1 to 1"),
        ("gpus 0 threadblocks 1 id", 0, "id=0: expected an integer from 1 to 1"),
        ("block channels 0 channel_ids", [3], "channel_ids: expected integers from 0 to 2"),
        ("block channels 1 channel_ids", [1], "channel_ids: expected integers from 0 to 0"),
        ("block channels 2 channel_ids", [2], "channel_ids: expected integers from 0 to 1"),
        ("block channels 0 channel_type", "air", "threadblock 0: channel_type='air'"),
        (
            *("block remote_buffer_refs 0 remote_buffer_ids", [0, 2]),
            "threadblock 0: remote buffer 2 has no access by memory channels",
        ),
        ("block remote_buffer_refs 1 remote_buffer_ids", [3], "expected integers from 0 to 2"),
        (
            "block remote_buffer_refs 0 access_channel_type",
            "switch",
            "'switch': expected one of memory, port",
        ),
        ("op 0 channel_ids", [2], "op 0: channel_ids: expected integers from 0 to 1"),
        ("op 0 channel_type", "", "op 0: channel_type=''"),
        ("op 0 src_buff 0 index", 2, "op 0: chunks 2 to 3 of buffer i, which has 3"),
        ("op 0 src_buff 0 size", 3, "chunks 1 to 3 of buffer i, which has 3"),
        ("op 0 src_buff 0 size", 0, "size=0: expected an integer from 1 to"),
        ("op 0 src_buff 0 index", -1, "index=-1: expected an integer from 0 to"),
        ("op 0 dst_buff 0 buffer_id", 2, "buffer_id=2: expected an integer from 0 to 1"),
        ("op 0 dst_buff 0 size", 3, "chunks 3 to 5 of buffer o, which has 5"),
        ("op 1 dst_buff 0 size", 3, "op 1: chunks 2 to 4 of buffer o, which has 4"),
        ("op 1 dst_buff 0 switch_channel_id", 2, "switch_channel_id=2: expected an integer from 0 to 1"),
        ("op 2 iter_context unit_size", 0, "op 2: unit_size=0: expected an integer from 16"),
        ("op 2 iter_context unit_size", 40, "unit_size=40: expected a multiple of 16"),
        ("op 2 iter_context unit_size", 2**31 + 16, "=2147483664: expected an integer from 16 to 2147483648"),
        ("op 2 iter_context num_chunks", 0, "num_chunks=0"),
        ("op 2 iter_context num_chunks", 4_000_001, "num_chunks=4000001"),
        ("op 2 ops +", {"name": "pipeline"}, "op 2.2: 'pipeline' is not a supported operation"),
        ("op 3 barrier_id", -1, "op 3: barrier_id=-1: expected an integer"),
        ("op 3 num_threadblocks", 1025, "num_threadblocks=1025: expected an integer from 0 to 1024"),
        ("op 4 semaphore_ids", [2], "op 4: semaphore_ids: expected integers from 0 to 1"),
        ("op 0 tbg_info", {"tb_id": 2, "tbg_size": 2}, "op 0: tb_id=2: expected an integer from 0 to 1"),
        ("op 0 tbg_info", {"tb_id": 0, "tbg_size": 0}, "tbg_size=0: expected an integer from 1 to 1024"),
        ("op 0 tbg_info", {"tb_id": 0, "tbg_size": 1025}, "tbg_size=1025: expected an integer from 1"),
        ("op 0 tbg_info", {"tbg_size": 2}, "op 0: tb_id: expected an integer"),
        ("op 0 tbg_info", 2, "op 0: tbg_info: expected an object"),
        ("block ops +", {"name": "flush"}, "flush needs memory or port channels"),
        ("block ops +", {"name": "wait", "channel_type": "memory"}, "wait needs memory or port channels"),
        (
            "block ops +",
            {"name": "rlxwait", "channel_type": "switch"},
            "rlxwait needs memory or port channels",
        ),
    ],
)
def test_a_plan_with_one_fault_is_refused_with_its_place(path: str, value: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parsed(at(within(path), value))
    assert str(caught.value).startswith("file: ")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("min_message_size", 0),
        ("max_message_size", 3),
        ("min_message_size", 9),
        ("max_message_size", MOST),
        ("gpus 1 input_chunks", 0),
        ("op 2 iter_context unit_size", 16),
        ("op 2 iter_context unit_size", 2**31),
        ("op 2 iter_context num_chunks", 1),
        ("op 2 iter_context num_chunks", 4_000_000),
        ("op 3", {"name": "barrier", "barrier_id": 0, "num_threadblocks": 1024}),
        ("op 3", {"name": "barrier", "barrier_id": 1024, "num_threadblocks": 0}),
        ("op 0 src_buff 0", {"type": "i", "index": 0, "size": 3}),
        ("op 1 dst_buff 0 index", 0),
        ("block ops +", {"name": "flush", "channel_type": "port", "channel_ids": [0]}),
        ("block ops +", {"name": "rlxsignal", "channel_type": "memory", "channel_ids": [1]}),
        ("block ops +", {"name": "copy"}),
        (
            "gpus 0 remote_buffers",
            [{"rank": 0, "type": "s", "access_channel_types": ["memory", "port"]}] * 3,
        ),
    ],
)
def test_a_plan_at_a_limit_is_read(path: str, value: Any) -> None:
    assert parsed(at(within(path), value)).violations == []


def test_chunks_of_all_ranks_count_together() -> None:
    """4000000 in all: what the three ranks have beside rank 2's scratch is 3 + 5 + 7 + 1 + 5 + 2 + 2 + 4."""
    left = 4_000_000 - 29
    assert parsed(lambda plan: plan["gpus"][2].update(scratch_chunks=left)).sizes[2]["s"] == left
    with pytest.raises(FormatError, match="expected at most 4000000 chunks in all buffers together"):
        parsed(lambda plan: plan["gpus"][2].update(scratch_chunks=left + 1))


def test_a_text_longer_than_the_limit_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(plan_of_three())
    monkeypatch.setattr(reader, "MAX_TEXT", len(text))
    assert parse_mscclpp_json(text, "file").violations == []
    with pytest.raises(FormatError, match=f"{len(text) + 1} characters, expected at most {len(text)}"):
        parse_mscclpp_json(text + " ", "file")


def test_a_plan_has_1_to_4096_ranks() -> None:
    assert parse_mscclpp_json(json.dumps(lone_plan(4096)), "file").peers == [{}] * 4096
    for count in (0, 4097):
        with pytest.raises(FormatError, match=f"plan: {count} gpus: expected 1 to 4096"):
            parsed(base={**plan_of_three(), "gpus": [{}] * count})


def lone_plan(n_ranks: int) -> dict[str, Any]:
    """Ranks without channels or blocks."""
    return {**plan_of_three(), "gpus": [gpu(rank, (1, 1, 1)) for rank in range(n_ranks)]}


def many(name: str, count: int) -> Change:
    """The first block's operations replaced by so many of one name."""
    return lambda plan: plan["gpus"][0]["threadblocks"][0].update(ops=[{"name": name}] * count)


def wide(count: int, kind: str) -> Change:
    """So many channels and remote buffers of a type in the first block."""

    def change(plan: dict[str, Any]) -> None:
        own = plan["gpus"][0]
        block = own["threadblocks"][0]
        block["ops"] = []
        if kind == "switch":
            group = {"ranks": [0, 1], "size": 2}
            own["channels"] = [{"channel_type": kind, "buffer_type": "i", "rank_groups": [group] * count}]
        else:
            own["channels"] = [{"channel_type": kind, "connected_to": [1] * count}]
            block["remote_buffer_refs"] = [{"access_channel_type": kind, "remote_buffer_ids": [1] * count}]
        block["channels"] = [{"channel_type": kind, "channel_ids": list(range(count))}]
        if kind == "switch":
            block["remote_buffer_refs"] = []

    return change


PLACE = {"type": "i", "index": 0, "size": 1}


def crowd(plan: dict[str, Any], count: int) -> None:
    """An operation with so many channels and places."""
    wide(count, "memory")(plan)
    plan["gpus"][0]["threadblocks"][0]["ops"] = [
        {"name": "signal", "channel_type": "memory", "channel_ids": list(range(min(count, 8)))},
        {"name": "re", "src_buff": [PLACE] * count, "dst_buff": [PLACE]},
        {"name": "re", "src_buff": [PLACE], "dst_buff": [PLACE] * count},
    ]


@pytest.mark.parametrize(
    ("change", "violations"),
    [
        (many("nop", 64), []),
        (many("nop", 65), ["gpu 0 threadblock 0: 65 operations, the limit is 64"]),
        (wide(16, "memory"), []),
        (wide(16, "switch"), []),
        *(
            (
                wide(17, kind),
                [
                    f"gpu 0 threadblock 0: 17 {kind} {what}, the limit is 16"
                    for what in ("channels", "buffers")
                ],
            )
            for kind in ("memory", "port")
        ),
        (wide(17, "switch"), ["gpu 0 threadblock 0: 17 switch channels, the limit is 16"]),
        (lambda plan: crowd(plan, 10), []),
        (
            lambda plan: crowd(plan, 11),
            [f"gpu 0 threadblock 0 op {op}: 11 sources or targets, the limit is 10" for op in (1, 2)],
        ),
        (at("gpus 0 semaphores", [{"init_value": 1}] * 16), []),
        (at("gpus 0 semaphores", [{"init_value": 1}] * 17), ["gpu 0: 17 semaphores, the limit is 16"]),
        (
            at(within("op 0 channel_ids"), [0, 0]),
            ["gpu 0 threadblock 0 op 0: a channel twice in one operation"],
        ),
    ],
)
def test_the_executors_tables_have_limits(change: Change, violations: list[str]) -> None:
    assert parsed(change).violations == violations


def test_nine_channels_are_too_many_for_an_operation() -> None:
    def change(plan: dict[str, Any], count: int) -> None:
        wide(count, "port")(plan)
        ids = list(range(count))
        plan["gpus"][0]["threadblocks"][0]["ops"] = [
            {"name": "wait", "channel_type": "port", "channel_ids": ids}
        ]

    assert parsed(lambda plan: change(plan, 8)).violations == []
    assert parsed(lambda plan: change(plan, 9)).violations == [
        "gpu 0 threadblock 0 op 0: 9 channels, the limit is 8"
    ]


def test_operations_within_a_pipeline_count() -> None:
    """The pipeline and its two, and 61 others, are 64."""
    plan = parsed(lambda plan: plan["gpus"][0]["threadblocks"][0]["ops"].extend([{"name": "nop"}] * 56))
    assert plan.violations == []
    plan = parsed(lambda plan: plan["gpus"][0]["threadblocks"][0]["ops"].extend([{"name": "nop"}] * 57))
    assert plan.violations == ["gpu 0 threadblock 0: 65 operations, the limit is 64"]
