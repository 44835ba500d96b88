"""What an execution plan serves: sizes, chunks, memory and nodes at their limits."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samples.readers.mscclpp_plans import gpu, plan_of_three
from shortcuts.json_edits import Change, at, without
from treadle.errors import ScheduleError
from treadle.mscclpp.plan_rows import PlanRow, read_row

ROW = PlanRow(
    path="/p",
    name="p",
    collective="allreduce",
    n_ranks=3,
    in_place=False,
    root=-1,
    first_bytes=96,
    last_bytes=960,
    chunks=frozenset({(2, 2), (3, 3)}),
    neighbours=frozenset({(0, 1), (4, 3)}),
)


def called(**other: Any) -> Any:
    """A call that the row serves, but for these."""
    values: dict[str, Any] = {
        "collective": "allreduce",
        "world_size": 3,
        "n_ranks_per_node": 6,
        "rank": 2,
        "input_buffer": 1000,
        "output_buffer": 9000,
        "message_size": 96,
        "hints": {},
    }
    return SimpleNamespace(**values | other)


@pytest.mark.parametrize(
    ("other", "is_served"),
    [
        ({}, True),
        ({"message_size": 960}, True),
        ({"message_size": 0}, False),
        ({"message_size": 1056}, False),
        ({"message_size": 112}, False),  # not 16 bytes in every chunk
        ({"world_size": 4}, False),
        ({"collective": "reduce"}, False),
        ({"input_buffer": 9000}, False),
        ({"n_ranks_per_node": 0}, False),
        ({"n_ranks_per_node": 1}, False),
        ({"n_ranks_per_node": 2}, False),  # ranks 3 and 4 are on two nodes of two
        ({"n_ranks_per_node": 3}, True),
        ({"n_ranks_per_node": 4}, False),
        ({"hints": {"root": [2]}}, True),
    ],
)
def test_a_call_at_and_beyond_the_limits(other: dict[str, Any], is_served: bool) -> None:
    assert ROW.supports(called(**other)) is is_served


def written(folder: Path, *changes: Change) -> Path:
    """A plan of three ranks in a file."""
    plan = plan_of_three()
    for change in changes:
        change(plan)
    path = folder / "plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "first", "last"),
    [
        ([without("min_message_size"), without("max_message_size")], 1, 2**32 - 1),
        ([at("min_message_size", 0), at("max_message_size", 2**32)], 1, 2**32 - 1),
        ([at("min_message_size", 2), at("max_message_size", 2**32 - 2)], 2, 2**32 - 2),
        # packets of rank 0: twice the bytes of 7 of 5 chunks within 32 bits; 64 MB of scratch for 7
        ([without("max_message_size"), at("protocol", "LL")], 3, 2**32 * 5 // 14),
        ([without("max_message_size"), at("reuse_resources", True)], 3, 5 * 16 * -(-(2**26) // (16 * 7))),
    ],
)
def test_sizes_are_those_of_the_plan_and_the_executor(
    changes: list[Change], first: int, last: int, tmp_path: Path
) -> None:
    row = read_row(written(tmp_path, *changes), None)
    assert (row.first_bytes, row.last_bytes) == (first, last)


@pytest.mark.parametrize("sizes", [(0, 5, 2), (1, 0, 2)])
def test_a_rank_without_chunks_is_refused(sizes: tuple[int, int, int], tmp_path: Path) -> None:
    path = written(tmp_path, at("gpus 1", gpu(1, sizes)), at("gpus 0 threadblocks", []))
    with pytest.raises(ScheduleError, match="a rank has no chunks of input or output"):
        read_row(path, None)


def test_roots_are_of_broadcasts(tmp_path: Path) -> None:
    path = written(tmp_path, at("collective", "broadcast"))
    assert read_row(path, 0).root == 0
    with pytest.raises(ScheduleError, match="a broadcast; use root="):
        read_row(path, None)
    with pytest.raises(ScheduleError, match="not a broadcast; omit root=0"):
        read_row(written(tmp_path), 0)
    with pytest.raises(ScheduleError, match="uses no plans for reduce; use its Executor"):
        read_row(written(tmp_path, at("collective", "reduce")), None)
