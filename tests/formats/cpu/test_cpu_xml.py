"""CPU XML: executed by the independent interpreter without any buffering, mutated, hostile."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import places
from samples.exchange_samples import alltoall, over_shortest_paths, random_demands
from samples.program_cases import random_case
from treadle import planning
from treadle.errors import FormatError, ScheduleError
from treadle.formats.cpu.interpreter import interpret_cpu_xml
from treadle.formats.cpu.writer import emit_cpu_xml
from treadle.program.passes import replicate
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.steps.step_lowering import lower_steps
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind, on_all_ranks
from treadle.synthesis.steps.bfb import bfb_schedule
from treadle.topologies.catalogue.graphs import ring, torus

GOLDEN = places.GOLDEN / "allreduce_ring3.cpu.xml"


def small(kind: CollectiveKind = CollectiveKind.ALLREDUCE, seed: int = 4) -> Program:
    return lower(*random_case(seed, kind))


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_text_does_what_the_collective_asks(kind: CollectiveKind) -> None:
    for seed in range(24):
        program = lower(*random_case(seed, kind), in_place=bool(seed % 2), merge=seed % 3 > 0)
        program = replicate(program, 1 + seed % 2)
        report = interpret_cpu_xml(emit_cpu_xml(program))
        assert report.violations == ()
        assert (report.n_ranks, report.n_chunks) == (program.n_ranks, program.n_chunks)


@pytest.mark.parametrize("uneven", [False, True])
def test_alltoall(uneven: bool) -> None:
    topology = torus(3, 3)
    collective = alltoall(topology, random_demands(9, 2) if uneven else None)
    program = lower_exchange(topology, collective, over_shortest_paths(topology, collective))
    assert interpret_cpu_xml(emit_cpu_xml(program)).violations == ()


def test_a_rank_waits_for_what_it_forwards_within_a_step() -> None:
    """Steps are only advice: here one step holds a whole chain."""
    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [
            [Operation(OperationKind.COPY, 0, 1), Operation(OperationKind.SEND, 0, 1, peer=1)],
            [
                Operation(OperationKind.RECEIVE, 0, 1, peer=0),
                Operation(OperationKind.SEND, 0, 1, peer=2, source=Buffer.OUTPUT, waits=(0,)),
            ],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=1)],
        ],
        n_chunks=1,
        shard_offset=[0, 1, 1, 1],
        root=0,
    )
    assert interpret_cpu_xml(emit_cpu_xml(program)).violations == ()


def test_golden_text() -> None:
    topology = ring(3)
    collective = on_all_ranks(topology, CollectiveKind.ALLREDUCE)
    program = lower_steps(topology, collective, bfb_schedule(topology, CollectiveKind.ALLREDUCE))
    text = emit_cpu_xml(program, name="ring3", max_bytes=1024)
    assert interpret_cpu_xml(text).violations == ()
    assert text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER])
def test_every_mutation_is_caught(kind: CollectiveKind) -> None:
    """Drop, double or shift any instruction, make a sum before the sync. Not every sync is needed."""
    lines = emit_cpu_xml(small(kind)).splitlines()
    places = [i for i, line in enumerate(lines) if re.match(r"\s+<(send|recv|sync|copy|reduce)", line)]
    assert len(places) > 20
    needed = 0
    for i in places:
        dropped = broken([*lines[:i], *lines[i + 1 :]])
        if "sync" in lines[i]:
            needed += dropped
            assert dropped or "</rank" not in lines[i + 1]
        else:
            assert dropped, f"dropped {lines[i]}"
        if "sync" not in lines[i] and "copy" not in lines[i]:
            assert broken([*lines[: i + 1], *lines[i:]]), f"doubled {lines[i]}"
        if 'chunk="' in lines[i]:
            shifted = re.sub(r'chunk="(\d+)"', lambda match: f'chunk="{int(match[1]) ^ 1}"', lines[i])
            assert broken([*lines[:i], shifted, *lines[i + 1 :]]), f"shifted {lines[i]}"
        if "sync" in lines[i] and "reduce" in lines[i + 1]:
            assert broken([*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]]), f"swapped {lines[i + 1]}"
    assert needed > 3


def test_violations_name_the_line() -> None:
    lines = emit_cpu_xml(small(CollectiveKind.ALLREDUCE)).splitlines()
    place = max(i for i, line in enumerate(lines) if "<send" in line)
    lines[place] = re.sub(r'chunk="\d+"', 'chunk="999"', lines[place])
    found = interpret_cpu_xml("\n".join(lines)).violations
    assert any(f"line {place + 1}: buffer" in one and "lacks chunks 999" in one for one in found), found


def broken(lines: list[str]) -> bool:
    try:
        return bool(interpret_cpu_xml("\n".join(lines)).violations)
    except FormatError:
        return True


def larger(line: str, factor: int) -> str:
    """A line of a text whose every chunk is so many."""
    line = re.sub(
        r' (chunks|chunk|cnt|slots|slot)="(\d+)"', lambda m: f' {m[1]}="{int(m[2]) * factor}"', line
    )
    return re.sub(r"(\d+)-(\d+)", lambda m: f"{int(m[1]) * factor}-{(int(m[2]) + 1) * factor - 1}", line)


@pytest.mark.parametrize("kind", [CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER])
def test_a_billion_chunks_are_judged_as_one_is(kind: CollectiveKind) -> None:
    lines = emit_cpu_xml(small(kind)).splitlines()
    many = [larger(line, 10**9) for line in lines]
    assert not broken(many)
    for i in range(len(lines)):
        if re.match(r"\s+<(send|recv|sync|copy|reduce)", lines[i]):
            assert broken([*many[:i], *many[i + 1 :]]) == broken([*lines[:i], *lines[i + 1 :]]), lines[i]
        if 'chunk="' in lines[i]:  # one of the billion too far
            moved = re.sub(r' chunk="(\d+)"', lambda match: f' chunk="{int(match[1]) + 1}"', many[i])
            assert broken([*many[:i], moved, *many[i + 1 :]]), lines[i]


def test_part_of_what_came_is_summed() -> None:
    """Of three slots that came only the last two are summed, and at their places."""
    head = (
        '<cpu name="x" collective="reduce-scatter" ranks="2" chunks="5" root="-1" inplace="0" minBytes="0" '
        'maxBytes="0">'
    )
    zero = '<rank id="0" i="0-4" o="" s="" slots="0"><send peer="1" buf="i" chunk="0" cnt="5"/><sync/></rank>'
    taken = '<recv peer="0" slot="2" chunk="0" cnt="5"/><copy buf="i" dbuf="o" chunk="0" cnt="5"/><sync/>'
    sums = '<reduce slot="2" buf="o" chunk="0" cnt="2"/><reduce slot="4" buf="o" chunk="2" cnt="3"/>'
    one = f'<rank id="1" i="0-4" o="0-4" s="" slots="7">{taken}{sums}</rank></cpu>'
    assert interpret_cpu_xml(head + zero + one).violations == ()
    for old, new, said in (
        ('slot="4" buf', 'slot="3" buf', "3 chunks of the output are wrong"),
        ('cnt="2"', 'cnt="1"', "1 chunks of the output are wrong"),
        (
            'slot="4" buf="o" chunk="2" cnt="3"',
            'slot="4" buf="o" chunk="1" cnt="3"',
            "4 chunks of the output",
        ),
        ('slot="2" buf', 'slot="1" buf', "reads chunk 1 of slot undefined"),
        ('slots="7"', 'slots="6"', "slot 6 is too many"),
        ("<sync/><reduce", "<reduce", "touches memory of a transfer under way"),
    ):
        seen = interpret_cpu_xml(head + zero + one.replace(old, new))
        assert said in " ".join(seen.violations), new


def test_work_is_counted_by_contributions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand copies of two contributions are more than a thousand of one."""
    sizes = 'chunks="1" root="1" inplace="0" minBytes="0" maxBytes="0"'
    head = f'<cpu name="x" collective="reduce" ranks="2" {sizes}>'
    zero = '<rank id="0" i="0-0" o="" s="" slots="0"><send peer="1" buf="i" chunk="0" cnt="1"/><sync/></rank>'
    taken = '<copy buf="i" dbuf="o" chunk="0" cnt="1"/><recv peer="0" slot="0" chunk="0" cnt="1"/><sync/>'
    summed = '<reduce slot="0" buf="o" chunk="0" cnt="1"/>'
    for before, after, turns in ((0, 0, 14), (1000, 0, 2014), (0, 1000, 3014)):
        copies = ['<copy buf="o" dbuf="s" chunk="0" cnt="1"/>' * times for times in (before, after)]
        steps = f"{taken}{copies[0]}{summed}{copies[1]}"
        text = f'{head}{zero}<rank id="1" i="0-0" o="0-0" s="0-0" slots="1">{steps}</rank></cpu>'
        monkeypatch.setattr("treadle.formats.cpu.interpreter.MAX_TURNS", turns)
        assert interpret_cpu_xml(text).violations == ()
        monkeypatch.setattr("treadle.formats.cpu.interpreter.MAX_TURNS", turns - 1)
        with pytest.raises(FormatError, match=f"more than {turns - 1} turns of ranks: too large to judge"):
            interpret_cpu_xml(text)


ONE_WAY = (
    '<cpu name="x" collective="broadcast" ranks="2" chunks="2" root="0" inplace="0" minBytes="0" '
    'maxBytes="0"><rank id="0" i="0-1" o="0-1" s="" slots="0"><send peer="1" buf="i" chunk="0" cnt="2"/>'
    '<copy buf="i" dbuf="o" chunk="0" cnt="2"/><sync/></rank>'
    '<rank id="1" i="" o="0-1" s="" slots="0"><recv peer="0" buf="o" chunk="0" cnt="2"/><sync/></rank></cpu>'
)
SWAPPED = (
    '<cpu name="x" collective="alltoall" ranks="2" chunks="4" root="-1" inplace="0" minBytes="0" '
    'maxBytes="0"><rank id="0" i="0-1" o="0-0 2-2" s="" slots="0"><copy buf="i" dbuf="o" chunk="0" cnt="1"/>'
    '<send peer="1" buf="i" chunk="1" cnt="1"/><recv peer="1" buf="o" chunk="2" cnt="1"/><sync/></rank>'
    '<rank id="1" i="2-3" o="1-1 3-3" s="" slots="0"><copy buf="i" dbuf="o" chunk="3" cnt="1"/>'
    '<send peer="0" buf="i" chunk="2" cnt="1"/><recv peer="0" buf="o" chunk="1" cnt="1"/><sync/></rank></cpu>'
)


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (ONE_WAY, 'cnt="2"/><sync/></rank><rank', 'cnt="2"/></rank><rank', "rank 0: ends without waiting"),
        (ONE_WAY, "<sync/></rank></cpu>", "</rank></cpu>", "rank 1: ends without waiting"),
        (
            ONE_WAY,
            'chunk="0" cnt="2"/><copy',
            'chunk="0" cnt="1"/><copy',
            "(+1) where rank 1 receives",
        ),
        (ONE_WAY, 'chunk="0" cnt="2"/><copy', 'chunk="1" cnt="2"/><copy', "lacks chunks 1 to 2"),
        (ONE_WAY, 'i="0-1" o="0-1"', 'i="0-1" o="0-0"', "lacks chunks 0 to 1"),
        (SWAPPED, 'peer="0" buf="i" chunk="2"', 'peer="0" buf="i" chunk="1"', "buffer i lacks chunks 1 to 1"),
        (
            SWAPPED,
            'peer="0" buf="i" chunk="2"',
            'peer="0" buf="i" chunk="3"',
            "sends chunks 3 (+1) where",
        ),
        (SWAPPED, 'i="2-3"', 'i="1-3"', "the buffers' chunks do not fit alltoall"),
        (SWAPPED, 'o="0-0 2-2"', 'o="0-2"', "the buffers' chunks do not fit alltoall"),
        (SWAPPED, 'o="1-1 3-3"', 'o="1-1"', "buffer o lacks chunks 3 to 3"),
    ],
)
def test_what_goes_wrong_is_named(text: str, old: str, new: str, said: str) -> None:
    assert interpret_cpu_xml(text).violations == ()
    assert text.count(old) == 1
    assert said in " ".join(interpret_cpu_xml(text.replace(old, new)).violations)


def test_shards_of_a_million_and_of_one() -> None:
    weights = (2, 10**6, 10**6, 1)
    plan = planning.solve("ring(4)", "reduce-scatter", weights=weights).plan
    made = planning.lower(plan, to="cpu-xml", in_place=True)
    assert made.faults == ()
    assert made.n_chunks == sum(weights)


def test_a_circle_of_waiting_is_found() -> None:
    """Two ranks that each receive before they send."""
    rank = '<rank id="{0}" i="{0}-{0}" o="0-1" s="" slots="0">{1}</rank>'
    body = (
        '<copy buf="i" dbuf="o" chunk="{0}" cnt="1"/><recv peer="{1}" buf="o" chunk="{1}" cnt="1"/><sync/>'
        '<send peer="{1}" buf="i" chunk="{0}" cnt="1"/><sync/>'
    )
    ranks = "".join(rank.format(one, body.format(one, 1 - one)) for one in range(2))
    text = (
        '<cpu name="x" collective="allgather" ranks="2" chunks="2" root="-1" inplace="0" minBytes="0" '
        f'maxBytes="0">{ranks}</cpu>'
    )
    assert "waits for ever" in " ".join(interpret_cpu_xml(text).violations)
    swapped = re.sub(r"(<recv[^>]*/><sync/>)(<send[^>]*/>)<sync/>", r"\2\1", text)
    assert interpret_cpu_xml(swapped).violations == ()


def test_a_receive_over_memory_in_use_is_found() -> None:
    """Into what is being sent, into what is being received, and into the input out of place."""
    rank = '<rank id="{0}" i="{0}-{0}" o="0-1" s="0-1" slots="0">{1}</rank>'
    body = (
        '<copy buf="i" dbuf="o" chunk="{0}" cnt="1"/><send peer="{1}" buf="i" chunk="{0}" cnt="1"/>'
        '<recv peer="{1}" buf="o" chunk="{1}" cnt="1"/><sync/>'
    )
    head = (
        '<cpu name="x" collective="allgather" ranks="2" chunks="2" root="-1" inplace="0" minBytes="0" '
        'maxBytes="0">'
    )

    def found(zero: str) -> str:
        ranks = rank.format(0, zero) + rank.format(1, body.format(1, 0))
        return " ".join(interpret_cpu_xml(f"{head}{ranks}</cpu>").violations)

    fine = body.format(0, 1)
    assert found(fine) == ""
    own = '<recv peer="1" buf="o" chunk="1" cnt="1"/>'
    assert own in fine
    over_sent = fine.replace('buf="i" chunk="0" cnt="1"/><recv', 'buf="o" chunk="0" cnt="1"/><recv')
    over_sent = over_sent.replace(own, '<recv peer="1" buf="o" chunk="0" cnt="1"/>')
    assert "touches memory of a transfer under way" in found(over_sent)
    assert "writes the input out of place" in found(
        fine.replace(own, own.replace('"o" chunk="1"', '"i" chunk="0"'))
    )


def test_the_wrong_collective_is_noticed() -> None:
    text = emit_cpu_xml(small())
    for name in ("allgather", "reduce-scatter", "alltoall"):
        changed = text.replace('collective="allreduce"', f'collective="{name}"')
        assert interpret_cpu_xml(changed).violations


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<cpu/>",
        "<cpu",
        '<!DOCTYPE a [<!ENTITY b "c">]><cpu/>',
        "<a" * 50_000,
        "<a>" * 50_000,
        "\ud800",
        '<cpu name="x" collective="allgather" ranks="99999999999999999999" chunks="1"/>',
    ],
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        interpret_cpu_xml(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('ranks="', 'ranks="-', "ranks"),
        ('chunks="', 'chunks="99999999999999', "chunks"),
        ('<rank id="0"', '<rank id="1"', "id='1'"),
        ('o="', 'o="3-1 ', "rising ranges"),
        ('o="0-', 'o="0-9999999999999', f"{2**40} chunks"),
        ('slots="', 'slots="99999999999999', "slots"),
        ("<sync", "<jump", "no instruction"),
        ('peer="0"', 'peer="-1"', "peer='-1'"),
        ('buf="i"', 'buf="x"', "buf='x'"),
        ('cnt="1"', 'cnt="0"', "cnt='0'"),
    ],
)
def test_malformed_text_is_refused(old: str, new: str, message: str) -> None:
    text = emit_cpu_xml(small())
    assert old in text
    with pytest.raises(FormatError, match=message):
        interpret_cpu_xml(text.replace(old, new, 1))


@cache
def small_text() -> str:
    return emit_cpu_xml(small())


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.data())
def test_damaged_text_never_crashes_the_reader(data: st.DataObject) -> None:
    text = small_text()
    place = data.draw(st.integers(0, len(text) - 1))
    noise = data.draw(st.text(max_size=12))
    with suppress(FormatError):
        interpret_cpu_xml(text[:place] + noise + text[place + len(noise) :])


def test_ranks_that_send_and_receive_in_different_orders_are_refused() -> None:
    """CPU XML knows no channels: the i-th send to a rank meets the i-th receive there."""
    send, receive = OperationKind.SEND, OperationKind.RECEIVE
    sends = [Operation(send, chunk, 1, peer=1, channel=chunk) for chunk in (0, 1)]
    receives = [Operation(receive, chunk, 1, peer=0, channel=chunk) for chunk in (0, 1)]
    copy = Operation(OperationKind.COPY, 0, 2)

    def written(arrive: list[Operation]) -> str:
        program = program_from_operations(
            CollectiveKind.BROADCAST, [[copy, *sends], arrive], n_chunks=2, shard_offset=[0, 2, 2], root=0
        )
        return emit_cpu_xml(program)

    assert interpret_cpu_xml(written(receives)).violations == ()
    with pytest.raises(ScheduleError) as caught:
        written(receives[::-1])
    assert str(caught.value) == (
        "CPU XML: ranks 0->1 send and receive in different orders; lower with one channel"
    )
