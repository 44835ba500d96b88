"""Messages of MSCCL XML, and texts whose steps move none that could be followed."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.traffic import traffic
from treadle.formats.verdict import Terms

Block = tuple[int, int, int, list[str]]
"""Rank, whom it sends to, whom it receives from, steps."""


def text(*blocks: Block, chunks: int = 2) -> str:
    """Two ranks; a step is its type, places and count: `s 0 1 2`."""
    lines = [
        f'<algo name="a" proto="Simple" nchannels="1" nchunksperloop="{chunks}" ngpus="2" coll="allgather" '
        'inplace="0" outofplace="1" minBytes="0" maxBytes="0">'
    ]
    for rank in range(2):
        lines.append(f'<gpu id="{rank}" i_chunks="{chunks // 2}" o_chunks="{chunks}" s_chunks="0">')
        mine = [block for block in blocks if block[0] == rank]
        for number, (_, send, receive, steps) in enumerate(mine):
            lines.append(f'<tb id="{number}" send="{send}" recv="{receive}" chan="0">')
            for place, step in enumerate(steps):
                kind, source, target, count = step.split()
                lines.append(
                    f'<step s="{place}" type="{kind}" srcbuf="i" srcoff="{source}" dstbuf="o" '
                    f'dstoff="{target}" cnt="{count}" depid="-1" deps="-1" hasdep="0"/>'
                )
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        (
            [(0, 1, 1, ["r 0 0 1", "s 0 0 1"]), (1, 0, 0, ["r 0 0 1", "s 0 0 1"])],
            "a: its steps wait for each other in a cycle",
        ),
        (
            [(0, 1, -1, ["s 0 0 3"]), (1, -1, 0, ["r 0 0 3"])],
            "a: line 4 (rank 0, s): 3 chunks in one message, expected at most 2",
        ),
        (
            [(0, 1, -1, ["s 0 0 2"]), (1, -1, 0, ["r 0 0 1"])],
            "a: line 4 (rank 0, s): sends 2 chunks, 1 are received",
        ),
        ([(0, 1, -1, ["s 0 0 1"])], "MSCCL XML: line 4 (rank 0, s) has no message"),
        ([(0, -1, -1, ["s 0 0 1"])], "MSCCL XML: line 4 (rank 0, s) has no message"),
    ],
)
def test_what_moves_no_messages(blocks: list[Block], said: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        traffic(text(*blocks).encode(), Terms(source="a"))
    assert str(caught.value) == said


def test_what_is_judged_before_it_runs() -> None:
    odd = text((0, 1, -1, ["s 0 0 1"]), (1, -1, 0, ["r 0 0 1"]), chunks=3)
    assert interpret_msccl_xml(odd).violations == ("nchunksperloop 3 does not divide by 2 ranks",)
    (first, *_) = interpret_msccl_xml(text((0, -1, -1, ["s 0 0 1"]))).violations
    assert first == "line 4 (rank 0, s): its thread block has no such peer"
    for options, said in (
        ({"profile": "nvidia"}, "profile 'nvidia': expected azure, legacy or rccl"),
        ({"root": 2, "source": "a"}, "a: root 2: expected a rank from 0 to 1"),
        ({"root": -1, "source": "a"}, "a: root -1: expected a rank from 0 to 1"),
        ({"fifo_depth": -1, "source": "a"}, "a: fifo_depth -1: expected at least 0"),
    ):
        with pytest.raises(FormatError) as caught:
            interpret_msccl_xml(odd, **options)
        assert str(caught.value) == said
