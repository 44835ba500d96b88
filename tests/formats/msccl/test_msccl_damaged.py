"""The interpreter of MSCCL XML against a plain reference, on damaged samples."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from reference import msccl_execution
from samples.exchange_samples import alltoall, over_shortest_paths
from samples.program_cases import random_case
from treadle.errors import FormatError, ScheduleError
from treadle.formats.msccl import interpreter_hazards as interpret_races
from treadle.formats.msccl.interpreter import MAX_VIOLATIONS, interpret_msccl_xml
from treadle.formats.msccl.interpreter_order import find_edges, find_order
from treadle.formats.msccl.reader import parse_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.program.program import Program
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.topologies.catalogue.graphs import torus


def programs(seeds: int) -> list[Program]:
    found = [
        lower(*random_case(seed, kind), channels=1 + seed % 2, in_place=seed % 4 < 2)
        for kind in SPANNING_KINDS
        for seed in range(seeds)
    ]
    fabric = torus(3, 2)
    collective = alltoall(fabric)
    return [*found, lower_exchange(fabric, collective, over_shortest_paths(fabric, collective))]


def word_of(violation: str) -> str:
    for word in ("race", "holds nothing", "output chunk", "deadlock", "writes the input", "there is none"):
        if word in violation:
            return word
    return "other"


def damaged(text: str, rng: random.Random) -> str:
    """Two changes of numbers, types or buffers, or a wait dropped."""
    lines = text.split("\n")
    steps = [at for at, line in enumerate(lines) if "<step" in line and "nop" not in line]
    for _ in range(rng.randint(1, 2)):
        at = rng.choice(steps)
        match rng.randrange(6):
            case 0:
                lines[at] = re.sub(r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', lines[at])
            case 1:
                lines[at] = re.sub(
                    r'depid="(\d+)" deps="\d+"',
                    lambda match: f'depid="{match[1]}" deps="{rng.randrange(4)}"',
                    lines[at],
                )
            case 2:
                side, offset = rng.choice(["src", "dst"]), rng.randrange(6)
                lines[at] = re.sub(rf'{side}off="\d+"', f'{side}off="{offset}"', lines[at])
            case 3:
                side, buffer = rng.choice(["src", "dst"]), rng.choice("ios")
                lines[at] = re.sub(rf'{side}buf="\w"', f'{side}buf="{buffer}"', lines[at])
            case 4:
                old = re.search(r'type="(\w+)"', lines[at])
                same = {"r": ["rrc", "r"], "rrc": ["r"], "s": ["s"], "cpy": ["re"]}[old[1]] if old else []
                lines[at] = lines[at].replace(f'type="{old[1]}"', f'type="{rng.choice(same)}"') if old else ""
            case _:
                lines[at] = re.sub(r'hasdep="\d"', f'hasdep="{rng.randrange(2)}"', lines[at])
    return "\n".join(lines)


def test_the_interpreter_finds_what_the_reference_finds() -> None:
    rng, seen = random.Random(11), Counter[str]()
    for program in programs(4):
        try:
            text = emit_msccl_xml(program)
        except ScheduleError:
            continue  # unequal shards
        root = max(0, program.root)
        for mutant in [text, *(damaged(text, rng) for _ in range(14))]:
            found = interpret_msccl_xml(mutant, root=root).violations
            assert sorted(found) == msccl_execution.violations_of(mutant, root=root)
            seen.update(map(word_of, found or ["none: other"]))
    assert set(seen) >= {"race", "holds nothing", "output chunk", "writes the input"}
    assert seen["race"] > 20


def test_clocks_of_few_thread_blocks_at_a_time_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """All conflicts are left to clocks, which are formed for one thread block after another."""
    monkeypatch.setattr(interpret_races, "_CLOCK_BYTES", 1)
    rng, races = random.Random(12), 0
    for seed in range(6):
        text = emit_msccl_xml(lower(*random_case(seed, CollectiveKind.ALLREDUCE), channels=2))
        for mutant in [text, *(damaged(text, rng) for _ in range(6))]:
            found = sorted(interpret_msccl_xml(mutant).violations)
            assert found == msccl_execution.violations_of(mutant)
            races += sum("race" in violation for violation in found)
    assert races > 5


def test_order_by_messages_through_another_rank_counts() -> None:
    """Rank 0 writes chunk 0 again only after rank 1 has answered what the first thread block sent."""
    step = '<step s="{}" type="{}" srcbuf="s" srcoff="0" dstbuf="s" dstoff="0" cnt="1" '
    step += 'depid="-1" deps="-1" hasdep="0"/>'
    head = '<algo proto="Simple" nchannels="2" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="1" '
    head += 'outofplace="0" minBytes="0" maxBytes="0">'
    copy = step.format(0, "cpy").replace('srcbuf="s"', 'srcbuf="i"')
    first = f'<tb id="0" send="1" recv="-1" chan="0">{copy}{step.format(1, "s")}</tb>'
    first += f'<tb id="1" send="-1" recv="1" chan="0">{step.format(0, "r")}</tb>'
    receive, send = step.format(0, "r"), step.format(1, "s")
    answered = f'<tb id="0" send="0" recv="0" chan="0">{receive}{send}</tb>'
    unasked = f'<tb id="0" send="-1" recv="0" chan="0">{receive}</tb>'
    unasked += f'<tb id="1" send="0" recv="-1" chan="0">{step.format(0, "s")}</tb>'
    for second, races in ((answered, False), (unasked, True)):
        gpus = [
            f'<gpu id="{rank}" i_chunks="1" o_chunks="1" s_chunks="1">{blocks}</gpu>'
            for rank, blocks in enumerate((first, second))
        ]
        text = "\n".join([head, *gpus, "</algo>"])
        found = interpret_msccl_xml(text).violations
        assert sorted(found) == msccl_execution.violations_of(text)
        assert any("race: " in v and "(rank 0, cpy)" in v for v in found) == races


def test_two_thread_blocks_for_one_peer_and_channel_are_refused() -> None:
    """The runtime would take one of them for both."""
    step = '<step s="0" type="{}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" '
    step += 'hasdep="0"/>'
    head = '<algo proto="Simple" nchannels="2" nchunksperloop="1" ngpus="2" coll="broadcast" inplace="0" '
    head += 'outofplace="1" minBytes="0" maxBytes="0">'
    gpu = '<gpu id="{}" i_chunks="1" o_chunks="1" s_chunks="0">{}</gpu>'
    for ends, kind, side in (('send="1" recv="-1"', "s", "send"), ('send="-1" recv="1"', "r", "receive")):
        for channel in (0, 1):
            blocks = [
                f'<tb id="{number}" {ends} chan="{chan}">{step.format(kind)}</tb>'
                for number, chan in enumerate((0, channel))
            ]
            text = "\n".join([head, gpu.format(0, "".join(blocks)), gpu.format(1, ""), "</algo>"])
            if channel == 0:
                with pytest.raises(FormatError, match=f"is the second to {side} with peer 1 on channel 0"):
                    interpret_msccl_xml(text)
            else:
                assert interpret_msccl_xml(text).violations  # read, and judged by what it does


def test_texts_too_large_to_judge_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = emit_msccl_xml(lower(*random_case(1, CollectiveKind.ALLREDUCE)))
    bare = re.sub(r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', text)
    assert any("race" in violation for violation in interpret_msccl_xml(bare).violations)
    monkeypatch.setattr(interpret_races, "MAX_WORK", 1)
    with pytest.raises(FormatError, match="too large to judge"):
        interpret_msccl_xml(bare)


def test_violations_are_listed_up_to_a_number() -> None:
    head = '<algo proto="Simple" nchannels="1" nchunksperloop="4000000" ngpus="1" coll="allreduce" '
    head += 'inplace="0" outofplace="1" minBytes="0" maxBytes="0">'
    text = head + '<gpu id="0" i_chunks="4000000" o_chunks="4000000" s_chunks="0"></gpu></algo>'
    found = interpret_msccl_xml(text).violations
    assert len(found) == MAX_VIOLATIONS + 1
    assert found[-1] == "further violations are not listed"


def test_problems_of_steps_are_bounded_too() -> None:
    """30 steps that each read 71 chunks of scratch that hold nothing."""
    step = '<step s="{}" type="cpy" srcbuf="s" srcoff="{}" dstbuf="o" dstoff="0" cnt="71" '
    step += 'depid="-1" deps="-1" hasdep="0"/>'
    head = '<algo proto="Simple" nchannels="1" nchunksperloop="71" ngpus="1" coll="allreduce" '
    head += 'inplace="1" outofplace="1" minBytes="0" maxBytes="0">'
    steps = "".join(step.format(number, 71 * number) for number in range(30))
    text = f'{head}<gpu id="0" i_chunks="71" o_chunks="71" s_chunks="2130"><tb id="0" send="-1" recv="-1" '
    text += f'chan="0">{steps}</tb></gpu></algo>'
    found = interpret_msccl_xml(text).violations
    assert len(found) == MAX_VIOLATIONS + 1
    assert all("holds nothing yet" in violation for violation in found[:-1])


def test_ranks_with_too_much_to_judge_are_left_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 has four steps and its second block waits for the first, rank 1 has three and nothing waits."""
    step = '<step s="{}" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="{}" deps="{}" '
    step += 'hasdep="0"/>'
    lines = [
        '<algo proto="Simple" nchannels="2" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="0" '
        'outofplace="1" minBytes="0" maxBytes="0">'
    ]
    for rank, n_first, wait in ((0, 3, (0, 2)), (1, 2, (-1, -1))):
        first = "".join(step.format(number, -1, -1) for number in range(n_first))
        lines.append(f'<gpu id="{rank}" i_chunks="1" o_chunks="1" s_chunks="0">')
        lines.append(f'<tb id="0" send="-1" recv="-1" chan="0">{first}</tb>')
        lines.append(f'<tb id="1" send="-1" recv="-1" chan="1">{step.format(0, *wait)}</tb></gpu>')
    algorithm = parse_msccl_xml("\n".join([*lines, "</algo>"]), "azure", "")
    edges = find_edges(algorithm)
    order = find_order(algorithm, edges)
    assert order is not None
    ours = [[i for i, one in enumerate(algorithm.steps) if one.rank == rank] for rank in range(2)]
    settled, open_ = (ours[0][2], ours[0][3]), (ours[1][1], ours[1][2])
    for most, expected in ((4, [open_]), (3, [settled, open_]), (2, [settled, open_])):
        monkeypatch.setattr(interpret_races, "MAX_WORK", most)
        found = interpret_races._without_those_in_rank(algorithm, edges, order, [settled, open_])
        assert found == expected, most
