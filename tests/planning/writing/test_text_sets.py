"""Sets of texts: which one a runtime takes at every edge, by a selector that reads nothing but the texts."""

from __future__ import annotations

import pytest

from samples.plan_sets import plan_set, with_protocols
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import lower, lower_set

CASES = (
    ("dgx_a100:1", "allreduce", ("one-shot", "halving-doubling", "ring"), (8192, 2**20)),
    ("dgx_a100:1", "allgather", ("one-shot", "ring"), (10001,)),
    ("hypercube:3", "reduce-scatter", ("one-shot", "forestcoll"), (4096,)),
)


def test_protocols_of_the_plan_cut_ranges() -> None:
    plan = with_protocols(
        plan_set(*CASES[1]), (0, "LL"), (4096, "LL128"), (10001, "LL128"), (2**20, "Simple")
    )
    found = lower_set(plan, instances=1)
    assert [(one.text.min_bytes, one.text.max_bytes, one.protocol) for one in found.ranges] == [
        (0, 4095, "LL"),
        (4096, 10000, "LL128"),
        (10001, 2**20 - 1, "LL128"),
        (2**20, None, "Simple"),
    ]
    for one in found.ranges:
        assert f'proto="{one.protocol}"'.encode() in one.text.data[:200]
    assert any("LL128 is correct only" in word for one in found.ranges for word in one.made.cautions)
    asked = lower_set(plan, protocol="LL", instances=1)
    assert [(one.text.min_bytes, one.protocol) for one in asked.ranges] == [(0, "LL"), (10001, "LL")]
    assert len(lower_set(plan, to="mscclpp-json", instances=1).ranges) == len(
        plan.entries
    )  # its protocols are not NCCL's


def test_what_cannot_be_is_refused_in_one_line() -> None:
    plan = plan_set(*CASES[0])
    many = plan_set("dgx_a100:1", "allgather", ("one-shot", "ring") * 3, (100, 200, 300, 400, 500))
    short = plan_set("dgx_a100:1", "allgather", ("one-shot", "ring"), (2048,), 4096, 1024)
    for words, call in (
        ("3 ranges of sizes, and a file of msccl-xml is for one; lower_set writes", lambda: lower(plan)),
        ("and a file of cpu-xml is for one; its runtimes", lambda: lower(plan, to="cpu-xml")),
        ("no runtime selects among several", lambda: lower_set(plan, to="chakra", size_bytes=1)),
        (
            "6 files, and the legacy runtime reads 4 in all; solve with --max",
            lambda: lower_set(many, profile="legacy"),
        ),
        ("--protocol LL64: expected Simple, LL, LL128", lambda: lower_set(plan, protocol="LL64")),
        (
            "--protocol is for msccl-xml, mscclpp-json and nccl-tuner",
            lambda: lower_set(plan, to="cpu-xml", protocol="LL"),
        ),
        ("expected no less than 0, rising", lambda: lower_set(plan, min_size_bytes=2, max_size_bytes=1)),
        ("it supports from 1KB to 4KB", lambda: lower_set(short, min_size_bytes="1MB")),
        ("the plan has no schedule for the given", lambda: lower(short, size_bytes=100)),
    ):
        with pytest.raises((ScheduleError, InfeasibleError)) as caught:
            call()
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_ranges_that_cannot_be_written_are_left_out() -> None:
    """Below 16 bytes for each chunk nothing is served by MSCCL++; all else is."""
    plan = plan_set("dgx_a100:1", "allgather", ("one-shot", "ring", "one-shot"), (64, 4096))
    found = lower_set(plan, to="mscclpp-json")
    assert [(first, last) for first, last, _ in found.left_out] == [(0, 63)]
    assert "no size is supported" in found.left_out[0][2]
    assert [text.min_bytes for text in found.files_by_range if not text.fills_in] == [64, 4096]
    assert found.faults == ()
    packets = lower_set(plan, to="mscclpp-json", protocol="LL")
    assert [(first, why.partition(":")[0]) for first, _, why in packets.left_out] == [
        (0, "MSCCL++"),
        (4096, "MSCCL++"),
    ]
    assert {text.min_bytes for text in packets.files_by_range} == {64}
    assert packets.faults == ()
    with pytest.raises(InfeasibleError, match="no size is supported"):
        lower_set(plan, to="mscclpp-json", max_size_bytes=63)
