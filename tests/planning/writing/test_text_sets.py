"""Sets of texts: which one a runtime takes at every edge, by a selector that reads nothing but the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from reference.runtime_selection import Call, serves_msccl, taken_of_folder
from samples.plan_sets import plan_set, with_protocols
from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.formats.format import find_format
from treadle.formats.msccl.file_selection import check_selection
from treadle.formats.verdict import RangedFile
from treadle.planning import LoweredSet, lower, lower_set
from treadle.schedules.plan import Plan

SPELT = {"reduce-scatter": "reducescatter"}
CASES = (
    ("dgx_a100:1", "allreduce", ("one-shot", "halving-doubling", "ring"), (8192, 2**20)),
    ("dgx_a100:1", "allgather", ("one-shot", "ring"), (10001,)),
    ("hypercube:3", "reduce-scatter", ("one-shot", "forestcoll"), (4096,)),
)
RUNTIMES = ("azure", "rccl", "legacy")


@cache
def made(case: int, runtime: str, in_place: bool = False) -> LoweredSet:
    return lower_set(plan_set(*CASES[case]), instances=1, profile=runtime, in_place=in_place)


def folder_of(texts: tuple[RangedFile, ...]) -> dict[str, str]:
    return {text.file: text.data.decode() for text in texts}


def calls(plan: Plan, text: RangedFile, size: int, runtime: str) -> Iterator[Call]:
    """Calls of just a size in bytes of the larger buffer, for each type that has such a call."""
    spelt = SPELT.get(plan.collective.kind.value, plan.collective.kind.value)
    if runtime == "legacy" and spelt == "reducescatter":
        spelt = "reduce_scatter"
    shards = 1 if spelt == "allreduce" else text.n_ranks
    for element in (1, 2, 4, 8):
        if size > 0 and size % (element * shards) == 0:
            yield Call(spelt, text.n_ranks, size // element // shards, element, text.in_place)


def nearest(text: RangedFile) -> Iterator[tuple[int, bool]]:
    """Sizes about both ends of a text's range that its chunks may divide, and whether it serves them."""
    step = text.n_chunks
    # texts with scratch end at 1 GB in the legacy runtime
    last = 2**30 if text.max_bytes is None else text.max_bytes
    for edge in (text.min_bytes, last):
        beyond = 0 if text.max_bytes is None and edge == last else 8 * step
        for size in range(max(0, edge // step - 8) * step, edge + beyond + 1, step):
            yield size, text.min_bytes <= size <= last


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_at_both_edges_the_text_of_the_range_is_taken(case: int, runtime: str) -> None:
    plan = plan_set(*CASES[case])
    found = made(case, runtime)
    assert found.faults == ()
    assert found.left_out == ()
    main = [text for text in found.files_by_range if not text.fills_in]
    assert [(text.min_bytes, text.max_bytes) for text in main] == [
        (entry.min_bytes, entry.max_bytes) for entry in plan.entries
    ]
    folder, edges = folder_of(found.files_by_range), 0
    for text in main:
        for size, is_inside in nearest(text):
            for call in calls(plan, text, size, runtime):
                taken = taken_of_folder(folder, call, runtime)
                if call.total % text.n_chunks == 0:
                    assert (taken == text.file) == is_inside, (text.file, call)
                    edges += is_inside
    assert edges >= 4 * len(main)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_chunks_leave_is_filled_in_where_the_order_is_known(case: int) -> None:
    """By msccl-executor-nccl alone: other runtimes know no order, or have no room."""
    found = made(case, "azure")
    plan, folder = plan_set(*CASES[case]), folder_of(found.files_by_range)
    for other in ("rccl", "legacy"):
        assert not any(text.fills_in for text in made(case, other).files_by_range)
    for text in found.files_by_range:
        if text.fills_in:
            size = -(-max(text.min_bytes, 1) // text.n_chunks) * text.n_chunks
            sizes = range(size, size + 64 * text.n_chunks, text.n_chunks)
            taken = {
                taken_of_folder(folder, call, "azure")
                for size in sizes
                for call in calls(plan, text, size, "azure")
            }
            assert text.file in taken
    assert any(text.fills_in for text in found.files_by_range) == (case == 2)


def test_filled_in_by_the_schedules_beside() -> None:
    found = made(2, "azure")
    rest = [one for one in found.ranges if one.text.fills_in]
    by_start = {one.text.min_bytes: one for one in found.ranges if not one.text.fills_in}
    for one in rest:
        main = by_start[one.text.min_bytes]
        assert (one.text.max_bytes, one.protocol) == (main.text.max_bytes, main.protocol)
        assert one.text.n_chunks % main.text.n_chunks
        assert one.algorithm in CASES[2][2]
    assert [(one.algorithm, one.text.n_chunks) for one in rest] == [("forestcoll", 24), ("one-shot", 8)]
    assert by_start[rest[0].text.min_bytes].text.n_chunks == 256


def test_other_modes_are_left_to_the_runtime() -> None:
    plan = plan_set(*CASES[0])
    for in_place in (False, True):
        found = made(0, "azure", in_place)
        for text in found.files_by_range:
            for call in calls(plan, text, 2**16, "azure"):
                other = replace(call, in_place=not in_place)
                assert taken_of_folder(folder_of(found.files_by_range), other, "azure") is None


def renamed(text: RangedFile, **values: int) -> RangedFile:
    """The text with other attributes than it is meant to have."""
    data = text.data.decode()
    for name, value in values.items():
        head, _, rest = data.partition(f'{name}="')
        data = f'{head}{name}="{value}"{rest[rest.index(chr(34)) :]}'
    return replace(text, data=data.encode())


def mutants(texts: list[RangedFile], runtime: str) -> Iterator[tuple[str, list[RangedFile]]]:
    first, second, *rest = texts
    end = (first.max_bytes or 0) + (runtime == "legacy")
    step = 64 * first.n_chunks * second.n_chunks
    yield "too long", [renamed(first, maxBytes=end + step), second, *rest]
    yield "too short", [renamed(first, maxBytes=end - step), second, *rest]
    yield "without limit", [renamed(first, maxBytes=2**40 if runtime == "legacy" else 0), second, *rest]
    yield "too late", [first, renamed(second, minBytes=second.min_bytes + step), *rest]
    yield "of other ranks", [first, renamed(second, ngpus=second.n_ranks + 1), *rest]
    yield "in the other mode", [renamed(first, inplace=1, outofplace=0), second, *rest]
    yield "of more chunks", [first, renamed(second, nchunksperloop=3 * second.n_chunks), *rest]
    yield "exchanged", [replace(first, data=second.data), replace(second, data=first.data), *rest]
    if runtime == "azure":
        yield "filled in first", [*texts, replace(second, file="texts/a.xml", min_bytes=0, fills_in=True)]
    if runtime == "rccl":  # elsewhere the first text still comes first
        yield "too early", [first, renamed(second, minBytes=max(1, second.min_bytes - step)), *rest]
        more = renamed(replace(second, file="texts/z.xml", fills_in=True, min_bytes=0), minBytes=0)
        yield "two for a call", [*texts, more]
    if runtime == "legacy":
        yield "too many", [*texts, *(replace(first, file=f"texts/{i}.xml", fills_in=True) for i in range(4))]
        yield "inclusive", [renamed(first, maxBytes=end + 8 * first.n_chunks), second, *rest]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_judge_follows_wrong_choices(runtime: str) -> None:
    record = find_format("msccl-xml")
    texts = [text for text in made(0, runtime).files_by_range if not text.fills_in]
    assert record.interpreted_set(texts, {}, runtime) == ()
    for words, damaged in mutants(texts, runtime):
        assert record.interpreted_set(damaged, {}, runtime), words


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
    assert any("LL128 is right only" in word for one in found.ranges for word in one.made.cautions)
    asked = lower_set(plan, protocol="LL", instances=1)
    assert [(one.text.min_bytes, one.protocol) for one in asked.ranges] == [(0, "LL"), (10001, "LL")]
    assert len(lower_set(plan, to="mscclpp-json", instances=1).ranges) == len(
        plan.entries
    )  # its protocols are not NCCL's


def test_sizes_asked_for_narrow_the_ranges() -> None:
    plan = plan_set(*CASES[0])
    found = lower_set(plan, profile="rccl", min_size_bytes="4K", max_size_bytes="64K")
    assert [(text.min_bytes, text.max_bytes) for text in found.files_by_range] == [
        (4096, 8191),
        (8192, 65536),
    ]
    one = lower(plan, size_bytes="1MB", profile="rccl", instances=1)
    assert one.text.encode() == made(0, "rccl").files_by_range[2].data
    assert lower(plan, min_size_bytes=2**20, profile="rccl", instances=1).text == one.text
    alone = lower(plan_set(*CASES[0][:2], CASES[0][2][:1], (), 8191), to="cpu-xml")
    assert lower(plan, to="cpu-xml", size_bytes=100).text == alone.text


def test_what_cannot_be_is_refused_in_one_line() -> None:
    plan = plan_set(*CASES[0])
    many = plan_set("dgx_a100:1", "allgather", ("one-shot", "ring") * 3, (100, 200, 300, 400, 500))
    short = plan_set("dgx_a100:1", "allgather", ("one-shot", "ring"), (2048,), 4096, 1024)
    for words, call in (
        ("3 ranges of sizes, and a text of msccl-xml is for one; lower_set writes", lambda: lower(plan)),
        ("and a text of cpu-xml is for one; its runtimes", lambda: lower(plan, to="cpu-xml")),
        ("no runtime chooses from several", lambda: lower_set(plan, to="chakra", size_bytes=1)),
        (
            "6 texts, and the legacy runtime reads 4 in all; solve with --max",
            lambda: lower_set(many, profile="legacy"),
        ),
        ("--protocol LL64: expected Simple, LL, LL128", lambda: lower_set(plan, protocol="LL64")),
        (
            "--protocol is for msccl-xml, mscclpp-json and nccl-tuner",
            lambda: lower_set(plan, to="cpu-xml", protocol="LL"),
        ),
        ("expected no less than 0, rising", lambda: lower_set(plan, min_size_bytes=2, max_size_bytes=1)),
        ("it serves from 1KB to 4KB", lambda: lower_set(short, min_size_bytes="1MB")),
        ("no schedule of the plan serves", lambda: lower(short, size_bytes=100)),
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
    assert "no size is served" in found.left_out[0][2]
    assert [text.min_bytes for text in found.files_by_range if not text.fills_in] == [64, 4096]
    assert found.faults == ()
    packets = lower_set(plan, to="mscclpp-json", protocol="LL")
    assert [(first, why.partition(":")[0]) for first, _, why in packets.left_out] == [
        (0, "MSCCL++"),
        (4096, "MSCCL++"),
    ]
    assert {text.min_bytes for text in packets.files_by_range} == {64}
    assert packets.faults == ()
    with pytest.raises(InfeasibleError, match="no size is served"):
        lower_set(plan, to="mscclpp-json", max_size_bytes=63)


def test_a_call_of_the_reference_is_what_it_says() -> None:
    """The selector of these tests tells sizes apart by one byte."""
    text = made(1, "azure").files_by_range[0]
    call = next(calls(plan_set(*CASES[1]), text, 9992, "azure"))
    assert serves_msccl(text.data.decode(), call, "azure")
    assert not serves_msccl(text.data.decode(), replace(call, count=call.count + 8), "azure")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: b"<?xml version='1.0'?>" + data, "expected the tag algo"),
        (lambda data: b" " * 4096 + data, "expected the tag algo"),
        (lambda data: data.replace(b"ngpus", b"gpus", 1), "the tag algo: 'ngpus'"),
        (lambda data: data.replace(b'minBytes="', b'minBytes="x', 1), "the tag algo: invalid literal"),
    ],
)
def test_a_text_without_a_heading_is_refused(change: Callable[[bytes], bytes], said: str) -> None:
    first, *rest = made(0, "azure").files_by_range
    with pytest.raises(FormatError, match=said) as error:
        check_selection([replace(first, data=change(first.data)), *rest], {}, "azure")
    assert first.file in str(error.value)
