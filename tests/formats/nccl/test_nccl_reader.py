"""NCCL graph files as NCCL reads them: channels, devices and cards, and the rings that it joins."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.formats.nccl import reader
from treadle.formats.nccl.reader import NcclGraph, joined_rings, parse_nccl_graph


def graph(*channels: tuple[str, str], count: int | None = None) -> str:
    """A file of channels, each of devices and of cards, in words."""
    lines = [
        "<channel>"
        + "".join(f'<gpu dev="{dev}"/>' for dev in gpus.split())
        + "<note/>"
        + "".join(f'<net dev="{dev}"/>' for dev in nets.split())
        + "</channel>"
        for gpus, nets in channels
    ]
    number = len(channels) if count is None else count
    return (
        f'<graphs version="1"><!-- rings --><graph id="1" pattern="3"/>'
        f'<graph id="0" pattern="4" nchannels="{number}"><x/>{"".join(lines)}</graph></graphs>'
    )


def test_channels_keep_their_order_and_cards() -> None:
    assert parse_nccl_graph(graph(("2 0 f", "1f a"), ("f 2 0", "0 0"))) == NcclGraph(
        ((2, 0, 15), (15, 2, 0)), ((31, 10), (0, 0))
    )
    assert parse_nccl_graph(graph(("ffffffff", ""))) == NcclGraph(((2**32 - 1,),), ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<graphs", "not well-formed ("),
        ("<!DOCTYPE a><graphs/>", "a DTD, entity or CDATA section is not accepted"),
        ("<graphs/>", "expected <graphs> with one <graph id=0 pattern=4>"),
        (graph(("0", "")).replace("graphs", "graph_s"), "expected <graphs> with one"),
        (graph(("0", "")).replace('pattern="4"', 'pattern="5"'), "expected <graphs> with one"),
        (graph(("0", "")).replace('id="0"', 'id="2"'), "expected <graphs> with one"),
        (graph(("0", "")).replace('id="1" pattern="3"', 'id="0" pattern="4"'), "expected <graphs> with one"),
        (graph(("0", ""), count=2), "1 channels do not fit nchannels or 1 to 32"),
        (graph(), "0 channels do not fit nchannels or 1 to 32"),
        (graph(*[("0", "")] * 33), "33 channels do not fit nchannels or 1 to 32"),
        (graph(("", "")), "a channel needs each gpu once, and no net or two"),
        (graph(("0 1 0", "")), "a channel needs each gpu once, and no net or two"),
        (graph(("0 1", "4")), "a channel needs each gpu once, and no net or two"),
        (graph(("0 1", "4 5 6")), "a channel needs each gpu once, and no net or two"),
        (graph(("0 1", ""), ("0 2", "")), "channels differ in their gpus, or some have no net"),
        (graph(("0 1", "4 5"), ("1 0", "")), "channels differ in their gpus, or some have no net"),
        (graph(("G", "")), "dev='G': expected a hexadecimal number"),
        (graph(("123456789", "")), "dev='123456789': expected a hexadecimal number"),
        (graph(("0", "1 A")), "dev='A': expected a hexadecimal number"),
        (graph(("0", "")).replace('dev="0"', 'device="0"'), "dev='': expected a hexadecimal number"),
    ],
)
def test_one_fault_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_nccl_graph(text, source="file")
    assert str(caught.value).removeprefix("file:1:").removeprefix("file:").lstrip().startswith(message)
    assert "\n" not in str(caught.value)


def test_files_at_their_limits_are_read() -> None:
    assert (reader.MAX_CHANNELS, reader.MAX_TEXT) == (32, 1048576)
    assert len(parse_nccl_graph(graph(*[("0", "")] * 32)).channels) == 32
    text = graph(("0", ""))
    assert parse_nccl_graph(text + " " * (2**20 - len(text))).channels == ((0,),)
    with pytest.raises(FormatError, match="characters, expected at most 1048576"):
        parse_nccl_graph(text + " " * (2**20 + 1 - len(text)))


def test_rings_go_through_box_after_box() -> None:
    """Devices 7, 2, 5 are ranks 2, 0, 1; the second box, of devices 1 and 9, has ranks 3 and 4."""
    first = NcclGraph(((7, 2, 5), (2, 5, 7)), ())
    second = NcclGraph(((9, 1), (1, 9)), ())
    assert joined_rings([first, second]) == [(0, 1, 4, 3, 2), (0, 1, 2, 3, 4)]
    assert joined_rings([first]) == [(0, 1, 2), (0, 1, 2)]
    with pytest.raises(FormatError, match="the boxes differ in their numbers of channels"):
        joined_rings([first, NcclGraph(((0,),), ())])
