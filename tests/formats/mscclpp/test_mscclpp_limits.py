"""MSCCL++ plans at the limits of the executor's tables and one beyond, and refusals word for word."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from formats.mscclpp.test_mscclpp_json import star_case
from samples.program_cases import fabric
from treadle.errors import FormatError, ScheduleError
from treadle.formats.mscclpp.block_programs import list_operations
from treadle.formats.mscclpp.blocks import Fabric
from treadle.formats.mscclpp.interpreter import interpret_mscclpp_json
from treadle.formats.mscclpp.traffic import traffic
from treadle.formats.mscclpp.writer import MscclppLimits, emit_mscclpp_json
from treadle.formats.verdict import Terms
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse

REMEDY = "solve with fewer trees (--trees 1) or chunks, or write MSCCL XML instead"
GATHER, STAR = star_case(5, CollectiveKind.ALLGATHER, in_place=False, capable=False)


def written(**options: Any) -> dict[str, Any]:
    """An allgather of five chunks."""
    plan: dict[str, Any] = json.loads(emit_mscclpp_json(GATHER, STAR, **options))
    return plan


def lengths(plan: dict[str, Any]) -> list[list[int]]:
    """Operations of each block of each rank."""
    return [[len(block["ops"]) for block in gpu["threadblocks"]] for gpu in plan["gpus"]]


def chain(messages: int) -> Program:
    """Three chunks, of which ranges that overlap are sent by turns, so that one thread block has it all."""
    spans = [(i % 2, 2) for i in range(messages)]
    sends = [Operation(OperationKind.SEND, first, count, peer=1) for first, count in spans]
    receives = [Operation(OperationKind.RECEIVE, first, count, peer=0) for first, count in spans]
    return program_from_operations(
        CollectiveKind.BROADCAST, [sends, receives], n_chunks=3, shard_offset=[0, 3, 3], root=0
    )


def test_a_thread_block_has_as_many_operations_as_its_table() -> None:
    pair = fabric(2, star=False)
    for messages in (5, 19):
        plan = json.loads(emit_mscclpp_json(chain(messages), pair))
        most = max(length for gpu in lengths(plan) for length in gpu)
        just = emit_mscclpp_json(chain(messages), pair, limits=MscclppLimits(operations=most))
        assert lengths(json.loads(just)) == lengths(plan)
        with pytest.raises(ScheduleError) as caught:
            emit_mscclpp_json(chain(messages), pair, limits=MscclppLimits(operations=most - 1))
        assert str(caught.value) == (
            f"MSCCL++: a thread block needs {most} operations, the limit is {most - 1}; {REMEDY}"
        )


def test_lanes_are_dealt_until_all_of_them_fit() -> None:
    """Of five trees, each a lane, the root's block is the longest; two lanes hold four or more."""
    assert lengths(written()) == [[8 if lane == rank else 5 for lane in range(5)] for rank in range(5)]
    assert lengths(written(limits=MscclppLimits(operations=8, channels=4, thread_blocks=5))) == lengths(
        written()
    )
    few = lengths(written(limits=MscclppLimits(thread_blocks=2)))
    assert [len(blocks) for blocks in few] == [2] * 5
    for limits, text in (
        (MscclppLimits(operations=7), "a thread block needs 8 operations, the limit is 7"),
        (MscclppLimits(channels=3), "rank 0 needs 4 memory channels in a thread block, the limit is 3"),
        (
            MscclppLimits(operations=12, thread_blocks=2),
            "needs 3 thread blocks a rank of 6 operations each, the limit is 2",
        ),
    ):
        with pytest.raises(ScheduleError) as caught:
            written(limits=limits)
        assert str(caught.value) == f"MSCCL++: {text}; {REMEDY}"
    assert MscclppLimits() == MscclppLimits(operations=64, channels=16, thread_blocks=128)


@pytest.mark.parametrize(
    ("sizes", "least", "most"),
    [
        ({}, 80, 2**32 - 1),
        ({"min_bytes": 79, "max_bytes": 80}, 80, 80),
        ({"min_bytes": 81, "max_bytes": 81}, 81, 81),
        ({"min_bytes": 2**32 - 1, "max_bytes": 2**32}, 2**32 - 1, 2**32 - 1),
    ],
)
def test_chunks_have_sixteen_bytes_and_calls_four_gigabytes(
    sizes: dict[str, int], least: int, most: int
) -> None:
    plan = written(**sizes)
    assert (plan["min_message_size"], plan["max_message_size"]) == (least, most)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"max_bytes": 79},
            "no size is served: 5 chunks of 16 bytes need 80, the plan is for 0 to 79; " + REMEDY,
        ),
        (
            {"min_bytes": 2**32},
            "no size is served: 5 chunks of 16 bytes need 80, the plan is for 4294967296 to 4294967295; "
            + REMEDY,
        ),
        ({"name": "a b"}, "name 'a b': expected letters, digits and _.- only"),
        ({"name": ""}, "name '': expected letters, digits and _.- only"),
        ({"name": "a" * 101}, f"name '{'a' * 101}': expected letters, digits and _.- only"),
        ({"min_bytes": 9, "max_bytes": 8}, "sizes 9 to 8 bytes are no range"),
        ({"min_bytes": -1}, "sizes -1 to 0 bytes are no range"),
        ({"max_bytes": -1}, "sizes 0 to -1 bytes are no range"),
        ({"pipeline_bytes": 24}, "slices of 24 bytes: expected a multiple of 16"),
        ({"pipeline_bytes": -16}, "slices of -16 bytes: expected a multiple of 16"),
        ({"domains": [0] * 4}, "4 domains, expected one for each of 5 ranks"),
        ({"protocol": "LL" * 21}, f"protocol '{'LL' * 20}': expected Simple or LL"),
        (
            {"protocol": "LL"},
            "LL sends twice the data and stages all of it, so it is for small calls: say --max-size, such as "
            "256K",
        ),
        (
            {"protocol": "LL", "max_bytes": 2**20, "pipeline_bytes": 16},
            "LL packets flow as they are: leave --pipeline out",
        ),
        (
            {"protocol": "LL", "max_bytes": 2**20, "domains": [0, 0, 0, 1, 1]},
            "LL packets go within a box (NVLink domain), ranks 0 and 3 are in two: leave --protocol out",
        ),
        (
            # 2**32 bytes hold four staged chunks of twice 2**29 bytes; there are five chunks
            {"protocol": "LL", "max_bytes": 5 * 2**29 + 1},
            "LL packets of this plan are within 32 bits to 2684354560 bytes: --max-size 2.5GB or less",
        ),
    ],
)
def test_what_cannot_be_written(options: dict[str, Any], text: str) -> None:
    with pytest.raises((FormatError, ScheduleError)) as caught:
        written(**options)
    assert str(caught.value) == f"MSCCL++: {text}"


def test_what_can_just_be_written() -> None:
    name = "aZ09_.-" + "a" * 93
    plan = written(name=name, pipeline_bytes=16, max_bytes=10**9)
    assert (plan["name"], plan["protocol"], plan["inplace"]) == (name, "Simple", False)
    pipelines = [
        entry["iter_context"]
        for gpu in plan["gpus"]
        for block in gpu["threadblocks"]
        for entry in block["ops"]
        if entry["name"] == "pipeline"
    ]
    assert pipelines == [{"unit_size": 16, "num_chunks": 1}] * 25
    packets = written(protocol="LL", max_bytes=5 * 2**29)
    assert (packets["protocol"], packets["max_message_size"]) == ("LL", 5 * 2**29)


@pytest.mark.parametrize(
    ("kind", "name"), [(CollectiveKind.ALLGATHER, "gstore"), (CollectiveKind.ALLREDUCE, "glres")]
)
def test_what_asks_a_switch_names_none_of_a_fabrics(kind: CollectiveKind, name: str) -> None:
    program, topology = star_case(3, kind, in_place=True, capable=True)
    text = emit_mscclpp_json(program, topology)
    with pytest.raises(ScheduleError) as caught:
        traffic(text.encode(), Terms(source="a.json"))
    source, where, said = str(caught.value).split(": ")
    assert (source, where.split()[0]) == ("a.json", "gpu")
    assert said == f"{name} asks a switch, and the plan does not say which of the fabric's"


def test_a_plan_is_played_only_if_its_shape_is_right() -> None:
    """Each fault is told by itself: limits, else shapes, else what goes wrong as it runs."""
    plan = written()
    plan["gpus"][0]["threadblocks"][0]["ops"].pop(0)  # its greeting

    def told() -> tuple[str, ...]:
        return interpret_mscclpp_json(json.dumps(plan)).violations

    assert told()
    plan["gpus"][1]["input_chunks"] = 2
    assert told() == ("ranks differ in their numbers of input or output chunks",)
    plan["gpus"][0]["threadblocks"][0]["ops"][0]["channel_ids"] *= 2
    (one,) = told()
    assert one.endswith("a channel twice in one operation")
    with pytest.raises(FormatError) as caught:
        interpret_mscclpp_json(json.dumps(plan), root=5, source="a.json")
    assert str(caught.value) == "a.json: root 5: expected a rank from 0 to 4"


def test_semaphores_hold_a_block_until_another_lets_it_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rank 0 the second block waits for two semaphores, which the first releases, or which begin so."""
    for begin, released, is_free in (
        ([0, 0], [0, 1], True),
        ([0, 0], [0], False),
        ([0, 1], [0], True),
        ([1, 1], [], True),
        ([0, 5], [], False),
    ):
        plan = written()
        gpu = plan["gpus"][0]
        gpu["semaphores"] = [{"init_value": value} for value in begin]
        first, second = (block["ops"] for block in gpu["threadblocks"][:2])
        second.append({"name": "sem_acquire", "semaphore_ids": [0, 1]})
        first.append({"name": "sem_release", "semaphore_ids": released})
        data = json.dumps(plan).encode()
        if is_free:
            assert len(traffic(data, Terms()).program.path_links) == 0
        else:
            with pytest.raises(
                ScheduleError, match=r"^a: gpu 0 threadblock 1 op 5: sem_acquire waits for ever$"
            ):
                traffic(data, Terms(source="a"))
    whole = json.dumps(written()).encode()
    total = traffic(whole, Terms()).program.n_operations
    for most in (total, total - 1):
        monkeypatch.setattr("treadle.formats.mscclpp.traffic._MOST_OPERATIONS", most)
        if most < total:
            with pytest.raises(ScheduleError, match=rf"^a: more than {most} operations$"):
                traffic(whole, Terms(source="a"))
        else:
            assert traffic(whole, Terms(source="a")).program.n_operations == total


def test_a_channel_that_only_one_end_has_leads_nowhere() -> None:
    plan = written()
    (channels,) = plan["gpus"][1]["channels"]
    channels["connected_to"] = [2, 2, *channels["connected_to"][2:]]
    with pytest.raises(ScheduleError) as caught:
        traffic(json.dumps(plan).encode(), Terms(source="a"))
    assert str(caught.value) == "a: gpu 0 threadblock 0 op 0: a channel has no other end"


def test_what_nobody_sends_is_not_received() -> None:
    receive = Operation(OperationKind.RECEIVE, 0, 1, peer=0)
    program = program_from_operations(
        CollectiveKind.BROADCAST, [[], [receive]], n_chunks=1, shard_offset=[0, 1, 1], root=0
    )
    with pytest.raises(ScheduleError, match=r"^MSCCL\+\+: operation 0 receives what nobody sends$"):
        list_operations(program)


def test_the_switch_that_a_send_passes_first() -> None:
    fabric = parse("dgx_h100(1, 2)")
    (switch,) = np.flatnonzero(~fabric.is_compute).tolist()
    ways = [
        [],
        [int(np.flatnonzero(fabric.heads == switch)[0])],
        [int(np.flatnonzero(fabric.tails == switch)[0])],
    ]
    program: Any = SimpleNamespace(path=np.array([-1, 0, 1, 2]), links=lambda path: np.array(ways[path]))
    of_all = Fabric(program, fabric, (0, 0), switch_channels=True)
    assert [of_all.switch_of(send) for send in range(4)] == [-1, -1, switch, switch]
    direct = parse("complete:2")
    assert Fabric(program, direct, (0, 0), switch_channels=True).switch_of(2) == -1
