"""MSCCL++ plans of packets as they are read: where packets may lie, and what stands beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samples.readers.mscclpp_plans import gpu
from treadle.errors import FormatError
from treadle.formats.mscclpp.reader import BufferChunks, ExecutionPlan, parse_mscclpp_json


def parsed(plan: dict[str, Any]) -> ExecutionPlan:
    """The plan as read."""
    return parse_mscclpp_json(json.dumps(plan), "file")


def packets(double: bool, most: int) -> dict[str, Any]:
    """Two ranks of protocol LL, of 2 and 3 chunks with 5 and 6 of scratch."""
    block = {
        "id": 0,
        "channels": [{"channel_type": "memory", "channel_ids": [0]}],
        "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}],
        "ops": [
            {
                "name": "ppkt",
                "channel_type": "memory",
                "channel_ids": [0],
                "src_buff": [{"type": "i", "index": 0, "size": 1}],
                "dst_buff": [{"buffer_id": 0, "index": 4, "size": 1}],
            }
        ],
    }
    ends = {
        "channels": [
            {"channel_type": "memory", "connected_to": [1]},
            {"channel_type": "port", "connected_to": [1]},
        ],
        "remote_buffers": [{"rank": 1, "type": "s", "access_channel_types": ["memory"]}],
    }
    gpus = [gpu(0, (1, 2, 5), **ends, threadblocks=[block]), gpu(1, (3, 1, 6))]
    return {
        **{"name": "ll", "collective": "reduce", "inplace": False, "protocol": "LL", "gpus": gpus},
        **{"use_double_scratch_buffer": double, "max_message_size": most},
    }


@pytest.mark.parametrize(
    ("double", "fine", "broken"),
    # 2 * scratch * halves * bytes at most 2**32 * chunks: of rank 0 10 x against 2 * 2**32, of rank 1 12 x
    # against 3 * 2**32; rank 0's bound is the first to be passed
    [(False, 2**33 // 10, 3 * 2**30), (True, 2**33 // 20, 3 * 2**29)],
)
def test_packets_lie_within_offsets_of_32_bits(double: bool, fine: int, broken: int) -> None:
    plan = parsed(packets(double, fine))
    assert (plan.is_low_latency, plan.has_double_scratch, plan.violations) == (True, double, [])
    (put,) = plan.blocks[0][0]
    assert (put.name, put.channels, put.targets) == (
        "ppkt",
        (("memory", 0),),
        (BufferChunks((1,), "s", 4, 1, "remote"),),
    )
    found = parsed(packets(double, fine + 1)).violations
    assert found == [f"gpu 0: at {fine + 1} bytes packets lie beyond offsets of 32 bits"]
    # three chunks of 2**32 bytes hold rank 1's 12 parts: it joins one byte later
    third = 2**30 // (1 + double)
    assert len(parsed(packets(double, third)).violations) == 1
    assert len(parsed(packets(double, third + 1)).violations) == 2
    assert broken > third


def test_a_rank_of_no_chunks_counts_as_one() -> None:
    plan = packets(False, 2**31)
    plan["gpus"][1].update(input_chunks=0, output_chunks=0, scratch_chunks=1)
    plan["gpus"][0].update(scratch_chunks=0, threadblocks=[])
    assert parsed(plan).violations == []
    endless = {key: value for key, value in plan.items() if key != "max_message_size"}
    found = parsed(endless)
    assert found.violations == []
    assert found.notes == [
        f"verified up to {2**31} bytes: the plan states no limit, and beyond, packets of gpu 1 lie beyond "
        "offsets of 32 bits"
    ]
    beyond = f"gpu 1: at {2**64 - 1} bytes packets lie beyond offsets of 32 bits"
    assert parsed(endless | {"min_message_size": 2**31 + 1}).violations == [beyond]
    # plans that share scratch have as much as they ever use
    assert parsed(endless | {"reuse_resources": True}).notes == []
    plan["max_message_size"] += 1
    assert parsed(plan).violations == [f"gpu 1: at {2**31 + 1} bytes packets lie beyond offsets of 32 bits"]


@pytest.mark.parametrize("side", ["src_buff", "dst_buff"])
def test_a_peers_scratch_of_two_halves_takes_packets_alone(side: str) -> None:
    """Its own scratch, or another buffer of the peer, is no trouble."""
    scratch = {"buffer_id": 0, "index": 4, "size": 1}
    for double in (False, True):
        plan = packets(double, 64)
        ops = plan["gpus"][0]["threadblocks"][0]["ops"]
        ops.append({"name": "copy", side: [{"type": "s", "index": 4, "size": 1}]})
        assert parsed(plan).blocks[0][0][1].name == "copy"
        ops.append({"name": "put", "channel_type": "memory", "channel_ids": [0], side: [scratch]})
        if double:
            with pytest.raises(
                FormatError, match="op 2: put: a peer's scratch, of which there are two halves"
            ):
                parsed(plan)
            plan["gpus"][0]["remote_buffers"][0]["type"] = "i"
            ops[0]["dst_buff"][0]["index"] = ops[2][side][0]["index"] = 2
        assert len(parsed(plan).blocks[0][0]) == 3
