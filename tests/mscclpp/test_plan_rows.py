"""What an execution plan serves: sizes, chunks, memory and nodes at their limits."""

from __future__ import annotations

import json
from dataclasses import replace
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


def test_calls_in_place_and_their_roots() -> None:
    row = replace(ROW, in_place=True, root=0)
    same: dict[str, Any] = {"input_buffer": 9000, "hints": {"root": [0]}}
    assert row.supports(called(**same))
    assert not row.supports(called(**same | {"hints": {"root": [1]}}))
    assert not row.supports(called(**same | {"hints": {}}))
    assert not row.supports(called(**same | {"hints": {"root": [0, 0]}}))
    assert not row.supports(called(hints={"root": [0]}))


def test_where_a_rank_s_part_lies_in_place() -> None:
    """A gather of 32 bytes a rank: 96 in all; its input is part 2 of the output. A scatter is its mirror."""
    chunks = frozenset({(1, 3)})
    gather = replace(ROW, collective="allgather", in_place=True, chunks=chunks)
    asked = called(collective="allgather", message_size=32, input_buffer=9000 + 2 * 32)
    assert gather.supports(asked)
    assert not replace(gather, in_place=False).supports(asked)
    asked.input_buffer = 9000 + 32
    assert not gather.supports(asked)
    assert replace(gather, in_place=False).supports(asked)
    assert not replace(gather, last_bytes=95, in_place=False).supports(asked)
    scatter = replace(ROW, collective="reducescatter", in_place=True, chunks=frozenset({(3, 1)}))
    asked = called(collective="reducescatter", output_buffer=1000 + 2 * 32)
    assert scatter.supports(asked)
    assert not replace(scatter, in_place=False).supports(asked)
    asked.output_buffer = 1000 + 96
    assert not scatter.supports(asked)


@pytest.mark.parametrize(
    ("collective", "chunks", "fitting", "others"),
    [
        ("allgather", (1, 3), [48, 96], [16, 50, 72]),
        ("allgather", (2, 6), [96, 192], [48, 144]),
        ("reducescatter", (3, 1), [48, 96], [49, 72]),
        ("allreduce", (1, 1), [16, 48, 64], [8, 24]),
        ("allreduce", (2, 4), [], [64, 128]),  # chunks of input and output would differ
        ("allgather", (1, 2), [], [96]),
        ("broadcast", (5, 5), [80, 160], [16, 96]),
    ],
)
def test_chunks_are_whole_sixteens_and_of_one_size(
    collective: str, chunks: tuple[int, int], fitting: list[int], others: list[int]
) -> None:
    row = replace(ROW, collective=collective, chunks=frozenset({chunks}))
    assert [size for size in (*fitting, *others) if row.fits(size)] == fitting


def written(folder: Path, *changes: Change) -> Path:
    """A plan of three ranks in a file."""
    plan = plan_of_three()
    for change in changes:
        change(plan)
    path = folder / "plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    return path


def test_a_plan_is_told_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert read_row(Path("plan.json"), None) == PlanRow(
        path=str(path.resolve()),
        name="odd",
        collective="allgather",
        n_ranks=3,
        in_place=True,
        root=-1,
        first_bytes=3,
        last_bytes=9,
        chunks=frozenset({(3, 5), (1, 5), (2, 4)}),
        # by memory channels, and by the group (2, 0) of the switch; not by the proxy's
        neighbours=frozenset({(0, 2), (0, 1), (2, 0)}),
    )
    nested = at("gpus 0 threadblocks 0 ops 2 ops +", plan_of_three()["gpus"][0]["threadblocks"][0]["ops"][1])
    wide = at("gpus 0 channels 3 rank_groups 0", {"ranks": [2, 1, 0], "size": 3})
    moved = without("gpus 0 threadblocks 0 ops 1")
    for changes in ((nested, moved), ()):
        assert (2, 0) in read_row(written(tmp_path, *changes), None).neighbours
    found = read_row(written(tmp_path, wide, nested, moved), None).neighbours
    assert found == {(0, 1), (0, 2), (2, 1), (2, 0)}


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
    with pytest.raises(ScheduleError, match="a broadcast: say root="):
        read_row(path, None)
    with pytest.raises(ScheduleError, match="no broadcast, but root=0 was said"):
        read_row(written(tmp_path), 0)
    with pytest.raises(ScheduleError, match="hands no reduce to plans; its Executor takes it"):
        read_row(written(tmp_path, at("collective", "reduce")), None)
