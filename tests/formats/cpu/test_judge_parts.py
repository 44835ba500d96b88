"""A rank's part of CPU XML played alone: every fault of its memory, by hand."""

from __future__ import annotations

import pytest

from treadle.formats.cpu.interpreter_parts import interpret_cpu_part

HEAD = (
    '<cpupart ranks="3" chunks="6" minBytes="0" maxBytes="0" collective="allreduce" root="-1" inplace="{}">'
)
RANK = '<rank id="1" i="{}" o="{}" s="4-5" slots="2">'


def part(*instructions: str, i: str = "0-3", o: str = "0-3", in_place: int = 0) -> str:
    """A part of rank 1, its instructions from line 3 on: `recv 2 o 0 4` is peer, buffer, chunk, count."""
    names = {
        "send": ("peer", "buf", "chunk", "cnt"),
        "recv": ("peer", "buf", "chunk", "cnt"),
        "slot": ("peer", "slot", "chunk", "cnt"),
        "copy": ("buf", "dbuf", "chunk", "cnt"),
        "reduce": ("slot", "buf", "chunk", "cnt"),
        "sync": (),
    }
    lines = [HEAD.format(in_place), RANK.format(i, o)]
    for instruction in instructions:
        kind, *words = instruction.split()
        values = zip(names[kind], words, strict=True)
        tag = "recv" if kind == "slot" else kind
        attributes = " ".join(f'{key}="{value}"' for key, value in values)
        lines.append(f"<{tag} {attributes}/>")
    return "\n".join((*lines, "</rank>", "</cpupart>"))


def faults(text: str) -> list[str]:
    return list(interpret_cpu_part(text).violations)


OUT = "copy i o 0 4"


@pytest.mark.parametrize(
    ("instructions", "found"),
    [
        (["send 0 i 0 4", "slot 2 0 0 2", "sync", OUT, "reduce 0 o 0 2", "reduce 1 o 3 1"], []),
        (["recv 0 o 0 4", "sync", "recv 0 s 4 2", "sync", "send 2 s 5 1", "sync"], []),
        # of chunks that are held others may go and come meanwhile
        ([OUT, "send 0 o 0 2", "send 2 o 1 1", "recv 0 o 2 2", "sync"], []),
        ([OUT, "slot 2 0 0 1"], ["ends without waiting for its transfers"]),
        ([OUT, "send 2 i 0 1"], ["ends without waiting for its transfers"]),
        (
            ["recv 0 o 0 4"],
            ["ends without waiting for its transfers", "chunk 0 of the output is never stored"],
        ),
        (["recv 0 o 0 2", "sync"], ["chunk 2 of the output is never stored"]),
        (
            [OUT, "recv 0 s 5 1", "sync", "copy s o 5 1"],
            ["line 6: copy touches o 5 to 5, of which some do not exist"],
        ),
        ([OUT, "copy s i 4 2"], ["line 4: copy reads s 4, which is undefined"]),
        ([OUT, "send 0 i 3 2"], ["line 4: send touches i 3 to 4, of which some do not exist"]),
        ([OUT, "slot 2 1 0 2"], ["line 4: recv touches slots 1 to 2, of which some do not exist"]),
        ([OUT, "reduce 1 o 0 1"], ["line 4: reduce reads slots 1, which is undefined"]),
        (
            [OUT, "slot 2 0 0 1", "reduce 0 o 0 1", "sync"],
            ["line 5: reduce reads slots 0, which is undefined"],
        ),
        (
            ["slot 2 0 0 1", "sync", "reduce 0 o 0 1", OUT],
            ["line 5: reduce reads o 0, which is undefined"],
        ),
        ([OUT, "recv 0 o 1 2", "send 2 o 0 4", "sync"], ["line 5: send reads o 1, which is on its way"]),
        ([OUT, "recv 0 o 3 1", "copy o i 3 1", "sync"], ["line 5: copy reads o 3, which is on its way"]),
        (
            [OUT, "send 2 o 2 2", "recv 0 o 1 2", "sync"],
            ["line 5: recv writes o 2, which a transfer still uses"],
        ),
        (
            [OUT, "recv 2 o 3 1", "send 0 o 1 1", "recv 0 o 0 4", "sync"],
            ["line 6: recv writes o 1, which a transfer still uses"],
        ),
        (
            [OUT, "send 2 o 0 1", "copy i o 0 2", "sync"],
            ["line 5: copy writes o 0, which a transfer still uses"],
        ),
        (
            [OUT, "slot 2 0 0 2", "sync", "send 0 o 1 1", "reduce 0 o 0 2", "sync"],
            ["line 7: reduce writes o 1, which a transfer still uses"],
        ),
    ],
)
def test_a_part_is_played_alone(instructions: list[str], found: list[str]) -> None:
    assert faults(part(*instructions)) == found


def test_buffers_of_a_part() -> None:
    assert faults(part(OUT, i="0-3 5-6")) == ["buffer i has chunks past 5"]
    assert faults(part("recv 0 o 0 1", "sync", o="0-1 4-5")) == [
        "chunk 1 of the output is never stored",
        "chunk 4 of the output is never stored",
    ]
    # in place what comes in is stored where it goes out
    assert faults(part(in_place=1)) == []
    assert faults(part(in_place=0)) == ["chunk 0 of the output is never stored"]
    assert faults(part("recv 0 o 1 1", "send 0 i 1 1", "sync", in_place=1)) == [
        "line 4: send reads i 1, which is on its way"
    ]


def test_a_hundred_faults_are_enough() -> None:
    for count in (99, 100, 101):
        found = faults(part(OUT, *["send 0 s 4 1"] * count))
        assert found == [f"line {4 + i}: send reads s 4, which is undefined" for i in range(min(count, 100))]
