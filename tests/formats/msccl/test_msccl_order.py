"""What the interpreter says of order, against small references: dropped waits, and streams with few slots."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samples.program_cases import random_case
from treadle.errors import FormatError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind


def samples(kind: CollectiveKind, *, seeds: int) -> Iterator[tuple[str, int]]:
    """Emitted texts and the rank of the root."""
    for seed in range(seeds):
        topology, collective, schedule = random_case(seed, kind)
        if len(set(collective.shard_weights)) == 1 or kind.is_rooted:
            program = lower(topology, collective, schedule, channels=1 + seed % 2, in_place=seed % 4 < 2)
            yield emit_msccl_xml(program), max(0, program.root)


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


def test_input_is_not_written_out_of_place() -> None:
    text = exchange([["sr"], ["sr"]]).replace('dstbuf="o"', 'dstbuf="i"')
    text = text.replace('inplace="1" outofplace="0"', 'inplace="0" outofplace="1"').replace(
        'srcbuf="o"', 'srcbuf="i"'
    )
    assert any("writes the input" in violation for violation in interpret_msccl_xml(text).violations)
