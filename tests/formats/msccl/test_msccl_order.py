"""What the interpreter says of order, against small references: dropped waits, and streams with few slots."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest

from reference.every_order import later_than
from samples.program_cases import random_case
from treadle.errors import FormatError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import Profile, emit_msccl_xml
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind

Step = dict[str, str]


def samples(kind: CollectiveKind, *, seeds: int) -> Iterator[tuple[str, int]]:
    """Emitted texts and the rank of the root."""
    for seed in range(seeds):
        topology, collective, schedule = random_case(seed, kind)
        if len(set(collective.shard_weights)) == 1 or kind.is_rooted:
            program = lower(topology, collective, schedule, channels=1 + seed % 2, in_place=seed % 4 < 2)
            yield emit_msccl_xml(program), max(0, program.root)


def read_steps(lines: list[str]) -> list[Step]:
    """Attributes of every step with its rank, thread block and line; our own emitted texts only."""
    steps, rank, block = [], {}, {}
    for number, line in enumerate(lines):
        found = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if "<gpu" in line:
            rank = {"rank": found["id"]}
        elif "<tb" in line:
            block = {"tb": found["id"], "chan": found["chan"], "to": found["send"], "from": found["recv"]}
        elif "<step" in line:
            steps.append(found | rank | block | {"line": str(number)})
    return steps


def orders(steps: list[Step]) -> list[tuple[int, int]]:
    """Pairs of steps that thread blocks, waits and messages put in order."""
    where = {(step["rank"], step["tb"], step["s"]): i for i, step in enumerate(steps)}
    edges = [(i, j) for i, j in pairwise(range(len(steps))) if steps[j]["s"] != "0"]
    streams: dict[tuple[str, str, str], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for i, step in enumerate(steps):
        if step["depid"] != "-1":
            edges.append((where[step["rank"], step["depid"], step["deps"]], i))
        if step["type"] == "s":
            streams[step["rank"], step["to"], step["chan"]][0].append(i)
        elif step["type"] in ("r", "rrc"):
            streams[step["from"], step["rank"], step["chan"]][1].append(i)
    for sends, receives in streams.values():
        edges.extend(zip(sends, receives, strict=True))
    return edges


def conflicts(text: str, steps: list[Step]) -> list[tuple[int, int]]:
    """Pairs of steps that touch one chunk of one memory, one of them writing."""
    head = dict(re.findall(r'(\w+)="([^"]*)"', text.split("\n")[0]))
    shard = int(head["nchunksperloop"]) // int(head["ngpus"])
    shifted = {"allgather": "i", "reducescatter": "o"}.get(head["coll"])

    def places(step: Step, side: str) -> set[tuple[str, str, int]]:
        buffer, offset = step[f"{side}buf"], int(step[f"{side}off"])
        if head["inplace"] == "1" and buffer in "io":
            offset += int(step["rank"]) * shard if buffer == shifted else 0
            buffer = "io"
        return {(step["rank"], buffer, offset + at) for at in range(int(step["cnt"]))}

    reads = [places(step, "src") if step["type"] in ("s", "rrc", "cpy") else set() for step in steps]
    writes = [places(step, "dst") if step["type"] in ("r", "rrc", "cpy") else set() for step in steps]
    return [
        (one, other)
        for one, other in combinations(range(len(steps)), 2)
        if writes[one] & (reads[other] | writes[other]) or reads[one] & writes[other]
    ]


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_a_changed_wait_is_a_violation_just_if_a_conflict_loses_its_order(kind: CollectiveKind) -> None:
    """Drop a wait or turn it one step back: where all conflicts stay in order, no execution differs."""
    verdicts = []
    for text, root in samples(kind, seeds=6):
        # a step that nobody waits for any more may keep hasdep=1, and one that is awaited needs it
        lines = text.replace('hasdep="0"', 'hasdep="1"').split("\n")
        steps = read_steps(lines)
        pairs = conflicts(text, steps)
        for step in [step for step in steps if step["depid"] != "-1"][:25]:
            new = ("-1", "-1")
            if step["deps"] != "0" and len(verdicts) % 3 == 0:
                new = (step["depid"], str(int(step["deps"]) - 1))
            mutant = list(lines)
            at = int(step["line"])
            mutant[at] = re.sub(r'depid="\d+" deps="\d+"', f'depid="{new[0]}" deps="{new[1]}"', mutant[at])
            edges = orders(read_steps(mutant))
            later = [later_than(i, edges) for i in range(len(steps))]
            races = [
                pair for pair in pairs if pair[1] not in later[pair[0]] and pair[0] not in later[pair[1]]
            ]
            violations = interpret_msccl_xml("\n".join(mutant), root=root).violations
            assert bool(violations) == bool(races), f"{lines[at]} now waits for {new}: {violations[:1]}"
            verdicts.append(bool(violations))
    assert any(verdicts)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("depth", [0, 1, 8])
def test_emitted_texts_need_no_slots(kind: CollectiveKind, depth: int) -> None:
    """Both ends of every message are at one place of a common order: sends may even wait for receives."""
    for text, root in samples(kind, seeds=12):
        assert interpret_msccl_xml(text, root=root, fifo_depth=depth).violations == ()


def exchange(types: list[list[str]]) -> str:
    """Two ranks, each with thread blocks on channels of their own, of steps that move one chunk."""
    step = '<step s="{}" type="{}" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" '
    step += 'depid="-1" deps="-1" hasdep="0"/>'
    lines = [
        f'<algo proto="Simple" nchannels="{len(types[0])}" nchunksperloop="2" ngpus="2" coll="allreduce" '
        'inplace="1" outofplace="0" minBytes="0" maxBytes="0">'
    ]
    for rank in range(2):
        lines.append(f'<gpu id="{rank}" i_chunks="2" o_chunks="2" s_chunks="0">')
        for channel, word in enumerate(types[rank]):
            lines.append(f'<tb id="{channel}" send="{1 - rank}" recv="{1 - rank}" chan="{channel}">')
            lines.extend(step.format(s, letter) for s, letter in enumerate(word))
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


def stuck(left: str, right: str, depth: int | None) -> bool:
    """Run two ranks' sends and receives on queues that hold `depth` messages; 0 is by rendezvous."""
    words, at, queued = (left, right), [0, 0], [0, 0]
    while True:
        now = [word[place : place + 1] for word, place in zip(words, at, strict=True)]
        if now == ["", ""]:
            return False
        if depth == 0 and sorted(now) == ["r", "s"]:
            at = [at[0] + 1, at[1] + 1]
            continue
        for rank in range(2):
            if now[rank] == "s" and depth != 0 and (depth is None or queued[rank] < depth):
                queued[rank] += 1
            elif now[rank] == "r" and queued[1 - rank]:
                queued[1 - rank] -= 1
            else:
                continue
            at[rank] += 1
            break
        else:
            return True


def test_deadlocks_for_want_of_slots_against_bounded_queues() -> None:
    """Two ranks that send and receive in random orders, each in one thread block."""
    rng = random.Random(3)
    seen = set()
    for _ in range(150):
        sends, receives = rng.randint(1, 4), rng.randint(1, 4)
        left = rng.sample("s" * sends + "r" * receives, sends + receives)
        right = rng.sample("s" * receives + "r" * sends, sends + receives)
        text = exchange([["".join(left)], ["".join(right)]])
        for depth in (None, 3, 2, 1, 0):
            found = [
                violation
                for violation in interpret_msccl_xml(text, fifo_depth=depth).violations
                if violation.startswith("deadlock")
            ]
            expected = stuck("".join(left), "".join(right), depth)
            assert bool(found) == expected, (left, right, depth, found)
            assert len(found) <= 1
            seen.add((depth, expected))
    assert len(seen) == 10


def test_slots_are_of_a_stream() -> None:
    """Nine sends before the first receive: eight slots are one too few, and other channels lend none."""
    word = "s" * 9 + "r" * 9
    for types in ([word], [word, "sr"]):
        text = exchange([types, types])
        assert not any("deadlock" in v for v in interpret_msccl_xml(text, fifo_depth=9).violations)
        found = interpret_msccl_xml(text, fifo_depth=8).violations[-1]
        assert found.startswith("deadlock with 8 slots a stream: cycle of 4 steps")
    with pytest.raises(FormatError, match="fifo_depth"):
        interpret_msccl_xml(text, fifo_depth=-1)


def test_fused_steps_take_part_in_a_rendezvous_together() -> None:
    """Rank 0 sends, the others forward with rcs, the last receives: three messages, one moment."""
    text = next(text for text, _ in samples(CollectiveKind.BROADCAST, seeds=1))
    head = text.split("\n")[0]
    head = re.sub(r'nchunksperloop="\d+" ngpus="\d+"', 'nchunksperloop="1" ngpus="4"', head)
    head = re.sub(r'inplace="\d" outofplace="\d"', 'inplace="0" outofplace="1"', head)
    lines = [re.sub(r'nchannels="\d+"', 'nchannels="1"', head)]
    for rank, kind in enumerate(("s", "rcs", "rcs", "r")):
        ends = f'send="{rank + 1 if rank < 3 else -1}" recv="{rank - 1}" chan="0"'
        source = "i" if rank == 0 else "o"
        lines.append(f'<gpu id="{rank}" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" {ends}>')
        lines.append(
            f'<step s="0" type="{kind}" srcbuf="{source}" srcoff="0" dstbuf="o" dstoff="0" cnt="1" '
            'depid="-1" deps="-1" hasdep="0"/>'
        )
        if rank == 0:
            lines.append(
                '<step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" '
                'depid="-1" deps="-1" hasdep="0"/>'
            )
        lines.append("</tb></gpu>")
    chain = "\n".join([*lines, "</algo>"])
    assert interpret_msccl_xml(chain, fifo_depth=0).violations == ()
    assert interpret_msccl_xml(chain, profile=Profile.RCCL, fifo_depth=1).n_messages == 3


def test_input_is_not_written_out_of_place() -> None:
    text = exchange([["sr"], ["sr"]]).replace('dstbuf="o"', 'dstbuf="i"')
    text = text.replace('inplace="1" outofplace="0"', 'inplace="0" outofplace="1"').replace(
        'srcbuf="o"', 'srcbuf="i"'
    )
    assert any("writes the input" in violation for violation in interpret_msccl_xml(text).violations)
