"""Ranges of sizes that texts are written for: cut, narrowed and told in words."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import pytest

from samples.plan_sets import plan_set
from treadle.api.lower import _word
from treadle.errors import ScheduleError
from treadle.formats.file_options import PROTOCOLS, FileOptions
from treadle.lowering.lowered import Lowered
from treadle.lowering.ranges import (
    _by_protocol,
    file_ranges,
    format_range,
    narrowed_plan,
    range_count,
)
from treadle.planning import find_format, solve
from treadle.schedules.plan import Pipelining, Plan, PlanEntry
from treadle.schedules.trees.forest_cost import algbw

MSCCL, TUNER = find_format("msccl-xml"), find_format("nccl-tuner")


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        (0, None, "all sizes"),
        (0, 7, "to 7B"),
        (1, None, "from 1B"),
        (1024, 2**20, "from 1KB to 1MB"),
        (1025, 2**20 - 1, "from above 1KB to below 1MB"),
        (1536, 1537, "from 1.5KB to 1.5KB"),
        (2**30 + 1, None, "from above 1GB"),
        (1023, 1023, "from 1023B to 1023B"),
        (0, 2**20 + 1, "to above 1MB"),
    ],
)
def test_sizes_in_words(first: int, last: int | None, words: str) -> None:
    assert format_range(first, last) == words


def entry(first: int, last: int | None, *cuts: tuple[int, str]) -> PlanEntry:
    schedule = solve("ring:3", "allgather").plan.entries[0].schedule
    return PlanEntry(first, last, schedule, pipelining=tuple(Pipelining(at, 1, name) for at, name in cuts))


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (entry(5, 99), [(5, 99, None)]),
        (entry(5, None, (0, "LL")), [(5, None, "LL")]),
        (entry(5, 99, (0, "LL"), (20, "Simple")), [(5, 19, "LL"), (20, 99, "Simple")]),
        # those below the range, of which the last counts, and one at its start
        (entry(5, 99, (0, "LL"), (3, "LL128"), (20, "LL")), [(5, 19, "LL128"), (20, 99, "LL")]),
        (entry(5, 99, (0, "LL"), (5, "Simple")), [(5, 99, "Simple")]),
        # the same again is no cut, and what runtimes do not know is left to them
        (entry(0, None, (0, "LL"), (7, "LL"), (9, "own")), [(0, 8, "LL"), (9, None, None)]),
        (entry(0, 8, (0, "LL"), (8, "Simple"), (9, "LL")), [(0, 7, "LL"), (8, 8, "Simple")]),
    ],
)
def test_entries_are_cut_where_protocols_change(
    given: PlanEntry, parts: list[tuple[int, int | None, str | None]]
) -> None:
    assert {"LL", "LL128", "Simple"} <= set(PROTOCOLS)
    found = list(_by_protocol(given))
    assert [(one.entry.min_bytes, one.entry.max_bytes, one.protocol) for one in found] == parts
    assert {id(one.entry.schedule) for one in found} == {id(given.schedule)}


def three() -> Plan:
    """Ranges from 100, 1000 and 5000 bytes on, up to 9999."""
    return plan_set("ring:4", "allgather", ("one-shot", "ring", "forestcoll"), (1000, 5000), 9999, 100)


def sizes(plan: Plan) -> list[tuple[int, int | None]]:
    return [(one.min_bytes, one.max_bytes) for one in plan.entries]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, [(100, 999), (1000, 4999), (5000, 9999)]),
        ({"min_size_bytes": 999}, [(999, 999), (1000, 4999), (5000, 9999)]),
        ({"min_size_bytes": 1000}, [(1000, 4999), (5000, 9999)]),
        ({"max_size_bytes": 1000}, [(100, 999), (1000, 1000)]),
        ({"max_size_bytes": 999}, [(100, 999)]),
        ({"min_size_bytes": 2000, "max_size_bytes": 2000}, [(2000, 2000)]),
        ({"max_size_bytes": 10**6}, [(100, 999), (1000, 4999), (5000, 9999)]),
        ({"size_bytes": 4999}, [(1000, 4999)]),
        ({"size_bytes": 5000, "max_size_bytes": 6000}, [(5000, 6000)]),
    ],
)
def test_plans_with_the_sizes_that_are_asked_for(
    options: dict[str, Any], left: list[tuple[int, int | None]]
) -> None:
    plan, asked = narrowed_plan(three(), MSCCL, FileOptions(**options))
    assert sizes(plan) == left
    if left == sizes(three()):
        assert plan == three()
    else:
        assert (plan.optimal_algbw, plan.certificate) == (None, None)
    kept = options.get("size_bytes", 0) if "size_bytes" in MSCCL.options else 0
    assert asked == FileOptions(**{**options, "size_bytes": kept})


def test_the_throughput_of_a_narrowed_plan_is_that_of_its_last_schedule() -> None:
    whole = three()
    low, _ = narrowed_plan(whole, MSCCL, FileOptions(max_size_bytes=4999))
    ring: Any = whole.entries[1].schedule
    assert low.algbw == algbw(whole.topology, ring)
    high, _ = narrowed_plan(whole, MSCCL, FileOptions(min_size_bytes=5000))
    assert high.algbw == whole.algbw
    claimed = replace(whole, algbw=whole.algbw / 2)
    assert narrowed_plan(claimed, MSCCL, FileOptions(min_size_bytes=5000))[0].algbw == whole.algbw / 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"min_size_bytes": 7, "max_size_bytes": 6},
            "--min-size 7 bytes, --max-size 6 bytes: expected no less than 0, rising",
        ),
        (
            {"min_size_bytes": -1},
            "--min-size -1 bytes, --max-size None bytes: expected no less than 0, rising",
        ),
        (
            {"max_size_bytes": 99},
            "the plan has no schedule for the given sizes; it supports from 100B to 9.76KB",
        ),
        (
            {"min_size_bytes": 10_000},
            "the plan has no schedule for the given sizes; it supports from 100B to 9.76KB",
        ),
        (
            {"size_bytes": 99},
            "the plan has no schedule for the given sizes; it supports from 100B to 9.76KB",
        ),
    ],
)
def test_sizes_that_no_schedule_serves(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        narrowed_plan(three(), MSCCL, FileOptions(**options))
    assert str(caught.value) == said


def test_how_many_texts_a_plan_asks_for() -> None:
    plan = three()
    assert range_count(plan, to="msccl-xml") == 3
    assert range_count(plan, to="msccl-xml", min_size_bytes=1000) == 2
    assert range_count(plan, to="nccl-tuner") == 1, "one text names them all"
    last = replace(plan.entries[2], pipelining=(Pipelining(0, 1, "LL"), Pipelining(6000, 1, "Simple")))
    cut = replace(plan, entries=(*plan.entries[:2], last))
    assert range_count(cut, to="msccl-xml") == 4
    assert [
        format_range(one.entry.min_bytes, one.entry.max_bytes)
        for one in file_ranges(cut, MSCCL, FileOptions())
    ][2:] == [
        "from 4.88KB to 5.86KB",
        "from 5.86KB to 9.76KB",
    ]
    assert len(file_ranges(cut, MSCCL, FileOptions(protocol="LL"))) == 3
    assert len(file_ranges(cut, find_format("mscclpp-json"), FileOptions())) == 3


@pytest.mark.parametrize(
    ("label", "word"),
    [
        ("plan", "plan"),
        ("a b/c", "a-b-c"),
        ("--x.y_z--", "x.y_z"),
        ("..", "plan"),
        ("", "plan"),
        ("é", "plan"),
        ("x" * 81, "x" * 80),
    ],
)
def test_labels_as_names_of_files(label: str, word: str) -> None:
    assert _word(label) == word


def made(*files: tuple[str, bytes]) -> Lowered:
    return Lowered(files, cast(Any, None), cast(Any, None))


def test_texts_of_one_file() -> None:
    assert made(("", "é".encode())).text == "é"
    with pytest.raises(ScheduleError) as caught:
        _ = made(("a", b""), ("b", b"")).text
    assert str(caught.value) == "2 files, expected one; use `files`"
    with pytest.raises(ScheduleError) as caught:
        _ = made(("", b"\xff")).text
    assert str(caught.value) == "the file is binary; use `files`"
    assert made().rounding_loss == Fraction(0)
