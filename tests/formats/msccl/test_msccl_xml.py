"""Emitted MSCCL XML: executed by the independent interpreter, mutated, compared with a golden file."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import replace

import pytest
from lxml import etree

import places
from samples.program_cases import fabric, random_case
from treadle.errors import FormatError, ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import LIMITS, Profile, emit_msccl_xml
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees

GOLDEN = places.GOLDEN / "allreduce_chain3.xml"
SAMPLES = places.FOREIGN_SAMPLES


def chain3(*, in_place: bool) -> Program:
    """Allreduce on three ranks by one tree per root, each a chain."""
    topology = fabric(3, star=True)
    parents = ([-1, 0, 1], [1, -1, 1], [1, 2, -1])

    def forest(direction: Direction) -> list[TreeSpec]:
        return [
            TreeSpec(root, 1, parent, {v: [((0, 1), 1)] for v in range(3) if v != root})
            for root, parent in enumerate(parents)
        ]

    reduce, broadcast = (
        forest_from_trees(way, 3, forest(way)) for way in (Direction.REDUCE, Direction.BROADCAST)
    )
    schedule = ForestSchedule(CollectiveKind.ALLREDUCE, reduce=reduce, broadcast=broadcast)
    return lower(topology, on_all_ranks(topology, CollectiveKind.ALLREDUCE), schedule, in_place=in_place)


def long_stream(messages: int, chunks: int = 1) -> Program:
    """Broadcast from rank 0 to rank 1 in many messages."""
    sends = [Operation(OperationKind.SEND, i * chunks, chunks, peer=1) for i in range(messages)]
    receives = [Operation(OperationKind.RECEIVE, i * chunks, chunks, peer=0) for i in range(messages)]
    total = messages * chunks
    return program_from_operations(
        CollectiveKind.BROADCAST,
        [sends, receives],
        n_chunks=total,
        shard_offset=[0, total, total],
        root=0,
        in_place=True,
    )


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_emitted_text_does_what_the_collective_asks(kind: CollectiveKind, profile: Profile) -> None:
    emitted = 0
    for seed in range(14):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule, channels=1 + seed % 2, in_place=seed % 4 < 2)
        if collective.weights is not None and len(set(collective.weights)) > 1:
            with pytest.raises(ScheduleError, match="unequal shards"):
                emit_msccl_xml(program, profile=profile)
            continue
        text = emit_msccl_xml(program, profile=profile)
        report = interpret_msccl_xml(text, profile=profile, root=collective.root or 0)
        assert report.violations == ()
        assert report.n_chunks == program.n_chunks
        emitted += 1
    assert emitted >= 5


def test_spelling_of_reduce_scatter_depends_on_the_profile() -> None:
    seed = next(s for s in range(99) if random_case(s, CollectiveKind.REDUCE_SCATTER)[1].weights is None)
    program = lower(*random_case(seed, CollectiveKind.REDUCE_SCATTER))
    legacy = emit_msccl_xml(program, profile=Profile.LEGACY)
    assert 'coll="reduce_scatter"' in legacy
    for profile in (Profile.AZURE, Profile.RCCL):
        assert 'coll="reducescatter"' in emit_msccl_xml(program, profile=profile)
        with pytest.raises(FormatError, match="coll"):
            interpret_msccl_xml(legacy, profile=profile)


def test_golden_text() -> None:
    text = emit_msccl_xml(chain3(in_place=False), name="chain3", max_bytes=2**20)
    assert interpret_msccl_xml(text).violations == ()
    assert text == GOLDEN.read_text(encoding="utf-8")


def places_by_message(text: str) -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """For the plain receives and the sums of a text, what their step and the matching send's step name.

    Told from the attributes alone: the i-th send from a to b on a channel meets the i-th receive there.
    """
    sent: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    received: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for gpu in etree.fromstring(text):
        for block in gpu:
            for step in block:
                names = ("type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt")
                fields = tuple(step.get(name, "") for name in names)
                if fields[0] == "s":
                    sent[gpu.get("id"), block.get("send"), block.get("chan")].append(fields)
                elif fields[0] in ("r", "rrc"):
                    received[block.get("recv"), gpu.get("id"), block.get("chan")].append(fields)
    assert sent.keys() == received.keys()
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = defaultdict(list)
    for stream, steps in sent.items():
        for send, receive in zip(steps, received[stream], strict=True):
            found[receive[0]].append((send[1:], receive[1:]))
    return found


@pytest.mark.parametrize("consolidate", [False, True])
@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_both_ends_of_a_message_name_the_same_places(kind: CollectiveKind, *, consolidate: bool) -> None:
    """As msccl-tools writes it: a receive's source is the sender's, a send's target the receiver's."""
    plain = sums = differ = 0
    for seed in range(16):
        topology, collective, schedule = random_case(seed, kind)
        if collective.weights is not None:
            continue
        program = lower(topology, collective, schedule, channels=1 + seed % 2, in_place=seed % 4 < 2)
        found = places_by_message(emit_msccl_xml(program, consolidate=consolidate))
        for send, receive in found["r"]:
            assert send == receive
            differ += receive[:2] != receive[2:4]
        # a sum's source is the term that the runtime adds: the receiver's own
        assert all(send[2:] == receive[2:] for send, receive in found["rrc"])
        plain, sums = plain + len(found["r"]), sums + len(found["rrc"])
    assert bool(plain) == (kind not in (CollectiveKind.REDUCE, CollectiveKind.REDUCE_SCATTER))
    assert bool(sums) == kind.reduces
    assert differ or kind not in (CollectiveKind.ALLGATHER, CollectiveKind.BROADCAST)


def test_the_legacy_runtime_is_told_where_sizes_end() -> None:
    """It takes sizes below maxBytes, so that 0 would mean none, and has scratch for maxBytes at once."""
    seeds = (s for s in range(99) if random_case(s, CollectiveKind.REDUCE_SCATTER)[1].weights is None)
    with_scratch = lower(*random_case(next(seeds), CollectiveKind.REDUCE_SCATTER))
    cases = ((chain3(in_place=True), {}, 2**40), (with_scratch, {}, 2**30 + 1))
    for program, sizes, expected in (*cases, (with_scratch, {"max_bytes": 4096}, 4097)):
        legacy = emit_msccl_xml(program, profile=Profile.LEGACY, **sizes)
        assert f'maxBytes="{expected}"' in legacy
        assert f'maxBytes="{sizes.get("max_bytes", 0)}"' in emit_msccl_xml(program, **sizes)


@pytest.mark.parametrize("in_place", [False, True])
def test_every_mutation_is_caught(in_place: bool) -> None:
    """Drop a step, shift an offset, swap two steps, resize a count: each must be a violation or refused.

    Dropped waits, which others may imply, are `test_msccl_order`'s business.
    """
    text = emit_msccl_xml(chain3(in_place=in_place))
    lines = text.split("\n")
    steps = [i for i, line in enumerate(lines) if "<step" in line]
    swaps = 0
    for i in steps:
        dropped = renumbered([*lines[:i], *lines[i + 1 :]])
        assert broken(dropped), f"dropped {lines[i]}"
        if 'type="nop"' not in lines[i]:
            key = "srcoff" if 'type="s"' in lines[i] else "dstoff"
            resized = re.sub(r'cnt="(\d)"', lambda match: f'cnt="{3 - int(match[1])}"', lines[i])
            for changed in (resized, shifted(lines[i], key)):
                assert changed != lines[i]
                assert broken([*lines[:i], changed, *lines[i + 1 :]]), f"changed {lines[i]}"
        if 'type="s"' in lines[i] and 'type="s"' in lines[i + 1]:
            swapped = renumbered([*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]])
            assert broken(swapped), f"swapped {lines[i]}"
            swaps += 1
    assert swaps


def renumbered(lines: list[str]) -> list[str]:
    """Give steps their numbers again after one was dropped."""
    place, result = 0, []
    for line in lines:
        place = 0 if "<tb" in line else place
        if "<step" in line:
            line, place = re.sub(r's="\d+"', f's="{place}"', line, count=1), place + 1
        result.append(line)
    return result


def shifted(line: str, key: str) -> str:
    return re.sub(rf'{key}="(\d+)"', lambda match: f'{key}="{(int(match[1]) + 1) % 3}"', line)


def broken(lines: list[str]) -> bool:
    try:
        return bool(interpret_msccl_xml("\n".join(lines)).violations)
    except FormatError:
        return True


def test_double_counting_and_deadlock_are_named() -> None:
    text = emit_msccl_xml(chain3(in_place=True))
    doubled = text.replace('type="r" ', 'type="rrc" ', 1)
    assert any("too many" in violation for violation in interpret_msccl_xml(doubled).violations)
    head = '<algo proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="0" '
    head += 'outofplace="1" minBytes="0" maxBytes="0">'
    step = '<step s="{}" type="{}" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" '
    step += 'depid="-1" deps="-1" hasdep="0"/>'
    gpus = [
        f'<gpu id="{i}" i_chunks="1" o_chunks="2" s_chunks="0">'
        f'<tb id="0" send="{1 - i}" recv="{1 - i}" chan="0">'
        + step.format(0, "r")
        + step.format(1, "s")
        + "</tb></gpu>"
        for i in range(2)
    ]
    report = interpret_msccl_xml("\n".join([head, *gpus, "</algo>"]))
    assert any("deadlock: cycle of 4 steps" in violation for violation in report.violations)


@pytest.mark.parametrize("profile", Profile)
def test_long_streams_take_several_channels(profile: Profile) -> None:
    limits = LIMITS[profile]
    program = long_stream(2 * limits.steps + 1)
    text = emit_msccl_xml(program, profile=profile)
    assert 'nchannels="3"' in text
    assert interpret_msccl_xml(text, profile=profile).violations == ()
    wide = emit_msccl_xml(long_stream(2, chunks=100), profile=profile)
    assert 'cnt="50"' in wide
    assert interpret_msccl_xml(wide, profile=profile).violations == ()
    with pytest.raises(ScheduleError, match=r"channels of .* steps .*--trees 1|XML nodes"):
        emit_msccl_xml(long_stream(limits.steps * limits.channels + 1), profile=profile)


def test_sends_and_receives_share_thread_blocks_where_they_must() -> None:
    """An alltoall-like allgather of 40 ranks needs 78 streams a rank; RCCL has 64 thread blocks."""
    n = 40
    ranks = []
    for v in range(n):
        others = [u for u in range(n) if u != v]
        ranks.append(
            [Operation(OperationKind.SEND, v, 1, peer=u) for u in others]
            + [Operation(OperationKind.RECEIVE, u, 1, peer=u) for u in others]
        )
    program = program_from_operations(
        CollectiveKind.ALLGATHER, ranks, n_chunks=n, shard_offset=range(n + 1), in_place=True
    )
    text = emit_msccl_xml(program, profile=Profile.RCCL)
    assert interpret_msccl_xml(text, profile="rccl").violations == ()


@pytest.mark.parametrize(
    "options",
    [
        {"name": 'a"b'},
        {"name": ""},
        {"protocol": "simple"},
        {"min_bytes": -1},
        {"max_bytes": -1},
        {"min_bytes": 9, "max_bytes": 8},
    ],
)
def test_emitter_refuses(options: dict[str, str]) -> None:
    with pytest.raises(FormatError, match="MSCCL XML"):
        emit_msccl_xml(chain3(in_place=True), **options)


def hostile() -> dict[str, str]:
    good = emit_msccl_xml(chain3(in_place=True))
    return {
        "empty": "",
        "not xml": "hello",
        "declaration": '<?xml version="1.0"?>\n' + good,
        "entity bomb": '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><algo>&c;</algo>',
        "external entity": '<!DOCTYPE a SYSTEM "file:///etc/passwd"><algo/>',
        "undefined entity": good.replace("treadle", "&x;"),
        "deep nesting": "<algo>" * 5000 + "</algo>" * 5000,
        "truncated": good[: len(good) // 2],
        "tabs": good.replace("    <tb", "\t<tb"),
        "single quotes": good.replace('chan="0"', "chan='0'"),
        "line break in tag": good.replace(' chan="0"', '\nchan="0"'),
        "huge number": good.replace('nchunksperloop="3"', f'nchunksperloop="{10**30}"'),
        "many chunks": good.replace('nchunksperloop="3"', 'nchunksperloop="3999999"'),
        "many gpus": good.replace('ngpus="3"', 'ngpus="4"'),
        "other digits": good.replace('ngpus="3"', 'ngpus="٣"'),
        "negative channel": good.replace('chan="0"', 'chan="-1"'),
        "no minBytes": good.replace(' minBytes="0"', ""),
        "no hasdep": good.replace(' hasdep="0"', ""),
        "own peer": good.replace('send="1"', 'send="0"'),
        "wide step": good.replace('cnt="1"', 'cnt="72"'),
        "unknown type": good.replace('type="s"', 'type="send"'),
        "surrogate": good.replace("treadle", "\ud800"),
        "null": good.replace("treadle", "\0"),
        "other root": "<gpu/>",
        "serves nothing": good.replace('inplace="1"', 'inplace="0"'),
    }


@pytest.mark.parametrize("case", list(hostile()))
def test_hostile_text_is_refused_in_one_line(case: str) -> None:
    with pytest.raises(FormatError) as caught:
        interpret_msccl_xml(hostile()[case], source="plan.xml")
    assert str(caught.value).startswith("plan.xml")
    assert "\n" not in str(caught.value)


def test_random_bytes_never_crash_the_interpreter() -> None:
    rng = random.Random(5)
    good = emit_msccl_xml(chain3(in_place=True))
    for _ in range(300):
        at = rng.randrange(len(good))
        mutant = good[:at] + rng.choice('0123456789"<>-abs ') + good[at + 1 :]
        try:
            interpret_msccl_xml(mutant)
        except FormatError:
            continue


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the folder of public MSCCL samples is absent")
@pytest.mark.parametrize(
    ("name", "collective", "ranks", "messages", "slots"),
    [
        ("msccl_rccl_allreduce_allpairs_8n_simple.xml", "allreduce", 8, 896, 1),
        ("msccl_rccl_allreduce_ring_simple.xml", "allreduce", 16, 11520, 2),
        ("msccl_rccl_alltoall_8n_ll.xml", "alltoall", 8, 56, 0),
        ("msccl_teccl_amd_32.xml", "allgather", 32, 1910, 0),
    ],
)
def test_public_algorithms_verify(name: str, collective: str, ranks: int, messages: int, slots: int) -> None:
    """With the fewest slots a stream that they do with; one slot less is a deadlock."""
    text = (SAMPLES / name).read_text(encoding="utf-8")
    report = interpret_msccl_xml(text, profile="rccl", fifo_depth=slots)
    assert (report.collective, report.n_ranks, report.n_messages) == (collective, ranks, messages)
    assert report.violations == ()
    if slots:
        found = interpret_msccl_xml(text, profile="rccl", fifo_depth=slots - 1).violations
        assert [violation.split(":")[0] for violation in found] == [
            f"deadlock with {slots - 1} slots a stream"
        ]


def test_weights_are_refused_only_where_shards_differ() -> None:
    topology, collective, schedule = random_case(2, CollectiveKind.ALLGATHER)
    if collective.weights is None:
        same = replace(collective, weights=(2,) * collective.n_ranks)
        assert emit_msccl_xml(lower(topology, same, schedule))
