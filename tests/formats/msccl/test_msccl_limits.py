"""What MSCCL's runtimes hold at most, told with the rank, the number found and the limit."""

from __future__ import annotations

import pytest

from treadle.formats.msccl.reader import LIMITS, parse_msccl_xml


def text(ranks: int, blocks: int = 0, steps: int = 0) -> str:
    """Ranks of which the first has thread blocks, each with steps that do nothing."""
    nothing = '<step s="{}" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="-1" '
    lines = "".join(f'{nothing.format(place)}deps="-1" hasdep="0"/>' for place in range(steps))
    streams = "".join(f'<tb id="{b}" send="-1" recv="-1" chan="0">{lines}</tb>' for b in range(blocks))
    gpus = "".join(
        f'<gpu id="{rank}" i_chunks="1" o_chunks="{ranks}" s_chunks="0">{"" if rank else streams}</gpu>'
        for rank in range(ranks)
    )
    return (
        f'<algo name="x" proto="Simple" coll="allgather" ngpus="{ranks}" nchannels="1" '
        f'nchunksperloop="{ranks}" minBytes="0" maxBytes="0" inplace="0" outofplace="1">{gpus}</algo>'
    )


@pytest.mark.parametrize(
    ("ranks", "blocks", "steps", "told"),
    [
        (1025, 0, 0, "rank 0: 1025 children of a node, the limit is 1024"),
        (2, 65, 0, "rank 0: 65 thread blocks, the limit is 64"),
        (2, 1, 65, "rank 0 tb 0: 65 steps, the limit is 64"),
        (2, 64, 64, "rank 0: 4163 XML nodes, the limit is 4096"),
    ],
)
def test_each_limit_is_told(ranks: int, blocks: int, steps: int, told: str) -> None:
    assert told in parse_msccl_xml(text(ranks, blocks, steps), "rccl", "x.xml").violations


def test_what_reaches_the_limits_is_taken() -> None:
    assert LIMITS["rccl"][:2] == (64, 64)
    for found in (text(1024), text(2, 64, 1), text(2, 1, 64)):
        assert not parse_msccl_xml(found, "rccl", "x.xml").violations
