"""MSCCL++ plans as they are read: every table and number, and both sides of each limit."""

from __future__ import annotations

import copy
import json
from typing import Any

from samples.readers.mscclpp_plans import plan_of_three
from shortcuts.json_edits import Change
from treadle.formats.mscclpp.reader import (
    ExecutionPlan,
    parse_mscclpp_json,
)


def parsed(*changes: Change, base: dict[str, Any] | None = None) -> ExecutionPlan:
    """The plan of three ranks, or another, after these changes."""
    plan = plan_of_three() if base is None else copy.deepcopy(base)
    for change in changes:
        change(plan)
    return parse_mscclpp_json(json.dumps(plan), "file")


def group(*ranks: int, size: int | None = None) -> list[dict[str, Any]]:
    """A switch's group, which may claim another size."""
    return [{"ranks": list(ranks), "size": len(ranks) if size is None else size}]


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
